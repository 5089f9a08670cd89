"""What the consumer alone does when a leader moves, beside `test_follows_leaders.py`."""

from collections.abc import Generator

import old_faults
import pytest
from fake_kafka import TOPIC
from fake_reads import ReadRan, read_fake
from fake_run import BASELINE, KIP951, NEVER_MS, REFRESH
from fetching import READ_VERSIONS, ReadCluster

from kipctl.conform.cluster import Attempt, Handout, Node, Refusal
from kipctl.conform.cluster.cluster import HOST
from kipctl.probe.leadership import Leader
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def shown_after(cluster: ReadCluster, requests: int) -> None:
    """Metadata shows what is true when it was asked for so often."""

    def catch_up(broker: int) -> None:
        if len(cluster.metadata_asked) > requests:
            cluster.show(None)
            cluster.unlisted = set()

    cluster.on_metadata = catch_up


def test_a_hint_s_endpoint_is_where_its_node_is_connected_to_next() -> None:
    def script(fetching: Attempt) -> Refusal:
        if fetching.broker == 1:
            return Refusal(NOT_LEADER, Leader(2, 6), Node(2, HOST, cluster.brokers[3].port, None))
        log = cluster.log_of(fetching.partition)
        return Handout(log.batches[0].content, 1)

    cluster = ReadCluster(brokers=3, partitions=2)
    cluster.lead(Leader(1, 5), Leader(1, 5))
    cluster.unlisted = {3}
    cluster.show(dict(cluster.leaders))
    for index in (0, 1):
        cluster.write(index)
    cluster.read_script = script
    ran = read_fake(cluster, 2, retry_backoff_ms=NEVER_MS)
    assert {row["decision"] for row in ran.redirects} == {Decision.FOLLOWED}
    assert {row["to_broker"] for row in ran.redirects} == {2}
    assert {reading.broker for reading in cluster.readings} == {1, 3}


def test_an_answer_without_a_hint_to_what_metadata_has_told_meanwhile_is_read_again_at_once() -> (
    None
):
    """Partition 1's Metadata shows partition 0's move too."""

    def script(fetching: Attempt) -> Refusal | None:
        if (fetching.broker, fetching.partition) == (1, 0):
            cluster.elect(0, to=2)
            return Refusal(NOT_LEADER)
        return None

    cluster = ReadCluster(partitions=2)
    for index in (0, 1):
        cluster.write(index)
    cluster.names_leaders, cluster.read_script = False, script
    ran = read_fake(cluster, 2, REFRESH, retry_backoff_ms=NEVER_MS)
    (row,) = ran.redirects
    assert row["metadata_us"] > 0
    assert row["to_broker"] == 2


# --- the other arms ---


@pytest.mark.parametrize("moves", [1, 3])
def test_baseline_takes_no_hints_and_waits_until_metadata_names_the_new_leader(moves: int) -> None:
    """Java's consumer has no backoff of its own there; its Metadata requests have."""
    seen: list[int] = []

    def script(fetching: Attempt) -> None:
        if len(seen) < moves and fetching.broker == cluster.leaders[TOPIC, 0].id:
            seen.append(fetching.broker)
            cluster.elect(0, 3 - fetching.broker)

    cluster = ReadCluster()
    cluster.write(0)
    cluster.read_script = script
    ran = read_fake(cluster, 1, BASELINE, retry_backoff_ms=20)
    assert len(ran.redirects) >= moves
    for row in ran.redirects:
        assert row["decision"] == Decision.IGNORED
        if row["to_epoch"] > row["from_epoch"]:
            assert row["metadata_us"] > 0
            assert row["backoff_us"] == 0
    assert ran.received.offsets() == [0]


# --- while it goes on ---


def test_a_leader_that_metadata_has_but_not_its_node_is_read_from_when_the_node_is_there() -> None:
    """The same leader and epoch as before: no news about the leader, but now it can be reached."""

    def script(fetching: Attempt) -> None:
        if len(cluster.readings) == 1:
            cluster.elect(0, to=2)

    cluster = ReadCluster()
    cluster.write(0)
    cluster.not_replicas.add(1)
    cluster.read_script, cluster.names_leaders, cluster.unlisted = script, False, {2}
    shown_after(cluster, 3)
    ran = read_fake(cluster, 1, KIP951)
    assert ran.redirects[-1]["to_broker"] == 2


def read_with_metadata_in_between(has_read: bool, stale_us: int = 0) -> tuple[ReadRan, list[int]]:
    """Metadata shows (2, 6) while the Fetch is under way at 1, which then names (3, 7). With it,
    the times of that answer, and of Fetches at 3. Broker 2 never answers; or it refuses, and
    Metadata shows so long what it did, in microseconds."""
    at_us: list[int] = []

    def script(fetching: Attempt) -> Generator[None, None, Refusal | None] | None:
        if fetching.partition == 0 and fetching.broker == 3:
            at_us.append(cluster.world.now_us)
        is_held = fetching.partition == 0 and fetching.broker != 3 and fetching.offset == has_read
        return refused(fetching) if is_held else None

    def refused(fetching: Attempt) -> Generator[None, None, Refusal | None]:
        if fetching.broker == 2:
            yield from cluster.until(lambda: bool(stale_us))
            if at_us and cluster.world.now_us - at_us[0] >= stale_us:
                cluster.show(None)
            return Refusal(NOT_LEADER)
        cluster.show({(TOPIC, 0): Leader(2, 6), (TOPIC, 1): Leader(3, 5)})
        asked = len(cluster.metadata_asked)
        yield from cluster.until(lambda: len(cluster.metadata_asked) > asked)
        yield from cluster.pause(10_000)  # the answer is there
        cluster.lead(Leader(3, 7), Leader(3, 5))
        cluster.write(0)
        at_us.append(cluster.world.now_us)
        return Refusal(NOT_LEADER, Leader(3, 7))

    cluster = ReadCluster(brokers=3, partitions=2)
    cluster.lead(Leader(1, 5), Leader(3, 5))  # who answers Metadata meanwhile
    cluster.write(0, batches=has_read)
    cluster.read_script = script
    waits = {"fetch_max_wait_ms": 20, "metadata_max_age_ms": 100}
    ran = read_fake(cluster, 1 + has_read, **waits)
    return ran, at_us


@pytest.mark.parametrize("has_read", [False, True], ids=["nothing was read", "it is validated"])
def test_a_refusal_that_metadata_has_overtaken_still_says_what_is_newer(has_read: bool) -> None:
    """Java takes hints before it looks at positions (`AbstractFetch.handleFetchSuccess`)."""
    ran, _ = read_with_metadata_in_between(has_read)
    (row,) = ran.redirects
    assert (row["from_broker"], row["from_epoch"]) == (1, 5)
    assert (row["decision"], row["hint_leader"]) == (Decision.FOLLOWED, 3)
    assert (row["to_broker"], row["to_epoch"]) == (3, 7)
    assert ran.received.offsets() == [0, 1][: 1 + has_read]


def test_what_the_hint_of_an_overtaken_fetch_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of docs/when-a-leader-moves.md: exact, in a world of its own time."""
    _, (refused_us, after_us) = read_with_metadata_in_between(has_read=False)
    assert after_us - refused_us == 10_300
    old_faults.hints_of_overtaken_fetches_are_dropped(monkeypatch)
    _, (refused_us, after_us) = read_with_metadata_in_between(has_read=False, stale_us=1_000_000)
    assert after_us - refused_us == 1_284_000


@pytest.mark.parametrize(("version", "epoch"), [(7, -1), (8, -1), (9, 5), (13, 5)])
def test_epochs_that_metadata_shows_are_believed_from_version_9_on(
    version: int, epoch: int
) -> None:
    """Before it they may be older than the leader's, which then refuses them for ever
    (KAFKA-9212)."""
    cluster = ReadCluster(versions=READ_VERSIONS | {1: (4, 12), 3: (1, version)})
    cluster.write(0)
    read_fake(cluster)
    assert {fetching.epoch for fetching in cluster.readings} == {epoch}
