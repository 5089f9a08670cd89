"""Tables of the run store and of a comparison, from the documents that `--output json` prints."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from kipctl.counts import counted
from kipctl.next_step import Command
from kipctl.report.perf_tables import doubts_tables
from kipctl.report.tables import Cell, Column, Table, table_of
from kipctl.report.verdicts import VERDICTS, verdict_notes

Document = Mapping[str, Any]


def list_answer(document: Document) -> str:
    """How many runs there are, and the newest."""
    runs = document["runs"]
    if not runs:
        record = Command("perf produce --record NAME")
        return f"No run is recorded in {document['store']}: " + record
    newest = max(runs, key=lambda run: run["started"] or "")
    broken = sum(run["state"] != "whole" for run in runs)
    whole = f", {broken:,} of them not whole" if broken else ""
    recorded = counted(len(runs), "run", "are")
    return f"{recorded} recorded{whole}; the newest is {newest['name']}."


def list_table(document: Document) -> Table:
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
            Column("actions", detail=True): "actions",
            Column("p99.9 ms", 3): "p999_ms",
            Column("bytes", detail=True): "bytes",
            "state": "state",
        },
    )


def settings_table(name: str, folder: str, settings: Mapping[str, str], of: int) -> Table:
    """What a run was made with; `of` is its size in bytes."""
    return Table(
        f"Run {name}, {size(of)} in {folder}",
        ("setting", "value"),
        tuple(settings.items()),
    )


def removed_table(document: Document) -> Table:
    """What was removed."""
    return table_of(
        "Removed", document["removed"], {"run": "name", "bytes": "bytes", "folder": "folder"}
    )


def compare_answer(document: Document) -> tuple[str, ...]:
    """Which measures differ by more than runs vary, and what makes the sides no fair match."""
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
        first = f"B differs from A in {len(different)} of {decided} measures: "
        first += f"{', '.join(different)}."
    elif decided:
        first = f"B does not differ from A in any of {decided} measures by more than runs vary."
    else:
        first = "Whether B differs from A cannot be told: give three or more runs of each side."
    told = [said for side in document.get("clients", {}).values() for said in side]
    if made_otherwise := [row["setting"] for row in document["settings"]]:
        told.insert(0, f"They were made with other settings: {', '.join(made_otherwise)}.")
    return first, *told


def compare_tables(document: Document) -> tuple[Table, ...]:
    """What spoils the comparison, how the sides' settings differ, then each measure, then the
    conditions of --fail-if."""
    tables = [*doubts_tables(document), _differing(document), _measures(document)]
    if document["gates"]:
        tables.append(
            table_of(
                "Conditions of --fail-if",
                document["gates"],
                {"condition": "condition", "holds": "holds"},
            )
        )
    return tuple(tables)


def _differing(document: Document) -> Table:
    rows = document["settings"]
    return table_of(
        "Settings that differ" if rows else "Both sides were made with the same settings.",
        rows,
        {"setting": "setting", "A": "a", "B": "b"},
        ("What follows compares runs of different settings.",) if rows else (),
    )


def _measures(document: Document) -> Table:
    measures = document["measures"]
    notes = [*verdict_notes(measures)]
    if document["lengths_differ"]:
        notes.append(
            "Some runs took longer than others: what is counted is of whole runs, and differs with "
            "their length."
        )
    if len(document["a"]) > 1 or len(document["b"]) > 1:
        notes += [
            f"{measure['title']}, each run: {_each(measure)}."
            for measure in measures
            if measure["a"] is not None or measure["b"] is not None
        ]
    return table_of(
        f"A: {', '.join(document['a'])}; B: {', '.join(document['b'])}",
        measures,
        {
            "measure": lambda measure: f"{measure['title']}, {measure['unit']}",
            Column("A", 3): partial(_value, "a"),
            Column("B", 3): partial(_value, "b"),
            Column("B - A", 3): partial(_value, "difference"),
            Column("%", 1): "difference_percent",
            **VERDICTS,
        },
        tuple(notes),
    )


def _value(name: str, measure: Document) -> Cell:
    """A count as a whole number, unless it is a mean that is none; all else as it is."""
    value: float | None = measure[name]
    counted = measure["unit"] not in ("ms", "records/s")
    return int(value) if value is not None and counted and value == int(value) else value


def _number(value: float | None) -> str:
    """In a note: whole numbers, and all else to three decimals."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"


def _each(measure: Document) -> str:
    def values(side: str) -> str:
        of_runs: Sequence[float | None] = list(measure[f"{side}_by_run"].values())
        return f"{side.upper()} " + (" | ".join(map(_number, of_runs)) or "-")

    return f"{values('a')}; {values('b')}"


def size(of: int) -> str:
    """Bytes as a person reads them, in powers of 1000."""
    amount = float(of)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"
