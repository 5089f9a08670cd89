"""What both clients do when a leader moves: each case of KIP-951 that is one for them."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from fake_kafka import TOPIC, VERSIONS, SimulatedCluster, Versions
from fake_reads import ReadRan, read_fake
from fake_run import NEVER_MS, REFRESH, Ran, run_fake
from fetching import READ_VERSIONS, ReadCluster

from kipctl.conform.cluster import Attempt, Refusal
from kipctl.probe.leadership import Leader
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision, MetadataCause

BACKOFF_MS = 20
SHORTEST_BACKOFF_US = 16_000
"""20 ms less the jitter of a fifth."""
NEVER = {"retry_backoff_ms": NEVER_MS, "retry_backoff_max_ms": NEVER_MS}
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
FENCED = ErrorCode.FENCED_LEADER_EPOCH

Answer = tuple[ErrorCode, Leader | None]
Script = Callable[[int], Answer | None]
"""Answers to a broker's number; None for the cluster's own answer."""


class Producer:
    """Sends a record."""

    api = ApiKey.PRODUCE
    hinted_from = 10
    drafts = (9,)

    def cluster(self, script: Script, brokers: int, versions: Versions) -> SimulatedCluster:
        def answer(produced: Attempt) -> Refusal | None:
            told = script(produced.broker)
            return Refusal(told[0], hint=told[1]) if told else None

        return SimulatedCluster(brokers, script=answer, versions=VERSIONS | versions)

    def run(self, cluster: SimulatedCluster, **how: Any) -> Ran:
        ran = run_fake(cluster, **how)
        assert ran.outcome.acknowledged == cluster.records == 1
        return ran

    def asked(self, cluster: SimulatedCluster) -> list[int]:
        return [produced.broker for produced in cluster.produced]


class Consumer:
    """Reads a record; a leader that was deposed is no replica any more."""

    api = ApiKey.FETCH
    hinted_from = 16
    drafts = (13, 15)

    def cluster(self, script: Script, brokers: int, versions: Versions) -> ReadCluster:
        cluster = ReadCluster(brokers, versions=READ_VERSIONS | versions)
        cluster.write(0)
        cluster.not_replicas.add(1)
        cluster.read_script = lambda read: Refusal(*told) if (told := script(read.broker)) else None
        return cluster

    def run(self, cluster: ReadCluster, **how: Any) -> ReadRan:
        ran = read_fake(cluster, **how)
        assert ran.received.offsets() == [0]
        return ran

    def asked(self, cluster: ReadCluster) -> list[int]:
        return [reading.broker for reading in cluster.readings]


CLIENTS = (Producer(), Consumer())


@pytest.fixture(params=CLIENTS, ids=lambda client: type(client).__name__)
def client(request: pytest.FixtureRequest) -> Any:
    return request.param


def moving_at_first(
    client: Any, to: int, told: Answer | None = None, brokers: int = 2, highest: int | None = None
) -> Any:
    """The leader moves when it is asked for the first time, in this version at most."""

    def script(broker: int) -> Answer | None:
        if len(client.asked(cluster)) > 1:
            return None
        cluster.elect(0, to)
        return told

    versions = {} if highest is None else {client.api: (4 * (client.api == 1), highest)}
    cluster = client.cluster(script, brokers, versions)
    return cluster


def test_a_hint_is_followed_at_once_to_an_endpoint_that_metadata_never_named(client: Any) -> None:
    cluster = moving_at_first(client, to=3, brokers=3)
    cluster.unlisted = {3}
    cluster.show({(TOPIC, 0): Leader(1, 5)})
    ran = client.run(cluster, **NEVER)
    assert client.asked(cluster) == [1, 3]
    (row,) = ran.redirects
    assert (row["error"], row["decision"]) == (NOT_LEADER, Decision.FOLLOWED)
    assert (row["from_broker"], row["from_epoch"]) == (1, 5)
    assert (row["hint_leader"], row["hint_epoch"]) == (3, 6)
    assert (row["to_broker"], row["to_epoch"]) == (3, 6)
    assert (ran.outcome.endpoints, row["hint_endpoint"]) == ((cluster.brokers[3].address,), 0)
    assert (row["metadata_us"], row["same_epoch_retry"]) == (0, 0)
    assert row["connect_us"] > 0  # it had never been needed before
    assert (row["first_seq"], row["records"]) == (0, 1)
    assert not any(call["critical"] for call in ran.calls(ApiKey.METADATA))


@pytest.mark.parametrize(
    ("error", "hint", "decision"),
    [
        (NOT_LEADER, None, Decision.ABSENT),
        (NOT_LEADER, Leader(-1, 6), Decision.ABSENT),
        (NOT_LEADER, Leader(2, -1), Decision.ABSENT),
        (NOT_LEADER, Leader(1, 5), Decision.KNOWN),
        (NOT_LEADER, Leader(2, 5), Decision.SAME_EPOCH),
        (NOT_LEADER, Leader(2, 4), Decision.STALE),
        (NOT_LEADER, Leader(9, 6), Decision.UNKNOWN_NODE),
        (FENCED, None, Decision.ABSENT),
        (ErrorCode.UNKNOWN_TOPIC_ID, Leader(2, 6), Decision.NOT_APPLICABLE),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, Leader(2, 6), Decision.NOT_APPLICABLE),
    ],
)
def test_without_a_hint_to_follow_metadata_names_the_leader(
    error: ErrorCode, hint: Leader | None, decision: Decision, client: Any
) -> None:
    cluster = moving_at_first(client, 2, (error, hint))
    cluster.names_leaders = False
    ran = client.run(cluster)
    assert (client.asked(cluster)[0], client.asked(cluster)[-1]) == (1, 2)
    first, last = ran.redirects[0], ran.redirects[-1]
    assert first["decision"] == decision
    if decision is not Decision.NOT_APPLICABLE:
        assert first["hint_leader"] == (hint.id if hint else -1)
    assert (last["to_broker"], last["to_epoch"]) == (2, 6)
    assert {call["cause"] for call in ran.calls(ApiKey.METADATA)} == {MetadataCause.LEADER_CHANGE}


def test_a_hint_in_the_form_of_the_early_draft_is_counted_apart_and_not_followed(
    client: Any,
) -> None:
    for version in client.drafts:
        cluster = moving_at_first(client, 2, highest=version)
        cluster.has_draft_hints = True
        ran = client.run(cluster)
        row, last = ran.redirects[0], ran.redirects[-1]
        assert row["decision"] == Decision.DRAFT
        assert (row["hint_leader"], row["hint_epoch"], row["hint_endpoint"]) == (2, 6, 0)
        assert ran.outcome.endpoints == (cluster.brokers[2].address,)
        assert (last["to_broker"], last["metadata_us"] > 0) == (2, True)  # which told it instead


def test_a_fenced_epoch_with_a_hint_is_followed_too(client: Any) -> None:
    cluster = moving_at_first(client, 2, (FENCED, Leader(2, 6)))
    (row,) = client.run(cluster, **NEVER).redirects
    assert client.asked(cluster) == [1, 2]
    assert (row["error"], row["decision"]) == (FENCED, Decision.FOLLOWED)


def test_a_hinted_leader_that_does_not_know_yet_is_asked_again_with_growing_backoff(
    client: Any,
) -> None:
    def script(broker: int) -> Answer | None:
        asked = len(client.asked(cluster))
        if asked == 1:
            cluster.elect(0, 2)
        return None if asked in (1, 4) else (NOT_LEADER, Leader(1, 5))

    cluster = client.cluster(script, 2, {})
    cluster.show({(TOPIC, 0): Leader(1, 5)})
    ran = client.run(cluster, retry_backoff_ms=BACKOFF_MS)
    assert client.asked(cluster) == [1, 2, 2, 2]
    first, second, third = ran.redirects
    assert first["decision"] == Decision.FOLLOWED
    assert [row["decision"] for row in (second, third)] == [Decision.STALE] * 2
    assert [row["same_epoch_retry"] for row in ran.redirects] == [0, 1, 1]
    assert second["backoff_us"] >= SHORTEST_BACKOFF_US
    assert third["backoff_us"] >= 2 * SHORTEST_BACKOFF_US
    # Its answers are time in which the leader was not ready, not time to detect a move.
    assert [row["detect_us"] > 0 for row in ran.redirects] == [True, False, False]
    assert [row["not_ready_us"] > 0 for row in ran.redirects] == [False, True, True]


@pytest.mark.parametrize(
    ("client", "version"),
    [
        *((CLIENTS[0], version) for version in (3, 5, 7, 8, 9, 10, 11, 12, 13)),
        *((CLIENTS[1], version) for version in (4, 6, 11, 12, 15, 16, 18)),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else type(value).__name__,
)
def test_brokers_of_any_age_are_spoken_to_in_their_newest_version(
    client: Any, version: int
) -> None:
    ran = client.run(moving_at_first(client, 2, highest=version))
    assert {row["api_version"] for row in ran.calls(client.api)} == {version}
    is_hinted = version >= client.hinted_from
    assert ran.redirects[0]["decision"] == (Decision.FOLLOWED if is_hinted else Decision.ABSENT)
    assert ran.redirects[0]["hint_leader"] == (2 if is_hinted else -1)


def test_refresh_ignores_hints_and_goes_where_metadata_says_without_backoff(client: Any) -> None:
    cluster = moving_at_first(client, 2)
    ran = client.run(cluster, discovery=REFRESH, **NEVER)
    assert client.asked(cluster) == [1, 2]
    (row,) = ran.redirects
    assert (row["decision"], row["hint_leader"]) == (Decision.IGNORED, 2)
    assert (row["metadata_us"] > 0, row["backoff_us"]) == (True, 0)
    (call,) = ran.calls(ApiKey.METADATA)
    assert (call["cause"], call["critical"]) == (MetadataCause.LEADER_CHANGE, 1)


def test_refresh_backs_off_while_metadata_shows_nothing_newer(client: Any) -> None:
    def catch_up(broker: int) -> None:
        if len(cluster.metadata_asked) > 3:
            cluster.show(None)

    cluster = moving_at_first(client, 2)
    cluster.on_metadata = catch_up
    cluster.show({(TOPIC, 0): Leader(1, 5)})
    ran = client.run(cluster, discovery=REFRESH, retry_backoff_ms=BACKOFF_MS)
    assert client.asked(cluster)[-1] == 2
    calls = ran.calls(ApiKey.METADATA)
    assert len(calls) >= 3
    pauses = [b["sent_us"] - a["received_us"] for a, b in pairwise(calls)]
    assert min(pauses) >= BACKOFF_MS * 800  # with its jitter (KIP-580)
