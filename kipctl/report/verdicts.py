"""How a verdict (`kipctl.verdict`) is shown in a table: its interval, its p, its words."""

from collections.abc import Iterable, Mapping
from typing import Any

from kipctl.report.tables import Cell, Column

VERDICT_COLUMNS = (Column("% between", right=True), Column("p", 4), "verdict")
_LEAST_P = 0.0001
VERDICT_NOTE = (
    "Different: repeated runs of one side would be as far apart less than once in 20 times, over "
    "all that is asked in this table (p, after Holm). Between: 95 % of such comparisons, each by "
    "itself."
)


def verdict_cells(found: Mapping[str, Any]) -> tuple[Cell, ...]:
    """For VERDICT_COLUMNS, from a document that has `kipctl.verdict.Verdict.as_document`."""
    interval, p_value = found["ratio_interval"], found["p_adjusted"]
    return (
        " to ".join(f"{100 * (ratio - 1):+,.1f}" for ratio in interval) if interval else None,
        p_value if p_value is None or p_value >= _LEAST_P else f"<{_LEAST_P}",
        found["verdict"].partition(": ")[0],
    )


def verdict_notes(asked: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """What a verdict means, if one is given, and why others cannot be."""
    documents = list(asked)
    reasons = dict.fromkeys(one["verdict"] for one in documents if one["different"] is None)
    is_given = any(one["different"] is not None for one in documents)
    return (
        *((VERDICT_NOTE,) if is_given else ()),
        *(f"{reason[0].upper()}{reason[1:]}." for reason in reasons),
    )
