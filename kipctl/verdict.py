"""The one verdict: do two sides of repeated runs differ by more than runs of one side do?

What varies is a run: records, batches and seconds of one run share whatever moved that run, so
they are not independent, and no number of them makes one run two. A measure is therefore a single
value of each run, and the values of both sides are held against one another by Student's t-test
with equal variances:

- of times and rates on their logarithms, as what moves a run moves it by a factor. What is printed
  of a side is then its geometric mean, and the 95 % interval is of the ratio B / A;
- of counts on Anscombe's roots, `sqrt(x + 3/8)`, whose variance is 1/4 when events come one by one,
  and more when they come in bursts (Anscombe, "The transformation of Poisson, binomial and
  negative-binomial data", Biometrika 35, 1948).

A few runs may agree by accident. So their variance is never taken for less than that of counts
that come one by one, or than that of times and rates that vary by 1 %, or that were rounded to
their resolution (a twelfth of its square); and with fewer than three runs on a side nothing is
told.

Where several measures are asked at once, chance has as many tries: their p-values are adjusted by
Holm's step-down method ("A simple sequentially rejective multiple test procedure", Scandinavian
Journal of Statistics 6, 1979).

How often equal runs are called different, and what is found, is in `benchmarks/verdicts.py`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from kipctl.documents.common import VerdictFigures

K = TypeVar("K")

LEVEL = 0.05
"""Chance alone would make a difference as large less often than this."""
LEAST_RUNS = 3
"""On each side. One shows nothing of how runs vary; of two, both may have had a stall, and neither
of the others: equal runs with stalls would be called different in 1 of 10 comparisons."""
ENOUGH_RUNS = 5
"""On each side. Of fewer all may have had a stall that none of the other side had: where half of
the runs have one, three equal runs a side are called different in 1 of 10 comparisons of seven
measures, five in 1 of 20 (`benchmarks/verdicts.py`)."""
_FEW = ("no run", "one run", "two runs")
_LEAST_RATIO_VARIANCE = 0.01**2
_LEAST_COUNT_VARIANCE = 1 / 4


class Scale(StrEnum):
    """What a measure's values are."""

    RATIO = "ratio"
    """Times and rates, above 0."""
    COUNT = "count"
    """Events of a run, from 0."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether side B differs from side A.

    `p_value` is two-sided, `adjusted` the same after Holm's method over what was asked with it.
    `low` and `high` bound the ratio B / A in 95 of 100 such comparisons; None of counts. With None
    for `p_value` it cannot be told, and `reason` says why. `runs` there were on the side that has
    fewer.
    """

    p_value: float | None = None
    adjusted: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""
    runs: int = 0

    @property
    def is_different(self) -> bool | None:
        """Among all that was asked at once; None when it cannot be told."""
        return None if self.adjusted is None else self.adjusted < LEVEL

    @property
    def is_different_alone(self) -> bool | None:
        """Asked for by itself, before anything was seen, as a gate does."""
        return None if self.p_value is None else self.p_value < LEVEL

    @property
    def text(self) -> str:
        """In words."""
        if self.is_different is None:
            return f"cannot be told: {self.reason}"
        return "different" if self.is_different else "not different"

    def as_document(self) -> VerdictFigures:
        """For JSON."""
        return {
            "p_value": self.p_value,
            "p_adjusted": self.adjusted,
            "ratio_interval": None
            if self.low is None or self.high is None
            else [self.low, self.high],
            "different": self.is_different,
            "verdict": self.text,
            "runs_a_side": self.runs,
        }


def middle(values: Sequence[float], scale: Scale, resolution: float = 0.0) -> float | None:
    """What is printed of a side: the geometric mean of its runs, of counts their mean."""
    if not values:
        return None
    if scale is Scale.COUNT:
        return math.fsum(values) / len(values)
    if min(values) <= 0 and not resolution:
        return None
    if not any(values):
        return 0.0
    logs = (math.log(value + resolution) for value in values)
    return max(0.0, math.exp(math.fsum(logs) / len(values)) - resolution)


def compare(
    a: Sequence[float | None],
    b: Sequence[float | None],
    scale: Scale,
    resolution: float = 0.0,
) -> Verdict:
    """Compare a measure's values, one of each run, asked for by itself (`adjusted` is `p_value`).

    `resolution` is the step that values of RATIO are taken to be rounded to, in their unit: sides
    that are less than some tenths of it apart are not told apart, however alike their runs are. It
    is added to each value, so that 0 is one too.
    """
    if (fewest := min(len(a), len(b))) < LEAST_RUNS:
        return Verdict(reason=f"{_FEW[fewest]} on a side, {LEAST_RUNS} are needed", runs=fewest)
    if None in a or None in b:
        return Verdict(reason="a run has no value", runs=fewest)
    known_a, known_b = ([value for value in side if value is not None] for side in (a, b))
    if scale is Scale.RATIO and min(*known_a, *known_b) + resolution <= 0:
        return Verdict(reason="a run has the value 0", runs=fewest)
    transform, least_variance = _scales(resolution)[scale]
    logs_a, logs_b = ([transform(value) for value in side] for side in (known_a, known_b))
    if scale is Scale.RATIO:
        # What an error of the value does to its logarithm, where both sides' values are.
        step = resolution / math.exp((_mean(logs_a) + _mean(logs_b)) / 2)
        least_variance = max(least_variance, step**2 / 12)
    freedom = len(logs_a) + len(logs_b) - 2
    variance = max((_squares(logs_a) + _squares(logs_b)) / freedom, least_variance)
    error = math.sqrt(variance * (1 / len(logs_a) + 1 / len(logs_b)))
    apart = _mean(logs_b) - _mean(logs_a)
    p_value = student_p(apart / error, freedom)
    if scale is Scale.COUNT:
        return Verdict(p_value, p_value, runs=fewest)
    reach = student_critical(LEVEL, freedom) * error
    low, high = math.exp(apart - reach), math.exp(apart + reach)
    return Verdict(p_value, p_value, low, high, runs=fewest)


def adjusted(verdicts: Mapping[K, Verdict]) -> dict[K, Verdict]:
    """The same verdicts, as answers to questions that were asked at once (Holm's method)."""
    asked = verdicts.items()
    known = [(verdict.p_value, key) for key, verdict in asked if verdict.p_value is not None]
    result, highest = dict(verdicts), 0.0
    for place, (p_value, key) in enumerate(sorted(known, key=lambda pair: pair[0])):
        highest = max(highest, min(1.0, (len(known) - place) * p_value))
        result[key] = replace(verdicts[key], adjusted=highest)
    return result


def _scales(resolution: float) -> Mapping[Scale, tuple[Callable[[float], float], float]]:
    """What a value is transformed by, and the least variance of what comes of it."""
    return {
        Scale.RATIO: (lambda value: math.log(value + resolution), _LEAST_RATIO_VARIANCE),
        Scale.COUNT: (lambda value: math.sqrt(value + 3 / 8), _LEAST_COUNT_VARIANCE),
    }


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)


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
