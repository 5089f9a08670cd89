"""The gain curve: what leader hints save, by how stale Metadata is. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from kipctl.documents.gain_curve import Saved as SavedDocument
from kipctl.experiments.arms.arm import Arm, pairs

STALENESS_MS = (0, 100, 300, 1000)
"""Where the curve is measured."""

Line = tuple[tuple[float, float], ...]
"""Of one arm: (staleness, wait for a moved leader), both in milliseconds, ascending."""


@dataclass(frozen=True, slots=True)
class Read:
    """What was read off a line; `beyond`: it ends before, and its last value stands."""

    wait_ms: float
    beyond: bool


def read_off(line: Line, staleness_ms: float) -> Read:
    """The wait at a staleness, straight between the points that were measured.

    Outside of them the nearest one stands: nothing is extended. The line has at least one point.
    """
    first, last = line[0], line[-1]
    if staleness_ms <= first[0]:
        return Read(first[1], staleness_ms < first[0])
    for (left, low), (right, high) in pairwise(line):
        if staleness_ms <= right:
            return Read(low + (high - low) * (staleness_ms - left) / (right - left), False)
    return Read(last[1], staleness_ms > last[0])


@dataclass(frozen=True, slots=True)
class Saved:
    """What the hints of one arm save against another at a staleness: milliseconds of the wait."""

    without: str
    with_hints: str
    staleness_ms: float
    without_ms: float
    with_ms: float
    beyond: bool

    @property
    def saved_ms(self) -> float:
        return self.without_ms - self.with_ms

    @property
    def cut_percent(self) -> float | None:
        return 100 * self.saved_ms / self.without_ms if self.without_ms else None

    def as_document(self) -> SavedDocument:
        """For JSON."""
        return {
            "without": self.without,
            "with": self.with_hints,
            "stale_metadata_ms": self.staleness_ms,
            "without_ms": self.without_ms,
            "with_ms": self.with_ms,
            "saved_ms": self.saved_ms,
            "cut_percent": self.cut_percent,
            "beyond_the_curve": self.beyond,
        }


def hinted_pairs(arms: Sequence[Arm]) -> tuple[tuple[Arm, Arm], ...]:
    """The pairs of arms that show what hints do: (without, with)."""
    return tuple(pair for pair in pairs(arms) if pair[1].takes_hints)


def saved(lines: Mapping[str, Line], arms: Sequence[Arm], staleness_ms: float) -> tuple[Saved, ...]:
    """What hints save at a staleness, for every pair of arms that has both lines."""
    savings = []
    for without, with_it in hinted_pairs(arms):
        if without.name in lines and with_it.name in lines:
            a = read_off(lines[without.name], staleness_ms)
            b = read_off(lines[with_it.name], staleness_ms)
            savings.append(
                Saved(
                    without.name,
                    with_it.name,
                    staleness_ms,
                    a.wait_ms,
                    b.wait_ms,
                    a.beyond or b.beyond,
                )
            )
    return tuple(savings)


def behind_ms(times_us: Sequence[int]) -> dict[str, float]:
    """How long brokers' Metadata were behind the first that knew: p50, p99 and max, nearest rank.

    Of no times, which is a cluster of which nothing was seen, nothing.
    """
    ascending = sorted(times_us)
    ranks = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {
        name: ascending[ceil(q * len(ascending)) - 1] / 1000
        for name, q in ranks.items()
        if ascending
    }
