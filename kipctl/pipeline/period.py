"""`--since` and `--before`: a part of a trace, by wall clock or from its start."""

from dataclasses import dataclass
from datetime import UTC, datetime

from kipctl.durations import Duration
from kipctl.errors import UsageError


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
    """From `since` on, and earlier than `before`; None is open."""

    since: Moment | None = None
    before: Moment | None = None

    @property
    def is_by_wall(self) -> bool:
        """Whether it takes a wall clock to say what lies in it."""
        return any(moment.is_wall for moment in (self.since, self.before) if moment)

    def widest(self, first_start_us: int, last_start_us: int) -> "Period":
        """What of runs that started between these wall clocks may lie in it, from their starts."""
        since, before = self.since, self.before
        return Period(
            since and Moment(since.after(last_start_us), is_wall=False),
            before and Moment(before.after(first_start_us), is_wall=False),
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
        if self.before:
            parts.append(f"{column} < {bound(self.before)}")
        return " and ".join(parts) or "true"


ALWAYS = Period()


def parse_period(since: str | None, before: str | None) -> Period:
    """What the two options mean. Raises UsageError, also for a period that is surely empty."""
    period = Period(
        _parse_moment("--since", since) if since else None,
        _parse_moment("--before", before) if before else None,
    )
    begin, end = period.since, period.before
    if begin and end and begin.is_wall == end.is_wall and begin.us >= end.us:
        raise UsageError(f"--since {since} is not earlier than --before {before}: nothing is left.")
    return period


def _parse_moment(option: str, text: str) -> Moment:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            return Moment(Duration.parse(text).us, is_wall=False)
        except UsageError as wrong:
            raise UsageError(
                f"{option}: {wrong.what} Nor is it a time.",
                "For instance: 2026-01-31T12:00:00 (UTC), 2026-01-31T12:00+01:00; 10s after the"
                " start.",
            ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Moment(round(moment.timestamp() * 1e6), is_wall=True)
