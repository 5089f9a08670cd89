"""How a verdict (`kipctl.verdict`) is shown in a table: its interval, its p, its words."""

from collections.abc import Iterable, Sequence

from kipctl.counts import counted
from kipctl.documents.common import VerdictFigures
from kipctl.documents.experiments import ComparedArms
from kipctl.report.tables import Cell, Column, Columns, Paragraph
from kipctl.verdict import ENOUGH_RUNS

_LEAST_P = 0.0001
VERDICT_NOTE = (
    "Different: repeated runs of one side would be as far apart less than once in 20 times, over "
    "all that is asked in this table (p, after Holm). Between: 95 % of such comparisons, each by "
    "itself."
)


def compared_answer(
    what: str, comparisons: Iterable[tuple[str, ComparedArms]]
) -> tuple[Paragraph, ...]:
    """Whether arms differ in `what` by more than runs vary; of each comparison its label, if any,
    and its figures."""
    asked = list(comparisons)
    decided = [comparison for _, comparison in asked if comparison["different"] is not None]
    cuts = [comparison["cut_percent"] or 0 for comparison in decided if comparison["different"]]
    shorter, longer = sum(cut > 0 for cut in cuts), sum(cut < 0 for cut in cuts)
    if not asked:
        return ()
    total = counted(len(decided), "comparison")
    first = (
        f"{what} was shorter in {shorter} of {total}, longer in {longer}."
        if shorter or longer
        else f"{what} differed in none of {total} by more than runs vary."
    )
    if not decided:
        first = f"{what}: whether arms differ {asked[0][1]['verdict']}."
    each = (f"{label}{row['with']} against {row['without']}: {_ms(row)}" for label, row in asked)
    return (Paragraph(first, tuple(each)),)


def pairs_answer(comparisons: Iterable[ComparedArms]) -> tuple[Paragraph, ...]:
    """Of each pair of arms in which measures they differ by more than runs vary."""
    pairs: dict[tuple[str | int, str | int], list[ComparedArms]] = {}
    for comparison in comparisons:
        pairs.setdefault((comparison["with"], comparison["without"]), []).append(comparison)
    return tuple(
        Paragraph(
            _in_measures(f"{arm} differs from {other}", measures),
            tuple(f"{measure['title']}: {_ms(measure)}" for measure in measures),
        )
        for (arm, other), measures in pairs.items()
    )


def _in_measures(differs: str, measures: Sequence[ComparedArms]) -> str:
    decided = [measure["different"] for measure in measures if measure["different"] is not None]
    if not decided:
        return f"Whether {differs} {measures[0]['verdict']}."
    return f"{differs} in {sum(decided)} of {counted(len(decided), 'measure')}."


def _ms(comparison: ComparedArms) -> str:
    if comparison["without_ms"] is None or comparison["with_ms"] is None:
        return "not measured in both."
    cut = "" if comparison["cut_percent"] is None else f" ({-comparison['cut_percent']:+,.1f} %)"
    waits = f"{comparison['with_ms']:,.1f} against {comparison['without_ms']:,.1f} ms{cut}"
    return f"{waits}, {comparison['verdict'].partition(':')[0]}."


def few_runs_note(runs: int) -> str:
    """What so many runs a side, too few where some of them stall, may have made different."""
    return (
        f"Of {runs} runs a side all may have had a stall that none of the other side had: where "
        "half of the runs stall, equal sides are called different in 1 of 10 comparisons. Take "
        f"{ENOUGH_RUNS} runs a side."
    )


def _between(figures: VerdictFigures) -> Cell:
    interval = figures["ratio_interval"]
    return " to ".join(f"{100 * (ratio - 1):+,.1f}" for ratio in interval) if interval else None


def _p(figures: VerdictFigures) -> Cell:
    p_value = figures["p_adjusted"]
    return p_value if p_value is None or p_value >= _LEAST_P else f"<{_LEAST_P}"


VERDICTS: Columns[VerdictFigures] = {
    Column("% between", right=True): _between,
    Column("p", 4): _p,
    "verdict": lambda figures: figures["verdict"].partition(": ")[0],
}
"""Columns of documents that have `kipctl.verdict.Verdict.as_document`."""


def each_run(by_run: Sequence[float | None]) -> str:
    """The figure of each run, side by side."""
    return " | ".join("-" if value is None else f"{value:,.1f}" for value in by_run)


def verdict_notes(asked: Iterable[VerdictFigures]) -> tuple[str, ...]:
    """What a verdict means, if one is given, and why others cannot be."""
    documents = list(asked)
    reasons = dict.fromkeys(
        document["verdict"] for document in documents if document["different"] is None
    )
    runs = [document["runs_a_side"] for document in documents if document["different"] is not None]
    return (
        *((VERDICT_NOTE,) if runs else ()),
        *((few_runs_note(min(runs)),) if runs and min(runs) < ENOUGH_RUNS else ()),
        *(f"{reason[0].upper()}{reason[1:]}." for reason in reasons),
    )
