"""Of which times there is a log of which broker: what is not in it, was not seen."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from statistics import median_low
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from kipctl.pipeline.request_log.places import Place, Seen

GAP_US = 60_000_000
"""A broker answers more often: its followers ask twice a second. So long between two of its files
is a file that is missing, or a time when it logged nothing."""
_HALF_HOUR_US = 1_800_000_000
_NEAR_US = 120_000_000
_HOUR_US = 3_600_000_000
_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Logged:
    """What there is of a broker's log: its lines, and from when to when (microseconds since the
    epoch) without a gap of GAP_US between its files."""

    lines: int
    times: tuple[tuple[int, int], ...]

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """From when to when there is nothing, in between."""
        return tuple((before[1], after[0]) for before, after in pairwise(self.times))

    @property
    def minutes(self) -> float | None:
        """How long it lasts, without the gaps; None if that is no time."""
        lasts = sum(end - start for start, end in self.times)
        return lasts / 60e6 if lasts else None


def logged_by(
    seen: Sequence[Seen], places: Sequence[Place]
) -> dict[tuple[str | None, int | str], Logged]:
    """By cluster and broker, or by cluster and address where the broker is not known."""
    by_broker: dict[tuple[str | None, int | str], list[Seen]] = defaultdict(list)
    for source, at in zip(seen, places, strict=True):
        by_broker[at.cluster, source.address if at.broker is None else at.broker].append(source)
    return {key: _logged(sources) for key, sources in by_broker.items()}


def _logged(seen: Iterable[Seen]) -> Logged:
    times: list[tuple[int, int]] = []
    lines = 0
    for start, end, count in sorted(
        (source.first_us, source.last_us, source.lines) for source in seen
    ):
        lines += count
        if start < 0:
            continue
        if times and start - times[-1][1] < GAP_US:
            times[-1] = (times[-1][0], max(times[-1][1], end))
        else:
            times.append((start, end))
    return Logged(lines, tuple(times))


def hours_apart(logged: Mapping[int | str, Logged]) -> dict[int | str, float]:
    """Brokers whose logs begin and end so many hours (whole or half ones) later than those of most
    others: a zone that was not named, or daylight saving time."""
    periods = ((broker, own.times) for broker, own in logged.items() if own.times)
    spans = {broker: (times[0][0], times[-1][1]) for broker, times in periods}
    if len(spans) < 2:
        return {}
    first, last = (median_low([span[end] for span in spans.values()]) for end in (0, 1))
    hours = {}
    for broker, (start, end) in spans.items():
        halves = round((start - first) / _HALF_HOUR_US)
        apart = [
            abs(at - usual - halves * _HALF_HOUR_US) for at, usual in ((start, first), (end, last))
        ]
        if halves and max(apart) < _NEAR_US:
            hours[broker] = halves / 2
    return hours


class SlotOfFile(NamedTuple):
    """The requests of a file that were answered, by its clock, within TURN_SLOT_US."""

    first_us: int
    last_us: int
    first_at: tuple[int, int]
    """Where in the file: anything that grows from line to line."""
    last_at: tuple[int, int]


class Turn(NamedTuple):
    """Times of a file go back by about an hour after `at_us`, or leave one out (`is_forward`)."""

    at_us: int
    is_forward: bool = False


def may_turn(first_us: int, last_us: int) -> bool:
    """Whether clocks are turned anywhere about then, for daylight saving time."""
    return _may_turn(first_us // _DAY_US - 1, last_us // _DAY_US + 2)


@cache
def _may_turn(first: int, last: int) -> bool:
    """From one day to another, since the epoch."""
    days = [datetime.fromtimestamp(day * 86400, UTC) for day in range(first, last + 1)]
    zones = (ZoneInfo(name) for name in sorted(available_timezones()))
    return any(len({day.astimezone(zone).utcoffset() for day in days}) > 1 for zone in zones)


def turned(slots: Iterable[SlotOfFile]) -> Turn | None:
    """Where the times of a file go back: something much later by its clock stands before it; or
    where just an hour is left out, in which a broker's followers would have asked for data."""
    in_time = sorted(slots)
    passed, furthest, back_us = 0, (-1, -1), -1
    for slot in in_time:
        while slot.first_us - in_time[passed].last_us >= _HALF_HOUR_US // 2:
            furthest = max(furthest, in_time[passed].last_at)
            passed += 1
        if slot.first_at < furthest:
            back_us = slot.last_us
    if back_us >= 0:
        return Turn(back_us)
    for before, after in pairwise(in_time):
        if abs(after.first_us - before.last_us - _HOUR_US) < GAP_US:
            return Turn(before.last_us, is_forward=True)
    return None
