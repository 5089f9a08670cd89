"""When a line was written, by what stands before the request."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from kipctl.pipeline.request_lines.envelope import LAST_EPOCH, TIME

_LAST_TIME = re.compile(rf"(?s).*({TIME})".encode())
"""An envelope's own time stands before the line's."""
_PARTS = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
    rb"(?: ?([+-])(\d\d):?(\d\d)?|(Z))?"
)
_LAST_EPOCH = re.compile(LAST_EPOCH.encode())
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FARTHEST_OFFSET = timedelta(hours=18)
"""Java knows none beyond."""


def moment_us(stamp: bytes, zone: tzinfo) -> int | None:
    """The time in `stamp`, in microseconds since the epoch; None if none is recognised.

    Of several it is the last. `zone` is that of times without an offset from UTC; an hour that
    comes twice, as clocks are put back, is taken for the first one.
    """
    if written := _LAST_TIME.match(stamp):
        return _us_of(written[1], zone)
    if epoch := _LAST_EPOCH.match(stamp):
        digits = re.sub(rb"[.,]", b"", epoch[1])
        return int(digits[:16].ljust(16, b"0"))
    return None


def _us_of(time: bytes, zone: tzinfo) -> int | None:
    parts = _PARTS.fullmatch(time)
    if not parts:
        return None
    *whole, fraction, sign, hours, minutes, utc = parts.groups()
    if sign:
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if offset > _FARTHEST_OFFSET:
            return None
        zone = timezone(offset if sign == b"+" else -offset)
    year, month, day, hour, minute, second = map(int, whole)
    own = UTC if utc else zone
    try:
        seconds = datetime(year, month, day, hour, minute, second, tzinfo=own) - _EPOCH
    except (ValueError, OverflowError):
        return None
    us = int((fraction or b"")[:6].ljust(6, b"0"))
    return (seconds.days * 86_400 + seconds.seconds) * 1_000_000 + us


def zone_named(name: str) -> tzinfo:
    """The zone: a name of the time zone database, or an offset from UTC as `+02:00`."""
    offset = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?", name)
    if offset:
        sign, hours, minutes, seconds = offset.groups()
        at = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        return timezone(at if sign == "+" else -at)
    return UTC if name in ("UTC", "Z") else ZoneInfo(name)
