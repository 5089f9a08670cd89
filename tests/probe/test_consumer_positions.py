"""Where the consumer reads on when a broker does not have its position: each of KIP-392's cases."""

from collections.abc import Callable, Generator, Iterator
from itertools import pairwise

import pytest
from fake_reads import Received, Row, ranged, read_fake
from fetching import ReadCluster

from kipctl.conform.cluster import Attempt, Handout, HungUpError, Refusal, SilentError
from kipctl.errors import RefusedError, UsageError
from kipctl.probe.leadership import Leader, LeaderDiscovery
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.codes import RangeCase, RangeHandling

OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE
BACKOFF_MS = 60


def written(batches: int, partitions: int = 1) -> ReadCluster:
    """Two brokers, and so many batches of one record in each partition."""
    cluster = ReadCluster(partitions=partitions)
    for index in range(partitions):
        cluster.write(index, batches)
    return cluster


def what(row: Row) -> tuple[RangeCase, RangeHandling]:
    return RangeCase(row["range_case"]), RangeHandling(row["range_handling"])


def at_follower(cluster: ReadCluster) -> Callable[[Attempt], Refusal | None]:
    """The leader names broker 2, once and whatever that has."""
    named: list[int] = []

    def script(fetching: Attempt) -> Refusal | None:
        if fetching.broker == 1 and not named:
            named.append(2)
            return Handout(preferred=2)
        return None

    cluster.names_followers = False
    return script


# --- the four cases ---


def test_a_position_that_is_not_committed_yet_is_waited_for() -> None:
    def script(fetching: Attempt) -> None:
        if len(cluster.readings) == 3:
            del cluster.high_watermarks[0]

    cluster = written(10)
    cluster.high_watermarks[0] = 3
    cluster.read_script = script
    ran = read_fake(cluster, 5, offset=5, fetch_max_wait_ms=10)
    first = ranged(ran)[0]
    assert (what(first), first["error"]) == ((RangeCase.UNCOMMITTED, RangeHandling.WAIT), 0)
    assert (first["fetch_offset"], first["high_watermark"], first["records"]) == (5, 3, 0)
    assert ran.received.offsets() == [5, 6, 7, 8, 9]
    assert not ran.errors()
    assert not cluster.questions


@pytest.mark.parametrize("is_first", [True, False])
def test_a_position_that_the_follower_has_not_yet_is_read_from_the_leader(is_first: bool) -> None:
    cluster = written(10)
    cluster.ends[2, 0] = 3
    name = at_follower(cluster)
    cluster.read_script = lambda f: name(f) if is_first or f.offset == 5 else None
    read_before = 0 if is_first else 5
    ran = read_fake(
        cluster,
        5 + read_before,
        offset=5 - read_before,
        client_rack="rack-2",
        max_partition_fetch_bytes=5 * len(cluster.log_of(0).batches[0].content),
    )
    (row,) = ranged(ran)
    assert (row["broker"], row["is_leader"], row["error"]) == (2, 0, OUT_OF_RANGE)
    assert what(row) == (RangeCase.UNAVAILABLE, RangeHandling.ASK_LEADER)
    assert (row["fetch_offset"], row["next_offset"], row["high_watermark"]) == (5, 5, -1)
    asked = [("start", 1, 0), ("end", 1, 0)]
    of_leader = [question for question in cluster.questions if question[1] == 1]
    assert of_leader == (asked if is_first else [("epoch end", 1, 0), *asked])
    assert ran.received.offsets() == list(range(5 - read_before, 10))
    assert ran.brokers_read == [1]
    assert not ran.redirects


@pytest.mark.parametrize("by_leader", [True, False])
@pytest.mark.parametrize(
    ("case", "reset", "begin"),
    [
        (RangeCase.TOO_SMALL, "earliest", 7),
        (RangeCase.TOO_SMALL, "latest", 10),
        (RangeCase.TOO_SMALL, "none", None),
        (RangeCase.TOO_LARGE, "earliest", 0),
        (RangeCase.TOO_LARGE, "none", None),
    ],
)
def test_a_position_before_the_start_or_beyond_the_end_of_the_log_is_reset(
    case: RangeCase, reset: str, begin: int | None, by_leader: bool
) -> None:
    def script(fetching: Attempt) -> Refusal | None:
        log = cluster.log_of(0)
        if fetching.offset == 4 and not log.start:
            log.delete(before=7)
        if reset == "latest" and fetching.offset == log.end == 10:
            cluster.write(0, batches=3)
        return None if by_leader else name(fetching)

    cluster = written(10)
    name = at_follower(cluster)
    cluster.read_script = script
    offset = 4 if case is RangeCase.TOO_SMALL else 100
    ran = read_fake(cluster, 3, offset=offset, auto_offset_reset=reset, client_rack="rack-2")
    (row,) = ranged(ran)
    assert (row["broker"], row["is_leader"]) == ((1, 1) if by_leader else (2, 0))
    assert (row["error"], row["range_case"]) == (OUT_OF_RANGE, case)
    if begin is None:
        assert row["range_handling"] == RangeHandling.FAIL
        assert ran.outcome.errors == {"OFFSET_OUT_OF_RANGE": 1}
        assert ran.outcome.records == 0
    else:
        assert (row["range_handling"], row["next_offset"]) == (RangeHandling.RESET, begin)
        assert ran.received.offsets() == list(range(begin, cluster.log_of(0).end))


@pytest.mark.parametrize("reset", ["latest", "none"])
def test_a_position_beyond_what_is_left_of_its_epoch_goes_back_to_where_that_ends(
    reset: str,
) -> None:
    def script(fetching: Attempt) -> None:
        end = cluster.log_of(0).end
        if fetching.offset == end == 10:
            cluster.log_of(0).truncate(6)
        elif fetching.offset == end == 6:
            cluster.write(0, batches=2)

    cluster = written(10)
    cluster.read_script = script
    ran = read_fake(cluster, 12, in_order=False, offset=0, auto_offset_reset=reset)
    (row,) = ranged(ran)
    assert row["range_case"] == RangeCase.TOO_LARGE
    assert cluster.questions[0] == ("epoch end", 1, 0)
    if reset == "none":
        assert row["range_handling"] == RangeHandling.FAIL
        assert ran.received.offsets() == list(range(10))
    else:
        assert (row["range_handling"], row["next_offset"]) == (RangeHandling.TRUNCATE, 6)
        assert ran.received.offsets() == [*range(10), 6, 7]


def test_a_leader_that_refuses_what_it_says_it_has_is_asked_again_after_the_backoff() -> None:
    def script(fetching: Attempt) -> Refusal | None:
        refused = len(cluster.readings) <= 2
        return Refusal(OUT_OF_RANGE) if refused else None

    cluster = written(3)
    cluster.read_script = script
    ran = read_fake(cluster, 3, offset=0, retry_backoff_ms=BACKOFF_MS)
    assert [*map(what, ranged(ran))] == [(RangeCase.UNAVAILABLE, RangeHandling.WAIT)] * 2
    sent = [call["sent_us"] for call in ran.calls(ApiKey.FETCH)]
    assert min(b - a for a, b in pairwise(sent)) >= BACKOFF_MS * 1000
    assert ran.received.offsets() == [0, 1, 2]


# --- a new leader is asked about what was read ---


def moving_at(
    cluster: ReadCluster, offset: int, more: int, left: int | None = None
) -> Callable[[Attempt], None]:
    """When the reader is there, broker 2 comes to lead, which has what is left, and more."""

    def script(fetching: Attempt) -> None:
        if (fetching.offset, fetching.broker) == (offset, 1):
            if left is not None:
                cluster.log_of(0).truncate(left)
            cluster.elect(0, 2)
            cluster.write(0, batches=more)

    return script


@pytest.mark.parametrize("discovery", list(LeaderDiscovery))
@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_a_new_leader_that_has_less_is_read_from_where_its_log_left_the_old_one(
    reset: str, discovery: LeaderDiscovery
) -> None:
    cluster = written(10)
    cluster.read_script = moving_at(cluster, 10, more=5, left=6)
    ran = read_fake(cluster, 15, discovery, in_order=False, offset=0, auto_offset_reset=reset)
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


def test_a_new_leader_that_has_all_is_read_on_without_a_step_back() -> None:
    cluster = written(4)
    cluster.read_script = moving_at(cluster, 4, more=4)
    ran = read_fake(cluster, 8)
    assert cluster.questions.count(("epoch end", 2, 0)) == 1
    assert ran.received.offsets() == list(range(8))


def test_a_new_leader_that_is_gone_when_its_answer_comes_is_asked_again() -> None:
    """Metadata does not have its node for a moment; its connection still stands."""
    hidden: list[int] = []

    def hide(question: str, broker: int, index: int) -> Iterator[None]:
        if question == "epoch end" and not hidden:
            hidden.append(broker)
            cluster.unlisted = {2}
            before = len(cluster.metadata_asked)
            yield from cluster.until(lambda: len(cluster.metadata_asked) == before + 2)
            cluster.unlisted = set()

    cluster = written(10)
    cluster.read_script, cluster.position_script = moving_at(cluster, 10, more=2), hide
    ran = read_fake(cluster, 12, offset=0, metadata_max_age_ms=30)
    assert cluster.questions.count(("epoch end", 2, 0)) >= 2
    assert ran.received.offsets() == list(range(12))


def test_a_move_while_a_refused_position_is_looked_into_begins_the_questions_anew() -> None:
    """What the old leader said of its log is not mixed with what the new one says."""

    def move_after_the_first(question: str, broker: int, index: int) -> None:
        if (question, broker) == ("end", 1):
            cluster.ends.clear()
            cluster.elect(0, 2)

    cluster = written(10)
    cluster.ends[2, 0] = 3
    cluster.read_script, cluster.position_script = at_follower(cluster), move_after_the_first
    ran = read_fake(cluster, 5, offset=5, client_rack="rack-2")
    (row,) = ranged(ran)
    assert row["range_handling"] == RangeHandling.ASK_LEADER
    asked = [question for question, broker, _ in cluster.questions if broker == 2]
    assert asked == ["start", "end"]
    assert ran.received.offsets() == [5, 6, 7, 8, 9]


# --- where to begin ---


@pytest.mark.parametrize(("reset", "begin"), [("earliest", 2), ("latest", 5)])
def test_without_an_offset_the_reset_says_where_to_begin(reset: str, begin: int) -> None:
    def script(fetching: Attempt) -> None:
        if reset == "latest" and cluster.log_of(fetching.partition).now.end == 5:
            cluster.write(fetching.partition, batches=3)

    cluster = written(5, partitions=3)
    for index in range(3):
        cluster.log_of(index).delete(before=2)
    cluster.read_script = script
    ran = read_fake(cluster, 9, auto_offset_reset=reset)
    for index in range(3):
        assert ran.received.offsets(index) == [begin, begin + 1, begin + 2]


def test_without_an_offset_and_without_a_reset_there_is_nowhere_to_begin() -> None:
    with pytest.raises(UsageError, match=r"auto\.offset\.reset"):
        read_fake(ReadCluster(), auto_offset_reset="none")


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ],
)
def test_a_leader_that_cannot_say_yet_is_asked_again(error: ErrorCode) -> None:
    cluster = written(2)
    cluster.position_script = lambda *_: error if len(cluster.questions) <= 2 else None
    ran = read_fake(cluster, 2)
    assert cluster.questions == [("start", 1, 0)] * 3
    assert ran.received.offsets() == [0, 1]


@pytest.mark.parametrize("trouble", [HungUpError(), SilentError()])
def test_a_question_whose_connection_is_lost_or_silent_is_asked_again(trouble: Exception) -> None:
    def script(question: str, broker: int, index: int) -> None:
        if len(cluster.questions) == 1:
            raise trouble

    cluster = written(2)
    cluster.position_script = script
    ran = read_fake(cluster, 2, request_timeout_ms=100, fetch_max_wait_ms=20)
    assert ran.received.offsets() == [0, 1]
    assert len(cluster.questions) == 2
    lost = [row["error"] for row in ran.calls(ApiKey.LIST_OFFSETS) if row["error"]]
    assert lost == [ErrorCode.NETWORK_EXCEPTION]


def test_who_stops_while_the_leaders_are_silent_does_not_wait_for_them() -> None:
    def script(question: str, broker: int, index: int) -> None:
        raise SilentError

    cluster = ReadCluster()
    cluster.position_script = script
    ran = read_fake(cluster, should_stop=lambda: bool(cluster.questions))
    assert ran.outcome.stopped
    assert (ran.outcome.records, ran.outcome.errors) == (0, {})


def test_records_are_handed_out_as_they_come() -> None:
    """What `on_records` sees is there before the next Fetch is sent."""

    def more(received: Received) -> None:
        if received.count < 6:
            cluster.write(0, batches=2)

    cluster = written(2)
    ran = read_fake(cluster, 6, on_records=more)
    assert ran.received.offsets() == list(range(6))


# --- positions that nobody tells ---


@pytest.mark.parametrize(
    "error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.LEADER_NOT_AVAILABLE]
)
def test_a_partition_whose_position_nobody_tells_ends_alone(error: ErrorCode) -> None:
    cluster = written(3, partitions=2)
    cluster.position_script = lambda question, broker, index: error if index == 1 else None
    ran = read_fake(cluster, 3)
    assert ran.received.offsets(0) == [0, 1, 2]
    assert ran.outcome.errors == {error.name: 1}


def test_a_topic_that_may_not_be_read_at_all_is_refused_before_the_start() -> None:
    cluster = ReadCluster(partitions=2)
    cluster.position_script = lambda *_: ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(RefusedError, match="TOPIC_AUTHORIZATION_FAILED"):
        read_fake(cluster, 3)


@pytest.mark.parametrize("more", [3, 0])
def test_a_partition_whose_leader_comes_late_is_read_from_what_was_its_end_when_the_run_began(
    more: int,
) -> None:
    """Else `perf e2e` would miss what was written before the consumer could ask."""
    has_begun: list[int] = []

    def read_script(fetching: Attempt) -> None:
        if not has_begun:
            cluster.write(1, batches=more)
            has_begun.append(more)
        elif cluster.log_of(1).end == 2 and any(q == "since" for q, *_ in cluster.questions):
            cluster.write(1, batches=3)

    cluster = ReadCluster(partitions=2)
    cluster.write(1, batches=2)
    cluster.world.sleep(1)
    cluster.read_script = read_script
    cluster.position_script = lambda question, broker, index: (
        ErrorCode.LEADER_NOT_AVAILABLE if index == 1 and not has_begun else None
    )
    ran = read_fake(cluster, 3, auto_offset_reset="latest", timeout_ms=5000, fetch_max_wait_ms=50)
    assert ran.received.offsets(1) == [2, 3, 4]


@pytest.mark.parametrize("old_leader", ["does not know yet", "is silent"])
@pytest.mark.parametrize("has_read", [False, True], ids=["it begins", "it is validated"])
def test_a_newer_leader_is_asked_at_once_whatever_was_asked_of_the_one_before(
    old_leader: str, has_read: bool
) -> None:
    """Java's `SubscriptionState.validatePosition` ends the backoff. Broker 2, which was asked
    first, answers with an error after which nobody comes back to it, or not at all."""

    def ask(
        question: str, broker: int, partition: int
    ) -> int | Generator[None, None, int | None] | None:
        return stuck() if partition == 0 and broker == 2 else None

    def stuck() -> Generator[None, None, int | None]:
        cluster.lead(Leader(3, 7), Leader(1, 5))
        asked = len(cluster.metadata_asked)
        yield from cluster.until(lambda: len(cluster.metadata_asked) > asked)
        if old_leader == "is silent":
            yield from cluster.until(lambda: False)
        return ErrorCode.LEADER_NOT_AVAILABLE

    def move(fetching: Attempt) -> Refusal | None:
        if fetching.partition == 0 and fetching.broker == 1 and fetching.offset == 3:
            cluster.lead(Leader(2, 6), Leader(1, 5))
            cluster.write(0)
            return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, Leader(2, 6))
        return None

    cluster = ReadCluster(brokers=3, partitions=2)
    cluster.lead(Leader(1 if has_read else 2, 5), Leader(1, 5))
    cluster.write(0, batches=3)
    cluster.position_script, cluster.read_script = ask, move
    cluster.on_metadata = lambda _: cluster.pause(20_000)
    waits = {"fetch_max_wait_ms": 5, "retry_backoff_ms": 1_000, "metadata_max_age_ms": 50}
    ran = read_fake(cluster, 3 + has_read, **waits)
    assert ran.received.offsets() == [0, 1, 2, 3][: 3 + has_read]
    (call,) = (row for row in ran.rpcs if row["broker"] == 3 and row["api_key"] in (2, 23))
    shown = max(
        row["received_us"]
        for row in ran.calls(ApiKey.METADATA)
        if row["received_us"] <= call["sent_us"]
    )
    assert call["sent_us"] - shown < 5_000  # a connection is made meanwhile


def test_a_question_is_asked_again_when_its_backoff_is_over_to_the_millisecond() -> None:
    asked: list[int] = []

    def ask(question: str, broker: int, partition: int) -> int | None:
        asked.append(cluster.world.now_us)
        return ErrorCode.LEADER_NOT_AVAILABLE if len(asked) < 5 else None

    cluster = written(1)
    cluster.position_script = ask
    read_fake(cluster, retry_backoff_ms=2)
    assert max(b - a for a, b in pairwise(asked)) < 4_000
