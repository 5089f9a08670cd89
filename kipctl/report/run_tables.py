"""Tables of the run store and of a comparison, from the documents that `--output json` prints."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kipctl.counts import counted, format_bytes
from kipctl.documents.analysis import (
    ComparedMeasure,
    ComparisonDocument,
    ListedRun,
    RemovedDocument,
    RunsDocument,
)
from kipctl.next_step import Command
from kipctl.report.columns import measured
from kipctl.report.perf_tables import doubts_tables
from kipctl.report.tables import (
    Cell,
    Column,
    Paragraph,
    Report,
    Table,
    Tone,
    paragraphs,
    table_of,
)
from kipctl.report.verdicts import VERDICTS, verdict_notes

if TYPE_CHECKING:
    from kipctl.trace.stored_runs import StoredRun


def list_answer(document: RunsDocument) -> str:
    """How many runs there are, and the newest."""
    runs = document["runs"]
    if not runs:
        record = Command("perf produce --record first")
        return f"No run is recorded in {document['store']}: " + record
    newest = max(runs, key=lambda run: run["started"] or "")
    broken = sum(run["state"] != "whole" for run in runs)
    whole = f", {broken:,} of them not whole" if broken else ""
    recorded = counted(len(runs), "run", "are")
    return f"{recorded} recorded{whole}; the newest is {newest['name']}."


def listed_run(run: "StoredRun") -> ListedRun:
    """What the list says of a run, as JSON has it."""
    from kipctl.trace.settings import actions_in_short, record_counts, settings

    description = run.description or {}
    made_with = settings(description)
    records = record_counts(run.summary)
    return {
        "name": run.name,
        "started": description.get("started"),
        "command": description.get("command"),
        "records": records.get("acknowledged", records.get("read")),
        "records_per_second": run.summary.get("records_per_second"),
        "acks": made_with.get("acks"),
        "leader_discovery": description.get("leader_discovery"),
        "during": actions_in_short(description) if run.description else None,
        "latency_ms": {"p999": run.summary.get("latency_ms", {}).get("p999")},
        "bytes": run.bytes,
        "folder": str(run.folder),
        "state": run.flaw or "whole",
    }


def list_table(document: RunsDocument) -> Table:
    """The runs in the store, one a row; what is not whole or failed says so."""
    return table_of(
        f"Runs in {document['store']}",
        document["runs"],
        {
            "run": "name",
            "started": lambda run: run["started"] and run["started"][:19].replace("T", " "),
            "command": "command",
            "records": "records",
            Column("records/s", 0): "records_per_second",
            Column("acks", detail=True): "acks",
            Column("leader discovery", detail=True): "leader_discovery",
            Column("during", detail=True): "during",
            **measured("latency_ms.p999", title="", digits=3),
            Column("bytes", detail=True): "bytes",
            "state": "state",
        },
        name="runs",
    )


def list_report(store: Path, runs: "Iterable[StoredRun]") -> Report:
    """The runs in the store."""
    document: RunsDocument = {"store": str(store), "runs": [listed_run(run) for run in runs]}
    opening = paragraphs(list_answer(document))
    return Report("runs list", document, (list_table(document),), (), opening)


def run_report(run: "StoredRun", named: str) -> Report:
    """What a run was made with, and what it came to; `named` is how it was asked for."""
    from kipctl.trace.settings import end_of, settings

    description = dict(run.description or {})
    document = {
        "name": run.name,
        "folder": str(run.folder),
        "bytes": run.bytes,
        "state": run.flaw or "whole",
        **description,
    }
    facts = {"started": str(description.get("started", "-"))} | settings(description)
    if kept := end_of(description):
        facts = {"kept": f"the end of a longer run: {kept}"} | facts
    if run.flaw:
        facts = {"state": run.flaw} | facts
    made_with = settings_table(run.name, str(run.folder), facts, run.bytes)
    whole = (Paragraph(f"Run {run.name}: {run.flaw}.", tone=Tone.BAD),) if run.flaw else ()
    answer, tables = summary_of(run)
    more = ("More of it: " + Command("analyze runs", named),) if answer else ()
    shown, opening = (made_with, *tables), (*whole, *answer)
    return Report("runs show", document, shown, more, opening, fits_screen=True)


def run_warnings(name: str, description: Mapping[str, Any]) -> Iterator[str]:
    """What is to be known of a run that is compared."""
    from kipctl.trace.settings import end_of, interrupted_after

    if failed := description.get("failed"):
        yield f"{name} failed, and is compared as it is: {failed}"
    elif reported := interrupted_after(description):
        yield f"{name} was interrupted, and is compared as it is: {reported}"
    if kept := end_of(description):
        yield f"{name} is the end of a longer run: {kept}."


def settings_table(name: str, folder: str, settings: Mapping[str, str], size: int) -> Table:
    """What a run was made with; `size` is in bytes."""
    return Table(
        f"Run {name}, {format_bytes(size)} in {folder}",
        ("setting", "value"),
        tuple(settings.items()),
        name="settings",
    )


def removed_table(document: RemovedDocument) -> Table:
    """What was removed."""
    return table_of(
        "Removed", document["removed"], {"run": "name", "bytes": "bytes", "folder": "folder"}
    )


Sides = tuple[str, str]
"""What the two sides of a comparison are called."""
_SIDES: Sides = ("A", "B")


def side_names(a: Sequence[str], b: Sequence[str]) -> Sides:
    """What the names of a side's runs begin with, as `old` of old-1 and old-2; A and B where that
    does not tell them apart."""
    of_a, of_b = _beginning(a), _beginning(b)
    return (of_a, of_b) if of_a and of_b and of_a != of_b else _SIDES


def _beginning(names: Sequence[str]) -> str:
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letter for letter, *_ in alike).rstrip("-_.")


def compare_answer(document: ComparisonDocument, names: Sides = _SIDES) -> tuple[str, ...]:
    """Which measures differ by more than runs vary, and what makes the sides no fair match."""
    a, b = names
    measures = document["measures"]
    different = [
        f"{measure['title']} ({measure['difference_percent']:+,.1f} %)"
        if measure["difference_percent"] is not None
        else str(measure["title"])
        for measure in measures
        if measure["different"]
    ]
    decided = sum(measure["different"] is not None for measure in measures)
    if different:
        first = f"{b} differs from {a} in {len(different)} of {decided} measures: "
        first += f"{', '.join(different)}."
    elif decided:
        first = f"{b} does not differ from {a} in any of {decided} measures by more than runs vary."
    else:
        cannot = "cannot be told: give three or more runs of each side."
        first = f"Whether {b} differs from {a} {cannot}"
    clients = document.get("clients_by_side")
    told = [*clients["a"], *clients["b"]] if clients else []
    if made_otherwise := [row["setting"] for row in document["settings"]]:
        told.insert(0, f"They were made with other settings: {', '.join(made_otherwise)}.")
    return first, *told


def compare_tables(document: ComparisonDocument, names: Sides = _SIDES) -> tuple[Table, ...]:
    """What spoils the comparison, how the sides' settings differ, then each measure, then the
    conditions of --fail-if."""
    doubts = doubts_tables(document["doubts"])
    tables = [*doubts, _differing(document, names), _measures(document, names)]
    if gates := document.get("gates"):
        tables.append(
            table_of(
                "Conditions of --fail-if",
                gates,
                {"condition": "condition", "holds": "holds"},
                name="gates",
            )
        )
    return tuple(tables)


def _differing(document: ComparisonDocument, names: Sides) -> Table:
    a, b = names
    rows = document["settings"]
    return table_of(
        "Settings that differ" if rows else "Both sides were made with the same settings.",
        rows,
        {"setting": "setting", a: "a_values", b: "b_values"},
        ("What follows compares runs of different settings.",) if rows else (),
        "settings",
    )


def _measures(document: ComparisonDocument, names: Sides) -> Table:
    a, b = names
    measures = [row for row in document["measures"] if (row["a"], row["b"]) != (None, None)]
    left_out = [row["title"] for row in document["measures"] if row not in measures]
    notes = [*verdict_notes(measures)]
    if left_out:
        notes.append(f"Not measured on either side: {', '.join(left_out)}.")
    if any(document.get("clients_by_side", {}).values()):
        notes.append(
            "Each measure is of all clients of a tap together. In the latency a record that failed"
            " counts with the time until it was given up; what a tap says of a client leaves it"
            " out."
        )
    if document["lengths_differ"]:
        notes.append(
            "Some runs took longer than others: what is counted is of whole runs, and differs with "
            "their length."
        )
    if len(document["a_runs"]) > 1 or len(document["b_runs"]) > 1:
        notes += [f"{measure['title']}, each run: {_each(measure, names)}." for measure in measures]
    return table_of(
        "; ".join(
            name if runs == [name] else f"{name}: {', '.join(runs)}"
            for name, runs in ((a, document["a_runs"]), (b, document["b_runs"]))
        ),
        measures,
        {
            "measure": lambda measure: f"{measure['title']}, {measure['unit']}",
            Column(a, 3): partial(_value, "a"),
            Column(b, 3): partial(_value, "b"),
            Column(f"{b} - {a}", 3): partial(_value, "difference"),
            Column("%", 1): "difference_percent",
            **VERDICTS,
        },
        tuple(notes),
        "measures",
    )


def _value(name: Literal["a", "b", "difference"], measure: ComparedMeasure) -> Cell:
    """A count as a whole number, unless it is a mean that is none; all else as it is."""
    value = measure[name]
    counted = measure["unit"] not in ("ms", "records/s")
    return int(value) if value is not None and counted and value == int(value) else value


def _number(value: float | None) -> str:
    """In a note: whole numbers, and all else to three decimals."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"


def _each(measure: ComparedMeasure, names: Sides) -> str:
    def values(by_run: Mapping[str, float | None]) -> str:
        return " | ".join(map(_number, by_run.values())) or "-"

    a, b = names
    return f"{a} {values(measure['a_by_run'])}; {b} {values(measure['b_by_run'])}"


def summary_of(run: "StoredRun") -> tuple[tuple[Paragraph, ...], tuple[Table, ...]]:
    """What a run came to, as the command that made it has printed it; nothing without a summary."""
    from kipctl.report.consume_tables import consume_answer, consume_tables
    from kipctl.report.e2e_tables import e2e_answer, e2e_tables
    from kipctl.report.perf_tables import perf_answer, perf_tables
    from kipctl.report.tap_tables import tap_answer, tap_tables

    document: Any = run.summary  # by its keys it is one of those that such a command prints
    if document.keys() >= {"clients", "conditions"}:
        return (tap_answer(document),), tap_tables(document)
    # A run that failed may have a part of a summary.
    for answer, tables, needed in (
        (perf_answer, perf_tables, {"latency_ms", "service_ms"}),
        (e2e_answer, e2e_tables, {"latency_ms", "acknowledged_ms", "flips"}),
        (consume_answer, consume_tables, {"brokers", "fetches", "flips"}),
    ):
        if document.keys() >= {"records", "redirects", "actions", *needed}:
            return answer(document), tables(document)
    return (), ()
