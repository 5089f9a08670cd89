"""The clock of every time that is recorded."""

import time


def now_us() -> int:
    """Microseconds on the monotonic clock, which all processes of a machine share."""
    return time.monotonic_ns() // 1000
