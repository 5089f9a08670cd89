"""A partition as its consumer knows it, and what becomes of a refused position: rules, pure."""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kipctl.probe.backoff import Attempts
from kipctl.probe.consume.preferred_read_replica import PreferredReadReplica
from kipctl.probe.leadership import NO_EPOCH, ClientPartition
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.codes import RangeCase, RangeHandling
from kipctl.trace.columns import ReadRow
from kipctl.trace.redirect_phases import FailedAttempt

NO_OFFSET = -1
NO_RESET = "none"
RETRIABLE_ERRORS = frozenset(code for code in ErrorCode if code.retriable) | {
    ErrorCode.UNKNOWN_SERVER_ERROR
}
"""Errors after which the same may be asked again, as Java's consumer does."""


class State(Enum):
    """What has to happen to a partition's position."""

    RESET = "reset"
    """There is none: the leader says where the log begins or ends (ListOffsets)."""
    VALIDATE = "validate"
    """A new leader may have truncated what was read (OffsetForLeaderEpoch, KIP-320)."""
    CHECK = "check"
    """A broker called it out of range: the leader says what it is."""
    READY = "ready"
    """Read on from there."""
    FAILED = "failed"
    """Nothing more is read."""


class TopicIdPartition:
    """A partition of one topic id. Sessions look it up for every Fetch: its hash is made once."""

    __slots__ = ("_hash", "index", "topic")

    def __init__(self, topic: Topic, index: int) -> None:
        self.topic = topic
        self.index = index
        self._hash = hash((topic, index))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicIdPartition) and (self.topic, self.index) == (
            other.topic,
            other.index,
        )


@dataclass(slots=True, eq=False)
class Partition(ClientPartition):
    """One partition: where it is read on, from which broker, and what is being done about it.

    Times are microseconds (monotonic); 0 is never.
    """

    offset: int
    """Where to begin, then where to read on; with NO_OFFSET `auto.offset.reset` says."""
    epoch: int = NO_EPOCH
    """The leader epoch of the batch read last."""
    topic_id_partition: TopicIdPartition = field(init=False)
    state: State = field(init=False)
    since_ms: int = 0
    """Begin with what was written at this time (wall clock) or later, else at the end; 0 for
    where `auto.offset.reset` says."""
    preferred_replica: PreferredReadReplica = field(init=False)
    asked: object = None
    """The `PositionCall` under way whose answer counts; None for none."""
    next_request_us: int = 0
    """Not before this is the next question asked."""
    error: int = 0
    """Why it is FAILED."""
    check: "Check | None" = None
    retry_us: int = 0
    """Not before this is it read again; 0 if there is nothing to wait for."""
    attempts: Attempts | None = None
    failures: list[FailedAttempt] = field(default_factory=list)
    """Since the last answer without error."""
    sent_us: int = 0
    """When the first of them was asked."""
    last_sent_us: int = 0

    def __post_init__(self) -> None:
        self.topic_id_partition, self.preferred_replica = (
            TopicIdPartition(self.topic, self.index),
            PreferredReadReplica(),
        )
        self.state = State.RESET if self.offset == NO_OFFSET else State.READY

    def restart(self) -> None:
        """The topic was made anew: there is no position in it yet."""
        self.topic_id_partition = TopicIdPartition(self.topic, self.index)
        self.offset, self.epoch = NO_OFFSET, NO_EPOCH
        self.state, self.check, self.error = State.RESET, None, 0
        self.ask_anew()
        self.preferred_replica.clear()

    def ask_anew(self) -> None:
        """Whatever was asked about its position was asked of a leader that is none any more."""
        self.asked, self.next_request_us = None, 0


class Question(Enum):
    """What a leader is asked about a partition."""

    RESET = "where to begin"
    SINCE = "where what was written since then begins"
    EPOCH_END = "where the epoch read last ends"
    START = "where the log begins"
    END = "where the log ends, committed or not"
    FOLLOWER_START = "where the log of the follower begins that refused"
    """It tells two cases apart, and is no matter of what comes next: nobody waits for the answer.
    """


@dataclass(slots=True)
class Check:
    """A position that a broker called out of range, and what the leader has said about it so far.

    `row` is the read's row of the trace, which is to say what came out.
    """

    row: ReadRow
    by_leader: bool
    """It was the leader that refused it."""
    answers: dict[Question, int] = field(default_factory=dict)


def next_question(partition: Partition) -> Question | None:
    """What is to be asked about a partition that is neither READY nor FAILED; None if nothing."""
    if partition.state is State.RESET:
        # The end first: what is written after that answer cannot be missed, whatever the next says.
        is_end_known = partition.since_ms and partition.offset != NO_OFFSET
        return Question.SINCE if is_end_known else Question.RESET
    if partition.state is State.VALIDATE:
        return Question.EPOCH_END
    assert partition.check
    wanted = [Question.START, Question.END]
    if partition.epoch != NO_EPOCH:
        wanted.insert(0, Question.EPOCH_END)
    return next((q for q in wanted if q not in partition.check.answers), None)


class Verdict(NamedTuple):
    """What an offset out of range is, and what to do: read on at `offset`, unless it is a reset."""

    case: RangeCase
    handling: RangeHandling
    offset: int = NO_OFFSET


def judge_out_of_range(
    offset: int, start: int, end: int, epoch_end: int, reset: str, by_leader: bool
) -> Verdict:
    """What to make of OFFSET_OUT_OF_RANGE for `offset`, by what the leader knows.

    `start` and `end` are of the leader's log; `epoch_end` is the end of the epoch read last in it,
    NO_OFFSET where it is not known (OffsetForLeaderEpoch). `reset` is `auto.offset.reset`.

    KIP-392 has four cases. Java asks the leader at once after a follower's refusal, and lets it
    judge (`FetchCollector.handleInitializeErrors`); the check of the epoch is that of KIP-320
    (`SubscriptionState.maybeCompleteValidation`), which the KIP wants here. What is done is what
    Java does; kipctl asks first, so that the trace can tell the cases apart.
    """
    may_reset = reset != NO_RESET
    if NO_OFFSET < epoch_end < offset:
        if not may_reset:
            return Verdict(RangeCase.TOO_LARGE, RangeHandling.FAIL)
        return Verdict(RangeCase.TOO_LARGE, RangeHandling.TRUNCATE, epoch_end)
    if start <= offset <= end and not by_leader:
        return Verdict(RangeCase.UNAVAILABLE, RangeHandling.ASK_LEADER, offset)
    if start <= offset <= end:  # it has grown, or its start has gone back, since the leader spoke
        return Verdict(RangeCase.UNAVAILABLE, RangeHandling.WAIT, offset)
    case = RangeCase.TOO_SMALL if offset < start else RangeCase.TOO_LARGE
    return Verdict(case, RangeHandling.RESET if may_reset else RangeHandling.FAIL)


def validate_position(offset: int, epoch_end: int, reset: str) -> tuple[State, int]:
    """What a position is worth to a new leader, and where to read on.

    `epoch_end` is the end of the epoch read last in the leader's log; NO_OFFSET if it has none.
    (`SubscriptionState.maybeCompleteValidation`.)
    """
    if epoch_end >= offset:
        return State.READY, offset
    if reset == NO_RESET:
        return State.FAILED, offset
    return (State.RESET, NO_OFFSET) if epoch_end == NO_OFFSET else (State.READY, epoch_end)
