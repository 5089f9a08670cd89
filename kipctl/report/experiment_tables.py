"""Tables of `experiment redirect`, from the document that `--output json` prints."""

from collections.abc import Sequence
from functools import partial

from kipctl.counts import counted
from kipctl.documents.experiments import ArmDocument, ComparedArms, OwnDocument, RedirectMeasured
from kipctl.documents.gain_curve import (
    GainCurve,
    Prediction,
    PredictionDocument,
    RedirectDocument,
    Saved,
)
from kipctl.report.columns import measured
from kipctl.report.move_tables import WAIT_MEANING, wait_title
from kipctl.report.perf_tables import doubts_tables
from kipctl.report.tables import Cell, Column, Columns, Paragraph, Table, paragraphs, table_of
from kipctl.report.verdicts import (
    VERDICTS,
    compared_answer,
    each_run,
    pairs_answer,
    verdict_notes,
)

_KEPT_UP = 0.9
"""An arm that comes to this share of the load's rate is not reported."""


def redirect_answer(document: RedirectDocument | PredictionDocument) -> tuple[Paragraph, ...]:
    """Whether hints cut the wait for a moved leader, or would on this cluster."""
    if "arms" in document:
        compared = (("", comparison) for comparison in document["comparisons"])
        return compared_answer("The wait for a moved leader", compared)
    if prediction := document.get("prediction"):
        saved = [saving["saved_ms"] for saving in prediction["savings"]]
        most = f"up to {max(saved):,.1f} ms" if saved else "a time that is not known"
        return paragraphs(f"Hints would save {most} of the wait for a moved leader here.")
    return paragraphs("What hints save, by how long Metadata is stale after a change.")


def redirect_tables(document: RedirectDocument | PredictionDocument) -> tuple[Table, ...]:
    """All that was measured: arms, how they differ, the published table, the gain curve."""
    tables: list[Table] = []
    if "arms" in document:
        tables += doubts_tables(document["doubts"])
        by = "Arms of one client compared, by the wait for a moved leader"
        tables += [_moves(document), _compared(by, document["comparisons"]), _arms(document)]
        tables += [_published(document), _set_up(document)]
        if curve := document.get("gain_curve"):
            tables += [_curve(curve), _saved(curve)]
    if prediction := document.get("prediction"):
        tables.append(_prediction(prediction))
    return tuple(tables)


def own_answer(document: OwnDocument) -> tuple[Paragraph, ...]:
    """Of each arm whether it differs from the first one, in what, and by how much."""
    title = paragraphs(document["title"]) if document["title"] else ()
    return (*title, *pairs_answer(document["comparisons"]))


def own_tables(document: OwnDocument) -> tuple[Table, ...]:
    """What was compared, how arms differ, and what each of them met."""
    return (
        *doubts_tables(document["doubts"]),
        _own_arms(document),
        _compared("Arms compared", document["comparisons"], {"by": "title"}),
        _moves(document),
        _arms(document),
    )


def _own_arms(document: OwnDocument) -> Table:
    return table_of(
        f"Arms, {counted(document['run_count'], 'run')} of each, in turn",
        document["arms"],
        {
            "arm": "arm",
            "client": "software",
            "Kafka": "kafka_version",
            "settings of its own": lambda arm: (
                ", ".join(f"{name}={value}" for name, value in arm["client_settings"].items())
                or None
            ),
        },
        name="set_up",
    )


def _compared(
    title: str, comparisons: Sequence[ComparedArms], by: Columns[ComparedArms] | None = None
) -> Table:
    """Whether arms differ; `by` are columns that say in what, where that is not in the title."""
    return table_of(
        title,
        comparisons,
        {
            "arm": "without",
            "with": "with",
            **(by or {}),
            Column("ms", 2): "without_ms",
            Column("with it, ms", 2): "with_ms",
            Column("cut %", 1): "cut_percent",
            **VERDICTS,
        },
        verdict_notes(comparisons),
        "comparisons",
    )


def _arms(document: RedirectMeasured | OwnDocument) -> Table:
    return table_of(
        f"Records while leaders rotated, {_conditions(document)}",
        document["arms"],
        {
            "arm": "arm",
            **measured("latency_ms.p50", "latency_ms.p99", "latency_ms.p999"),
            Column("p99.9 of each run", right=True): lambda arm: _each(
                arm["latency_ms_by_run"]["p999"]
            ),
            Column("as the client says", right=True): _client_says,
            "rotations": "rotations",
            "redirected batches": "redirects.batches",
            "hints": "redirects.hints.present",
            "Metadata requests": "metadata_rpcs.total",
            Column("hints could remove, %", 0): "redirects.removable_percent",
            "records failed": "records.failed",
        },
        (
            *_slow(document),
            "From a batch's creation to its acknowledgement at the tap, warm-up left out; the "
            "client's own figure is of its whole run.",
            "Hints could remove: of the time of redirected batches, what went into backoff, "
            "waiting for Metadata, and asking old leaders again.",
        ),
        "arms",
    )


def _slow(document: RedirectMeasured | OwnDocument) -> tuple[str, ...]:
    """Which arms did not keep up with the load."""
    asked = document["throughput"]
    slow = [arm for arm in document["arms"] if arm["records_per_second"] < _KEPT_UP * asked]
    if not slow:
        return ()
    reported = ", ".join(f"{arm['arm']} {arm['records_per_second']:,.0f}" for arm in slow)
    return (
        f"Of {asked:,} records/s asked for there were: {reported}. Times are of overload there,"
        " unless the program has a pace of its own.",
    )


def _client_says(arm: ArmDocument) -> Cell:
    said = [client["latency_ms"].get("p999") for client in arm["client_says"]]
    return _each([ms for ms in said if ms is not None]) or None


def _each(of_runs: list[float]) -> str:
    return " | ".join(f"{ms:,.0f}" for ms in of_runs)


def _conditions(document: RedirectMeasured | OwnDocument) -> str:
    reported = [f"acks={document['acks']}"]
    if document["metadata_delay_ms"]:
        reported.append(f"Metadata answers {document['metadata_delay_ms']:g} ms late")
    if document["stale_metadata_ms"]:
        reported.append(f"Metadata stale for {document['stale_metadata_ms']:g} ms")
    return ", ".join(reported)


def _moves(document: RedirectMeasured | OwnDocument) -> Table:
    """How long moved leaders made each arm wait."""
    arms = document["arms"]
    names = list(arms[0]["redirects"]["moves"]["by_wait"])
    return table_of(
        f"Wait for a moved leader, {_conditions(document)}",
        arms,
        {
            "arm": "arm",
            **measured("redirects.moves.wait_ms.p50", "redirects.moves.wait_ms.p99", digits=2),
            Column("p50 of each run", right=True): lambda arm: each_run(arm["move_wait_ms_by_run"]),
            "moves met": "redirects.moves.met",
            **{f"{wait_title(name)}, %": partial(_share_of_moves, name) for name in names},
            "not ready": "redirects.moves.not_ready",
            Column("refreshes a move", 2): _refreshes,
            "Metadata behind others": "metadata_rpcs.queued_behind.requests",
            Column("for at most ms", 1): "metadata_rpcs.queued_behind.wait_ms.max",
        },
        (
            f"{WAIT_MEANING} Not ready: the new leader refused, as it did not know yet. Metadata "
            "behind others: requests that waited on their connection for answers to Produce, which "
            "come in order (head-of-line blocking).",
        ),
        "moves",
    )


def _share_of_moves(name: str, arm: ArmDocument) -> int | None:
    moves = arm["redirects"]["moves"]
    return round(100 * moves["by_wait"][name] / moves["met"]) if moves["met"] else None


def _refreshes(arm: ArmDocument) -> float | None:
    met = arm["redirects"]["moves"]["met"]
    refreshes = arm["metadata_rpcs"]["by_cause"].get("leader_change")
    return refreshes / met if refreshes is not None and met else None


def _published(document: RedirectMeasured) -> Table:
    return table_of(
        "Beside what KIP-951 published, p99.9",
        document["beside_published"],
        {
            "arm": "arm",
            Column("ms", 1): "latency_ms.p999",
            "against": "against",
            Column("cut %", 1): "cut_percent",
            "KIP-951's arm": "kip_arm",
            Column("its ms", 0): "published_latency_ms.p999",
            Column("its runs", right=True): lambda row: (
                _each(row["published_latency_ms_by_run"]["p999"]) or None
            ),
            Column("its cut %", 0): "published_cut_percent",
            "here (the KIP's)": "set_up",
        },
        (f"KIP-951 states its cut as {document['published_cut_percent']} %.",),
        "published",
    )


def _set_up(document: RedirectMeasured) -> Table:
    return table_of(
        "Set up otherwise than KIP-951's",
        document["set_up_otherwise"],
        {"what": "what", "KIP-951": "published_value", "here": "value_here"},
        name="set_up",
    )


def _curve(curve: GainCurve) -> Table:
    lines = curve["curves"]
    waits = [
        {point["stale_metadata_ms"]: point["move_wait_ms"] for point in line["points"]}
        for line in lines
    ]
    stale = sorted({ms for by_staleness in waits for ms in by_staleness})
    return Table(
        "Gain curve: wait for a moved leader in ms, by how long Metadata is stale after a change",
        ("arm", *(Column(f"{ms:g} ms", 1) for ms in stale)),
        tuple(
            (line["arm"], *(point["move_wait_ms"] for point in line["points"])) for line in lines
        ),
        name="gain_curve",
    )


def _saved(curve: GainCurve) -> Table:
    def arms(pair: Saved | ComparedArms) -> tuple[str, str]:
        return str(pair["without"]), str(pair["with"])

    verdicts = {
        (pair["stale_metadata_ms"], *arms(pair)): pair["verdict"] for pair in curve["comparisons"]
    }
    return table_of(
        "What hints save",
        sorted(curve["savings"], key=arms),
        {
            "without": "without",
            "with": "with",
            Column("stale for ms", 0): lambda saving: float(saving["stale_metadata_ms"]),
            Column("wait without", 1): "without_ms",
            Column("with", 1): "with_ms",
            Column("saved ms", 1): "saved_ms",
            Column("cut %", 1): "cut_percent",
            "verdict": lambda saving: verdicts[saving["stale_metadata_ms"], *arms(saving)],
        },
        name="savings",
    )


def _prediction(prediction: Prediction) -> Table:
    return table_of(
        "What hints would save on this cluster",
        prediction["savings"],
        {
            "Metadata behind": "behind_statistic",
            Column("ms", 1): "stale_metadata_ms",
            "without": "without",
            "with": "with",
            Column("wait without", 1): "without_ms",
            Column("with", 1): "with_ms",
            Column("saved ms", 1): "saved_ms",
            "beyond the curve": "beyond_the_curve",
        },
        (
            "Metadata behind: how long after the first broker another one showed a new leader, as "
            "measured now; the waits for a moved leader are read off the gain curve.",
        ),
        "prediction",
    )
