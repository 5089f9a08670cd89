"""Whether two arms really differ: windows drawn at random say so, and so do the runs as wholes.

Windows of one run share whatever moved that run, of which the bootstrap over windows knows nothing:
alone it called equal arms different far too often. So the runs are held against one another too,
by Student's t on the logarithm of each run's quantile (what moves a run moves it by a factor).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kipctl.experiments.arms.figures import Figures, together
from kipctl.pipeline.significance import (
    Difference,
    Windows,
    bootstrapped,
    student_p,
    windows,
)

QUANTILE = 0.999
RUN_LEVEL = 0.02
"""Runs as wholes: chance alone would set them so far apart less often than this."""


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
    def runs_p_value(self) -> float | None:
        """How often chance alone would set the runs so far apart; None for one run on a side."""
        return runs_apart(self.without_by_run, self.with_it_by_run)

    @property
    def is_different(self) -> bool | None:
        """Whether chance is ruled out; None where nothing can be told.

        The bootstrap has to say so, no run of one arm may lie among those of the other, and the
        runs have to be further apart than runs of one arm are. Of single runs only the bootstrap
        can tell.
        """
        if self.difference.is_real is None:
            return None
        return self.difference.is_real and not self.runs_overlap and self._runs_differ

    @property
    def _runs_differ(self) -> bool:
        return self.runs_p_value is None or self.runs_p_value < RUN_LEVEL

    @property
    def verdict(self) -> str:
        """In words."""
        if self.is_different is None:
            return "too little to tell"
        if self.is_different:
            return "different"
        if not self.difference.is_real:
            return "not different"
        return "single runs overlap" if self.runs_overlap else "runs vary too much"

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
            "runs_p_value": self.runs_p_value,
            "different": self.is_different,
            "verdict": self.verdict,
        }


def differing(
    without: Sequence[Figures], with_it: Sequence[Figures], q: float = QUANTILE
) -> Differing:
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


def runs_apart(a: Sequence[float], b: Sequence[float]) -> float | None:
    """The two-sided p-value of Student's t-test (equal variances) on the logarithms of two samples.

    None where a sample is of one, or a value is 0 or less.
    """
    if min(len(a), len(b)) < 2 or min(*a, *b) <= 0:
        return None
    logs = [np.log(np.asarray(side, dtype=np.float64)) for side in (a, b)]
    freedom = len(a) + len(b) - 2
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in logs)
    apart = abs(float(logs[0].mean() - logs[1].mean()))
    error = math.sqrt(squares / freedom * (1 / len(a) + 1 / len(b)))
    if not error:
        return 0.0 if apart else 1.0
    return student_p(apart / error, freedom)


def _windows(runs: Sequence[Figures]) -> Windows:
    rows = np.concatenate([run.windows for run in runs])
    of_run = np.repeat(np.arange(len(runs)), [len(run.windows) for run in runs])
    return windows(of_run, rows[:, 0], rows[:, 1], rows[:, 2])
