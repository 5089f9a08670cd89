"""Tables of `analyze`: what a column is called, and that nothing is lost on the way there."""

import csv
import io
from typing import Any

import pytest
from report_documents import small, table_row
from test_formats import text

from kipctl.report.analysis_tables import analysis_answer, analysis_tables
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report, Table, Tone


def document(**tables: list[dict[str, Any]]) -> dict[str, Any]:
    """An analysis with these rows alone."""
    analysis = small()["analysis"]
    for name in (*analysis["tables"], *tables):
        rows = analysis[name] = tables.get(name, [])
        about = analysis["tables"].setdefault(name, {"title": name, "keys": ["run", "arm"]})
        about |= {"rows": len(rows), "shown": len(rows)}
    return analysis


def cells(table: Table) -> dict[str, object]:
    [only] = table.rows
    return dict(zip(table.titles, only, strict=True))


def test_every_title_is_there_once_and_in_csv_every_row_names_its_table() -> None:
    analysis = small()["analysis"]
    analysis["tables"]["latency"]["keys"] += ["topic", "window"]
    analysis["latency"][0] |= {"topic": "orders", "window": 0}
    tables = analysis_tables(analysis)
    for table in tables:
        assert len(set(table.titles)) == len(table.titles), table.titles
    written = text(OutputFormat.CSV, Report("analyze", {}, tables))
    read = [list(csv.DictReader(io.StringIO(part))) for part in written.split("\n\n")]
    expected = [*analysis["tables"]]
    expected.insert(expected.index("redirects") + 1, "redirected_time")
    assert list(dict.fromkeys(row["table"] for rows in read for row in rows)) == expected


def test_what_became_of_hints_adds_up_to_the_leader_errors() -> None:
    parts = (
        *("followed", "known", "stale", "same_epoch", "refuser", "unknown_node"),
        *("other_endpoint", "absent", "ignored", "draft"),
    )
    counts = {f"hints__{part}": 2**place for place, part in enumerate(parts)}
    redirects = [table_row("redirects", errors=2**10 - 1, **counts)]
    shown = cells(analysis_tables(document(redirects=redirects))[0])
    titles = (
        "hints followed",
        "known",
        "stale",
        "same epoch",
        "the refuser",
        "unknown node",
        "another node's endpoint",
        "absent",
        "ignored",
        "in draft form",
    )
    assert [shown[title] for title in titles] == [2**place for place in range(10)]
    assert shown["leader errors"] == sum(shown[title] for title in titles)


def test_records_that_were_given_up_say_by_which_error() -> None:
    failures = [table_row("failures", error=7, name="REQUEST_TIMED_OUT", records=3)]
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
    of_windows = document(latency=[table_row("latency", window=window)])
    of_windows["tables"]["latency"]["keys"] = ["window"]
    [table] = analysis_tables(of_windows | {"window_ms": window_us / 1000})
    assert cells(table)["window"] == shown


def test_a_table_without_a_form_of_its_own_shows_all_its_columns_by_their_units() -> None:
    rows = [{"run": "noon", "arm": "kip951", "longest_ms": 1.5, "sent_bytes": None, "times": 3}]
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
    part = document(records=[table_row("records")])
    part["tables"]["records"]["rows"] = 12_345
    [table] = analysis_tables(part)
    assert table.notes == ("1 of 12,345 rows: --limit shows more, --save has all.",)


def test_records_that_a_tap_did_not_see_again_are_not_called_failed() -> None:
    tap = document(
        records=[table_row("records", acknowledged=7843, failed=39)],
        failures=[table_row("failures", error=6, name="NOT_LEADER_OR_FOLLOWER", records=39)],
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
        records=[
            table_row("records", acknowledged=10, failed=1),
            table_row("records", run="perf", acknowledged=5, failed=2),
        ]
    ) | {"runs": [{"run": "noon", "command": "tap"}, {"run": "perf", "command": "perf produce"}]}
    answer = analysis_answer(both)
    assert answer.first.startswith("15 records were acknowledged, 2 failed. 1 was refused")
    assert answer.tone is Tone.BAD
    [records] = analysis_tables(both)
    assert "failed, or not seen again" in records.titles
