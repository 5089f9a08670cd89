"""Tables of `experiment batch`, from the document that `--output json` prints."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

from kipctl.counts import counted
from kipctl.documents.experiments import BatchArm, BatchDocument
from kipctl.report.columns import measured
from kipctl.report.move_tables import WAIT_MEANING
from kipctl.report.perf_tables import doubts_tables
from kipctl.report.tables import Cell, Column, Paragraph, Table, identifier, table_of
from kipctl.report.verdicts import VERDICTS, each_run, verdict_notes


def batch_tables(document: BatchDocument) -> tuple[Table, ...]:
    """What the answer is made of, and how sizes differ."""
    return (
        *doubts_tables(document["doubts"]),
        _arms(document),
        *((_differences(document),) if document["differences"] else ()),
    )


def batch_answer(document: BatchDocument) -> Paragraph:
    """A sentence for each size."""
    return Paragraph(
        f"A rotation of {counted(document['arms'][0]['leader_count'], 'leader')}, and what its"
        " clients waited:",
        tuple(map(sentence, document["arms"])),
    )


def sentence(arm: BatchArm) -> str:
    """What a batch size came to: its time, and what clients waited."""
    seconds = [ms / 1000 for ms in arm["rotation_ms_by_run"]]
    moved = f"{counted(arm['leader_count'], 'leader')} moved in {arm['rotation_ms'] / 1000:.1f} s"
    if between := _between(seconds):
        moved += f" ({between})"
    waited = "clients met no moved leader in some run"
    if arm["move_wait_ms"] is not None:
        by_run = ", ".join(filter(None, ("p50", _between(arm["move_wait_ms_by_run"]))))
        waited = f"clients waited {arm['move_wait_ms']:.1f} ms for a moved leader ({by_run})"
    if (p99 := arm["latency_ms_of_runs"]["p99"]) is not None:
        waited += (
            f", records took {p99:,.0f} ms (p99), and"
            f" {arm['late_records']:,.0f} in a rotation over {arm['late_ms']} ms"
        )
    return f"{_sized(arm).capitalize()}: {moved}; {waited}."


def _sized(arm: BatchArm) -> str:
    if arm["batches"] == 1:
        return "all at once"
    return "one at a time" if arm["batch"] == 1 else f"batches of {arm['batch']}"


def _between(by_run: Sequence[float | None]) -> str:
    known = [value for value in by_run if value is not None]
    return f"{min(known):.1f} to {max(known):.1f} by run" if len(known) > 1 else ""


def _arms(document: BatchDocument) -> Table:
    version = document["kafka_version"]
    return table_of(
        f"By batch size, {counted(document['run_count'], 'run')} each,"
        f" acks={document['acks']}, {document['throughput']:,.0f} records/s, leader discovery"
        f" {document['leader_discovery']}" + (f", Kafka {version}" if version else ""),
        document["arms"],
        {
            Column("batch", right=True): lambda arm: (
                "all" if arm["batches"] == 1 else str(arm["batch"])
            ),
            "batches": "batches",
            Column("rotation s", 2): lambda arm: arm["rotation_ms"] / 1000,
            Column("rotation of each run", right=True): lambda arm: each_run(
                [ms / 1000 for ms in arm["rotation_ms_by_run"]]
            ),
            **measured("latency_ms_of_runs.p50", "latency_ms_of_runs.p99", title=""),
            Column("p99 of each run", right=True): lambda arm: each_run(
                arm["latency_ms_by_run"]["p99"]
            ),
            "moves met": "moves.met",
            Column("wait p50 ms", 1): "move_wait_ms",
            Column("wait of each run", right=True): lambda arm: each_run(
                arm["move_wait_ms_by_run"]
            ),
            Column("wait p99 ms", 1): partial(_wait, "p99"),
            Column("longest ms", 1): partial(_wait, "max"),
            Column("waited in a rotation ms", 1): "partition_wait_ms",
            Column(
                f"records over {document['arms'][0]['late_ms']} ms in a rotation", 1
            ): "late_records",
            Column("of each run", right=True): lambda arm: each_run(arm["late_records_by_run"]),
            "records failed": "records_failed",
        },
        (
            "Rotation: from the first request until every broker knew the last leader; without"
            " pauses (--between) between batches. p50 and p99: of records that were due meanwhile,"
            f" and for {document['settle_seconds']:g} s after it, from then to their"
            f" acknowledgement. Wait: for a moved leader that a batch met. {WAIT_MEANING} Waited in"
            " a rotation: for all of them together.",
        ),
        "arms",
    )


def _wait(name: Literal["p99", "max"], arm: BatchArm) -> Cell:
    return arm["moves"]["wait_ms"][name] if arm["moves"]["met"] else None


def _differences(document: BatchDocument) -> Table:
    largest = max(arm["batch"] for arm in document["arms"])
    shown = "all" if document["arms"][-1]["batches"] == 1 else str(largest)
    return table_of(
        f"Each batch size compared with {shown}",
        document["differences"],
        {
            Column("batch", right=True): identifier("with"),
            "measure": "title",
            Column(f"{shown}, ms", 1): "without_ms",
            Column("with it, ms", 1): "with_ms",
            Column("cut %", 1): "cut_percent",
            **VERDICTS,
        },
        verdict_notes(document["differences"]),
        "differences",
    )
