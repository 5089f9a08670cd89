"""Tables of `experiment roll`, from the document that `--output json` prints."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from kipctl.counts import counted
from kipctl.report.perf_tables import doubts_tables
from kipctl.report.tables import Cell, Column, Paragraph, Source, Table, identifier, table_of
from kipctl.report.verdicts import VERDICTS, compared_answer, verdict_notes

Document = Mapping[str, Any]
MEASURES = {"produce": "produce", "end_to_end": "end to end"}
_COMPARED = {
    "move_wait": "wait for a moved leader, p50",
    "produce": "produce, p99",
    "end_to_end": "end to end, p99",
}
_CELL: Mapping[Column | str, Source] = {"acks": "acks", "partitions": "partitions"}
_DIRECTIONS = {"away": "leaders away", "back": "leaders back"}


def roll_answer(document: Document) -> tuple[Paragraph, ...]:
    """Whether arms waited less for moved leaders, and what was lost on the way."""
    compared = (
        (f"acks={cell['acks']}, {counted(cell['partitions'], 'partition')}: ", found)
        for cell in document["cells"]
        for found in cell["differences"]
        if found["measure"] == "move_wait"
    )
    missing = sum(run["records"]["missing"] for arm in _arms(document) for run in arm["runs"])
    lost = (
        f"{counted(missing, 'acknowledged record', 'are')} missing."
        if missing
        else "No record was lost."
    )
    return (*compared_answer("The wait for a moved leader", compared), Paragraph(lost))


def roll_tables(document: Document) -> tuple[Table, ...]:
    """The arms side by side, how they differ beside what was published, and restart by restart."""
    spoilt = [said for cell in document["cells"] for said in cell.get("doubts", ())]
    return (
        *doubts_tables({"doubts": spoilt}),
        arms_table(document),
        *(
            [differences_table(document)]
            if any(c["differences"] for c in document["cells"])
            else []
        ),
        published_table(document),
        moves_table(document),
        restarts_table(document),
    )


def _arms(document: Document) -> Iterator[Document]:
    """Of each cell its arms, with what the cell is of."""
    for cell in document["cells"]:
        for arm in cell["arms"]:
            yield {**arm, "acks": cell["acks"], "partitions": cell["partitions"]}


def arms_table(document: Document) -> Table:
    """Latencies of every arm in every cell, and what was sent again."""
    how = "stopped" if document["controlled"] else "killed"
    return table_of(
        f"{counted(document['restarts'], 'broker', of=document['brokers'])} {how} and started one"
        " by one, "
        f"Kafka {document['kafka_version']}",
        _arms(document),
        {
            **_CELL,
            "arm": "arm",
            **{
                Column(f"{what} {quantile} ms", 1): f"{measure}_ms.{quantile.replace('.', '')}"
                for measure, what in MEASURES.items()
                for quantile in ("p50", "p99", "p99.9")
            },
            "redirected": "redirects.batches",
            "hints followed": "redirects.hints.followed",
            "Metadata": "metadata_rpcs.total",
            **{name: partial(_records, name) for name in ("failed", "missing", "unsettled")},
        },
        (
            f"{counted(document['runs'], 'run')} of each arm, "
            f"{document['throughput']:,.0f} records/s of {document['record_size']:,} bytes; of "
            "records that were due from the first restart on. Redirected: batches; Metadata: the "
            "producer's requests; failed: as the client says; missing: acknowledged, never read; "
            "unsettled: under way when the load ended, and in no latency.",
        ),
        name="arms",
    )


def _records(name: str, arm: Document) -> int | None:
    """Of all runs; None when one is not known."""
    known = [run["records"][name] for run in arm["runs"]]
    return None if None in known else sum(known)


def differences_table(document: Document) -> Table:
    """Whether arms of one kind of client differ."""
    found = [
        {**one, "acks": cell["acks"], "partitions": cell["partitions"]}
        for cell in document["cells"]
        for one in cell["differences"]
    ]
    return table_of(
        "Arm against arm",
        found,
        {
            **_CELL,
            "of": lambda one: _COMPARED[one["measure"]],
            "without": "without",
            "with": "with",
            Column("without ms", 1): "without_ms",
            Column("with ms", 1): "with_ms",
            Column("cut %", 1): "cut_percent",
            **VERDICTS,
        },
        verdict_notes(found),
        name="differences",
    )


def published_table(document: Document) -> Table:
    """The KIP's own figures beside those of the arms that stand for its two."""

    def measured(cell: Document, measure: str) -> Iterator[tuple[str, float]]:
        for found in cell["differences"]:
            if found["measure"] == measure and found["cut_percent"] is not None:
                yield f"{found['with']} against {found['without']}", found["cut_percent"]

    rows: list[tuple[Cell, ...]] = []
    for cell in document["cells"]:
        for row in cell["published"]:
            shown = [f"{who}: {cut:.1f} %" for who, cut in measured(cell, row["measure"])]
            rows.append(
                (
                    cell["acks"],
                    f"{row['workload']['partitions']:,} (here {cell['partitions']:,})",
                    MEASURES[row["measure"]],
                    _runs(row["baseline_by_run_ms"]),
                    _runs(row["hints_by_run_ms"]),
                    row["cut_percent"],
                    row["runs_overlap"],
                    "; ".join(shown) or None,
                    row["set_up_otherwise"],
                )
            )
    return Table(
        "What KIP-951 published, and the cuts measured here",
        (
            "acks",
            "partitions",
            "p99 of",
            Column("KIP before ms, its runs", right=True),
            Column("KIP with ms, its runs", right=True),
            Column("KIP cut %", 1),
            "its runs overlap",
            "cut here",
            "here (the KIP's)",
        ),
        tuple(rows),
        tuple(f"Differs: {what}." for what in document["differs"]),
        name="published",
    )


def _runs(by_run_ms: Iterable[float]) -> str:
    return " | ".join(f"{ms:g}" for ms in by_run_ms)


def moves_table(document: Document) -> Table:
    """What it cost each arm that leaders moved away and back."""
    times = {
        "detection": "detection",
        "client's wait": "client_wait",
        "produce": "produce",
        "end to end": "end_to_end",
    }
    return table_of(
        "Leaders move away (the broker ends) and back (a preferred election)",
        (
            {**arm, **moves, "move": _DIRECTIONS[direction]}
            for arm in _arms(document)
            for direction, moves in arm["moves"].items()
        ),
        {
            **_CELL,
            "arm": "arm",
            "move": "move",
            "sent again": "batches_sent_again",
            **{
                Column(f"{what} {key} ms", 1): f"{name}_ms_{key}"
                for what, name in times.items()
                for key in ("p99", "max")
            },
        },
        (
            "Detection: from a batch's sends until they had failed, by an answer or a lost "
            "connection. The client's wait: backoff, and waiting for Metadata. p99: the mean of "
            "the runs'.",
        ),
        name="moves",
    )


def restarts_table(document: Document) -> Table:
    """Every restart: how long the cluster took for its steps, and what both halves cost clients."""

    def restarts() -> Iterator[Document]:
        for arm in _arms(document):
            for number, run in enumerate(arm["runs"], 1):
                halves = {(half["broker"], half["leaders_move"]): half for half in run["halves"]}
                for restart in run["restarts"]:
                    of = {way: halves.get((restart["broker"], way)) for way in ("away", "back")}
                    yield {**arm, "run": number, **restart, **of}

    return table_of(
        "Restart by restart",
        restarts(),
        {
            **_CELL,
            **{name: name for name in ("arm", "run")},
            "broker": identifier("broker"),
            "leaders": "leaders",
            Column("away after s", 2): partial(_took, "called", "away"),
            Column("started after s", 2): partial(_took, "called", "started"),
            Column("in sync after s", 2): partial(_took, "called", "in_sync"),
            Column("back after s", 2): partial(_took, "elected", "back"),
            **{
                Column(f"{half}: {what} ms", 1): f"{half}.{name}"
                for half in ("away", "back")
                for what, name in (
                    ("detection max", "detection_ms.max"),
                    ("produce p99", "produce_ms.p99"),
                    ("end to end p99", "end_to_end_ms.p99"),
                )
            },
        },
        name="restarts",
    )


def _took(since: str, until: str, restart: Document) -> float | None:
    """Seconds from one step of a restart to another."""
    begin, end = restart[f"{since}_ms"], restart[f"{until}_ms"]
    return None if begin is None or end is None else (end - begin) / 1000
