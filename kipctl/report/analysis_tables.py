"""Tables of the pipeline's results, from the document that `analyze --output json` prints."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

from kipctl.counts import counted
from kipctl.documents.pages import Row, Rows
from kipctl.report.columns import measured
from kipctl.report.tables import (
    Cell,
    Column,
    Columns,
    Paragraph,
    Source,
    Table,
    Tone,
    identifier,
    table_of,
)
from kipctl.trace.codes import PHASES, WAITS_BELOW_MS

Document = Mapping[str, Any]
_Columns = Columns[Row]


def _counts(names: str | Mapping[str, str]) -> _Columns:
    """Columns of whole numbers: by title, where they are; or several, called as they are said."""
    by_title = names if isinstance(names, Mapping) else {name: name for name in names.split(", ")}
    return {Column(title, right=True): name.replace(" ", "_") for title, name in by_title.items()}


def _megabytes(title: str, name: str, digits: int = 3) -> _Columns:
    return {Column(title, digits, right=True): lambda row: _scaled(row[name], 1e-6)}


def _scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by


def _phase_share(phase: str, row: Row) -> Cell:
    total = sum(spent["sum"] or 0 for spent in row["phases_ms"].values())
    return 100 * (row["phases_ms"][phase]["sum"] or 0) / total if total else None


def _reads_per_second(window: str, row: Row) -> Cell:
    """'-' where nobody read, or the window has no length."""
    read: int | None = row[f"{window}_read"]
    return read / row[f"{window}_seconds"] if read else read


def _of_window(window: str) -> _Columns:
    return {
        Column(f"{window}: records/s", 0, right=True): f"{window}_records_per_second",
        **measured(f"{window}_latency_ms.p99", title=f"{window}:"),
        Column(f"{window}: failed", right=True): f"{window}_failed",
        Column(f"{window}: read/s", 0, right=True): partial(_reads_per_second, window),
    }


_QUANTILES = ("p50", "p95", "p99", "p999", "p9999", "max")
_WAITS = ("wait_ms.p50", "wait_ms.p99", "wait_ms.max")
_REDIRECTED_TIME: _Columns = {
    Column(f"{phase.replace('_', ' ')} %", right=True): partial(_phase_share, phase)
    for phase in PHASES
}
_COLUMNS: Mapping[str, _Columns] = {
    "records": {
        **_counts("acknowledged, failed, batches"),
        **_megabytes("MB", "bytes", 1),
        Column("records/s", 0, right=True): "records_per_second",
    },
    "latency": {
        **_counts("records"),
        **measured("time_ms.mean", *(f"time_ms.{name}" for name in _QUANTILES), title=""),
    },
    "failures": _counts("records"),
    "moves": {
        **measured("moves", *_WAITS),
        **_counts({f"under {ms:,} ms": f"by_wait.below_{ms}_ms" for ms in WAITS_BELOW_MS}),
        **_counts({"longer": "by_wait.longer", "not ready": "not_ready"}),
    },
    "redirects": {
        **_counts({"redirected": "episodes", "leader errors": "errors"}),
        **_counts({"hints followed": "hints.followed", "known": "hints.known"}),
        **_counts({"stale": "hints.stale", "same epoch": "hints.same_epoch"}),
        **_counts({"the refuser": "hints.refuser", "unknown node": "hints.unknown_node"}),
        **_counts({"another node's endpoint": "hints.other_endpoint", "absent": "hints.absent"}),
        **_counts({"ignored": "hints.ignored", "in draft form": "hints.draft"}),
        **_counts({"appended, then failed": "appended_then_failed", "loops": "loops"}),
        **measured("client_share_ms.p50", "client_share_ms.p99"),
        **measured("latency_ms.p50", "latency_ms.p99"),
    },
    "actions": {
        Column("at s", 2, right=True): lambda row: row["called_ms"] / 1000,
        **_counts("partitions"),
        **measured("controller_ms", "convergence_ms"),
        **_counts("redirected"),
        **measured("recovery_ms"),
        **_of_window("before"),
        **_of_window("during"),
        **_of_window("after"),
        Column("error", right=True): lambda row: row["error"] or "",
    },
    "rpcs": {
        **_counts("requests, errors, unanswered"),
        **_megabytes("MB sent", "request_bytes"),
        **_megabytes("MB received", "response_bytes"),
        **measured("took_ms.p50", "took_ms.p99"),
    },
    "metadata": {
        **_counts({"requests": "requests", "waited for": "critical"}),
        **_counts("errors, bytes"),
        **measured("took_ms.p50", "took_ms.p99"),
    },
    "reads": {
        **_counts({"answers": "responses", "records": "records"}),
        **_megabytes("MB", "bytes"),
        **_megabytes("MB across racks", "cross_rack_bytes"),
        Column("within the rack %", right=True): lambda row: _scaled(row["local_share"], 100),
        **_counts("named a replica, errors"),
    },
    "flips": {
        **_counts("partitions, flipped, flips"),
        **_counts({"most of one": "most_flips", "preferred replica changed": "preferred_changes"}),
    },
    "read_errors": _counts({"answers": "responses"}),
    "out_of_range": _counts("times"),
}
"""What is most asked for; of a table that is not here, all its columns are shown."""


_OF_FAILED = ("records", "failures", "actions")
"""Tables that count failed records."""
_UNSEEN_TITLE = "Records that were refused, and not seen again"


def _not_seen_again(records: int) -> str:
    """What is known of records that are counted as failed in the run of a tap."""
    return (
        f"{records:,} {'was' if records == 1 else 'were'} refused in batches that a tap did not see"
        " again; a client may have sent them in others."
    )


def _without_failed(columns: _Columns, all_of_taps: bool) -> _Columns:
    """The columns with another title for what failed, where rows are of taps: a client may have
    sent these records again, in other batches."""
    named = "not seen again" if all_of_taps else "failed, or not seen again"

    def renamed(column: Column | str) -> Column | str:
        title = column.title if isinstance(column, Column) else column
        if not title.endswith("failed"):
            return column
        return Column(title.removesuffix("failed") + named, right=True)

    return {renamed(column): source for column, source in columns.items()}


def _rows_of_taps(document: Document, name: str) -> Rows:
    """Rows of the runs that a tap recorded; where they do not name their run, of these alone."""
    runs = document.get("runs", ())
    taps = {run["run"] for run in runs if run.get("command") == "tap"}
    if len(taps) == len(runs):
        return document[name] if runs else ()
    return [row for row in document[name] if row.get("run") in taps]


def analysis_answer(document: Document) -> Paragraph:
    """What became of the records, and what moved leaders cost, over all rows of the tables."""

    def total(name: str, column: str) -> int:
        return sum(row[column] or 0 for row in document[name])

    said = []
    taps = _rows_of_taps(document, "records")
    unseen = sum(row["failed"] or 0 for row in taps)
    failed = total("records", "failed") - unseen
    if document["records"]:
        acknowledged = total("records", "acknowledged")
        are_taps = len(taps) == len(document["records"])
        of_others = "" if are_taps else f", {failed or 'none'} failed"
        said.append(f"{counted(acknowledged, 'record', 'were')} acknowledged{of_others}.")
    if unseen:
        said.append(_not_seen_again(unseen))
    if document["reads"]:
        said.append(f"{counted(total('reads', 'records'), 'record', 'were')} read.")
    if moves := document["moves"]:
        longest = max(row["wait_ms"]["max"] or 0 for row in moves)
        said.append(
            f"Clients met {counted(total('moves', 'moves'), 'moved leader')}, and waited"
            f" {longest:,.1f} ms"
            " for one at most."
        )
    else:
        said.append("No client met a moved leader.")
    return Paragraph(" ".join(said), tone=Tone.BAD if failed else Tone.NONE)


def analysis_tables(document: Document, names: Sequence[str] = ()) -> tuple[Table, ...]:
    """The tables of recorded runs, all or those of these names; one without rows is left out.

    Which there are, what they are called and by which keys they are, the document's `tables` say.
    """
    tables = []
    for name, about in document["tables"].items():
        rows = _with_window(document[name], document)
        if not rows or (names and name not in names):
            continue
        columns = _COLUMNS.get(name) or _all_of(rows[0], about["keys"])
        unseen = _rows_of_taps(document, name) if name in _OF_FAILED else ()
        if unseen:
            columns = _without_failed(columns, len(unseen) == len(rows))
        table = _table(name, about["title"], about, rows, columns)
        if name == "failures" and unseen:
            count = sum(row["records"] for row in unseen)
            title = _UNSEEN_TITLE if len(unseen) == len(rows) else table.title
            table = replace(table, title=title, notes=(*table.notes, _not_seen_again(count)))
        tables.append(table)
        if name == "redirects":
            title = "Where the time of what was redirected went"
            tables.append(_table("redirected_time", title, about, rows, _REDIRECTED_TIME))
    return tuple(tables)


def _all_of(row: Row, keys: Sequence[str]) -> _Columns:
    """Every column but the keys, in what its name says that it is in."""
    columns: dict[Column | str, Source[Row]] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            columns |= measured(*(f"{name}.{part}" for part in value), digits=3)
        elif name.endswith("bytes"):
            columns |= _megabytes(f"{_words(name.removesuffix('bytes'))}MB", name)
        elif name not in keys:
            columns |= measured(name, digits=3)
    return columns


def _words(name: str) -> str:
    return name.replace("_", " ")


def _table(name: str, title: str, about: Mapping[str, Any], rows: Rows, columns: _Columns) -> Table:
    """What a row is of (its keys, from the left), then what was measured of it."""
    keys: _Columns = {_words(key): identifier(key) for key in rows[0] if key in about["keys"]}
    notes: tuple[str, ...] = ()
    if about["rows"] > about["shown"]:
        notes = (
            f"{about['shown']:,} of {about['rows']:,} rows: --limit shows more, --save has all.",
        )
    return table_of(title, rows, {**keys, **columns}, notes, name)


def _with_window(rows: Rows, document: Document) -> Rows:
    """The number of a window as its seconds since the run's start."""
    return [
        {**row, "window": _seconds(round(1000 * row["window"] * document["window_ms"]))}
        if "window" in row
        else row
        for row in rows
    ]


def _seconds(us: int) -> str:
    """Exactly: windows may be short, and begin late."""
    return f"{Decimal(us).scaleb(-6).normalize():f} s"
