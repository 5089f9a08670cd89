"""Counts with their nouns."""

import pytest

from kipctl.cli.overview import Health, Overview, sentences
from kipctl.counts import counted
from kipctl.report.run_tables import list_answer


@pytest.mark.parametrize(
    ("count", "words", "said"),
    [
        (0, ("topic",), "0 topics"),
        (1, ("topic",), "1 topic"),
        (1200, ("topic",), "1,200 topics"),
        (1, ("run is", "runs are"), "1 run is"),
        (2, ("run is", "runs are"), "2 runs are"),
    ],
)
def test_one_and_several(count: int, words: tuple[str, ...], said: str) -> None:
    assert counted(count, *words) == said


def test_answers_of_one() -> None:
    health = Health(1, 1, 1, 0, 0, 0, 0)
    assert next(sentences(Overview("a:1", "", health, ""))) == (
        "Cluster a:1: 1 broker, 1 topic, 1 partition."
    )
    run = {"name": "before", "state": "whole", "started": "2026-01-01"}
    answer = list_answer({"store": "here", "runs": [run]})
    assert answer == "1 run is recorded; the newest is before."
