"""Tables of `experiment redirect`, from the document that `--output json` prints."""

from collections.abc import Mapping
from typing import Any

from kipctl.report.move_tables import WAIT_MEANING, wait_title
from kipctl.report.perf_tables import doubts_tables
from kipctl.report.tables import Cell, Column, Paragraph, Table, paragraphs
from kipctl.report.verdicts import (
    VERDICT_COLUMNS,
    compared_answer,
    verdict_cells,
    verdict_notes,
)

Document = Mapping[str, Any]
_KEPT_UP = 0.9
"""An arm that comes to this share of the load's rate is not told of."""


def redirect_answer(document: Document) -> tuple[Paragraph, ...]:
    """Whether hints cut the wait for a moved leader, or would on this cluster."""
    if "arms" in document:
        compared = (("", one) for one in document["comparisons"])
        return compared_answer("The wait for a moved leader", compared)
    if prediction := document.get("prediction"):
        saved = [one["saved_ms"] for one in prediction["saved"] if one["saved_ms"] is not None]
        most = f"up to {max(saved):,.1f} ms" if saved else "a time that is not known"
        return paragraphs(f"Hints would save {most} of the wait for a moved leader here.")
    return paragraphs("What hints save, by how long Metadata is stale after a change.")


def redirect_tables(document: Document) -> tuple[Table, ...]:
    """All that was measured: arms, how they differ, the published table, the gain curve."""
    tables: list[Table] = []
    if "arms" in document:
        tables += doubts_tables(document)
        tables += [_moves(document), _compared(document), _arms(document)]
        tables += [_published(document), _set_up(document)]
    if curve := document.get("gain_curve"):
        tables += [_curve(curve), _saved(curve)]
    if prediction := document.get("prediction"):
        tables.append(_prediction(prediction))
    return tuple(tables)


def _arms(document: Document) -> Table:
    rows = tuple(_arm(arm) for arm in document["arms"])
    return Table(
        f"Records while leaders rotated, {_conditions(document)}",
        (
            "arm",
            Column("p50 ms", 2),
            Column("p99 ms", 1),
            Column("p99.9 ms", 1),
            Column("p99.9 of each run", right=True),
            Column("as the client says", right=True),
            "rotations",
            "redirected batches",
            "hints",
            "Metadata requests",
            Column("hints could remove, %", 0),
            "records failed",
        ),
        rows,
        (
            *_slow(document),
            "From a batch's creation to its acknowledgement at the tap, warm-up left out; the "
            "client's own figure is of its whole run.",
            "Hints could remove: of the time of redirected batches, what went into backoff, "
            "waiting for Metadata, and asking old leaders again.",
        ),
        "arms",
    )


def _slow(document: Document) -> tuple[str, ...]:
    """Which arms did not keep up with the load."""
    asked = document["throughput"]
    slow = [arm for arm in document["arms"] if arm["records_per_second"] < _KEPT_UP * asked]
    if not slow:
        return ()
    reported = ", ".join(f"{arm['arm']} {arm['records_per_second']:,.0f}" for arm in slow)
    return (
        f"Of {asked:,} records/s asked for there were: {reported}. Times are of overload there.",
    )


def _arm(arm: Document) -> tuple[Cell, ...]:
    latency, redirects = arm["latency_ms"], arm["redirects"]
    said = [one["latency_ms"].get("p999") for one in arm["client_says"]]
    return (
        arm["arm"],
        latency["p50"],
        latency["p99"],
        latency["p999"],
        _each(arm["p999_ms_by_run"]),
        _each([ms for ms in said if ms is not None]) or None,
        arm["rotations"],
        redirects["batches"],
        redirects["hints"]["present"],
        arm["metadata_rpcs"]["total"],
        redirects["removable_percent"],
        arm["records"]["failed"],
    )


def _each(of_runs: list[float]) -> str:
    return " | ".join(f"{ms:,.0f}" for ms in of_runs)


def _conditions(document: Document) -> str:
    reported = [f"acks={document['acks']}"]
    if document["metadata_delay_ms"]:
        reported.append(f"Metadata answers {document['metadata_delay_ms']:g} ms late")
    if document["stale_metadata_ms"]:
        reported.append(f"Metadata stale for {document['stale_metadata_ms']:g} ms")
    return ", ".join(reported)


def _compared(document: Document) -> Table:
    rows = tuple(
        (
            one["without"],
            one["with"],
            one["without_ms"],
            one["with_ms"],
            one["cut_percent"],
            *verdict_cells(one),
        )
        for one in document["comparisons"]
    )
    return Table(
        "Arms of one client compared, by the wait for a moved leader",
        (
            "arm",
            "with",
            Column("ms", 2),
            Column("with it, ms", 2),
            Column("cut %", 1),
            *VERDICT_COLUMNS,
        ),
        rows,
        verdict_notes(document["comparisons"]),
        "comparisons",
    )


def _moves(document: Document) -> Table:
    """How long moved leaders made each arm wait."""
    arms = document["arms"]
    names = list(arms[0]["redirects"]["moves"]["by_wait"])
    return Table(
        f"Wait for a moved leader, {_conditions(document)}",
        (
            "arm",
            Column("p50 ms", 2),
            Column("p99 ms", 1),
            Column("p50 of each run", right=True),
            "moves met",
            *(f"{wait_title(name)}, %" for name in names),
            "not ready",
            Column("refreshes a move", 2),
            "Metadata behind others",
            Column("for at most ms", 1),
        ),
        tuple(_moved(arm) for arm in arms),
        (
            f"{WAIT_MEANING} Not ready: the new leader refused, as it did not know yet. Metadata "
            "behind others: requests that waited on their connection for answers to Produce, which "
            "come in order (head-of-line blocking).",
        ),
        "moves",
    )


def _moved(arm: Document) -> tuple[Cell, ...]:
    moves = arm["redirects"]["moves"]
    refreshes = arm["metadata_rpcs"]["by_cause"].get("leader_change")
    return (
        arm["arm"],
        moves["wait_ms"]["p50"],
        moves["wait_ms"]["p99"],
        " | ".join("-" if ms is None else f"{ms:,.1f}" for ms in arm["move_wait_ms_by_run"]),
        moves["met"],
        *(
            round(100 * count / moves["met"]) if moves["met"] else None
            for count in moves["by_wait"].values()
        ),
        moves["not_ready"],
        refreshes / moves["met"] if refreshes is not None and moves["met"] else None,
        arm["metadata_rpcs"]["queued_behind"]["requests"],
        arm["metadata_rpcs"]["queued_behind"]["ms"]["max"],
    )


def _published(document: Document) -> Table:
    rows = tuple(
        (
            one["arm"],
            one["p999_ms"],
            one["against"],
            one["cut_percent"],
            one["kip_arm"],
            one["published_p999_ms"],
            _each(one["published_p999_ms_by_run"]) or None,
            one["published_cut_percent"],
            one["set_up_otherwise"],
        )
        for one in document["beside_published"]
    )
    return Table(
        "Beside what KIP-951 published, p99.9",
        (
            "arm",
            Column("ms", 1),
            "against",
            Column("cut %", 1),
            "KIP-951's arm",
            Column("its ms", 0),
            Column("its runs", right=True),
            Column("its cut %", 0),
            "here (the KIP's)",
        ),
        rows,
        (f"KIP-951 states its cut as {document['published']['cut_percent']} %.",),
        "published",
    )


def _set_up(document: Document) -> Table:
    return Table(
        "Set up otherwise than KIP-951's",
        ("what", "KIP-951", "here"),
        tuple((one["what"], one["published"], one["here"]) for one in document["set_up_otherwise"]),
        name="set_up",
    )


def _curve(curve: Document) -> Table:
    lines = curve["lines"]
    waits = [
        {point["staleness_ms"]: point["move_wait_ms"] for point in line["points"]} for line in lines
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


def _saved(curve: Document) -> Table:
    verdicts = {
        (one["staleness_ms"], one["without"], one["with"]): one["verdict"]
        for one in curve["comparisons"]
    }
    rows = tuple(
        (
            one["without"],
            one["with"],
            float(one["staleness_ms"]),
            one["without_wait_ms"],
            one["with_wait_ms"],
            one["saved_ms"],
            one["cut_percent"],
            verdicts[one["staleness_ms"], one["without"], one["with"]],
        )
        for one in sorted(curve["saved"], key=lambda one: (one["without"], one["with"]))
    )
    return Table(
        "What hints save",
        (
            "without",
            "with",
            Column("stale for ms", 0),
            Column("wait without", 1),
            Column("with", 1),
            Column("saved ms", 1),
            Column("cut %", 1),
            "verdict",
        ),
        rows,
        name="saved",
    )


def _prediction(prediction: Document) -> Table:
    rows = tuple(
        (
            one["behind"],
            one["staleness_ms"],
            one["without"],
            one["with"],
            one["without_wait_ms"],
            one["with_wait_ms"],
            one["saved_ms"],
            one["beyond_the_curve"],
        )
        for one in prediction["saved"]
    )
    return Table(
        "What hints would save on this cluster",
        (
            "Metadata behind",
            Column("ms", 1),
            "without",
            "with",
            Column("wait without", 1),
            Column("with", 1),
            Column("saved ms", 1),
            "beyond the curve",
        ),
        rows,
        (
            "Metadata behind: how long after the first broker another one showed a new leader, as "
            "measured now; the waits for a moved leader are read off the gain curve.",
        ),
        "prediction",
    )
