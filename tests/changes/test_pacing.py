"""Which moves go next, and how often progress is told."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kipctl.changes.execution.pacing import ReportInterval, next_moves
from kipctl.changes.plans.plan import Move
from kipctl.cluster.snapshot import PartitionId


def move(number: int, adding: int) -> Move:
    """From broker 1 to 1 and so many others."""
    after = (1, *range(2, 2 + adding))
    return Move(PartitionId("t", number), (1,), after, 1)


@pytest.mark.parametrize(
    ("left", "under_way", "most", "chosen"),
    [
        ([], [], 2, []),
        ([1, 1, 1], [], 2, [0, 1]),
        ([1, 1, 1], [1], 2, [0]),
        ([1, 1, 1], [1, 1], 2, []),
        # What adds nothing costs nothing.
        ([0, 0, 1, 0], [1, 1], 2, [0, 1, 3]),
        # One that is larger than the limit goes alone.
        ([3, 1], [], 2, [0]),
        ([3, 1], [1], 2, []),
        ([3], [0], 2, [0]),
        # Nothing overtakes the one that waits.
        ([1, 2, 1], [], 2, [0]),
    ],
)
def test_which_moves_go_next(
    left: list[int], under_way: list[int], most: int, chosen: list[int]
) -> None:
    moves = [move(number, adding) for number, adding in enumerate(left)]
    others = [move(100 + number, adding) for number, adding in enumerate(under_way)]
    assert [next_move.id.partition for next_move in next_moves(moves, others, most)] == chosen


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 6))
def test_all_go_in_the_end_and_never_too_many(adding: list[int], most: int) -> None:
    left = [move(number, count) for number, count in enumerate(adding)]
    under_way: list[Move] = []
    while left:
        chosen = next_moves(left, under_way, most)
        under_way += chosen
        left = [waiting for waiting in left if waiting not in chosen]
        sizes = [len(moving.adding) for moving in under_way if moving.adding]
        assert sum(sizes) <= most or len(sizes) == 1
        assert chosen or under_way
        under_way = under_way[1:]


def test_progress_is_told_less_often_as_time_goes_by() -> None:
    seldom = ReportInterval()
    told = [tenth / 10 for tenth in range(36_000 * 10) if seldom.is_due(tenth / 10)]
    assert told[:3] == [0.0, 1.0, 2.0]
    assert max(later - earlier for earlier, later in pairwise(told)) < 31
    assert len(told) < 36_000 / 30 + 60


def test_what_takes_long_to_find_out_is_told_less_often() -> None:
    seldom = ReportInterval()
    assert seldom.is_due(0.0, at_least_s=100)
    assert not seldom.is_due(99)
    assert seldom.is_due(100)
