"""Figures in docs/when-a-leader-moves.md are put in by benchmarks/leader_moves.py, from runs."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.leader_moves import FIGURE, SCENES, beside, filled

PAGE = Path(__file__).parents[2] / "docs" / "when-a-leader-moves.md"


def test_figures_are_put_in_from_the_summary_of_the_run_that_they_are_of() -> None:
    page = (
        "It met <!--fresh:moves/met ,-->7<!--/--> in <!--fresh:max s,.1f-->0<!--/--> s, asked"
        " <!--fresh:by_cause/leader_change ,-->3<!--/--> times."
    )
    told: dict[str, Any] = {"fresh": {"moves": {"met": 1200}, "max": 2345.6, "by_cause": {}}}
    made = filled(page, told)
    assert FIGURE.sub("", made).replace("<!--/-->", "") == "It met  in  s, asked  times."
    assert [match[0].rpartition(">")[2] for match in FIGURE.finditer(made)] == ["1,200", "2.3", "0"]
    assert filled(made, told) == made
    with pytest.raises(KeyError):
        filled("<!--fresh:moves/mets ,-->7<!--/-->", told)


def test_every_figure_of_the_page_is_one_that_is_put_in() -> None:
    page = PAGE.read_text("utf-8")
    figures = list(FIGURE.finditer(page))
    assert {figure[2] for figure in figures} == {*SCENES, "beside"}
    assert page.count("<!--/-->") == len(figures) == page.count("<!--") / 2


def test_refreshes_are_counted_for_each_leader_that_was_met() -> None:
    arm = {
        "arm": "java-4.3.1",
        "redirects": {"moves": {"met": 50}},
        "metadata_rpcs": {"by_cause": {"start": 1, "leader_change": 10}},
        "move_wait_ms": 7.0,
    }
    by_arm = beside({"arms": [arm]})
    assert by_arm == {"java-4.3.1": {"met": 50, "refreshes_a_move": 0.2, "wait_ms": 7.0}}
