"""Whether two arms really differ: windows drawn at random say so, and no single run disagrees."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kipctl.experiments.felt import Felt, together
from kipctl.pipeline.significance import Difference, Windows, bootstrapped, windows

QUANTILE = 0.999


@dataclass(frozen=True, slots=True)
class Differing:
    """A quantile of one arm beside that of another, in milliseconds."""

    without: float
    with_it: float
    without_by_run: tuple[float, ...]
    with_it_by_run: tuple[float, ...]
    difference: Difference

    @property
    def cut_percent(self) -> float | None:
        """By how much the second is below the first, of the first; None where that is 0."""
        return 100 * (1 - self.with_it / self.without) if self.without else None

    @property
    def runs_overlap(self) -> bool | None:
        """Whether a single run of one lies among those of the other; None for one run each."""
        a, b = self.without_by_run, self.with_it_by_run
        if min(len(a), len(b)) < 2:
            return None
        return min(a) <= max(b) and min(b) <= max(a)

    @property
    def is_different(self) -> bool | None:
        """Whether chance is ruled out; None where nothing can be told.

        The bootstrap has to say so, and no run of one arm may lie among those of the other: the
        bootstrap takes windows for independent, and knows nothing of what moves a whole run.
        """
        if self.difference.is_real is None:
            return None
        return self.difference.is_real and not self.runs_overlap

    @property
    def verdict(self) -> str:
        """In words."""
        if self.is_different is None:
            return "too little to tell"
        if self.is_different:
            return "different"
        return "single runs overlap" if self.difference.is_real else "not different"

    def as_document(self) -> dict[str, Any]:
        """For JSON; the interval is of the difference, second less first."""
        found = self.difference
        return {
            "without_ms": self.without,
            "with_ms": self.with_it,
            "without_by_run_ms": list(self.without_by_run),
            "with_by_run_ms": list(self.with_it_by_run),
            "cut_percent": self.cut_percent,
            "interval_ms": None if found.low is None else [found.low, found.high],
            "p_value": found.p_value,
            "runs_overlap": self.runs_overlap,
            "different": self.is_different,
            "verdict": self.verdict,
        }


def differing(without: Sequence[Felt], with_it: Sequence[Felt], q: float = QUANTILE) -> Differing:
    """Compare a quantile of record latency between the runs of two arms; each has at least one."""
    found = bootstrapped(_windows(without), _windows(with_it), q)
    if found.low is not None and found.high is not None:
        found = Difference(found.p_value, found.low / 1000, found.high / 1000)
    return Differing(
        together(without).latency.quantile(q) / 1000,
        together(with_it).latency.quantile(q) / 1000,
        tuple(run.latency.quantile(q) / 1000 for run in without),
        tuple(run.latency.quantile(q) / 1000 for run in with_it),
        found,
    )


def _windows(runs: Sequence[Felt]) -> Windows:
    rows = np.concatenate([run.windows for run in runs])
    of_run = np.repeat(np.arange(len(runs)), [len(run.windows) for run in runs])
    return windows(of_run, rows[:, 0], rows[:, 1], rows[:, 2])
