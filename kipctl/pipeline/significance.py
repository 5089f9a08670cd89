"""Whether two measurements differ by more than chance: over windows of time, in numpy alone.

Records that are sent close together share their fate, so what is drawn at random is never a record
but a whole window of time (a block). The methods and their sources:

- *Quantiles and means*: the block bootstrap (Efron and Tibshirani, "An Introduction to the
  Bootstrap", 1993, sections 8.6 and 13.3). Windows are drawn with replacement within each run, one
  fewer than there are, which gives the variance its right size where windows are few (Rao and Wu,
  "Resampling inference with complex survey data", JASA 83, 1988); the percentiles are widened from
  the normal to Student's t (Hesterberg, "What teachers should know about the bootstrap", The
  American Statistician 69, 2015).
- *Counts by window*: the Mann-Whitney U test (Mann and Whitney, Annals of Mathematical Statistics
  18, 1947) as a permutation test: U is held against what it comes to when the windows are dealt to
  the sides at random. The usual normal approximation will not do: most windows have no failure and
  no redirect, and with so many ties it calls too much real.

Both take the windows of a run for independent of one another, and say nothing about what another
run on another day would have come to.
"""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

LEVEL = 0.05
"""A difference is called real when chance alone would make one as large less often than this."""
RESAMPLES = 2000
LEAST_WINDOWS = 5
"""On each side: with fewer, nothing can be told from chance."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Difference:
    """How far apart two measurements are, B less A.

    `low` and `high` bound the difference in 95 of 100 such comparisons, in the measure's unit;
    `p_value` is two-sided. `superiority` is the chance that a window of B exceeds one of A, ties
    counted half (0.5: neither). What a method does not give, or what cannot be told, is None.
    """

    p_value: float | None = None
    low: float | None = None
    high: float | None = None
    superiority: float | None = None

    @property
    def is_real(self) -> bool | None:
        """None when it cannot be told."""
        return None if self.p_value is None else self.p_value < LEVEL


@dataclass(frozen=True, slots=True)
class Windows:
    """How often each value occurred in each window of one or more runs.

    `values` ascend, shape (values,); `cumulative[w, v]` counts what in window `w` does not exceed
    value `v`; `run` numbers the run of each window; `sums` is the total of a window's values.
    """

    values: Ints
    cumulative: Ints
    run: Ints
    sums: Ints

    @property
    def count(self) -> int:
        return len(self.run)

    @property
    def degrees_of_freedom(self) -> int:
        return self.count - len(np.unique(self.run))


def windows(run: Ints, window: Ints, value: Ints, count: Ints) -> Windows:
    """Windows from rows in any order: this value occurred so often in that run's window."""
    names, row = np.unique(np.stack([run, window], axis=1), axis=0, return_inverse=True)
    values, column = np.unique(value, return_inverse=True)
    counts = np.zeros((len(names), len(values)), dtype=np.int64)
    np.add.at(counts, (row.reshape(-1), column.reshape(-1)), count)
    return Windows(values, np.cumsum(counts, axis=1), names[:, 0], counts @ values)


def drawn(of: Windows, chance: np.random.Generator, resamples: int = RESAMPLES) -> Ints:
    """How often each window is drawn in each resample, shape (resamples, windows)."""
    draws = np.zeros((resamples, of.count), dtype=np.int64)
    for run in np.unique(of.run):
        mine = np.flatnonzero(of.run == run)
        even = np.full(len(mine), 1 / len(mine))
        draws[:, mine] = chance.multinomial(max(1, len(mine) - 1), even, resamples)
    return draws


def quantiles(of: Windows, draws: Ints, q: float) -> Ints:
    """The nearest-rank quantile of every resample: the least value that q of all do not exceed.

    Every resample is searched by halving at once, so that no distribution is ever written out.
    """
    total = draws @ of.cumulative[:, -1]
    rank = np.maximum(1, np.ceil(np.round(q * total, 6)))
    low = np.zeros(len(draws), dtype=np.int64)
    high = np.full(len(draws), len(of.values) - 1)
    while np.any(low < high):
        middle = (low + high) // 2
        reached = (draws * of.cumulative[:, middle].T).sum(axis=1) >= rank
        high = np.where(reached, middle, high)
        low = np.where(reached, low, np.minimum(middle + 1, high))
    found: Ints = of.values[high]
    return found


def means(of: Windows, draws: Ints) -> Floats:
    """The mean value of every resample."""
    return (draws @ of.sums) / (draws @ of.cumulative[:, -1])


def bootstrapped(a: Windows, b: Windows, q: float | None, seed: int = 0) -> Difference:
    """Compare a quantile (or, with q None, the mean) of B with that of A.

    The p-value is the least level at which the interval leaves zero out; it does not come below
    2 in RESAMPLES. The same windows give the same answer: the draws are seeded. Nothing can be told
    of a side of few windows, nor of one whose every run has a single window: such runs show no
    variation within them.
    """
    if min(a.count, b.count) < LEAST_WINDOWS or not (a.degrees_of_freedom and b.degrees_of_freedom):
        return Difference()
    chance = np.random.default_rng(seed)
    sides = []
    for side in (a, b):
        draws = drawn(side, chance)
        sides.append(means(side, draws) if q is None else quantiles(side, draws, q))
    differences = np.sort(sides[1] - sides[0])
    below = int((differences <= 0).sum())
    above = int((differences >= 0).sum())
    share = 2 * (1 + min(below, above)) / (1 + len(differences))
    freedom = a.degrees_of_freedom + b.degrees_of_freedom
    p_value = 1.0 if share >= 1 else student_p(_NORMAL.inv_cdf(share / 2), freedom)
    tail = _NORMAL.cdf(-student_critical(LEVEL, freedom))
    low, high = np.quantile(differences, [tail, 1 - tail], method="nearest")
    return Difference(p_value, float(low), float(high))


def mann_whitney(a: Ints, b: Ints, seed: int = 0) -> Difference:
    """Compare what windows of B hold with what windows of A hold, by their ranks alone.

    The p-value comes from RESAMPLES deals, and not below 1 in that; the deals are seeded.
    """
    if min(len(a), len(b)) < LEAST_WINDOWS:
        return Difference()
    _, place, ties = np.unique(np.concatenate([a, b]), return_inverse=True, return_counts=True)
    # Twice the rank, so that it is whole: equal values share the mean of their ranks.
    ranks = 2 * np.cumsum(ties) - ties + 1
    of_b = np.bincount(place.reshape(-1)[len(a) :], minlength=len(ties))
    middle = len(b) * (len(a) + len(b) + 1)
    distance = abs(int(of_b @ ranks) - middle)
    dealt = np.random.default_rng(seed).multivariate_hypergeometric(ties, len(b), RESAMPLES)
    as_far = int((np.abs(dealt @ ranks - middle) >= distance).sum())
    u = (int(of_b @ ranks) - len(b) * (len(b) + 1)) / 2
    return Difference((1 + as_far) / (1 + RESAMPLES), superiority=u / (len(a) * len(b)))


def student_p(t: float, freedom: int) -> float:
    """The chance that Student's t with so many (whole) degrees of freedom is as far from 0.

    Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
    """
    angle = math.atan(abs(t) / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom == 1:
        return 1 - 2 * angle / math.pi
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term
    for k in range(2 if odd else 1, freedom - 2, 2):
        term *= cosine * cosine * k / (k + 1)
        total += term
    within = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return max(0.0, 1 - within)


def student_critical(level: float, freedom: int) -> float:
    """The t that is exceeded, on either side, with this chance."""
    low, high = 0.0, 1.0
    while student_p(high, freedom) > level:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > level else (low, middle)
    return high
