"""Tables of `analyze`: what a column is called, and that nothing is lost on the way there."""

import csv
import io
from collections import defaultdict
from typing import Any

import pytest

from kipctl.report.analysis_tables import analysis_answer, analysis_tables
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Report, Table, Tone

_RUN = ["run", "arm"]
KEYS = {
    "records": _RUN,
    "latency": [*_RUN, "topic", "window", "time"],
    "failures": [*_RUN, "error", "name"],
    "redirects": [*_RUN, "api"],
    "actions": [*_RUN, "number", "action"],
    "rpcs": [*_RUN, "api"],
    "metadata": [*_RUN, "cause"],
    "reads": [*_RUN, "client_rack", "broker_rack", "role"],
    "flips": _RUN,
    "read_errors": [*_RUN, "error", "name"],
    "out_of_range": [*_RUN, "case", "handling"],
}
NAMES = tuple(KEYS)

_LATENCY = {
    "time": "latency",
    "records": 1,
    "mean_us": 1.0,
    **{f"{name}_us": 1 for name in ("p50", "p95", "p99", "p999", "p9999", "max")},
}


def row(**cells: Any) -> dict[str, Any]:
    """A row with these cells from the left; all others are 1."""
    return defaultdict(lambda: 1, run="noon", arm="kip951", **cells)


def document(**tables: list[dict[str, Any]]) -> dict[str, Any]:
    known = {name: tables.get(name, []) for name in {**KEYS, **tables}}
    about = {
        name: {"title": name, "keys": KEYS.get(name, _RUN), "rows": len(rows), "shown": len(rows)}
        for name, rows in known.items()
    }
    return {"window_us": 10_000_000, "tables": about, **known}


def cells(table: Table) -> dict[str, object]:
    [only] = table.rows
    return dict(zip(table.titles, only, strict=True))


def test_every_title_is_there_once_and_in_csv_every_row_names_its_table() -> None:
    tables = analysis_tables(document(**{name: [row()] for name in NAMES}))
    for table in tables:
        assert len(set(table.titles)) == len(table.titles), table.titles
    stream = io.StringIO()
    write(Report("analyze", {}, tables), OutputFormat.CSV, stream, is_terminal=False)
    read = [list(csv.DictReader(io.StringIO(text))) for text in stream.getvalue().split("\n\n")]
    named = [one["table"] for rows in read for one in rows]
    assert named == [*NAMES[:4], "redirected_time", *NAMES[4:]]


def test_what_became_of_hints_adds_up_to_the_leader_errors() -> None:
    parts = ("followed", "known", "stale", "unknown_node", "absent", "ignored", "draft")
    counts = {f"hints_{part}": 10**place for place, part in enumerate(parts)}
    shown = cells(analysis_tables(document(redirects=[row(errors=1111111, **counts)]))[0])
    titles = (
        "hints followed",
        "known",
        "stale",
        "unknown node",
        "absent",
        "ignored",
        "in draft form",
    )
    assert [shown[title] for title in titles] == [10**place for place in range(7)]
    assert shown["leader errors"] == 1111111


def test_records_that_were_given_up_say_by_which_error() -> None:
    failures = [row(error=7, name="REQUEST_TIMED_OUT", records=3)]
    shown = cells(analysis_tables(document(failures=failures))[0])
    assert (shown["error"], shown["name"], shown["records"]) == ("7", "REQUEST_TIMED_OUT", 3)


@pytest.mark.parametrize(
    ("window_us", "window", "shown"),
    [
        (10_000_000, 0, "0 s"),
        (10_000_000, 3, "30 s"),
        (1000, 123_456_789, "123456.789 s"),
        (1, 1_000_000_001, "1000.000001 s"),
    ],
)
def test_a_window_is_told_by_its_exact_beginning(window_us: int, window: int, shown: str) -> None:
    of_windows = document(latency=[row(window=window, **_LATENCY)]) | {"window_us": window_us}
    [table] = analysis_tables(of_windows)
    assert cells(table)["window"] == shown


def test_a_table_without_a_form_of_its_own_shows_all_its_columns_by_their_units() -> None:
    rows = [{"run": "noon", "arm": "kip951", "longest_us": 1500, "sent_bytes": None, "times": 3}]
    [table] = analysis_tables(document(pauses=rows))
    assert table.name == "pauses"
    assert cells(table) == {
        "run": "noon",
        "arm": "kip951",
        "longest ms": 1.5,
        "sent MB": None,
        "times": 3,
    }


def test_a_part_of_a_table_says_so() -> None:
    part = document(records=[row()])
    part["tables"]["records"]["rows"] = 12_345
    [table] = analysis_tables(part)
    assert table.notes == ("1 of 12,345 rows: --limit shows more, --save has all.",)


def test_records_that_a_tap_did_not_see_again_are_not_called_failed() -> None:
    tap = document(
        records=[row(acknowledged=7843, failed=39)],
        failures=[row(error=6, name="NOT_LEADER_OR_FOLLOWER", records=39)],
        moves=[],
        reads=[],
    ) | {"runs": [{"run": "noon", "command": "tap"}]}
    assert analysis_answer(tap).first.startswith(
        "7,843 records were acknowledged. 39 were refused in batches that a tap did not see again;"
        " a client may have sent them in others."
    )
    assert analysis_answer(tap).tone is Tone.NONE
    records, table = analysis_tables(tap)
    assert cells(records)["not seen again"] == 39
    assert "failed" not in records.titles
    assert table.title == "Records that were refused, and not seen again"
    assert "39 were refused" in table.notes[0]


def test_beside_a_tap_the_records_of_other_runs_failed() -> None:
    both = document(
        records=[row(acknowledged=10, failed=1), row(acknowledged=5, failed=2) | {"run": "perf"}],
        moves=[],
        reads=[],
    ) | {"runs": [{"run": "noon", "command": "tap"}, {"run": "perf", "command": "perf produce"}]}
    answer = analysis_answer(both)
    assert answer.first.startswith("15 records were acknowledged, 2 failed. 1 was refused")
    assert answer.tone is Tone.BAD
    [records] = analysis_tables(both)
    assert "failed, or not seen again" in records.titles
