"""What the consumer does when a leader moves: each case of KIP-951 for fetches, on real sockets."""

from itertools import pairwise
from pathlib import Path

import pytest
from fake_log import READ_VERSIONS, Fetching, ReadCluster, ReadReply
from fake_reads import read_fake

from kipctl.probe.leadership import Leader, LeaderDiscovery
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import Decision, MetadataCause

KIP951, REFRESH, BASELINE = LeaderDiscovery
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
FENCED = ErrorCode.FENCED_LEADER_EPOCH
BACKOFF_MS = 20
SHORTEST_BACKOFF_US = 16_000
"""20 ms less the jitter of a fifth."""
NEVER_MS = 100_000_000


def moving_at_first(cluster: ReadCluster, to: int, reply: ReadReply | None = None) -> None:
    """The leader of partition 0 moves when it is read for the first time; then there are records.

    The one that led has no replica any more.
    """

    def script(fetching: Fetching) -> ReadReply | None:
        if len(cluster.readings) == 1:
            cluster.not_replicas.add(fetching.broker)
            cluster.move(0, to)
            return reply
        return None

    cluster.write(0, batches=3)
    cluster.read_script = script


def brokers_asked(cluster: ReadCluster) -> list[int]:
    return [fetching.broker for fetching in cluster.readings]


def test_a_hint_is_followed_at_once_to_an_endpoint_that_metadata_never_named(
    tmp_path: Path,
) -> None:
    with ReadCluster(brokers=3) as cluster:
        cluster.hidden = {3}
        cluster.shown = {0: Leader(1, 5)}
        moving_at_first(cluster, to=3)
        ran = read_fake(cluster, tmp_path, 3, retry_backoff_ms=NEVER_MS)
        assert brokers_asked(cluster) == [1, 3]
        (row,) = ran.redirects
        assert row["error"] == NOT_LEADER
        assert row["decision"] == Decision.FOLLOWED
        assert (row["from_broker"], row["from_epoch"]) == (1, 5)
        assert (row["hint_leader"], row["hint_epoch"]) == (3, 6)
        assert (row["to_broker"], row["to_epoch"]) == (3, 6)
        assert ran.outcome.endpoints == (f"127.0.0.1:{cluster.brokers[3].port}",)
        assert row["hint_endpoint"] == 0
        assert (row["metadata_us"], row["same_epoch_retry"]) == (0, 0)
        assert row["connect_us"] > 0  # it had never been needed before
        assert row["first_seq"] == 0
        assert (ran.outcome.records, row["records"]) == (3, 3)
        assert not any(call["critical"] for call in ran.calls(ApiKey.METADATA))


def test_a_fenced_epoch_names_the_leader_as_well(tmp_path: Path) -> None:
    """An old leader that stays a replica answers so: the epoch of the reader is old."""
    with ReadCluster(brokers=2) as cluster:
        moving_at_first(cluster, to=2)

        def script(fetching: Fetching) -> ReadReply | None:
            if len(cluster.readings) == 1:
                cluster.move(0, 2)
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 3, retry_backoff_ms=NEVER_MS)
        assert brokers_asked(cluster) == [1, 2]
        (row,) = ran.redirects
        assert (row["error"], row["decision"]) == (FENCED, Decision.FOLLOWED)


def test_a_hint_that_moves_a_known_node_is_followed_to_its_new_address(tmp_path: Path) -> None:
    with ReadCluster(brokers=3) as cluster:
        there = cluster.brokers[3].port  # broker 2, as the hint has it, listens there
        cluster.hidden = {3}
        cluster.shown = {0: Leader(1, 5)}
        cluster.write(0)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.broker == 1:
                return ReadReply(NOT_LEADER, Leader(2, 6), (2, there))
            return ReadReply(records=cluster.logs[0].read(0, 1, 1000), high_watermark=1)

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 1, retry_backoff_ms=NEVER_MS)
        assert brokers_asked(cluster) == [1, 3]
        assert ran.redirects[0]["to_broker"] == 2


def test_a_hint_that_moves_the_answering_broker_itself_is_followed(tmp_path: Path) -> None:
    """Its connection is given up while its answer is being read."""
    with ReadCluster(brokers=2, partitions=2) as cluster:
        there = cluster.brokers[2].port
        cluster.leaders = {0: Leader(1, 5), 1: Leader(1, 5)}
        cluster.hidden = {2}
        cluster.shown = dict(cluster.leaders)
        for index in (0, 1):
            cluster.write(index)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.broker == 1:
                return ReadReply(NOT_LEADER, Leader(1, 6), (1, there))
            log = cluster.logs[fetching.partition]
            return ReadReply(records=log.read(0, 1, 1000), high_watermark=1)

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 2, retry_backoff_ms=NEVER_MS)
        assert {row["decision"] for row in ran.redirects} == {Decision.FOLLOWED}
        assert set(brokers_asked(cluster)) == {1, 2}


@pytest.mark.parametrize(
    ("reply", "decision"),
    [
        (ReadReply(NOT_LEADER), Decision.ABSENT),
        (ReadReply(NOT_LEADER, Leader(-1, 6)), Decision.ABSENT),
        (ReadReply(NOT_LEADER, Leader(2, -1)), Decision.ABSENT),
        (ReadReply(NOT_LEADER, Leader(1, 5)), Decision.KNOWN),
        (ReadReply(NOT_LEADER, Leader(2, 5)), Decision.STALE),
        (ReadReply(NOT_LEADER, Leader(2, 4)), Decision.STALE),
        (ReadReply(NOT_LEADER, Leader(9, 6)), Decision.UNKNOWN_NODE),
        (ReadReply(FENCED), Decision.ABSENT),
        (ReadReply(ErrorCode.UNKNOWN_TOPIC_ID, Leader(2, 6)), Decision.NOT_APPLICABLE),
        (ReadReply(ErrorCode.UNKNOWN_LEADER_EPOCH, Leader(2, 6)), Decision.NOT_APPLICABLE),
    ],
)
def test_without_a_hint_to_follow_metadata_names_the_leader(
    tmp_path: Path, reply: ReadReply, decision: Decision
) -> None:
    with ReadCluster(brokers=2) as cluster:
        moving_at_first(cluster, to=2, reply=reply)
        cluster.hints = False
        ran = read_fake(cluster, tmp_path, 3)
        assert brokers_asked(cluster)[0] == 1
        assert brokers_asked(cluster)[-1] == 2
        assert ran.redirects[0]["decision"] == decision
        assert (ran.redirects[-1]["to_broker"], ran.redirects[-1]["to_epoch"]) == (2, 6)
        assert {call["cause"] for call in ran.calls(ApiKey.METADATA)} == {
            MetadataCause.LEADER_CHANGE
        }


@pytest.mark.parametrize("version", [13, 15])
def test_a_hint_in_the_form_of_the_early_draft_is_counted_apart_and_not_followed(
    tmp_path: Path, version: int
) -> None:
    with ReadCluster(brokers=2, versions=READ_VERSIONS | {1: (4, version)}) as cluster:
        cluster.draft = True
        moving_at_first(cluster, to=2)
        ran = read_fake(cluster, tmp_path, 3)
        first = ran.redirects[0]
        assert first["decision"] == Decision.DRAFT
        assert (first["hint_leader"], first["hint_epoch"]) == (2, 6)
        assert ran.outcome.endpoints == (f"127.0.0.1:{cluster.brokers[2].port}",)
        assert ran.redirects[-1]["metadata_us"] > 0  # which told it instead
        assert ran.outcome.records == 3


def test_an_answer_without_a_hint_to_what_metadata_has_told_meanwhile_is_read_again_at_once(
    tmp_path: Path,
) -> None:
    """Partition 1's Metadata shows partition 0's move too."""
    with ReadCluster(brokers=2, partitions=2) as cluster:
        for index in (0, 1):
            cluster.write(index)
        cluster.hints = False
        cluster.leaders[1] = Leader(2, 5)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.broker == 1 and fetching.partition == 0:
                cluster.leaders[0] = Leader(2, 6)
                return ReadReply(NOT_LEADER)
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 2, discovery=REFRESH, retry_backoff_ms=NEVER_MS)
        (row,) = ran.redirects
        assert row["metadata_us"] > 0
        assert row["to_broker"] == 2


def test_a_hinted_leader_that_does_not_know_yet_is_asked_again_with_growing_backoff(
    tmp_path: Path,
) -> None:
    with ReadCluster(brokers=2) as cluster:
        cluster.shown = {0: Leader(1, 5)}
        cluster.write(0)

        def script(fetching: Fetching) -> ReadReply | None:
            if len(cluster.readings) == 1:
                cluster.not_replicas.add(1)
                cluster.move(0, 2)
                return None
            if len(cluster.readings) <= 3:
                return ReadReply(NOT_LEADER, Leader(1, 5))
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 1, retry_backoff_ms=BACKOFF_MS)
        assert brokers_asked(cluster) == [1, 2, 2, 2]
        first, second, third = ran.redirects
        assert first["decision"] == Decision.FOLLOWED
        assert [row["decision"] for row in (second, third)] == [Decision.STALE] * 2
        assert [row["same_epoch_retry"] for row in ran.redirects] == [0, 1, 1]
        assert second["backoff_us"] >= SHORTEST_BACKOFF_US
        assert third["backoff_us"] >= 2 * SHORTEST_BACKOFF_US
        assert [row["detect_us"] > 0 for row in ran.redirects] == [True, False, False]
        assert [row["not_ready_us"] > 0 for row in ran.redirects] == [False, True, True]


@pytest.mark.parametrize("fetch_version", [4, 6, 11, 12, 15, 16, 18])
def test_hints_are_taken_from_version_16_on(tmp_path: Path, fetch_version: int) -> None:
    with ReadCluster(brokers=2, versions=READ_VERSIONS | {1: (4, fetch_version)}) as cluster:
        moving_at_first(cluster, to=2)
        ran = read_fake(cluster, tmp_path, 3)
        assert {fetching.version for fetching in cluster.readings} == {fetch_version}
        hinted = fetch_version >= 16
        assert ran.redirects[0]["decision"] == (Decision.FOLLOWED if hinted else Decision.ABSENT)
        assert ran.redirects[0]["hint_leader"] == (2 if hinted else -1)
        assert ran.received.offsets() == [0, 1, 2]


# --- the other arms ---


def test_refresh_ignores_hints_and_goes_where_metadata_says_without_backoff(
    tmp_path: Path,
) -> None:
    with ReadCluster(brokers=2) as cluster:
        moving_at_first(cluster, to=2)
        ran = read_fake(cluster, tmp_path, 3, discovery=REFRESH, retry_backoff_ms=NEVER_MS)
        assert brokers_asked(cluster) == [1, 2]
        (row,) = ran.redirects
        assert row["decision"] == Decision.IGNORED
        assert row["hint_leader"] == 2
        assert row["metadata_us"] > 0
        assert row["backoff_us"] == 0
        (call,) = ran.calls(ApiKey.METADATA)
        assert (call["cause"], call["critical"]) == (MetadataCause.LEADER_CHANGE, 1)


def test_refresh_backs_off_while_metadata_shows_nothing_newer(tmp_path: Path) -> None:
    with ReadCluster(brokers=2) as cluster:
        moving_at_first(cluster, to=2)
        cluster.shown = {0: Leader(1, 5)}

        def caught_up(broker: int) -> None:
            if len(cluster.metadata_asked) > 3:
                cluster.shown = None

        cluster.on_metadata = caught_up
        ran = read_fake(cluster, tmp_path, 3, discovery=REFRESH, retry_backoff_ms=BACKOFF_MS)
        assert brokers_asked(cluster)[-1] == 2
        calls = ran.calls(ApiKey.METADATA)
        assert len(calls) >= 3
        pauses = [b["sent_us"] - a["received_us"] for a, b in pairwise(calls)]
        assert min(pauses) >= BACKOFF_MS * 800  # with its jitter (KIP-580)


@pytest.mark.parametrize("moves", [1, 3])
def test_baseline_takes_no_hints_and_waits_until_metadata_names_the_new_leader(
    tmp_path: Path, moves: int
) -> None:
    """Java's consumer has no backoff of its own there; its Metadata requests have."""
    with ReadCluster(brokers=2) as cluster:
        cluster.write(0)
        seen: list[int] = []

        def script(fetching: Fetching) -> ReadReply | None:
            if len(seen) < moves and fetching.broker == cluster.leaders[0].id:
                seen.append(fetching.broker)
                cluster.move(0, 3 - fetching.broker)
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 1, discovery=BASELINE, retry_backoff_ms=BACKOFF_MS)
        assert len(ran.redirects) >= moves
        for row in ran.redirects:
            assert row["decision"] == Decision.IGNORED
            if row["to_epoch"] > row["from_epoch"]:
                assert row["metadata_us"] > 0
                assert row["backoff_us"] == 0
        assert ran.received.offsets() == [0]


# --- while it goes on ---


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
def test_nothing_is_lost_skipped_or_read_twice_while_leaders_move(
    tmp_path: Path, discovery: LeaderDiscovery
) -> None:
    """Every partition moves after each few records of it, and more are written meanwhile."""
    with ReadCluster(brokers=3, partitions=5) as cluster:
        rounds = 6
        for index in range(5):
            cluster.write(index, batches=4, records=3)
        moved_at: dict[int, set[int]] = {index: set() for index in range(5)}

        def script(fetching: Fetching) -> ReadReply | None:
            index, offset = fetching.partition, fetching.offset
            leader = cluster.leaders[index]
            if fetching.broker == leader.id and offset and offset not in moved_at[index]:
                moved_at[index].add(offset)
                if len(moved_at[index]) <= rounds:
                    cluster.move(index, 1 + leader.id % 3)
                    cluster.write(index, batches=2, records=2)
            return None

        cluster.read_script = script
        total = 5 * (12 + 4 * rounds)
        ran = read_fake(
            cluster, tmp_path, total, discovery, fetch_max_wait_ms=50, max_partition_fetch_bytes=200
        )
        assert ran.outcome.records == total
        assert {index: len(ran.received.offsets(index)) for index in range(5)} == dict.fromkeys(
            range(5), 12 + 4 * rounds
        )
        assert len(ran.redirects) >= rounds


def test_a_partition_without_a_leader_is_read_on_when_it_has_one(tmp_path: Path) -> None:
    with ReadCluster(brokers=2, partitions=2) as cluster:
        cluster.leaders = {0: Leader(1, 5), 1: Leader(1, 5)}
        for index in (0, 1):
            cluster.write(index, batches=2)
        cluster.shown = {0: Leader(1, 5), 1: Leader(-1, 5)}

        def caught_up(broker: int) -> None:
            if len(cluster.metadata_asked) > 3:
                cluster.shown = None

        cluster.on_metadata = caught_up
        ran = read_fake(cluster, tmp_path, 4, offset=0)
        assert ran.received.offsets(1) == [0, 1]


def test_a_leader_that_metadata_has_but_not_its_node_is_read_from_when_the_node_is_there(
    tmp_path: Path,
) -> None:
    """The same leader and epoch as before: no news about the leader, but now it can be reached."""
    with ReadCluster(brokers=2) as cluster:
        moving_at_first(cluster, to=2)
        cluster.hints = False
        cluster.hidden = {2}

        def caught_up(broker: int) -> None:
            if len(cluster.metadata_asked) > 3:
                cluster.hidden = set()

        cluster.on_metadata = caught_up
        ran = read_fake(cluster, tmp_path, 3)
        assert ran.redirects[-1]["to_broker"] == 2
