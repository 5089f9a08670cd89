"""The clock of every time that is recorded, and what the wall clock shows then."""

import time
from datetime import UTC, datetime


def now_us() -> int:
    """Microseconds on the monotonic clock, which all processes of a machine share."""
    return time.monotonic_ns() // 1000


def wall_time(epoch_us: int) -> str:
    """ISO 8601 in UTC, to the microsecond."""
    return datetime.fromtimestamp(epoch_us / 1e6, UTC).isoformat(timespec="microseconds")
