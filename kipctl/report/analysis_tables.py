"""Tables of the pipeline's results, from the document that `analyze --output json` prints."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from kipctl.counts import counted
from kipctl.report.tables import Cell, Column, Paragraph, Table, Tone
from kipctl.trace.codes import PHASES, WAITS_BELOW_MS

Document = Mapping[str, Any]
Row = Mapping[str, Any]
Rows = Sequence[Row]


@dataclass(frozen=True, slots=True)
class _Measure:
    """A shown column: its title, its decimals, and the cell for a row."""

    title: str
    cell: Callable[[Row], Cell]
    digits: int = 0


def _count(title: str, name: str) -> _Measure:
    return _Measure(title, lambda row: row[name])


def _ms(title: str, name: str, digits: int = 3) -> _Measure:
    """A column in microseconds, shown in milliseconds."""
    return _Measure(title, lambda row: None if row[name] is None else row[name] / 1000, digits)


def _per_second(title: str, name: str) -> _Measure:
    return _Measure(title, lambda row: row[name], 0)


def _per_second_of(title: str, name: str, seconds: str) -> _Measure:
    """A column of counts, by one of seconds; '-' where either is not known."""
    return _Measure(title, lambda row: row[name] / row[seconds] if row[name] else row[name], 0)


def _share(part: str, of: Sequence[str]) -> Callable[[Row], Cell]:
    def cell(row: Row) -> Cell:
        total = sum(row[name] or 0 for name in of)
        return 100 * (row[part] or 0) / total if total else None

    return cell


_PHASE_SUMS = [f"{phase}_sum_us" for phase in PHASES]
_RECORDS = (
    _count("acknowledged", "acknowledged"),
    _count("failed", "failed"),
    _count("batches", "batches"),
    _Measure("MB", lambda row: row["bytes"] / 1e6, 1),
    _per_second("records/s", "records_per_second"),
)
_LATENCY = (
    _count("records", "records"),
    _ms("mean ms", "mean_us"),
    *(
        _ms(f"{shown} ms", f"{name}_us")
        for name, shown in {
            "p50": "p50",
            "p95": "p95",
            "p99": "p99",
            "p999": "p99.9",
            "p9999": "p99.99",
            "max": "max",
        }.items()
    ),
)
_REDIRECTS = (
    _count("redirected", "episodes"),
    _count("leader errors", "errors"),
    _count("hints followed", "hints_followed"),
    _count("known", "hints_known"),
    _count("stale", "hints_stale"),
    _count("same epoch", "hints_same_epoch"),
    _count("the refuser", "hints_refuser"),
    _count("unknown node", "hints_unknown_node"),
    _count("another node's endpoint", "hints_other_endpoint"),
    _count("absent", "hints_absent"),
    _count("ignored", "hints_ignored"),
    _count("in draft form", "hints_draft"),
    _count("appended, then failed", "appended_then_failed"),
    _count("loops", "loops"),
    _ms("client's wait p50 ms", "client_share_p50_us"),
    _ms("client's wait p99 ms", "client_share_p99_us"),
    _ms("latency p50 ms", "latency_p50_us", 1),
    _ms("latency p99 ms", "latency_p99_us", 1),
)
_MOVES = (
    _count("moved leaders", "moves"),
    _ms("wait p50 ms", "wait_p50_us"),
    _ms("wait p99 ms", "wait_p99_us"),
    _ms("wait max ms", "wait_max_us"),
    *(_count(f"under {ms:,} ms", f"below_{ms}_ms") for ms in WAITS_BELOW_MS),
    _count("longer", "longer"),
    _count("not ready", "not_ready"),
)
_REDIRECTED_TIME = tuple(
    _Measure(f"{phase.replace('_', ' ')} %", _share(name, _PHASE_SUMS), 1)
    for phase, name in zip(PHASES, _PHASE_SUMS, strict=True)
)
_ACTIONS = (
    _Measure("at s", lambda row: row["called_us"] / 1e6, 2),
    _count("partitions", "partitions"),
    _ms("done after ms", "controller_us", 0),
    _ms("known to all after ms", "convergence_us", 0),
    _count("redirected", "redirected"),
    _ms("recovered after ms", "recovery_us", 0),
    *(
        measure
        for window in ("before", "during", "after")
        for measure in (
            _per_second(f"{window}: records/s", f"{window}_records_per_second"),
            _ms(f"{window}: p99 ms", f"{window}_p99_us", 1),
            _count(f"{window}: failed", f"{window}_failed"),
            _per_second_of(f"{window}: read/s", f"{window}_read", f"{window}_seconds"),
        )
    ),
    _Measure("error", lambda row: row["error"] or ""),
)
_RPCS = (
    _count("requests", "requests"),
    _count("errors", "errors"),
    _count("unanswered", "unanswered"),
    _Measure("MB sent", lambda row: row["request_bytes"] / 1e6, 3),
    _Measure("MB received", lambda row: row["response_bytes"] / 1e6, 3),
    _ms("p50 ms", "p50_us"),
    _ms("p99 ms", "p99_us"),
)
_METADATA = (
    _count("requests", "requests"),
    _count("waited for", "critical"),
    _count("errors", "errors"),
    _count("bytes", "bytes"),
    _ms("p50 ms", "p50_us"),
    _ms("p99 ms", "p99_us"),
)
_READS = (
    _count("answers", "responses"),
    _count("records", "records"),
    _Measure("MB", lambda row: row["bytes"] / 1e6, 3),
    _Measure("MB across racks", lambda row: row["cross_rack_bytes"] / 1e6, 3),
    _Measure("within the rack %", lambda row: _percent(row["local_share"]), 1),
    _count("named a replica", "named_a_replica"),
    _count("errors", "errors"),
)
_FLIPS = (
    _count("partitions", "partitions"),
    _count("flipped", "flipped"),
    _count("flips", "flips"),
    _count("most of one", "most_flips"),
    _count("preferred replica changed", "preferred_changes"),
)


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


_MEASURES: Mapping[str, tuple[_Measure, ...]] = {
    "records": _RECORDS,
    "latency": _LATENCY,
    "failures": (_count("records", "records"),),
    "moves": _MOVES,
    "redirects": _REDIRECTS,
    "actions": _ACTIONS,
    "rpcs": _RPCS,
    "metadata": _METADATA,
    "reads": _READS,
    "flips": _FLIPS,
    "read_errors": (_count("answers", "responses"),),
    "out_of_range": (_count("times", "times"),),
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


def _without_failed(measures: Sequence[_Measure], all_of_taps: bool) -> tuple[_Measure, ...]:
    """The measures with another title for what failed, where rows are of taps: a client may have
    sent these records again, in other batches."""
    named = "not seen again" if all_of_taps else "failed, or not seen again"
    return tuple(
        replace(measure, title=measure.title.removesuffix("failed") + named)
        if measure.title.endswith("failed")
        else measure
        for measure in measures
    )


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
        longest = max(row["wait_max_us"] or 0 for row in moves) / 1000
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
        measures = _MEASURES.get(name) or _all_of(rows[0], about["keys"])
        unseen = _rows_of_taps(document, name) if name in _OF_FAILED else ()
        if unseen:
            measures = _without_failed(measures, len(unseen) == len(rows))
        table = _table(name, about["title"], about, rows, measures)
        if name == "failures" and unseen:
            count = sum(row["records"] for row in unseen)
            title = _UNSEEN_TITLE if len(unseen) == len(rows) else table.title
            table = replace(table, title=title, notes=(*table.notes, _not_seen_again(count)))
        tables.append(table)
        if name == "redirects":
            title = "Where the time of what was redirected went"
            tables.append(_table("redirected_time", title, about, rows, _REDIRECTED_TIME))
    return tuple(tables)


def _all_of(row: Row, keys: Sequence[str]) -> tuple[_Measure, ...]:
    """Every column but the keys, in what its name says that it is in."""

    def measure(name: str) -> _Measure:
        if name.endswith("_us"):
            return _ms(f"{_words(name.removesuffix('_us'))} ms", name)
        if name.endswith("bytes"):
            return _Measure(f"{_words(name.removesuffix('bytes'))}MB", _megabytes(name), 3)
        return _count(_words(name), name)

    return tuple(measure(name) for name in row if name not in keys)


def _megabytes(name: str) -> Callable[[Row], Cell]:
    return lambda row: None if row[name] is None else row[name] / 1e6


def _words(name: str) -> str:
    return name.replace("_", " ")


def _table(
    name: str, title: str, about: Mapping[str, Any], rows: Rows, measures: Sequence[_Measure]
) -> Table:
    """What a row is of (its keys, from the left), then the measures."""
    keys = [key for key in rows[0] if key in about["keys"]]
    notes: tuple[str, ...] = ()
    if about["rows"] > about["shown"]:
        notes = (
            f"{about['shown']:,} of {about['rows']:,} rows: --limit shows more, --save has all.",
        )
    return Table(
        title,
        (
            *map(_words, keys),
            *(Column(m.title, m.digits, right=True) for m in measures),
        ),
        tuple(
            (*(_key(row[key]) for key in keys), *(m.cell(row) for m in measures)) for row in rows
        ),
        notes,
        name=name,
    )


def _key(value: Any) -> Cell:
    # Identifiers: no thousands separators.
    return value if value is None or isinstance(value, str) else str(value)


def _with_window(rows: Rows, document: Document) -> Rows:
    """The number of a window as its seconds since the run's start."""
    return [
        {**row, "window": _seconds(row["window"] * document["window_us"])}
        if "window" in row
        else row
        for row in rows
    ]


def _seconds(us: int) -> str:
    """Exactly: windows may be short, and begin late."""
    return f"{Decimal(us).scaleb(-6).normalize():f} s"
