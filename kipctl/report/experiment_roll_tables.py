"""Tables of `experiment roll`, from the document that `--output json` prints."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kipctl.report.perf_tables import doubts_tables
from kipctl.report.tables import Cell, Column, Paragraph, Table
from kipctl.report.verdicts import (
    VERDICT_COLUMNS,
    compared_answer,
    verdict_cells,
    verdict_notes,
)

Document = Mapping[str, Any]
MEASURES = {"produce": "produce", "end_to_end": "end to end"}
_COMPARED = {
    "move_wait": "wait for a moved leader, p50",
    "produce": "produce, p99",
    "end_to_end": "end to end, p99",
}
_DIRECTIONS = {"away": "leaders away", "back": "leaders back"}


def roll_answer(document: Document) -> tuple[Paragraph, ...]:
    """Whether arms waited less for moved leaders, and what was lost on the way."""
    compared = (
        (f"acks={cell['acks']}, {cell['partitions']:,} partitions: ", found)
        for cell in document["cells"]
        for found in cell["differences"]
        if found["measure"] == "move_wait"
    )
    missing = sum(run["records"]["missing"] for _, arm in _arms(document) for run in arm["runs"])
    lost = f"{missing:,} acknowledged records are missing." if missing else "No record was lost."
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


def _arms(document: Document) -> Iterator[tuple[Document, Document]]:
    for cell in document["cells"]:
        for arm in cell["arms"]:
            yield cell, arm


def arms_table(document: Document) -> Table:
    """Latencies of every arm in every cell, and what was sent again."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            cell["acks"],
            cell["partitions"],
            arm["arm"],
            *(arm[f"{measure}_ms"][key] for measure in MEASURES for key in ("p50", "p99", "p999")),
            arm["redirects"]["batches"],
            arm["redirects"]["hints"]["followed"],
            arm["metadata_rpcs"]["total"],
            _sum(run["records"]["failed"] for run in arm["runs"]),
            sum(run["records"]["missing"] for run in arm["runs"]),
            sum(run["records"]["unsettled"] for run in arm["runs"]),
        )
        for cell, arm in _arms(document)
    )
    how = "stopped" if document["controlled"] else "killed"
    return Table(
        f"{document['restarts']} of {document['brokers']} brokers {how} and started one by one, "
        f"Kafka {document['kafka_version']}",
        (
            "acks",
            "partitions",
            "arm",
            *(
                Column(f"{what} {quantile} ms", 1)
                for what in MEASURES.values()
                for quantile in ("p50", "p99", "p99.9")
            ),
            "redirected",
            "hints followed",
            "Metadata",
            "failed",
            "missing",
            "unsettled",
        ),
        rows,
        (
            f"{document['runs']} run{'s'[: document['runs'] != 1]} of each arm, "
            f"{document['throughput']:,.0f} records/s of {document['record_size']:,} bytes; of "
            "records that were due from the first restart on. Redirected: batches; Metadata: the "
            "producer's requests; failed: as the client says; missing: acknowledged, never read; "
            "unsettled: under way when the load ended, and in no latency.",
        ),
        name="arms",
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    """None when one is not known."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def differences_table(document: Document) -> Table:
    """Whether arms of one kind of client differ."""
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            cell["acks"],
            cell["partitions"],
            _COMPARED[found["measure"]],
            found["without"],
            found["with"],
            found["without_ms"],
            found["with_ms"],
            found["cut_percent"],
            *verdict_cells(found),
        )
        for cell in document["cells"]
        for found in cell["differences"]
    )
    return Table(
        "Arm against arm",
        (
            "acks",
            "partitions",
            "of",
            "without",
            "with",
            Column("without ms", 1),
            Column("with ms", 1),
            Column("cut %", 1),
            *VERDICT_COLUMNS,
        ),
        rows,
        verdict_notes(found for cell in document["cells"] for found in cell["differences"]),
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
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            cell["acks"],
            cell["partitions"],
            arm["arm"],
            _DIRECTIONS[direction],
            moves["batches_sent_again"],
            *(
                moves[f"{name}_ms_{key}"]
                for name in ("detection", "client_wait", "produce", "end_to_end")
                for key in ("p99", "max")
            ),
        )
        for cell, arm in _arms(document)
        for direction, moves in arm["moves"].items()
    )
    return Table(
        "Leaders move away (the broker ends) and back (a preferred election)",
        (
            "acks",
            "partitions",
            "arm",
            "move",
            "sent again",
            *(
                Column(f"{name} {key} ms", 1)
                for name in ("detection", "client's wait", "produce", "end to end")
                for key in ("p99", "max")
            ),
        ),
        rows,
        (
            "Detection: from a batch's sends until they had failed, by an answer or a lost "
            "connection. The client's wait: backoff, and waiting for Metadata. p99: the mean of "
            "the runs'.",
        ),
        name="moves",
    )


def restarts_table(document: Document) -> Table:
    """Every restart: how long the cluster took for its steps, and what both halves cost clients."""

    def took(restart: Document, since: str, until: str) -> float | None:
        begin, end = restart[f"{since}_ms"], restart[f"{until}_ms"]
        return None if begin is None or end is None else (end - begin) / 1000

    rows: list[tuple[Cell, ...]] = []
    for cell, arm in _arms(document):
        for number, run in enumerate(arm["runs"], 1):
            figures = {(half["broker"], half["leaders_move"]): half for half in run["halves"]}
            for restart in run["restarts"]:
                away, back = (
                    figures.get((restart["broker"], direction)) for direction in ("away", "back")
                )
                rows.append(
                    (
                        cell["acks"],
                        cell["partitions"],
                        arm["arm"],
                        number,
                        str(restart["broker"]),
                        restart["leaders"],
                        took(restart, "called", "away"),
                        took(restart, "called", "started"),
                        took(restart, "called", "in_sync"),
                        took(restart, "elected", "back"),
                        *(
                            half[name][key] if half else None
                            for half in (away, back)
                            for name, key in (
                                ("detection_ms", "max"),
                                ("produce_ms", "p99"),
                                ("end_to_end_ms", "p99"),
                            )
                        ),
                    )
                )
    return Table(
        "Restart by restart",
        (
            "acks",
            "partitions",
            "arm",
            "run",
            "broker",
            "leaders",
            Column("away after s", 2),
            Column("started after s", 2),
            Column("in sync after s", 2),
            Column("back after s", 2),
            *(
                Column(f"{half}: {what} ms", 1)
                for half in ("away", "back")
                for what in ("detection max", "produce p99", "end to end p99")
            ),
        ),
        tuple(rows),
        name="restarts",
    )
