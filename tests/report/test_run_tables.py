"""A comparison as a person reads it, and as a spreadsheet does."""

import csv

import pytest
from test_formats import text

from kipctl.report.formats import OutputFormat
from kipctl.report.run_tables import compare_tables, list_table, removed_table
from kipctl.report.tables import Cell, Report, Table


def measure(**more: object) -> dict[str, object]:
    return {
        "measure": "p99",
        "title": "latency, p99",
        "unit": "ms",
        "a": 1234.5,
        "b": 1000.0,
        "difference": -234.5,
        "difference_percent": -18.99,
        "ratio_interval": [0.75, 0.999],
        "p_value": 0.0041,
        "p_adjusted": 0.0123,
        "different": True,
        "verdict": "different",
        "runs_a_side": 5,
        "a_by_run": {"before": 1234.5},
        "b_by_run": {"after": 1000.0},
        **more,
    }


def compared(*measures: dict[str, object], **more: object) -> tuple[Table, ...]:
    document = {
        "a_runs": ["x"],
        "b_runs": ["y"],
        "settings": [],
        "gates": [],
        "lengths_differ": False,
    }
    document |= {"doubts": [], "measures": measures or [measure()]}
    return compare_tables(document | more)


def comparison(*measures: dict[str, object]) -> Table:
    return compared(*measures)[1]


def row(**more: object) -> tuple[Cell, ...]:
    return comparison(measure(**more)).rows[0]


def shown(table: Table, output: OutputFormat) -> str:
    return text(output, Report("runs", {}, (table,)))


def test_a_time_has_its_interval_and_a_count_has_none() -> None:
    expected = ("latency, p99, ms", 1234.5, 1000.0, -234.5, -18.99)
    assert row() == (*expected, "-25.0 to -0.1", 0.0123, "different")
    assert row(ratio_interval=None)[5] is None
    assert row(p_adjusted=3e-9)[6] == "<0.0001"


@pytest.mark.parametrize(("runs", "is_told"), [(3, True), (4, True), (5, False)])
def test_few_runs_a_side_are_told_of_as_stalls_may_have_been_on_one(
    runs: int, is_told: bool
) -> None:
    notes = comparison(measure(runs_a_side=runs), measure()).notes
    told = [note for note in notes if note.startswith(f"Of {runs} runs a side")]
    assert bool(told) is is_told
    assert all("Take 5 runs a side." in note for note in told)
    unknown = measure(runs_a_side=2, different=None, verdict="cannot be told: two runs on a side")
    assert "Take 5" not in " ".join(comparison(unknown).notes)


def test_what_spoils_a_comparison_is_told_first() -> None:
    doubtful, _, _ = compared(doubts=["Few moved leaders were met."])
    assert doubtful.notes == ("Few moved leaders were met.",)
    assert len(compared(doubts=[])) == 2


def test_a_count_is_whole_unless_it_is_a_mean_that_is_not() -> None:
    counted = row(unit="records", a=3.0, b=3.5, difference=0.5)
    assert counted[1:4] == (3, 3.5, 0.5)
    assert isinstance(counted[1], int)
    assert isinstance(row()[2], float)


def test_a_person_reads_aligned_decimals_and_csv_has_the_values_themselves() -> None:
    small = measure(a=None, b=0.1256, difference=None, difference_percent=None, ratio_interval=None)
    table = comparison(measure(p_adjusted=1 / 2001), small)
    first = " ".join(shown(table, OutputFormat.PLAIN).splitlines()[2].split()[3:])
    assert first == "1234.500 1000.000 -234.500 -19.0 -25.0 to -0.1 0.0005 different"
    titles, first, second = csv.reader(shown(table, OutputFormat.CSV).splitlines())
    assert titles == ["table", "measure", "A", "B", "B - A", "%", "% between", "p", "verdict"]
    values = ["1234.5", "1000.0", "-234.5", "-18.99", "-25.0 to -0.1", str(1 / 2001), "different"]
    assert first[2:] == values
    assert second[2:7] == ["", "0.1256", "", "", ""]


def test_sizes_of_runs_are_numbers() -> None:
    run = {"name": "x", "folder": "/x", "bytes": 124_213, "started": None, "state": "whole"}
    told = ("command", "records", "records_per_second", "acks", "leader_discovery", "during")
    listed = list_table(
        {"store": "/", "runs": [run | dict.fromkeys(told) | {"latency_ms": {"p999": None}}]}
    )
    removed = removed_table({"removed": [run]})
    for table in (listed, removed):
        assert table.rows[0][table.titles.index("bytes")] == 124_213
        assert "124213" in shown(table, OutputFormat.CSV)
        assert "124,213" in shown(table, OutputFormat.TABLE)


def test_settings_come_first_and_conditions_last() -> None:
    settings, measures, gates = compared(
        measure(a_by_run={"x": 1.0, "x2": 2.5}),
        a_runs=["x", "x2"],
        settings=[{"setting": "acks", "a_values": "1", "b_values": "all"}],
        gates=[{"condition": "p99 > +10%", "holds": False}],
        lengths_differ=True,
    )
    assert settings.rows == (("acks", "1", "all"),)
    assert measures.title == "A: x, x2; B: y"
    assert measures.notes[-1] == "latency, p99, each run: A 1 | 2.500; B 1,000."
    assert measures.notes[1].startswith("Some runs took longer than others")
    assert gates.rows == (("p99 > +10%", False),)


def test_why_something_cannot_be_told_is_said_once() -> None:
    few = {"different": None, "verdict": "cannot be told: one run on a side, 3 are needed"}
    table = comparison(measure(**few), measure(**few))
    assert [row[-1] for row in table.rows] == ["cannot be told"] * 2
    assert table.notes == ("Cannot be told: one run on a side, 3 are needed.",)
