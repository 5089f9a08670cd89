"""Of which times there is a log of which broker, from the spans of its files."""

from datetime import UTC, datetime

import pytest

from kipctl.pipeline.request_log.coverage import (
    Logged,
    SlotOfFile,
    Turn,
    hours_apart,
    logged_by,
    may_turn,
    turned,
)
from kipctl.pipeline.request_log.places import Place, Seen

MINUTE = 60_000_000


def test_files_of_a_broker_follow_each_other_or_leave_a_gap() -> None:
    spans = {"a": (0, 5), "b": (5, 9), "c": (12, 20), "d": (13, 14), "no time": (-1, -1)}
    seen = [
        Seen(file, "h:1", lines=10, first_us=first * MINUTE, last_us=last * MINUTE)
        for file, (first, last) in spans.items()
    ]
    places = [Place(file, "h:1", "c", 1) for file in spans]
    places[0] = Place("a", "h:1", "c", None)
    logged = logged_by(seen, places)
    assert logged["c", "h:1"] == Logged(10, ((0, 5 * MINUTE),))
    own = logged["c", 1]
    assert own == Logged(40, ((5 * MINUTE, 9 * MINUTE), (12 * MINUTE, 20 * MINUTE)))
    assert own.gaps == ((9 * MINUTE, 12 * MINUTE),)
    assert own.minutes == 12


def test_hours_apart_are_those_of_a_log_as_a_whole() -> None:
    def of(start: float, end: float) -> Logged:
        return Logged(1, ((round(start * MINUTE), round(end * MINUTE)),))

    usual: dict[int | str, Logged] = {1: of(0, 10), 2: of(0.5, 10.5)}
    assert hours_apart(usual) == {}
    assert hours_apart({**usual, 3: of(60, 70)}) == {3: 1}
    assert hours_apart({**usual, 3: of(-330, -320)}) == {3: -5.5}
    # It was kept for longer.
    assert hours_apart({**usual, 3: of(-60, 10)}) == {}
    assert hours_apart({1: of(0, 10)}) == {}


@pytest.mark.parametrize(
    ("day", "may"),
    [
        ("2026-10-25", True),  # Europe
        ("2026-11-01", True),  # North America
        ("2026-04-05", True),  # Australia
        ("2026-09-08", False),
        ("2026-12-24", False),
    ],
)
def test_clocks_are_turned_on_few_days(day: str, may: bool) -> None:
    first_us = int(datetime.fromisoformat(f"{day}T02:00").replace(tzinfo=UTC).timestamp() * 1e6)
    assert may_turn(first_us, first_us + 10 * MINUTE) is may


def told(*minutes: float) -> Turn | None:
    """Of a file with a line at each of these minutes, in this order."""
    slots: dict[int, list[tuple[int, int]]] = {}
    for line, minute in enumerate(minutes):
        slots.setdefault(int(minute // 10), []).append((round(minute * MINUTE), line))
    return turned(
        SlotOfFile(min(slot)[0], max(slot)[0], (0, slot[0][1]), (0, slot[-1][1]))
        for slot in slots.values()
    )


@pytest.mark.parametrize(
    ("minutes", "turn"),
    [
        (range(180), None),
        ([*range(180), *range(120, 240)], Turn(179 * MINUTE)),
        ([*range(175, 180), *range(120, 125)], Turn(179 * MINUTE)),
        # Written by several threads, a line may be older than the one before it.
        ([0, 1, 0.9, 9.99, 10.01, 9.995, 11], None),
        ([*range(120), *range(179, 240)], Turn(119 * MINUTE, is_forward=True)),
        ([*range(120), *range(170, 240)], None),
        ([], None),
    ],
)
def test_where_clocks_were_turned_is_seen_in_a_file(
    minutes: list[float], turn: Turn | None
) -> None:
    assert told(*minutes) == turn
