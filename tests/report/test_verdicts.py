"""What is said of arms that were compared: in one sentence, with the figures under it."""

import pytest

from kipctl.documents.experiments import ComparedArms
from kipctl.report.tables import Paragraph
from kipctl.report.verdicts import compared_answer, pairs_answer
from kipctl.verdict import Scale, Verdict, compare

FEW = compare([1.0], [1.0], Scale.RATIO)
SAME = Verdict(0.5, 0.5)
APART = Verdict(0.001, 0.001)


def compared(
    verdict: Verdict, title: str = "records, p50", arm: str = "B", ms: float | None = 2.0
) -> ComparedArms:
    return {
        "without": "A",
        "with": arm,
        "measure": title,
        "title": title,
        "without_ms": 4.0,
        "with_ms": ms,
        "without_ms_by_run": [4.0],
        "with_ms_by_run": [ms],
        "cut_percent": None if ms is None else 100 * (1 - ms / 4.0),
        **verdict.as_document(),
    }


@pytest.mark.parametrize(
    ("comparisons", "said"),
    [
        ([], ()),
        (
            [compared(FEW), compared(FEW, "records, p99", ms=None)],
            (
                Paragraph(
                    "Whether B differs from A cannot be told: one run on a side, 3 are needed.",
                    (
                        "records, p50: 2.0 against 4.0 ms (-50.0 %), cannot be told.",
                        "records, p99: not measured in both.",
                    ),
                ),
            ),
        ),
        (
            [compared(APART), compared(SAME, "records, p99", ms=4.4), compared(SAME, arm="C")],
            (
                Paragraph(
                    "B differs from A in 1 of 2 measures.",
                    (
                        "records, p50: 2.0 against 4.0 ms (-50.0 %), different.",
                        "records, p99: 4.4 against 4.0 ms (+10.0 %), not different.",
                    ),
                ),
                Paragraph(
                    "C differs from A in 0 of 1 measure.",
                    ("records, p50: 2.0 against 4.0 ms (-50.0 %), not different.",),
                ),
            ),
        ),
    ],
)
def test_arms_by_several_measures(
    comparisons: list[ComparedArms], said: tuple[Paragraph, ...]
) -> None:
    assert pairs_answer(comparisons) == said


@pytest.mark.parametrize(
    ("comparisons", "first"),
    [
        ([compared(APART)], "The wait was shorter in 1 of 1 comparison, longer in 0."),
        (
            [compared(APART), compared(APART, ms=8.0), compared(SAME), compared(FEW)],
            "The wait was shorter in 1 of 3 comparisons, longer in 1.",
        ),
        ([compared(SAME)], "The wait differed in none of 1 comparison by more than runs vary."),
        (
            [compared(FEW)],
            "The wait: whether arms differ cannot be told: one run on a side, 3 are needed.",
        ),
    ],
)
def test_arms_by_one_measure(comparisons: list[ComparedArms], first: str) -> None:
    (answer,) = compared_answer("The wait", [("", comparison) for comparison in comparisons])
    assert answer.first == first
    says = {True: "different.", False: "not different.", None: "cannot be told."}
    decided = says[comparisons[0]["different"]]
    assert answer.others[0] == f"B against A: 2.0 against 4.0 ms (-50.0 %), {decided}"
