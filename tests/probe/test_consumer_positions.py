"""Where the consumer reads on when a broker does not have its position: each of KIP-392's cases."""

import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from fake_broker import HangUp, Silence
from fake_log import Fetching, ReadCluster, ReadReply
from fake_reads import ReadRan, Received, Row, read_fake

from kipctl.errors import RefusedError, UsageError
from kipctl.probe.consume import run as run_module
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import RangeCase, RangeHandling

OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
BACKOFF_MS = 60


def ranged(ran: ReadRan) -> list[Row]:
    return [row for row in ran.reads if row["range_case"] != -1]


def at_follower(cluster: ReadCluster) -> Callable[[Fetching], ReadReply | None]:
    """The leader names broker 2, once and whatever that has."""
    named: list[int] = []

    def script(fetching: Fetching) -> ReadReply | None:
        if fetching.broker == 1 and not named:
            named.append(2)
            return ReadReply(preferred=2)
        return None

    cluster.names_replicas = False
    return script


# --- the four cases ---


def test_a_position_that_is_not_committed_yet_is_waited_for(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=10)
        cluster.high_watermarks[0] = 3

        def script(fetching: Fetching) -> ReadReply | None:
            if len(cluster.readings) == 3:
                del cluster.high_watermarks[0]
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 5, offset=5, fetch_max_wait_ms=10)
        first = ranged(ran)[0]
        assert (first["range_case"], first["range_handling"], first["error"]) == (
            RangeCase.UNCOMMITTED,
            RangeHandling.WAIT,
            0,
        )
        assert (first["fetch_offset"], first["high_watermark"], first["records"]) == (5, 3, 0)
        assert ran.received.offsets() == [5, 6, 7, 8, 9]
        assert not ran.errors()
        assert not cluster.questions


@pytest.mark.parametrize("is_first", [True, False])
def test_a_position_that_the_follower_has_not_yet_is_read_from_the_leader(
    tmp_path: Path, is_first: bool
) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=10)
        cluster.ends[2, 0] = 3
        name = at_follower(cluster)

        def script(fetching: Fetching) -> ReadReply | None:
            return name(fetching) if is_first or fetching.offset == 5 else None

        cluster.read_script = script
        read_before = 0 if is_first else 5
        max_bytes = 5 * len(cluster.logs[0].batches[0].content)
        ran = read_fake(
            cluster,
            tmp_path,
            5 + read_before,
            offset=5 - read_before,
            client_rack="rack-2",
            max_partition_fetch_bytes=max_bytes,
        )
        (row,) = ranged(ran)
        assert (row["broker"], row["is_leader"], row["error"]) == (2, 0, OUT_OF_RANGE)
        assert (row["range_case"], row["range_handling"]) == (
            RangeCase.UNAVAILABLE,
            RangeHandling.ASK_LEADER,
        )
        assert (row["fetch_offset"], row["next_offset"], row["high_watermark"]) == (5, 5, -1)
        asked = [("start", 1, 0), ("end", 1, 0)]
        of_leader = [question for question in cluster.questions if question[1] == 1]
        assert of_leader == (asked if is_first else [("epoch end", 1, 0), *asked])
        assert ran.received.offsets() == list(range(5 - read_before, 10))
        assert ran.brokers_read == [1]
        assert not ran.redirects


@pytest.mark.parametrize("by_leader", [True, False])
@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_a_position_before_the_start_of_the_log_is_reset(
    tmp_path: Path, by_leader: bool, reset: str
) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=10)
        name = at_follower(cluster)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.offset == 4 and not cluster.logs[0].start:
                cluster.delete_records(0, before=7)
            if reset == "latest" and fetching.offset == 10 and cluster.logs[0].end == 10:
                cluster.write(0, batches=3)
            return None if by_leader else name(fetching)

        cluster.read_script = script
        ran = read_fake(
            cluster, tmp_path, 3, offset=4, auto_offset_reset=reset, client_rack="rack-2"
        )
        (row,) = ranged(ran)
        assert (row["broker"], row["is_leader"]) == ((1, 1) if by_leader else (2, 0))
        assert (row["error"], row["range_case"]) == (OUT_OF_RANGE, RangeCase.TOO_SMALL)
        if reset == "none":
            assert row["range_handling"] == RangeHandling.FAIL
            assert ran.outcome.errors == {"OFFSET_OUT_OF_RANGE": 1}
            assert ran.outcome.records == 0
        else:
            begin = 7 if reset == "earliest" else 10
            assert (row["range_handling"], row["next_offset"]) == (RangeHandling.RESET, begin)
            assert ran.received.offsets() == [begin, begin + 1, begin + 2]


@pytest.mark.parametrize("by_leader", [True, False])
@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_a_position_beyond_the_end_of_the_log_is_reset(
    tmp_path: Path, by_leader: bool, reset: str
) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=3)
        name = at_follower(cluster)
        cluster.read_script = lambda fetching: None if by_leader else name(fetching)
        ran = read_fake(
            cluster, tmp_path, 3, offset=100, auto_offset_reset=reset, client_rack="rack-2"
        )
        (row,) = ranged(ran)
        assert (row["broker"], row["range_case"]) == (1 if by_leader else 2, RangeCase.TOO_LARGE)
        if reset == "none":
            assert row["range_handling"] == RangeHandling.FAIL
            assert ran.outcome.errors == {"OFFSET_OUT_OF_RANGE": 1}
        else:
            assert (row["range_handling"], row["next_offset"]) == (RangeHandling.RESET, 0)
            assert ran.received.offsets() == [0, 1, 2]


@pytest.mark.parametrize("reset", ["latest", "none"])
def test_a_position_beyond_what_is_left_of_its_epoch_goes_back_to_where_that_ends(
    tmp_path: Path, reset: str
) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=10)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.offset == 10 and cluster.logs[0].end == 10:
                cluster.truncate(0, 6)
            elif fetching.offset == 6 and cluster.logs[0].end == 6:
                cluster.write(0, batches=2)
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 12, in_order=False, offset=0, auto_offset_reset=reset)
        (row,) = ranged(ran)
        assert row["range_case"] == RangeCase.TOO_LARGE
        assert cluster.questions[0] == ("epoch end", 1, 0)
        if reset == "none":
            assert row["range_handling"] == RangeHandling.FAIL
            assert ran.received.offsets() == list(range(10))
        else:
            assert (row["range_handling"], row["next_offset"]) == (RangeHandling.TRUNCATE, 6)
            assert ran.received.offsets() == [*range(10), 6, 7]


def test_a_leader_that_refuses_what_it_says_it_has_is_asked_again_after_the_backoff(
    tmp_path: Path,
) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=3)

        def script(fetching: Fetching) -> ReadReply | None:
            refused = len(cluster.readings) <= 2
            return ReadReply(OUT_OF_RANGE, high_watermark=-1) if refused else None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 3, offset=0, retry_backoff_ms=BACKOFF_MS)
        rows = ranged(ran)
        assert [(row["range_case"], row["range_handling"]) for row in rows] == [
            (RangeCase.UNAVAILABLE, RangeHandling.WAIT)
        ] * 2
        sent = [call["sent_us"] for call in ran.calls(ApiKey.FETCH)]
        assert min(b - a for a, b in pairwise(sent)) >= BACKOFF_MS * 1000
        assert ran.received.offsets() == [0, 1, 2]


# --- a new leader is asked about what was read ---


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_a_new_leader_that_has_less_is_read_from_where_its_log_left_the_old_one(
    tmp_path: Path, reset: str, discovery: LeaderDiscovery
) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=10)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.offset == 10 and fetching.broker == 1:
                cluster.truncate(0, 6)
                cluster.move(0, 2)
                cluster.write(0, batches=5)
            return None

        cluster.read_script = script
        ran = read_fake(
            cluster,
            tmp_path,
            15,
            discovery,
            in_order=False,
            offset=0,
            auto_offset_reset=reset,
        )
        assert ("epoch end", 2, 0) in cluster.questions
        (row,) = ranged(ran)
        assert row["range_case"] == RangeCase.TOO_LARGE
        assert (row["broker"], row["fetch_offset"], row["error"]) == (2, 10, 0)
        if reset == "none":
            assert row["range_handling"] == RangeHandling.FAIL
            assert ran.outcome.errors == {"OFFSET_OUT_OF_RANGE": 1}
            assert ran.received.offsets() == list(range(10))
        else:
            assert (row["range_handling"], row["next_offset"]) == (RangeHandling.TRUNCATE, 6)
            assert ran.received.offsets() == [*range(10), *range(6, 11)]


def test_a_new_leader_that_has_all_is_read_on_without_a_step_back(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=4)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.offset == 4 and fetching.broker == 1:
                cluster.move(0, 2)
                cluster.write(0, batches=4)
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 8)
        assert cluster.questions.count(("epoch end", 2, 0)) == 1
        assert ran.received.offsets() == list(range(8))


def test_a_new_leader_that_is_gone_when_its_answer_comes_is_asked_again(tmp_path: Path) -> None:
    """Metadata does not have its node for a moment; its connection still stands."""
    with ReadCluster() as cluster:
        cluster.write(0, batches=10)

        def script(fetching: Fetching) -> ReadReply | None:
            if fetching.offset == 10 and fetching.broker == 1:
                cluster.move(0, 2)
                cluster.write(0, batches=2)
            return None

        asked_twice = threading.Event()

        def hide(question: str, broker: int, index: int) -> None:
            if question == "epoch end" and not asked_twice.is_set():
                cluster.hidden = {2}
                before = len(cluster.metadata_asked)

                def is_known(broker: int) -> None:
                    if len(cluster.metadata_asked) == before + 2:
                        asked_twice.set()

                cluster.on_metadata = is_known
                assert asked_twice.wait(60)
                cluster.hidden = set()

        cluster.read_script, cluster.position_script = script, hide
        ran = read_fake(cluster, tmp_path, 12, offset=0, metadata_max_age_ms=30)
        assert cluster.questions.count(("epoch end", 2, 0)) >= 2
        assert ran.received.offsets() == list(range(12))


def test_a_move_while_a_refused_position_is_looked_into_begins_the_questions_anew(
    tmp_path: Path,
) -> None:
    """What the old leader said of its log is not mixed with what the new one says."""
    with ReadCluster(brokers=2) as cluster:
        cluster.write(0, batches=10)
        name = at_follower(cluster)
        cluster.ends[2, 0] = 3
        cluster.read_script = name

        def move_after_the_first(question: str, broker: int, index: int) -> None:
            if (question, broker) == ("end", 1):
                cluster.ends.clear()
                cluster.move(0, 2)

        cluster.position_script = move_after_the_first
        ran = read_fake(cluster, tmp_path, 5, offset=5, client_rack="rack-2")
        (row,) = ranged(ran)
        assert row["range_handling"] == RangeHandling.ASK_LEADER
        asked = [question for question, broker, _ in cluster.questions if broker == 2]
        assert asked == ["start", "end"]
        assert ran.received.offsets() == [5, 6, 7, 8, 9]


# --- where to begin ---


@pytest.mark.parametrize(("reset", "begin"), [("earliest", 2), ("latest", 5)])
def test_without_an_offset_the_reset_says_where_to_begin(
    tmp_path: Path, reset: str, begin: int
) -> None:
    with ReadCluster(partitions=3) as cluster:
        for index in range(3):
            cluster.write(index, batches=5)
            cluster.delete_records(index, before=2)

        def script(fetching: Fetching) -> ReadReply | None:
            log = cluster.logs[fetching.partition]
            if reset == "latest" and log.end == 5:
                cluster.write(fetching.partition, batches=3)
            return None

        cluster.read_script = script
        ran = read_fake(cluster, tmp_path, 9, auto_offset_reset=reset)
        for index in range(3):
            assert ran.received.offsets(index) == [begin, begin + 1, begin + 2]


def test_without_an_offset_and_without_a_reset_there_is_nowhere_to_begin(tmp_path: Path) -> None:
    with ReadCluster() as cluster, pytest.raises(UsageError, match=r"auto\.offset\.reset"):
        read_fake(cluster, tmp_path, auto_offset_reset="none")


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ],
)
def test_a_leader_that_cannot_say_yet_is_asked_again(tmp_path: Path, error: ErrorCode) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=2)
        cluster.position_script = lambda *_: error if len(cluster.questions) <= 2 else None
        ran = read_fake(cluster, tmp_path, 2)
        assert cluster.questions == [("start", 1, 0)] * 3
        assert ran.received.offsets() == [0, 1]


def test_a_leader_that_moves_before_it_is_asked_where_to_begin(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=2)

        def script(question: str, broker: int, index: int) -> None:
            if len(cluster.questions) == 1:
                cluster.move(0, 2)

        cluster.position_script = script
        ran = read_fake(cluster, tmp_path, 2)
        assert cluster.questions[-1] == ("start", 2, 0)
        assert ran.brokers_read == [2]


def test_a_question_whose_connection_is_lost_is_asked_again(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=2)

        def script(question: str, broker: int, index: int) -> None:
            if len(cluster.questions) == 1:
                raise HangUp

        cluster.position_script = script
        ran = read_fake(cluster, tmp_path, 2)
        assert ran.received.offsets() == [0, 1]
        lost = [row for row in ran.calls(ApiKey.LIST_OFFSETS) if row["error"]]
        assert [row["error"] for row in lost] == [ErrorCode.NETWORK_EXCEPTION]


def test_a_question_that_is_not_answered_is_given_up_and_asked_again(tmp_path: Path) -> None:
    with ReadCluster() as cluster:
        cluster.write(0, batches=2)

        def script(question: str, broker: int, index: int) -> None:
            if len(cluster.questions) == 1:
                raise Silence

        cluster.position_script = script
        ran = read_fake(cluster, tmp_path, 2, request_timeout_ms=100, fetch_max_wait_ms=20)
        assert len(cluster.questions) >= 2
        assert ran.received.offsets() == [0, 1]


def test_who_stops_while_the_leaders_are_silent_does_not_wait_for_them(tmp_path: Path) -> None:
    with ReadCluster() as cluster:

        def script(question: str, broker: int, index: int) -> None:
            raise Silence

        cluster.position_script = script
        ran = read_fake(cluster, tmp_path, should_stop=lambda: bool(cluster.questions))
        assert ran.outcome.stopped
        assert (ran.outcome.records, ran.outcome.errors) == (0, {})


def test_records_are_handed_out_as_they_come(tmp_path: Path) -> None:
    """What `on_records` sees is there before the next Fetch is sent."""
    with ReadCluster() as cluster:
        cluster.write(0, batches=2)

        def more(received: Received) -> None:
            if received.count < 6:
                cluster.write(0, batches=2)

        ran = read_fake(cluster, tmp_path, 6, on_records=more)
        assert ran.received.offsets() == list(range(6))


# --- positions that nobody tells ---

AUTHORIZATION_FAILED = 29
LEADER_NOT_AVAILABLE = 5


def test_a_partition_whose_position_is_refused_for_good_ends_alone(tmp_path: Path) -> None:
    with ReadCluster(partitions=2) as cluster:
        cluster.write(0, batches=3)
        cluster.position_script = lambda question, broker, index: (
            AUTHORIZATION_FAILED if index == 1 else None
        )
        ran = read_fake(cluster, tmp_path, 3, auto_offset_reset="earliest")
        assert ran.received.offsets(0) == [0, 1, 2]
        assert ran.outcome.errors == {"TOPIC_AUTHORIZATION_FAILED": 1}


def test_a_topic_that_may_not_be_read_at_all_is_refused_before_the_start(tmp_path: Path) -> None:
    with ReadCluster(partitions=2) as cluster:
        cluster.position_script = lambda question, broker, index: AUTHORIZATION_FAILED
        with pytest.raises(RefusedError, match="TOPIC_AUTHORIZATION_FAILED"):
            read_fake(cluster, tmp_path, 3, auto_offset_reset="earliest")


def test_a_partition_without_a_leader_does_not_keep_the_others_from_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_PATIENCE_US", 200_000)
    with ReadCluster(partitions=2) as cluster:
        cluster.write(0, batches=3)
        cluster.position_script = lambda question, broker, index: (
            LEADER_NOT_AVAILABLE if index == 1 else None
        )
        ran = read_fake(cluster, tmp_path, 3, auto_offset_reset="earliest")
        assert ran.received.offsets(0) == [0, 1, 2]
        assert ran.outcome.errors == {"LEADER_NOT_AVAILABLE": 1}


@pytest.mark.parametrize("written", [3, 0])
def test_a_partition_whose_leader_comes_late_is_read_from_what_was_its_end_when_the_run_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """Else `perf e2e` would miss what was written before the consumer could ask."""
    monkeypatch.setattr(run_module, "_PATIENCE_US", 200_000)
    with ReadCluster(partitions=2) as cluster:
        cluster.write(1, batches=2)
        has_begun = threading.Event()

        def read_script(fetching: Fetching) -> ReadReply | None:
            if not has_begun.is_set():
                cluster.write(1, batches=written)
                has_begun.set()
            elif cluster.logs[1].end == 2 and any(q == "since" for q, *_ in cluster.questions):
                cluster.write(1, batches=3)
            return None

        cluster.read_script = read_script
        cluster.position_script = lambda question, broker, index: (
            LEADER_NOT_AVAILABLE if index == 1 and not has_begun.is_set() else None
        )
        ran = read_fake(
            cluster,
            tmp_path,
            3,
            auto_offset_reset="latest",
            timeout_ms=5000,
            fetch_max_wait_ms=50,
        )
        assert ran.received.offsets(1) == [2, 3, 4]
