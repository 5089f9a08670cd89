"""Exact distributions of whole numbers: nothing is rounded, nothing is estimated."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kipctl.documents.common import Latency
from kipctl.trace.rows import IntRows

_MOST_NEW = 1 << 20
"""Values that are kept until they are counted together."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often each value (microseconds, ascending) occurred. Exact: nothing is rounded."""

    values: IntRows
    counts: IntRows

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def quantile(self, q: float) -> int:
        """The nearest-rank quantile: the least value that q of all do not exceed; 0 if empty."""
        if not len(self.values):
            return 0
        cumulative = np.cumsum(self.counts)
        rank = max(1, int(np.ceil(round(q * int(cumulative[-1]), 6))))
        return int(self.values[np.searchsorted(cumulative, rank)])

    def mean(self) -> float:
        return float(np.average(self.values, weights=self.counts)) if len(self.values) else 0.0

    def as_ms(self) -> Latency:
        """In milliseconds."""
        p50, p95, p99, p999 = (self.quantile(q) / 1000 for q in (0.5, 0.95, 0.99, 0.999))
        return {
            "mean": round(self.mean() / 1000, 4),
            "p50": p50,
            "p95": p95,
            "p99": p99,
            "p999": p999,
            "max": self.quantile(1) / 1000,
        }


class Counting:
    """A distribution that grows: its memory is that of its distinct values, not of all."""

    def __init__(self) -> None:
        self._values = np.empty(0, dtype=np.int64)
        self._counts = np.empty(0, dtype=np.int64)
        self._new: list[tuple[IntRows, IntRows]] = []
        self._new_size = 0

    def add(self, values: IntRows, counts: IntRows | None = None) -> None:
        """Count values, each once or so often; they need be neither sorted nor unique."""
        self._new.append((values, np.ones(len(values), np.int64) if counts is None else counts))
        self._new_size += len(values)
        if self._new_size > _MOST_NEW:
            self._merge()

    def _merge(self) -> None:
        merged = np.concatenate([self._values, *(values for values, _ in self._new)])
        weights = np.concatenate([self._counts, *(counts for _, counts in self._new)])
        self._values, where = np.unique(merged, return_inverse=True)
        sums = np.bincount(where, weights=weights, minlength=len(self._values))
        self._counts = sums.astype(np.int64)
        self._new, self._new_size = [], 0

    @property
    def distribution(self) -> Distribution:
        """Of all that was counted."""
        if self._new:
            self._merge()
        return Distribution(self._values, self._counts)


def three_digits(values: IntRows) -> IntRows:
    """The values (0 or more), rounded down to three digits: few are distinct, however many there
    are."""
    step = 10 ** np.maximum(np.floor(np.log10(np.maximum(values, 1))).astype(np.int64) - 2, 0)
    rounded: IntRows = values - values % step
    return rounded


def distribution_of(values: IntRows) -> Distribution:
    """Of values that need be neither sorted nor unique."""
    return Distribution(*np.unique(values, return_counts=True))


def distribution(parts: Iterable[tuple[IntRows, IntRows]]) -> Distribution:
    """Add up (values, counts) pairs; the values need be neither sorted nor unique."""
    counting = Counting()
    for values, counts in parts:
        counting.add(values, counts)
    return counting.distribution
