"""What may be done during a run, and when: none begins when its load is over."""

from itertools import count

import pytest

from kipctl.errors import UsageError
from kipctl.load.actions import Action, ActionKind, Performed, parse_action
from kipctl.load.execute import action_begins_us
from kipctl.probe.schedule import Schedule, Share

START_US = 7_000_000
SECOND = 1_000_000


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("rotate", Action(ActionKind.ROTATE)),
        ("elect", Action(ActionKind.ELECT)),
        ("reassign", Action(ActionKind.REASSIGN)),
        ("restart:2", Action(ActionKind.RESTART, 2)),
    ],
)
def test_actions_are_named_as_they_are_shown(text: str, action: Action) -> None:
    assert parse_action(text) == action
    assert str(action) == text


def test_what_was_done_is_shown_in_milliseconds_since_the_start() -> None:
    done = Performed(Action(ActionKind.ROTATE), START_US + 1_000, START_US + 2_500, 0, 12)
    assert done.as_document(START_US) == {
        "action": "rotate",
        "called_ms": 1.0,
        "answered_ms": 2.5,
        "converged_ms": None,
        "partitions": 12,
        "error": None,
    }


@pytest.mark.parametrize("text", ["", "rotat", "rotate:1", "restart", "restart:", "restart:a"])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no action"):
        parse_action(text)


def prompt(schedule: Schedule, every_s: float) -> list[int]:
    """All actions that begin, in microseconds since the start, if each is over at once."""
    begun: list[int] = []
    free_us = schedule.start_us
    for number in count(1):
        begins_us = action_begins_us(schedule, number, every_s, free_us)
        if begins_us is None:
            return begun
        begun.append(begins_us - schedule.start_us)
        free_us = begins_us
    raise AssertionError


@pytest.mark.parametrize(
    ("records", "rate", "every_s", "begun_s"),
    [
        (50_000, 5000, 5, [5]),  # a multiple of the interval: that at 10 s is none
        (50_002, 5000, 5, [5, 10]),  # the last record is due at 10.0002 s
        (50_001, 5000, 5, [5]),  # at 10 s
        (12_000, 4000, 0.7, [0.7, 1.4, 2.1, 2.8]),
        (12_000, 4000, 3, []),
        (1, 5000, 1, []),
    ],
)
def test_actions_begin_while_records_are_due(
    records: int, rate: float, every_s: float, begun_s: list[float]
) -> None:
    schedule = Schedule(START_US, records, rate)
    assert prompt(schedule, every_s) == [round(at * SECOND) for at in begun_s]


def test_it_is_the_whole_runs_load_that_counts_not_one_workers() -> None:
    for worker in (0, 1):
        assert prompt(Schedule(START_US, 50_000, 5000, Share(worker, 2)), 4) == [
            4 * SECOND,
            8 * SECOND,
        ]


@pytest.mark.parametrize(
    ("free_s", "begins_s"), [(0, 4), (3.9, 4), (4, 4), (4.6, 4.6), (9.9997, 9.9997), (9.9998, None)]
)
def test_an_action_waits_for_the_one_before_it_but_not_beyond_the_load(
    free_s: float, begins_s: float | None
) -> None:
    schedule = Schedule(START_US, 50_000, 5000)
    expected = None if begins_s is None else START_US + round(begins_s * SECOND)
    assert action_begins_us(schedule, 2, 2.0, START_US + round(free_s * SECOND)) == expected


def test_unthrottled_it_is_the_end_of_the_run_alone_that_ends_them() -> None:
    schedule = Schedule(START_US, 10, -1)
    for number in (1, 1000):
        assert action_begins_us(schedule, number, 5, START_US) == START_US + number * 5 * SECOND
