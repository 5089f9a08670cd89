"""How a verdict (`kipctl.verdict`) is shown in a table: its interval, its p, its words."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kipctl.report.tables import Cell, Column, Paragraph, Source
from kipctl.verdict import ENOUGH_RUNS

_LEAST_P = 0.0001
VERDICT_NOTE = (
    "Different: repeated runs of one side would be as far apart less than once in 20 times, over "
    "all that is asked in this table (p, after Holm). Between: 95 % of such comparisons, each by "
    "itself."
)


def compared_answer(
    what: str, comparisons: Iterable[tuple[str, Mapping[str, Any]]]
) -> tuple[Paragraph, ...]:
    """Whether arms differ in `what` by more than runs vary; of each comparison its label, if any,
    and its figures."""
    asked = list(comparisons)
    decided = [one for _, one in asked if one["different"] is not None]
    shorter = sum(bool(one["different"]) and one["cut_percent"] > 0 for one in decided)
    longer = sum(bool(one["different"]) and one["cut_percent"] < 0 for one in decided)
    if not asked:
        return ()
    if decided:
        first = (
            f"{what} was shorter in {shorter} of {len(decided)} comparisons, longer in {longer}."
        )
    else:
        first = f"Whether {what[0].lower()}{what[1:]} differs {asked[0][1]['verdict']}."
    return (Paragraph(first, tuple(_compared(label, one) for label, one in asked)),)


def _compared(label: str, one: Mapping[str, Any]) -> str:
    arms = f"{label}{one['with']} against {one['without']}"
    if one["without_ms"] is None or one["with_ms"] is None:
        return f"{arms}: not measured in both."
    cut = "" if one["cut_percent"] is None else f" ({-one['cut_percent']:+,.1f} %)"
    waits = f"{one['with_ms']:,.1f} against {one['without_ms']:,.1f} ms{cut}"
    return f"{arms}: {waits}, {one['verdict'].partition(':')[0]}."


def few_runs_note(runs: int) -> str:
    """What so many runs a side, too few where some of them stall, may have made different."""
    return (
        f"Of {runs} runs a side all may have had a stall that none of the other side had: where "
        "half of the runs stall, equal sides are called different in 1 of 10 comparisons. Take "
        f"{ENOUGH_RUNS} runs a side."
    )


def _between(found: Mapping[str, Any]) -> Cell:
    interval = found["ratio_interval"]
    return " to ".join(f"{100 * (ratio - 1):+,.1f}" for ratio in interval) if interval else None


def _p(found: Mapping[str, Any]) -> Cell:
    p_value: float | None = found["p_adjusted"]
    return p_value if p_value is None or p_value >= _LEAST_P else f"<{_LEAST_P}"


VERDICTS: Mapping[Column | str, Source] = {
    Column("% between", right=True): _between,
    Column("p", 4): _p,
    "verdict": lambda found: found["verdict"].partition(": ")[0],
}
"""Columns of documents that have `kipctl.verdict.Verdict.as_document`."""


def each_run(by_run: Sequence[float | None]) -> str:
    """The figure of each run, side by side."""
    return " | ".join("-" if value is None else f"{value:,.1f}" for value in by_run)


def verdict_notes(asked: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What a verdict means, if one is given, and why others cannot be."""
    documents = list(asked)
    reasons = dict.fromkeys(one["verdict"] for one in documents if one["different"] is None)
    runs = [one["runs_a_side"] for one in documents if one["different"] is not None]
    return (
        *((VERDICT_NOTE,) if runs else ()),
        *((few_runs_note(min(runs)),) if runs and min(runs) < ENOUGH_RUNS else ()),
        *(f"{reason[0].upper()}{reason[1:]}." for reason in reasons),
    )
