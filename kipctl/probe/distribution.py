"""Exact distributions of whole numbers: nothing is rounded, nothing is estimated."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kipctl.trace.rows import IntRows

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}


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

    def as_ms(self) -> dict[str, float]:
        """mean, p50, p95, p99, p999 and max in milliseconds."""
        shown: dict[str, float] = {"mean": round(self.mean() / 1000, 4)}
        shown |= {name: self.quantile(q) / 1000 for name, q in QUANTILES.items()}
        return shown | {"max": int(self.values[-1]) / 1000 if len(self.values) else 0.0}


def distribution(parts: Iterable[tuple[IntRows, IntRows]]) -> Distribution:
    """Add up (values, counts) pairs; the values need be neither sorted nor unique."""
    values = np.empty(0, dtype=np.int64)
    counts = np.empty(0, dtype=np.int64)
    for more_values, more_counts in parts:
        merged = np.concatenate([values, more_values])
        weights = np.concatenate([counts, more_counts])
        values, where = np.unique(merged, return_inverse=True)
        counts = np.bincount(where, weights=weights, minlength=len(values)).astype(np.int64)
    return Distribution(values, counts)
