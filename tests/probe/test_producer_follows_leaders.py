"""What the producer alone does when a leader moves, beside `test_follows_leaders.py`."""

from typing import Any

import pytest
from fake_kafka import TOPIC, VERSIONS, SimulatedCluster, Versions, producer_epoch
from fake_run import (
    BASELINE,
    IDEMPOTENT,
    NEVER_MS,
    ONE_RECORD_EACH,
    REFRESH,
    Ran,
    at_batch,
    run_fake,
)

from kipctl.conform.cluster import Attempt, Node, Refusal
from kipctl.conform.cluster.cluster import HOST
from kipctl.conform.cluster.control import Waiting
from kipctl.probe.leadership import Leader, LeaderDiscovery
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision

BACKOFF_MS = 20
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def moving_at_first(versions: Versions = VERSIONS) -> SimulatedCluster:
    """The leader of partition 0 moves when the first batch for it arrives."""
    script = at_batch(1, lambda produced: cluster.elect(0, 2))
    cluster = SimulatedCluster(script=script, versions=versions)
    return cluster


def test_stale_metadata_that_comes_after_the_hint_does_not_undo_it() -> None:
    cluster = moving_at_first()
    cluster.show({(TOPIC, 0): Leader(1, 5)})
    ran = run_fake(cluster, num_records=200, metadata_max_age_ms=10)
    # By the client's clock: what it had sent before, broker 1 may answer later.
    followed_us = min(row["error_us"] for row in ran.redirects)
    sent_later = [row for row in ran.batches if row["sent_us"] > followed_us]
    assert {(row["broker"], row["attempts"]) for row in sent_later} == {(2, 1)}
    assert len(cluster.metadata_asked) > 3
    assert ran.outcome.acknowledged == cluster.records == 200
    assert {row["decision"] for row in ran.redirects} <= {Decision.FOLLOWED, Decision.KNOWN}


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_hint_s_endpoint_is_where_its_node_is_connected_to_next(is_connected: bool) -> None:
    """A connection that is there is kept: it may be the same broker by another name, as behind a
    proxy that rewrites Metadata and not hints (Java's connections go by node id)."""

    def script(produced: Attempt) -> Refusal:
        if produced.broker == 1:
            return Refusal(NOT_LEADER, Leader(2, 6), Node(2, HOST, cluster.brokers[3].port, None))
        return Refusal(0, offset=0)

    cluster = SimulatedCluster(brokers=3, partitions=1 + is_connected, script=script)
    cluster.unlisted = {3}
    cluster.show(dict(cluster.leaders))  # it names broker 2 as before, each time
    ran = run_fake(cluster, num_records=50, metadata_max_age_ms=20)
    assert {row["decision"] for row in ran.redirects} == {Decision.FOLLOWED}
    assert {produced.broker for produced in cluster.produced} == {1, 2 if is_connected else 3}
    of_node = {(row["broker"], row["connection"]) for row in ran.rpcs if row["broker"] > 0}
    assert sorted(node for node, _ in of_node) == [1, 2]
    assert not any(row["error"] == ErrorCode.NETWORK_EXCEPTION for row in ran.rpcs)


@pytest.mark.parametrize("idempotent", [False, True])
def test_an_error_with_a_base_offset_was_appended_and_is_counted(idempotent: bool) -> None:
    """A retry without idempotence writes it twice, as facts of the wire say."""

    def append_and_move(produced: Attempt) -> Refusal:
        _, offset = cluster.append(produced)
        cluster.elect(0, 2)
        return Refusal(NOT_LEADER, Leader(2, 6), offset=offset)

    cluster = SimulatedCluster(script=at_batch(1, append_and_move))
    ran = run_fake(cluster, acks=-1, enable_idempotence=idempotent)
    assert ran.redirects[0]["base_offset"] == 0
    assert ran.summary["redirects"]["appended_then_failed"] == 1
    assert ran.outcome.acknowledged == 1
    assert cluster.records == (1 if idempotent else 2)
    assert ran.batches[0]["base_offset"] == (0 if idempotent else 1)


# --- the other arms ---


@pytest.mark.parametrize("moves", [1, 3])
def test_baseline_waits_out_the_backoff_each_time_and_it_does_not_grow(moves: int) -> None:
    def script(produced: Attempt) -> None:
        if len(cluster.produced) <= moves:
            cluster.elect(0, 3 - produced.broker)

    cluster = SimulatedCluster(script=script)
    ran = run_fake(cluster, discovery=BASELINE, retry_backoff_ms=BACKOFF_MS)
    assert len(ran.redirects) >= moves
    for row in ran.redirects:
        assert row["decision"] == Decision.IGNORED
        assert BACKOFF_MS * 1000 <= row["backoff_us"] < BACKOFF_MS * 1300
    assert ran.summary["metadata_rpcs"]["by_cause"]["leader_change"] >= 1
    assert ran.outcome.acknowledged == 1


# --- the shared connection ---


def test_metadata_that_stands_behind_a_slow_produce_says_so() -> None:
    """One broker: partition 0 waits for Metadata, which waits for partition 1's batch."""

    def script(produced: Attempt) -> Waiting:
        if len(cluster.produced) > 2:
            return None
        yield from cluster.another_request(produced)  # partition 1's batch, then Metadata
        if len(cluster.produced) == 2:
            return None
        cluster.elect(0, 1)
        return Refusal(NOT_LEADER)

    cluster = SimulatedCluster(brokers=1, partitions=2, script=script)
    ran = run_fake(
        cluster, num_records=2, discovery=REFRESH, retry_backoff_ms=NEVER_MS, max_request_size=1
    )
    (call,) = ran.calls(ApiKey.METADATA)
    assert (call["queued_behind"], call["critical"]) == (1, 1)
    assert call["queued_behind_us"] > 0
    (row,) = ran.redirects
    assert 0 < row["metadata_queued_us"] <= row["metadata_us"]
    behind = {r["queued_behind"]: r["queued_behind_us"] for r in ran.calls(ApiKey.PRODUCE)}
    assert behind[0] == 0


def test_metadata_goes_to_the_node_with_the_fewest_requests_in_flight() -> None:
    """Broker 2 leads a partition that gets no records."""

    def script(produced: Attempt) -> Waiting:
        if len(cluster.produced) == 1:
            yield from cluster.another_request(produced)
            cluster.elect(0, 1)
            return Refusal(NOT_LEADER)
        if produced.partition == 1:
            yield from cluster.until(lambda: len(cluster.metadata_asked) > 1)
        return None

    cluster = SimulatedCluster(partitions=3, script=script)
    cluster.lead(Leader(1, 5), Leader(1, 5), Leader(2, 5))
    run_fake(
        cluster, num_records=2, discovery=REFRESH, retry_backoff_ms=NEVER_MS, max_request_size=1
    )
    assert cluster.metadata_asked[1:] == [2]


def test_metadata_that_is_due_goes_before_all_batches_that_wait() -> None:
    """Java's NetworkClient.isReady: while Metadata is due no node takes another request."""

    def move(produced: Attempt) -> Refusal:
        cluster.elect(0, 1)  # to the same broker, at a newer epoch
        return Refusal(NOT_LEADER)

    produced_before: list[int] = []
    cluster = SimulatedCluster(brokers=1, partitions=2, script=at_batch(1, move))
    cluster.on_metadata = lambda broker: produced_before.append(len(cluster.produced))
    ran = run_fake(
        cluster,
        num_records=40,
        discovery=REFRESH,
        max_in_flight_requests_per_connection=1,
        max_request_size=1,
        **ONE_RECORD_EACH,
    )
    assert ran.outcome.failed == 0
    assert produced_before[1:] == [1]


def test_metadata_goes_to_an_unused_broker_where_all_connections_are_full() -> None:
    """Java's leastLoadedNode: a node that can be connected to, where none can take a request."""

    def script(produced: Attempt) -> Waiting:
        yield from cluster.until(lambda: len(cluster.metadata_asked) > 1)

    cluster = SimulatedCluster(partitions=2, script=script)
    cluster.lead(Leader(1, 5), Leader(1, 5))
    run_fake(
        cluster,
        num_records=8,
        metadata_max_age_ms=50,
        max_in_flight_requests_per_connection=2,
        max_request_size=1,
        **ONE_RECORD_EACH,
    )
    assert cluster.metadata_asked[1] == 2


# --- several batches ---


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
@pytest.mark.parametrize("records", [5, 12])
def test_refused_batches_in_flight_reach_the_new_leader_in_order_and_once(
    discovery: LeaderDiscovery, records: int
) -> None:
    def move(produced: Attempt) -> Waiting:
        yield from cluster.another_request(produced)
        cluster.elect(0, 2)

    cluster = SimulatedCluster(script=at_batch(2, move))  # the first goes alone
    ran = run_fake(
        cluster, num_records=records, discovery=discovery, **ONE_RECORD_EACH, **IDEMPOTENT
    )
    assert ran.outcome.acknowledged == records
    _, *refused = [p.sequence for p in cluster.produced if p.broker == 1]
    assert len(refused) >= 2
    at_2 = [p.sequence for p in cluster.produced if p.broker == 2]
    assert [sequence for sequence in at_2 if sequence in refused] == refused
    assert [batch.header.sequence for batch in cluster.log((TOPIC, 0)).batches] == list(
        range(records)
    )
    assert {producer_epoch(p) for p in cluster.produced} == {0}


def test_a_batch_that_waits_behind_another_s_retry_waits_for_no_metadata() -> None:
    """Both are refused, and know who leads now; that one keeps the first for long, and then leads
    no more. The second has its own leader named anew while it is held up: that costs it nothing."""

    def move(produced: Attempt) -> Waiting:
        yield from cluster.another_request(produced)
        cluster.elect(0, 2)

    def hold(produced: Attempt) -> Waiting:
        yield from cluster.pause(50_000)
        cluster.elect(0, 1)

    def script(produced: Attempt) -> Waiting | None:
        number = len(cluster.produced)
        return move(produced) if number == 2 else hold(produced) if number == 4 else None

    cluster = SimulatedCluster(script=script)
    ran = run_fake(cluster, num_records=3, **ONE_RECORD_EACH, **IDEMPOTENT)
    assert [(p.broker, p.sequence) for p in cluster.produced][1:4] == [(1, 1), (1, 2), (2, 1)]
    (behind,) = (row for row in ran.redirects if row["first_seq"] == 2)
    assert (behind["to_broker"], behind["to_epoch"]) == (1, behind["from_epoch"] + 2)
    assert behind["metadata_us"] == 0 < behind["queued_us"]


def test_every_batch_waits_for_metadata_while_nobody_leads() -> None:
    """Those behind the first, too: that there is no leader is no leader to wait for."""
    nobody_us = 400_000

    def lose(produced: Attempt) -> Waiting:
        yield from cluster.another_request(produced)
        cluster.move((TOPIC, 0), Leader(-1, 6))

    def find(_: Attempt) -> Waiting:
        yield from cluster.pause(nobody_us)
        cluster.elect(0, 2)

    def script(produced: Attempt) -> Waiting | None:
        number = sum(p.place == produced.place for p in cluster.produced)
        return (find if produced.place[1] else lose)(produced) if number == 2 else None

    cluster = SimulatedCluster(partitions=2, script=script)
    cluster.lead(Leader(1, 5), Leader(2, 5))
    ran = run_fake(cluster, num_records=6, discovery=REFRESH, **ONE_RECORD_EACH, **IDEMPOTENT)
    assert [row["metadata_us"] >= nobody_us for row in ran.redirects] == [True, True]


@pytest.mark.parametrize("failing", [set(), {2, 5}])
def test_partitions_of_an_answer_may_come_in_any_order_also_with_errors_between(
    failing: set[int],
) -> None:
    def script(produced: Attempt) -> Refusal:
        is_first = sum(p.partition == produced.partition for p in cluster.produced) == 1
        if is_first and produced.partition in failing:
            return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)
        return Refusal(0, offset=1000 + produced.partition)

    cluster = SimulatedCluster(brokers=1, partitions=6, script=script)
    ran = run_fake(cluster, num_records=6, throughput=-1)
    offsets = {row["partition"]: row["base_offset"] for row in ran.batches}
    assert offsets == {p: 1000 + p for p in range(6)}
    assert {row["partition"] for row in ran.redirects} == failing
    assert len({p.connection for p in cluster.produced}) == 1


# --- versions ---


def moved(versions: Versions, **how: Any) -> tuple[Ran, SimulatedCluster]:
    cluster = moving_at_first(VERSIONS | versions)
    ran = run_fake(cluster, num_records=5, **how)
    assert ran.outcome.acknowledged == cluster.records == 5
    return ran, cluster


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
def test_metadata_without_leader_epochs_still_tells_the_new_leader(
    discovery: LeaderDiscovery,
) -> None:
    ran, _ = moved({0: (0, 7), 3: (0, 6)}, discovery=discovery)
    assert ran.redirects[-1]["to_broker"] == 2
    assert {row["from_epoch"] for row in ran.redirects} == {-1}


@pytest.mark.parametrize("highest", [0, 2])
def test_a_broker_that_knows_no_flexible_api_versions_is_asked_in_the_newest_that_it_names(
    highest: int,
) -> None:
    """KIP-511."""
    ran, _ = moved({18: (0, highest)})
    assert [(c["api_version"], c["error"]) for c in ran.calls(ApiKey.API_VERSIONS)][:2] == [
        (3, ErrorCode.UNSUPPORTED_VERSION),
        (highest, 0),
    ]


def test_refusals_that_come_while_metadata_is_asked_for_are_served_by_its_answer() -> None:
    """As by Java's, whose full answers clear `Metadata.needFullUpdate`."""

    def script(produced: Attempt) -> Waiting | None:
        if (produced.broker, produced.partition) == (1, 0):
            cluster.lead(Leader(2, 6), Leader(2, 6), Leader(3, 5))
        is_first_of_1 = [p.partition for p in cluster.produced].count(1) == 1
        return cluster.pause(40_000) if produced.partition == 1 and is_first_of_1 else None

    def held(broker: int) -> Waiting | None:
        return cluster.pause(100_000) if len(cluster.metadata_asked) > 1 else None

    cluster = SimulatedCluster(brokers=3, partitions=3, script=script)
    cluster.lead(Leader(1, 5), Leader(1, 5), Leader(3, 5))
    cluster.on_metadata = held
    ran = run_fake(cluster, 60, throughput=200)
    assert {row["decision"] for row in ran.redirects} <= {Decision.FOLLOWED, Decision.KNOWN}
    first, *_, last = (row["error_us"] for row in ran.redirects)
    (call,) = ran.calls(ApiKey.METADATA)
    assert first <= call["sent_us"] < last < call["received_us"]
