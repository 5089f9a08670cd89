"""A comparison as a person reads it."""

import pytest

from kipctl.report.run_tables import compare_tables, size
from kipctl.report.tables import Cell


def measure(**more: object) -> dict[str, object]:
    return {
        "measure": "p99",
        "title": "latency, p99",
        "unit": "ms",
        "a": 1234.5,
        "b": 1000.0,
        "difference": -234.5,
        "difference_percent": -18.99,
        "interval": [-300.25, -1.0],
        "p_value": 0.0123,
        "real": True,
        "runs_overlap": None,
        "effect": -0.1899,
        "effect_is": "relative difference",
        "a_by_run": {"before": 1234.5},
        "b_by_run": {"after": 1000.0},
        **more,
    }


def row(**more: object) -> tuple[Cell, ...]:
    document = {"a": ["x"], "b": ["y"], "settings": [], "gates": [], "window_seconds": 1.0}
    _, measures = compare_tables({**document, "measures": [measure(**more)]})
    return measures.rows[0]


def test_a_time_has_its_interval_and_a_count_its_chance() -> None:
    interval = "-300.250 to -1.000"
    expected = ("latency, p99, ms", "1,234.500", "1,000", "-234.500", -18.99, interval)
    assert row() == (*expected, None, "0.012", "yes")
    count = row(effect=0.75, effect_is="probability of superiority", interval=None)
    assert count[5:7] == (None, 0.75)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"real": True}, "yes"),
        ({"real": True, "runs_overlap": False}, "yes"),
        ({"real": True, "runs_overlap": True}, "yes, but single runs overlap"),
        ({"real": False, "runs_overlap": True}, "no"),
        ({"real": None, "p_value": None}, "cannot be told"),
    ],
)
def test_what_is_real_is_said_in_words(more: dict[str, object], told: str) -> None:
    assert row(**more)[-1] == told


@pytest.mark.parametrize(
    ("p_value", "told"), [(None, None), (0.0004, "< 0.001"), (0.001, "0.001"), (1.0, "1.000")]
)
def test_p_values(p_value: float | None, told: str | None) -> None:
    assert row(p_value=p_value)[-2] == told


def test_settings_come_first_and_conditions_last() -> None:
    document = {
        "a": ["x", "x2"],
        "b": ["y"],
        "settings": [{"setting": "acks", "a": "1", "b": "all"}],
        "gates": [{"condition": "p99 > +10%", "holds": False}],
        "window_seconds": 1.0,
        "measures": [measure(a_by_run={"x": 1.0, "x2": 2.5})],
    }
    settings, measures, gates = compare_tables(document)
    assert settings.rows == (("acks", "1", "all"),)
    assert measures.title == "A: x, x2; B: y"
    assert measures.notes[-1] == "latency, p99, each run: A 1 | 2.500; B 1,000."
    assert gates.rows == (("p99 > +10%", False),)


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1_250_000, "1.2 MB"),
        (3 * 10**15, "3000.0 TB"),
    ],
)
def test_sizes(of: int, told: str) -> None:
    assert size(of) == told
