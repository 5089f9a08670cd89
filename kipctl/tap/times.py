"""Times, counted by their length: to 3 %, in as many counters as there are lengths."""

from collections import Counter

_DIGITS = 6
"""Binary ones that are kept of a time."""


class Times:
    """Counts times in microseconds."""

    __slots__ = ("counts", "most_us")

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.most_us = 0

    def add(self, us: int) -> None:
        """Count one; adding is all that a request through the tap pays for it."""
        shift = us.bit_length() - _DIGITS
        self.counts[us >> shift << shift if shift > 0 else us] += 1
        if us > self.most_us:
            self.most_us = us

    def quantile_us(self, q: float) -> int:
        """The nearest rank; 0 of none."""
        missing = q * self.counts.total()
        for us, times in sorted(self.counts.items()):
            missing -= times
            if missing <= 0:
                return us
        return 0

    @property
    def summary(self) -> tuple[int, int, int, int]:
        """How many, p50, p99 and the longest."""
        p50, p99 = (self.quantile_us(q) for q in (0.5, 0.99))
        return self.counts.total(), p50, p99, self.most_us
