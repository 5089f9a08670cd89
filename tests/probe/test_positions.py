"""What becomes of a position that a broker refuses, or that a new leader is asked about."""

from uuid import UUID

import pytest

from kipctl.probe.consume.positions import (
    NO_OFFSET,
    Check,
    Partition,
    Question,
    State,
    Verdict,
    judge_out_of_range,
    next_question,
    validate_position,
)
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.codes import RangeCase, RangeHandling
from kipctl.trace.columns import ReadRow

RESET, SINCE, EPOCH_END, START, END, _ = Question
UNAVAILABLE, TOO_SMALL, TOO_LARGE = (
    RangeCase.UNAVAILABLE,
    RangeCase.TOO_SMALL,
    RangeCase.TOO_LARGE,
)
FOLLOWER, LEADER = False, True


@pytest.mark.parametrize("reset", ["earliest", "latest"])
@pytest.mark.parametrize(
    ("offset", "epoch_end", "by_leader", "verdict"),
    [
        # The leader's log is 100 to 200; no epoch is known.
        (150, NO_OFFSET, FOLLOWER, Verdict(UNAVAILABLE, RangeHandling.ASK_LEADER, 150)),
        (100, NO_OFFSET, FOLLOWER, Verdict(UNAVAILABLE, RangeHandling.ASK_LEADER, 100)),
        (200, NO_OFFSET, FOLLOWER, Verdict(UNAVAILABLE, RangeHandling.ASK_LEADER, 200)),
        (99, NO_OFFSET, FOLLOWER, Verdict(TOO_SMALL, RangeHandling.RESET)),
        (201, NO_OFFSET, FOLLOWER, Verdict(TOO_LARGE, RangeHandling.RESET)),
        (99, NO_OFFSET, LEADER, Verdict(TOO_SMALL, RangeHandling.RESET)),
        (201, NO_OFFSET, LEADER, Verdict(TOO_LARGE, RangeHandling.RESET)),
        # It has changed since the leader spoke.
        (150, NO_OFFSET, LEADER, Verdict(UNAVAILABLE, RangeHandling.WAIT, 150)),
        # The epoch read last goes on to 150 in the leader's log.
        (150, 150, FOLLOWER, Verdict(UNAVAILABLE, RangeHandling.ASK_LEADER, 150)),
        (140, 150, FOLLOWER, Verdict(UNAVAILABLE, RangeHandling.ASK_LEADER, 140)),
        (151, 150, FOLLOWER, Verdict(TOO_LARGE, RangeHandling.TRUNCATE, 150)),
        (201, 150, LEADER, Verdict(TOO_LARGE, RangeHandling.TRUNCATE, 150)),
        # An epoch that retention removed: it ends where the first one begins.
        (50, 100, FOLLOWER, Verdict(TOO_SMALL, RangeHandling.RESET)),
        (50, 0, LEADER, Verdict(TOO_LARGE, RangeHandling.TRUNCATE, 0)),
    ],
)
def test_each_case_has_its_handling(
    reset: str, offset: int, epoch_end: int, by_leader: bool, verdict: Verdict
) -> None:
    assert judge_out_of_range(offset, 100, 200, epoch_end, reset, by_leader) == verdict


@pytest.mark.parametrize(
    ("offset", "epoch_end", "case", "handling"),
    [
        (150, NO_OFFSET, UNAVAILABLE, RangeHandling.ASK_LEADER),
        (99, NO_OFFSET, TOO_SMALL, RangeHandling.FAIL),
        (201, NO_OFFSET, TOO_LARGE, RangeHandling.FAIL),
        (151, 150, TOO_LARGE, RangeHandling.FAIL),
    ],
)
def test_without_a_reset_what_is_lost_is_an_error(
    offset: int, epoch_end: int, case: RangeCase, handling: RangeHandling
) -> None:
    verdict = judge_out_of_range(offset, 100, 200, epoch_end, "none", by_leader=False)
    assert verdict[:2] == (case, handling)


@pytest.mark.parametrize(
    ("epoch_end", "reset", "state", "offset"),
    [
        (500, "earliest", State.READY, 150),
        (150, "none", State.READY, 150),
        (149, "latest", State.READY, 149),
        (0, "earliest", State.READY, 0),
        (149, "none", State.FAILED, 150),
        (NO_OFFSET, "earliest", State.RESET, NO_OFFSET),
        (NO_OFFSET, "none", State.FAILED, 150),
    ],
)
def test_a_new_leader_may_have_less_than_was_read(
    epoch_end: int, reset: str, state: State, offset: int
) -> None:
    assert validate_position(150, epoch_end, reset) == (state, offset)


# --- what is asked ---


def a_partition(state: State, epoch: int = -1, answers: tuple[Question, ...] = ()) -> Partition:
    partition = Partition(Topic("t", UUID(int=1)), 0, 0, 150)
    partition.state, partition.epoch = state, epoch
    if state is State.CHECK:
        row = ReadRow(*[0] * len(ReadRow._fields))
        partition.check = Check(row, by_leader=False, answers=dict.fromkeys(answers, 1))
    return partition


@pytest.mark.parametrize(
    ("partition", "question"),
    [
        (a_partition(State.RESET), RESET),
        (a_partition(State.RESET, 3), RESET),
        (a_partition(State.VALIDATE, 3), EPOCH_END),
        (a_partition(State.CHECK), START),
        (a_partition(State.CHECK, answers=(START,)), END),
        (a_partition(State.CHECK, answers=(START, END)), None),
        (a_partition(State.CHECK, 3), EPOCH_END),
        (a_partition(State.CHECK, 3, (EPOCH_END,)), START),
        (a_partition(State.CHECK, 3, (EPOCH_END, START)), END),
        (a_partition(State.CHECK, 3, (EPOCH_END, START, END)), None),
    ],
)
def test_the_next_question(partition: Partition, question: Question | None) -> None:
    assert next_question(partition) is question


def test_one_that_is_late_asks_for_the_end_and_then_for_what_was_written_meanwhile() -> None:
    partition = a_partition(State.RESET)
    partition.offset, partition.since_ms = NO_OFFSET, 1_700_000_000_000
    assert next_question(partition) is RESET
    partition.offset = 7
    assert next_question(partition) is SINCE


def test_a_partition_begins_at_its_offset_or_asks_where_to() -> None:
    topic = Topic("t", UUID(int=1))
    assert Partition(topic, 0, 0, 7).state is State.READY
    assert Partition(topic, 0, 0, NO_OFFSET).state is State.RESET
