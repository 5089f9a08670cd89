"""Connections that break, brokers that hang or send nonsense, and batches that are given up."""

from typing import Any

import pytest
from brokers import Garbage
from fake_kafka import TOPIC, SimulatedCluster
from fake_run import (
    IDEMPOTENT,
    ONE_RECORD_EACH,
    REFRESH,
    assert_all_in_the_log_once_and_in_order,
    at_batch,
    raising,
    run_fake,
)

from kipctl.conform.cluster import Attempt, HungUpError, Refusal, SilentError
from kipctl.conform.cluster.control import Waiting
from kipctl.probe.leadership import Leader, LeaderDiscovery
from kipctl.probe.network import Network
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision, MetadataCause

NONSENSE = {
    "too short for any answer": b"\0\0\0",
    "another request's answer": b"\x7f\x7f\x7f\x7f\0\1\0\0\0\0\0",
    "no frame at all": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "empty": b"",
}


def partition_answer(index: int) -> bytes:
    """An answer of version 13 for one partition, without error."""
    partition = index.to_bytes(4, "big") + bytes(2) + bytes(8) + b"\xff" * 16 + b"\1\0\0"
    return b"\2" + bytes(16) + b"\2" + partition + b"\0" + bytes(4) + b"\0"


UNUSABLE = {
    "cut in the topic": b"\2" + bytes(16),
    "cut in the count": b"\xff\xff\xff",
    "cut at the end": partition_answer(0)[:-1],
    "too long": partition_answer(0) + b"\0",
    "of the next partition": partition_answer(1),
    "of a partition far away": partition_answer(1 << 30),
    "of partition -1": partition_answer(0xFFFFFFFF),
}
RIGHT_NUMBER = (2).to_bytes(4, "big") + b"\0"
"""How an answer begins to the first batch on a connection: ApiVersions was before it."""


# --- connections ---


@pytest.mark.parametrize("append", [False, True])
def test_a_connection_that_is_cut_is_opened_anew_and_the_batch_sent_again(append: bool) -> None:
    def cut(produced: Attempt) -> None:
        if append:
            cluster.append(produced)
        raise HungUpError

    cluster = SimulatedCluster(brokers=1, script=at_batch(1, cut))
    ran = run_fake(cluster, num_records=3, **IDEMPOTENT)
    assert_all_in_the_log_once_and_in_order(cluster, ran)
    assert cluster.produced[0].connection != cluster.produced[-1].connection
    (row,) = ran.redirects
    assert (row["error"], row["decision"]) == (ErrorCode.NETWORK_EXCEPTION, Decision.NOT_APPLICABLE)
    assert ran.summary["redirects"]["batches"] == 0
    unanswered = [r for r in ran.calls(ApiKey.PRODUCE) if r["received_us"] == 0]
    assert {r["error"] for r in unanswered} == {ErrorCode.NETWORK_EXCEPTION}


@pytest.mark.parametrize(
    "trouble",
    [
        *(pytest.param(Garbage(body), id=name) for name, body in NONSENSE.items()),
        *(pytest.param(Garbage(RIGHT_NUMBER + body), id=name) for name, body in UNUSABLE.items()),
    ],
)
def test_an_answer_that_is_none_or_of_another_partition_loses_no_batch(trouble: Exception) -> None:
    cluster = SimulatedCluster(brokers=1, script=at_batch(1, raising(trouble)))
    ran = run_fake(cluster, num_records=3, **IDEMPOTENT)
    assert_all_in_the_log_once_and_in_order(cluster, ran)
    assert ran.redirects[0]["error"] == ErrorCode.NETWORK_EXCEPTION


def test_a_broker_that_never_answers_is_left_after_request_timeout_ms() -> None:
    cluster = SimulatedCluster(brokers=1, script=at_batch(1, raising(SilentError())))
    ran = run_fake(cluster, num_records=3, request_timeout_ms=100, **IDEMPOTENT)
    assert_all_in_the_log_once_and_in_order(cluster, ran)
    assert cluster.produced[0].connection != cluster.produced[-1].connection
    row = ran.redirects[0]
    assert row["error"] == ErrorCode.NETWORK_EXCEPTION
    assert 100_000 <= row["detect_us"] < 151_000  # it looks every 50 ms


@pytest.mark.parametrize("error", [-1, 35, 7, 33])
def test_a_broker_that_refuses_the_handshake_after_a_restart_is_connected_to_anew(
    error: int,
) -> None:
    """As Java's client does, which logs it, disconnects and tries again."""

    def restart(produced: Attempt) -> None:
        cluster.api_versions_errors = [error, error]
        raise HungUpError

    cluster = SimulatedCluster(brokers=1, script=at_batch(1, restart))
    ran = run_fake(cluster, num_records=3, **IDEMPOTENT)
    assert_all_in_the_log_once_and_in_order(cluster, ran)
    assert not cluster.api_versions_errors


def test_every_request_in_flight_on_a_cut_connection_is_sent_again_in_order() -> None:
    def cut(produced: Attempt) -> Waiting:
        yield from cluster.another_request(produced)
        raise HungUpError

    cluster = SimulatedCluster(brokers=1, script=at_batch(2, cut))  # the first goes alone
    ran = run_fake(cluster, num_records=9, **ONE_RECORD_EACH, **IDEMPOTENT)
    assert_all_in_the_log_once_and_in_order(cluster, ran)
    assert [p.sequence for p in cluster.produced] == [0, 1, *range(1, 9)]
    lost = [r for r in ran.calls(ApiKey.PRODUCE) if r["error"]]
    assert len(lost) >= 2


def test_an_answer_that_is_there_is_taken_however_long_the_client_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock jumps while the answer comes, and lies there unread."""
    lose_silent = Network.disconnect_timed_out
    stood_still: list[int] = []

    def lose_silent_too_late(network: Network[Any]) -> None:
        if cluster.produced and not stood_still:
            stood_still.append(cluster.world.now_us)
            cluster.world.sleep(60)
        lose_silent(network)

    def slowly(produced: Attempt) -> Waiting:
        yield from cluster.until(lambda: stood_still)

    monkeypatch.setattr(Network, "disconnect_timed_out", lose_silent_too_late)
    cluster = SimulatedCluster(brokers=1, script=at_batch(1, slowly))
    ran = run_fake(cluster, num_records=1, request_timeout_ms=30_000)
    assert stood_still
    assert (len(cluster.produced), ran.outcome.acknowledged, ran.redirects) == (1, 1, [])


# --- Metadata ---


@pytest.mark.parametrize(
    "trouble",
    [
        HungUpError(),
        SilentError(),
        Garbage(b"\0\0\0\5\0\xff\xff"),
        Garbage(b"nonsense, and long enough"),
    ],
    ids=repr,
)
def test_metadata_that_goes_wrong_is_asked_for_again(trouble: Exception) -> None:
    """One broker, so that its connection dies with the Metadata request in flight."""

    def on_metadata(broker: int) -> None:
        if len(cluster.metadata_asked) == 2:
            cluster.elect(0, 1)
            raise trouble

    def script(produced: Attempt) -> Refusal | None:
        is_known = len(cluster.metadata_asked) > 2
        return None if is_known else Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    cluster = SimulatedCluster(brokers=1, script=script)
    cluster.on_metadata = on_metadata
    ran = run_fake(cluster, discovery=REFRESH, retry_backoff_ms=50, request_timeout_ms=1500)
    assert ran.outcome.acknowledged == 1
    first, second = ran.calls(ApiKey.METADATA)[:2]
    assert (first["received_us"] == 0) == (first["error"] != 0)
    assert second["cause"] == MetadataCause.ERROR_RETRY
    assert second["connection"] != first["connection"]


def test_a_topic_error_in_metadata_is_asked_about_again() -> None:
    def on_metadata(broker: int) -> None:
        is_first = len(cluster.metadata_asked) == 2
        cluster.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_first else 0

    cluster = SimulatedCluster(script=at_batch(1, lambda _: cluster.elect(0, 2)))
    cluster.names_leaders, cluster.on_metadata = False, on_metadata
    ran = run_fake(cluster, discovery=REFRESH)
    assert ran.outcome.acknowledged == 1
    errors = [call["error"] for call in ran.calls(ApiKey.METADATA)]
    assert errors == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]


def test_a_topic_error_that_lasts_cuts_no_connection() -> None:
    """There are answers, with brokers in them: nobody returns to the bootstrap servers."""
    cluster = SimulatedCluster(script=at_batch(1, lambda _: erring()))

    def erring() -> None:
        cluster.topic_error = ErrorCode.LEADER_NOT_AVAILABLE

    trigger = {"metadata_recovery_rebootstrap_trigger_ms": 300}
    ran = run_fake(cluster, 100, throughput=50, metadata_max_age_ms=50, **trigger)
    calls = ran.calls(ApiKey.METADATA)
    assert calls[-1]["sent_us"] - calls[1]["sent_us"] > 1_000_000
    assert {call["error"] for call in calls[1:]} == {ErrorCode.LEADER_NOT_AVAILABLE}
    assert {row["connection"] for row in ran.rpcs if row["broker"] == 1} == {1}


def test_a_leader_that_metadata_left_out_once_is_sent_to_when_it_is_back() -> None:
    """One answer names neither the topic's leaders nor their nodes; the next one is as before."""

    def on_metadata(broker: int) -> None:
        is_second = len(cluster.metadata_asked) == 2
        cluster.unlisted = {1} if is_second else set()
        cluster.topic_error = ErrorCode.LEADER_NOT_AVAILABLE if is_second else 0

    cluster = SimulatedCluster(script=at_batch(1, raising(HungUpError())))
    cluster.on_metadata = on_metadata
    ran = run_fake(cluster, num_records=3, **ONE_RECORD_EACH)
    assert len(cluster.metadata_asked) >= 3
    assert ran.outcome.acknowledged == cluster.records == 3


# --- giving up ---


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_are_limited(retries: int) -> None:
    cluster = SimulatedCluster(script=lambda _: Refusal(ErrorCode.NOT_ENOUGH_REPLICAS))
    ran = run_fake(cluster, retries=retries)
    assert len(cluster.produced) == retries + 1
    assert ran.outcome.errors == {"NOT_ENOUGH_REPLICAS": 1}
    assert ran.batches[0]["error"] == ErrorCode.NOT_ENOUGH_REPLICAS


def test_an_error_that_a_retry_cannot_help_fails_the_batch_at_once() -> None:
    cluster = SimulatedCluster(script=lambda _: Refusal(ErrorCode.MESSAGE_TOO_LARGE))
    ran = run_fake(cluster, num_records=2, throughput=-1)
    assert len(cluster.produced) == 1
    assert ran.outcome.errors == {"MESSAGE_TOO_LARGE": 2}
    assert ran.summary["records"]["failed"] == 2


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
def test_delivery_timeout_ms_gives_up_what_is_never_accepted(discovery: LeaderDiscovery) -> None:
    cluster = SimulatedCluster(
        brokers=1, script=lambda _: Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    )
    given_up: dict[str, Any] = {"delivery_timeout_ms": 1000, "request_timeout_ms": 1000}
    ran = run_fake(cluster, num_records=3, discovery=discovery, **given_up)
    assert ran.outcome.failed == 3
    assert set(ran.outcome.errors) <= {"REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER"}
    for batch in ran.batches:
        assert 1_000_000 <= batch["acked_us"] - batch["intended_us"] < 1_100_000
        assert batch["attempts"] > 1


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
def test_who_waits_in_vain_for_a_connection_did_not_wait_for_metadata(
    discovery: LeaderDiscovery,
) -> None:
    """The new leader is known at once, from its hint or from Metadata, and is down."""

    def move(produced: Attempt) -> None:
        cluster.brokers[2].close()
        cluster.elect(0, to=2)

    cluster = SimulatedCluster(script=at_batch(3, move))
    ran = run_fake(
        cluster,
        num_records=6,
        throughput=50,
        discovery=discovery,
        delivery_timeout_ms=1500,
        request_timeout_ms=1000,
    )
    assert (ran.outcome.acknowledged, ran.outcome.failed) == (2, 4)
    phases = ran.summary["redirects"]["phases_ms"]
    assert phases["connect"]["sum"] > 1000
    assert phases["metadata"]["sum"] < 100


def test_who_waits_until_the_socket_takes_what_was_ahead_was_queued() -> None:
    """The new leader reads nothing for a while, and one of its own requests fills the socket."""
    stalled_us: list[int] = []

    def script(produced: Attempt) -> Waiting:
        now_us = cluster.world.now_us
        if produced.broker == 2 and not stalled_us:
            stalled_us.append(now_us)
            yield from cluster.pause(3_000_000)
        is_stalled = bool(stalled_us) and now_us > stalled_us[0] + 1_000_000
        if produced.broker == cluster.leaders[TOPIC, 0].id == 1 and is_stalled:
            cluster.elect(0, to=2)

    cluster = SimulatedCluster(partitions=2, script=script)
    cluster.room = 1000
    ran = run_fake(cluster, num_records=200, throughput=50, record_size=100)
    assert ran.outcome.failed == 0
    phases = ran.summary["redirects"]["phases_ms"]
    assert phases["queued"]["sum"] > 200
    assert phases["backoff"]["sum"] < 100


def test_a_leader_that_cannot_be_reached_before_the_start_is_told_of() -> None:
    cluster = SimulatedCluster(partitions=2)
    cluster.brokers[2].close()
    ran = run_fake(cluster, num_records=2, delivery_timeout_ms=1000, request_timeout_ms=100)
    assert ran.outcome.unconnected == (2,)
    assert (ran.outcome.acknowledged, ran.outcome.failed) == (1, 1)


def test_delivery_timeout_ms_gives_up_what_has_no_leader() -> None:
    cluster = SimulatedCluster(brokers=1)
    cluster.lead(Leader(-1, 6))
    ran = run_fake(cluster, num_records=3, delivery_timeout_ms=1000, request_timeout_ms=100)
    assert ran.outcome.errors == {"REQUEST_TIMED_OUT": 3}
    assert {row["sent_us"] for row in ran.batches} == {0}
    assert len(cluster.metadata_asked) > 2  # it kept asking
    assert ran.redirects == []


@pytest.mark.parametrize("config", [{}, IDEMPOTENT])
@pytest.mark.parametrize("is_answered", [True, False])
def test_delivery_timeout_ms_gives_up_what_is_in_flight_and_what_comes_later_is_not_heard(
    config: dict[str, Any], is_answered: bool
) -> None:
    """Java's `Sender.getExpiredInflightBatches`; the request itself is waited for longer."""

    def script(produced: Attempt) -> Waiting:
        if len(cluster.produced) == 1:
            return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)
        if len(cluster.produced) == 2:
            if not is_answered:
                raise SilentError  # the connection is given up 0.5 s after the batch
            yield from cluster.pause(700_000)  # it is given up after 0.4
        return None

    cluster = SimulatedCluster(brokers=1, script=script)
    ran = run_fake(
        cluster,
        num_records=2,
        throughput=0.8,
        delivery_timeout_ms=900,
        request_timeout_ms=900,
        retry_backoff_ms=500,
        retry_backoff_max_ms=500,
        **config,
    )
    assert ran.outcome.errors == {"REQUEST_TIMED_OUT": 1}
    assert (ran.outcome.acknowledged, cluster.records) == (1, 1 + is_answered)
    given_up, later = ran.batches
    waited_us = given_up["acked_us"] - given_up["intended_us"]
    assert 900_000 <= waited_us < 1_150_000
    assert (given_up["attempts"], later["error"]) == (2, 0)


def test_a_hint_that_comes_for_a_batch_that_was_given_up_is_taken_for_those_behind_it() -> None:
    def script(produced: Attempt) -> Waiting:
        if len(cluster.produced) == 1:
            return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)
        if len(cluster.produced) == 2:
            cluster.lead(Leader(2, 6))
            yield from cluster.pause(700_000)  # it is given up after 0.4
        return None

    cluster = SimulatedCluster(script=script)
    cluster.show({(TOPIC, 0): Leader(1, 5)})
    ran = run_fake(
        cluster,
        num_records=2,
        throughput=0.5,
        delivery_timeout_ms=900,
        request_timeout_ms=900,
        retry_backoff_ms=500,
        retry_backoff_max_ms=500,
    )
    assert [produced.broker for produced in cluster.produced] == [1, 1, 2]
    assert (ran.outcome.errors, ran.outcome.acknowledged) == ({"REQUEST_TIMED_OUT": 1}, 1)
