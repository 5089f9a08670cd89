"""Times, counted by their length: to 3 %, in as many counters as there are lengths."""

from collections import Counter

_DIGITS = 6
"""Binary ones that are kept of a time."""


class Times:
    """Counts times in microseconds. `add` notes one; that is all a request pays for it."""

    __slots__ = ("_counts", "_most_us", "add", "new")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._most_us = 0
        self.new: list[int] = []
        self.add = self.new.append

    def count(self) -> Counter[int]:
        """Count those that were added; call it often, as they are kept until then."""
        for us in self.new:
            shift = max(0, us.bit_length() - _DIGITS)
            self._counts[us >> shift << shift] += 1
        self._most_us = max(self._most_us, *self.new, 0)
        self.new.clear()
        return self._counts

    @property
    def summary(self) -> tuple[int, int, int, int]:
        """How many, p50 and p99 (nearest ranks, 0 of none) and the longest."""
        counts = sorted(self.count().items())
        total = sum(times for _, times in counts)
        return total, _at(counts, 0.5 * total), _at(counts, 0.99 * total), self._most_us


def _at(counts: list[tuple[int, int]], rank: float) -> int:
    for us, times in counts:
        rank -= times
        if rank <= 0:
            return us
    return 0
