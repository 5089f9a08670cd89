"""`--since` and `--until`: a part of a trace, by wall clock or from its start."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from kipctl.errors import UsageError

_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_S = 36_525 * 86400
"""A century: microseconds since the epoch fit into 64 bits many times over."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time: microseconds after a start, or (`is_wall`) since the Unix epoch."""

    us: int
    is_wall: bool

    def after(self, start_wall_us: int) -> int:
        """Microseconds after a start whose wall clock is known."""
        return self.us - start_wall_us if self.is_wall else self.us


@dataclass(frozen=True, slots=True)
class Period:
    """From `since` on and before `until`; None is open."""

    since: Moment | None = None
    until: Moment | None = None

    @property
    def is_by_wall(self) -> bool:
        """Whether it takes a wall clock to say what lies in it."""
        return any(moment.is_wall for moment in (self.since, self.until) if moment)

    def widest(self, first_start_us: int, last_start_us: int) -> "Period":
        """What of runs that started between these wall clocks may lie in it, from their starts."""
        since, until = self.since, self.until
        return Period(
            since and Moment(since.after(last_start_us), is_wall=False),
            until and Moment(until.after(first_start_us), is_wall=False),
        )

    def condition(self, column: str, start_wall_us: int | str) -> str:
        """A SQL condition on a column of microseconds after a start; "true" when all is open.

        The start's wall clock is a number, or the name of a column.
        """

        def bound(moment: Moment) -> str:
            if isinstance(start_wall_us, str):
                return f"{moment.us}L - {start_wall_us}" if moment.is_wall else f"{moment.us}L"
            return f"{moment.after(start_wall_us)}L"

        parts = []
        if self.since:
            parts.append(f"{column} >= {bound(self.since)}")
        if self.until:
            parts.append(f"{column} < {bound(self.until)}")
        return " and ".join(parts) or "true"


def parse_period(since: str | None, until: str | None) -> Period:
    """What the two options mean. Raises UsageError, also for a period that is surely empty."""
    period = Period(
        _parse_moment("--since", since) if since else None,
        _parse_moment("--until", until) if until else None,
    )
    begin, end = period.since, period.until
    if begin and end and begin.is_wall == end.is_wall and begin.us >= end.us:
        raise UsageError(f"--since {since} is not before --until {until}: nothing is between them.")
    return period


def duration_us(option: str, text: str) -> int:
    """A duration such as 500ms, 10s, 1m30s, in microseconds. Raises UsageError."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UsageError(f"{option} {text!r} is no duration.", "For instance: 500ms, 10s, 1m30s.")
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in parts)
    if seconds > _LONGEST_S:
        raise UsageError(f"{option} {text}: a duration is a century at most.")
    return round(seconds * 1e6)


def _parse_moment(option: str, text: str) -> Moment:
    if _DURATION.match(text):
        return Moment(duration_us(option, text), is_wall=False)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is neither a time nor a duration.",
            "For instance: 2026-01-31T12:00:00 (UTC), 2026-01-31T12:00+01:00; 10s after the start.",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Moment(round(moment.timestamp() * 1e6), is_wall=True)
