"""How long something took, counted for days: in Prometheus' buckets, and to three digits.

Memory is that of the distinct values, of which three digits leave some thousand.
"""

import numpy as np

from kipctl.measure.distribution import Counting, Distribution, three_digits
from kipctl.trace.rows import IntRows

BUCKETS_US = tuple(1000 << doubled for doubled in range(17))
"""The upper bounds of the buckets, in microseconds: 1 ms, and twice the one before, to 65.536 s."""
_EDGES = np.array(BUCKETS_US)


class TimeHistogram:
    """Times in microseconds; one below 0 (clocks that differ) counts as 0. Those of a run that has
    an end may be `exact`."""

    def __init__(self, exact: bool = False) -> None:
        self._is_exact = exact
        self._counts = np.zeros(len(BUCKETS_US) + 1, dtype=np.int64)
        self._values = Counting()
        self.sum_us = 0

    def add(self, times_us: IntRows, counts: IntRows | None = None) -> None:
        """Count times, each once or so often."""
        times = np.maximum(times_us, 0)
        weights = np.ones(len(times), dtype=np.int64) if counts is None else counts
        np.add.at(self._counts, np.searchsorted(_EDGES, times, side="left"), weights)
        self.sum_us += int((times * weights).sum())
        self._values.add(times if self._is_exact else three_digits(times), weights)
        if not self._is_exact:
            _ = self._values.distribution  # counted at once: what is kept does not grow

    @property
    def cumulative(self) -> list[int]:
        """How many took no longer than each of BUCKETS_US; the last number is that of all."""
        return [int(count) for count in np.cumsum(self._counts)]

    @property
    def distribution(self) -> Distribution:
        """The values, rounded down to three digits unless they are exact."""
        return self._values.distribution
