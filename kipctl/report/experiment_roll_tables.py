"""Tables of `experiment roll`, from the document that `--output json` prints."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Literal

from kipctl.counts import counted
from kipctl.documents.experiments import (
    ComparedArms,
    HalfDocument,
    MovesOneWay,
    RestartSeen,
    RollArm,
    RollCell,
    RollExperimentDocument,
)
from kipctl.report.columns import measured
from kipctl.report.perf_tables import doubts_tables
from kipctl.report.tables import Cell, Column, Paragraph, Table, identifier, table_of
from kipctl.report.verdicts import VERDICTS, compared_answer, verdict_notes


class _CellArm(RollArm):
    acks: str
    partitions: int


class _CellDifference(ComparedArms):
    acks: str
    partitions: int


class _Move(MovesOneWay):
    acks: str
    partitions: int
    arm: str
    move: str


class _Restart(RestartSeen):
    acks: str
    partitions: int
    arm: str
    run: int
    away: HalfDocument | None
    back: HalfDocument | None


_QUANTILES = ("p50", "p99", "p999")
MEASURES = {"produce": "produce", "end_to_end": "end to end"}
_CELL: Mapping[Column | str, str] = {"acks": "acks", "partitions": "partitions"}


def roll_answer(document: RollExperimentDocument) -> tuple[Paragraph, ...]:
    """Whether arms waited less for moved leaders, and what was lost on the way."""
    compared = (
        (f"acks={cell['acks']}, {counted(cell['partitions'], 'partition')}: ", difference)
        for cell in document["cells"]
        for difference in cell["differences"]
        if difference["measure"] == "move_wait"
    )
    missing = sum(run["records"]["missing"] for arm in _arms(document) for run in arm["runs"])
    lost = (
        f"{counted(missing, 'acknowledged record', 'are')} missing."
        if missing
        else "No record was lost."
    )
    return (*compared_answer("The wait for a moved leader", compared), Paragraph(lost))


def roll_tables(document: RollExperimentDocument) -> tuple[Table, ...]:
    """The arms side by side, how they differ beside what was published, and restart by restart."""
    spoilt = [said for cell in document["cells"] for said in cell["doubts"]]
    return (
        *doubts_tables(spoilt),
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


def _arms(document: RollExperimentDocument) -> Iterator[_CellArm]:
    """Of each cell its arms, with what the cell is of."""
    for cell in document["cells"]:
        for arm in cell["arms"]:
            yield {**arm, "acks": cell["acks"], "partitions": cell["partitions"]}


def arms_table(document: RollExperimentDocument) -> Table:
    """Latencies of every arm in every cell, and what was sent again."""
    how = "stopped" if document["controlled"] else "killed"
    return table_of(
        f"{counted(document['restart_count'], 'broker', total=document['broker_count'])} {how} and"
        f" started one by one, Kafka {document['kafka_version']}",
        _arms(document),
        {
            **_CELL,
            "arm": "arm",
            **measured(*(f"acknowledged_ms.{name}" for name in _QUANTILES), title="produce"),
            **measured(*(f"latency_ms.{name}" for name in _QUANTILES), title="end to end"),
            "redirected": "redirects.batches",
            "hints followed": "redirects.hints.followed",
            "Metadata": "metadata_rpcs.total",
            "failed": partial(_records, "failed"),
            "missing": partial(_records, "missing"),
            "unsettled": partial(_records, "unsettled"),
        },
        (
            f"{counted(document['run_count'], 'run')} of each arm, "
            f"{document['throughput']:,.0f} records/s of {document['record_size']:,} bytes; of "
            "records that were due from the first restart on. Redirected: batches; Metadata: the "
            "producer's requests; failed: as the client says; missing: acknowledged, never read; "
            "unsettled: under way when the load ended, and in no latency.",
        ),
        name="arms",
    )


def _records(name: Literal["failed", "missing", "unsettled"], arm: _CellArm) -> int | None:
    """Of all runs; None when one is not known."""
    counts = [run["records"][name] for run in arm["runs"]]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def differences_table(document: RollExperimentDocument) -> Table:
    """Whether arms of one kind of client differ."""
    differences: list[_CellDifference] = [
        {**difference, "acks": cell["acks"], "partitions": cell["partitions"]}
        for cell in document["cells"]
        for difference in cell["differences"]
    ]
    return table_of(
        "Arm against arm",
        differences,
        {
            **_CELL,
            "of": "title",
            "without": "without",
            "with": "with",
            Column("without ms", 1): "without_ms",
            Column("with ms", 1): "with_ms",
            Column("cut %", 1): "cut_percent",
            **VERDICTS,
        },
        verdict_notes(differences),
        name="differences",
    )


def published_table(document: RollExperimentDocument) -> Table:
    """The KIP's own figures beside those of the arms that stand for its two."""

    def cuts(cell: RollCell, measure: str) -> Iterator[tuple[str, float]]:
        for pair in cell["differences"]:
            if pair["measure"] == measure and pair["cut_percent"] is not None:
                yield f"{pair['with']} against {pair['without']}", pair["cut_percent"]

    rows: list[tuple[Cell, ...]] = []
    for cell in document["cells"]:
        for row in cell["published_rolls"]:
            shown = [f"{who}: {cut:.1f} %" for who, cut in cuts(cell, row["measure"])]
            rows.append(
                (
                    cell["acks"],
                    f"{row['workload']['partitions']:,} (here {cell['partitions']:,})",
                    MEASURES[row["measure"]],
                    _runs(row["without_ms_by_run"]),
                    _runs(row["with_ms_by_run"]),
                    row["cut_percent"],
                    row["runs_overlap"],
                    "; ".join(shown) or None,
                    row["set_up"],
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


_OF_MOVES = {
    "detection_ms": "detection",
    "client_wait_ms": "client's wait",
    "acknowledged_ms": "produce",
    "latency_ms": "end to end",
}


def moves_table(document: RollExperimentDocument) -> Table:
    """What it cost each arm that leaders moved away and back."""
    return table_of(
        "Leaders move away (the broker ends) and back (a preferred election)",
        _moves(document),
        {
            **_CELL,
            "arm": "arm",
            "move": "move",
            "sent again": "batches_sent_again",
            **{
                column: source
                for name, title in _OF_MOVES.items()
                for column, source in measured(f"{name}.p99", f"{name}.max", title=title).items()
            },
        },
        (
            "Detection: from a batch's sends until they had failed, by an answer or a lost "
            "connection. The client's wait: backoff, and waiting for Metadata. p99: the mean of "
            "the runs'.",
        ),
        name="moves",
    )


def _moves(document: RollExperimentDocument) -> Iterator[_Move]:
    for arm in _arms(document):
        for move, moves in (("away", arm["moves"]["away"]), ("back", arm["moves"]["back"])):
            yield {
                **moves,
                "move": f"leaders {move}",
                "arm": arm["arm"],
                "acks": arm["acks"],
                "partitions": arm["partitions"],
            }


def restarts_table(document: RollExperimentDocument) -> Table:
    """Every restart: how long the cluster took for its steps, and what both halves cost clients."""

    def restarts() -> Iterator[_Restart]:
        for arm in _arms(document):
            for number, run in enumerate(arm["runs"], 1):
                halves = {(half["broker"], half["leaders_move"]): half for half in run["halves"]}
                for restart in run["restarts"]:
                    yield {
                        **restart,
                        "acks": arm["acks"],
                        "partitions": arm["partitions"],
                        "arm": arm["arm"],
                        "run": number,
                        "away": halves.get((restart["broker"], "away")),
                        "back": halves.get((restart["broker"], "back")),
                    }

    return table_of(
        "Restart by restart",
        restarts(),
        {
            **_CELL,
            **{name: name for name in ("arm", "run")},
            "broker": identifier("broker"),
            "leaders": "leader_count",
            Column("away after s", 2): lambda at: _took(at["called_ms"], at["away_ms"]),
            Column("started after s", 2): lambda at: _took(at["called_ms"], at["started_ms"]),
            Column("in sync after s", 2): lambda at: _took(at["called_ms"], at["in_sync_ms"]),
            Column("back after s", 2): lambda at: _took(at["elected_ms"], at["back_ms"]),
            **{
                Column(f"{half}: {what} ms", 1): f"{half}.{name}"
                for half in ("away", "back")
                for what, name in (
                    ("detection max", "detection_ms.max"),
                    ("produce p99", "acknowledged_ms.p99"),
                    ("end to end p99", "latency_ms.p99"),
                )
            },
        },
        name="restarts",
    )


def _took(begin_ms: float | None, end_ms: float | None) -> float | None:
    """Seconds from one step of a restart to another."""
    return None if begin_ms is None or end_ms is None else (end_ms - begin_ms) / 1000
