"""Two arms beside each other: one value of each run, and the one verdict (`kipctl.verdict`)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kipctl.documents.experiments import ComparedArms
from kipctl.verdict import Scale, Verdict, compare, middle
from kipctl.verdict import adjusted as holm

RESOLUTION_MS = 0.1
"""Sides that are some hundredths of a millisecond apart are not called different."""
Values = Sequence[float | None]
"""Milliseconds, one of each run; None of one that has none."""


@dataclass(frozen=True, slots=True)
class Differing:
    """A time of one arm beside that of another, in milliseconds, by their runs."""

    without_by_run: tuple[float | None, ...]
    with_it_by_run: tuple[float | None, ...]
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def without(self) -> float | None:
        """The geometric mean of the first arm's runs; None where one has no value."""
        return middle_ms(self.without_by_run)

    @property
    def with_it(self) -> float | None:
        return middle_ms(self.with_it_by_run)

    @property
    def cut_percent(self) -> float | None:
        """By how much the second is below the first, of the first; None where that is 0."""
        if not self.without or self.with_it is None:
            return None
        return 100 * (1 - self.with_it / self.without)

    def as_document(
        self, without: str | int, with_it: str | int, measure: str, title: str
    ) -> ComparedArms:
        """For JSON, of arms and a measure with these names; `ratio_interval` bounds the second over
        the first."""
        return {
            "without": without,
            "with": with_it,
            "measure": measure,
            "title": title,
            "without_ms": self.without,
            "with_ms": self.with_it,
            "without_ms_by_run": list(self.without_by_run),
            "with_ms_by_run": list(self.with_it_by_run),
            "cut_percent": self.cut_percent,
            **self.verdict.as_document(),
        }


def middle_ms(by_run: Values) -> float | None:
    """The geometric mean of runs; None where one has no value."""
    known = [value for value in by_run if value is not None]
    return middle(known, Scale.RATIO, RESOLUTION_MS) if len(known) == len(by_run) else None


def differing(without: Values, with_it: Values) -> Differing:
    """Compare two arms by one time of each run, asked for by itself."""
    verdict = compare(without, with_it, Scale.RATIO, RESOLUTION_MS)
    return Differing(tuple(without), tuple(with_it), verdict)


def adjusted(comparisons: Sequence[Differing]) -> list[Differing]:
    """The same, as answers to questions that were asked at once."""
    verdicts = holm({at: comparison.verdict for at, comparison in enumerate(comparisons)})
    return [replace(comparison, verdict=verdicts[at]) for at, comparison in enumerate(comparisons)]
