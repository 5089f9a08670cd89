"""Tables of `experiment batch`, from the document that `--output json` prints."""

from collections.abc import Mapping, Sequence
from typing import Any

from kipctl.report.move_tables import WAIT_MEANING
from kipctl.report.perf_tables import doubts_tables
from kipctl.report.tables import Cell, Column, Paragraph, Table
from kipctl.report.verdicts import VERDICT_COLUMNS, verdict_cells, verdict_notes

Document = Mapping[str, Any]
_MEASURES = {
    "rotation": "rotation",
    "latency_p99": "latency p99",
    "move_wait": "wait for a moved leader, p50",
}


def batch_tables(document: Document) -> tuple[Table, ...]:
    """What the answer is made of, and how sizes differ."""
    return (
        *doubts_tables(document),
        _arms(document),
        *((_differences(document),) if document["differences"] else ()),
    )


def batch_answer(document: Document) -> Paragraph:
    """A sentence for each size."""
    return Paragraph(
        f"A rotation of {document['arms'][0]['leaders']} leaders, and what its clients waited:",
        tuple(map(sentence, document["arms"])),
    )


def sentence(arm: Document) -> str:
    """What a batch size came to: its time, and what clients waited."""
    seconds = [ms / 1000 for ms in arm["rotation_ms_by_run"]]
    moved = f"{arm['leaders']} leaders moved in {arm['rotation_ms'] / 1000:.1f} s"
    if between := _between(seconds):
        moved += f" ({between})"
    waited = "clients met no moved leader in some run"
    if arm["move_wait_ms"] is not None:
        by_run = ", ".join(filter(None, ("p50", _between(arm["move_wait_ms_by_run"]))))
        waited = f"clients waited {arm['move_wait_ms']:.1f} ms for a moved leader ({by_run})"
    if arm["latency_p99_ms"] is not None:
        waited += (
            f", records took {arm['latency_p99_ms']:,.0f} ms (p99), and"
            f" {arm['late_records']:,.0f} in a rotation over {arm['late_ms']} ms"
        )
    return f"{_sized(arm)}: {moved}; {waited}."


def _sized(arm: Document) -> str:
    if arm["batches"] == 1:
        return "all at once"
    return "one at a time" if arm["batch"] == 1 else f"batches of {arm['batch']}"


def _between(by_run: Sequence[float | None]) -> str:
    known = [value for value in by_run if value is not None]
    return f"{min(known):.1f} to {max(known):.1f} by run" if len(known) > 1 else ""


def _arms(document: Document) -> Table:
    version = document["kafka_version"]
    return Table(
        f"By batch size, {document['runs']} run{'s'[: document['runs'] != 1]} each,"
        f" acks={document['acks']}, {document['throughput']:,.0f} records/s, leader discovery"
        f" {document['leader_discovery']}" + (f", Kafka {version}" if version else ""),
        (
            Column("batch", right=True),
            "batches",
            Column("rotation s", 2),
            Column("rotation of each run", right=True),
            Column("p50 ms", 1),
            Column("p99 ms", 1),
            Column("p99 of each run", right=True),
            "moves met",
            Column("wait p50 ms", 1),
            Column("wait of each run", right=True),
            Column("wait p99 ms", 1),
            Column("longest ms", 1),
            Column("waited in a rotation ms", 1),
            Column(f"records over {document['arms'][0]['late_ms']} ms in a rotation", 1),
            Column("of each run", right=True),
            "records failed",
        ),
        tuple(map(_row, document["arms"])),
        (
            "Rotation: from the first request until every broker knew the last leader; without"
            " pauses (--between) between batches. p50 and p99: of records that were due meanwhile,"
            f" and for {document['settle_s']:g} s after it, from then to their acknowledgement."
            f" Wait: for a moved leader that a batch met. {WAIT_MEANING} Waited in a rotation: for"
            " all of them together.",
        ),
        "arms",
    )


def _row(arm: Document) -> tuple[Cell, ...]:
    waits = arm["moves"]["wait_ms"]
    return (
        "all" if arm["batches"] == 1 else str(arm["batch"]),
        arm["batches"],
        arm["rotation_ms"] / 1000,
        _each([ms / 1000 for ms in arm["rotation_ms_by_run"]]),
        arm["latency_p50_ms"],
        arm["latency_p99_ms"],
        _each(arm["latency_p99_ms_by_run"]),
        arm["moves"]["met"],
        arm["move_wait_ms"],
        _each(arm["move_wait_ms_by_run"]),
        waits["p99"] if arm["moves"]["met"] else None,
        waits["max"] if arm["moves"]["met"] else None,
        arm["waited_ms"],
        arm["late_records"],
        _each(arm["late_records_by_run"]),
        arm["records_failed"],
    )


def _each(by_run: Sequence[float | None]) -> str:
    return " | ".join("-" if value is None else f"{value:,.1f}" for value in by_run)


def _differences(document: Document) -> Table:
    largest = max(arm["batch"] for arm in document["arms"])
    shown = "all" if document["arms"][-1]["batches"] == 1 else str(largest)
    return Table(
        f"Each batch size compared with {shown}",
        (
            Column("batch", right=True),
            "measure",
            Column(f"{shown}, ms", 1),
            Column("with it, ms", 1),
            Column("cut %", 1),
            *VERDICT_COLUMNS,
        ),
        tuple(
            (
                str(one["with"]),
                _MEASURES[one["measure"]],
                one["without_ms"],
                one["with_ms"],
                one["cut_percent"],
                *verdict_cells(one),
            )
            for one in document["differences"]
        ),
        verdict_notes(document["differences"]),
        "differences",
    )
