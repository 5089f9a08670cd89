"""A request log that was read: its lines counted, and what they say, as DataFrames."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kipctl.documents.analysis import BrokenLine, LineCounts
from kipctl.errors import KipctlError, PipelineError, UsageError
from kipctl.next_step import Command, NextStep
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.files import unquoted
from kipctl.pipeline.jvm import of_table
from kipctl.pipeline.period import ALWAYS, Period
from kipctl.pipeline.pictures import MOST_BUCKETS, bucket
from kipctl.pipeline.preflight import why_not_read
from kipctl.pipeline.request_lines.envelope import IS_FORWARDED, MARKER, OLD_TEXT, Way, way_of, ways
from kipctl.pipeline.request_lines.reader import BROKEN_SHOWN, Reading
from kipctl.pipeline.request_lines.rows import TURN_SLOT_US, Kind
from kipctl.pipeline.request_log.accepted_produce import votes_for
from kipctl.pipeline.request_log.callers import with_caller
from kipctl.pipeline.request_log.coverage import (
    Logged,
    SlotOfFile,
    Turn,
    logged_by,
    may_turn,
    turned,
)
from kipctl.pipeline.request_log.files import (
    UTC_EVERYWHERE,
    Timezones,
    check_period,
    text_of,
    zones_of,
)
from kipctl.pipeline.request_log.groups import groups_of, of_kind, rows_of
from kipctl.pipeline.request_log.opening import opened
from kipctl.pipeline.request_log.pack import SLICE_US, packs_among, rows_of_packs
from kipctl.pipeline.request_log.places import Node, Place, Seen, nodes_of, places_of, unknown
from kipctl.pipeline.request_log.summary import Span, Summary


@dataclass(frozen=True, slots=True)
class RequestLog:
    """Lines of brokers' request logs, read once.

    `rows` are what was read of them, of ROWS. `calls` are those of requests, with `cluster`,
    `broker`, `broker_rack`, and what `callers.with_caller` makes. Both are kept in the executors'
    memory and disks. What is at `seen` is at the `places` of the same number. `refused_slots`: when
    clients were told of leader errors, in SLOT_US. `copies`: files that were left out, as they hold
    what another one holds. `logged`: what there is of each broker's log (`coverage.logged_by`).
    `envelopes`: how many lines came in which one, by its name; `untimed`: requests whose lines tell
    no time.
    """

    name: str
    rows: DataFrame
    calls: DataFrame
    lines: LineCounts
    copies: Mapping[str, str]
    envelopes: Mapping[str, int]
    untimed: int
    broken: tuple[BrokenLine, ...]
    nodes: Mapping[str, frozenset[Node]]
    seen: tuple[Seen, ...]
    places: tuple[Place, ...]
    place_rows: DataFrame
    logged: Mapping[tuple[str | None, int | str], Logged]
    refused_slots: frozenset[int]
    turns: Mapping[str, Turn]
    """Files in which clocks were turned."""
    slice_us: int
    """How long the slices of time are that `calls` were counted in; 0 for one of all the time."""


def read_request_log(
    spark: SparkSession,
    paths: Sequence[str],
    timezones: Timezones = UTC_EVERYWHERE,
    period: Period = ALWAYS,
    broker_at: Mapping[str, int] | None = None,
    *,
    by_time: bool = False,
) -> RequestLog:
    """Read request logs: files, folders and what is in them, wildcards, .gz, on any file system
    that Spark reads; no file twice, however often it is named; and packs of such (`pack.Pack`).
    Lines may be in envelopes (`envelope`): where some are, all are read again for it.

    `timezones` are the zones of the brokers' clocks, which log4j does not write. Of the log the
    period is taken; lines that tell no time are in no period. `broker_at` names brokers by address,
    see `places_of`. Raises UsageError for a path that is not there, a period that is not one of
    wall time or in which no request lies, PipelineError when no line is a request's, or none can be
    read, and what `packs_among` and `rows_of_packs` do. To be counted `by_time` lines are read once
    more, when it is known how long they last.
    """
    check_period(period)
    read = _read(spark, paths, timezones, period, by_time=by_time)
    if not read.summary.requests:
        raise _nothing_found(spark, paths, period, read.summary)
    return log_of(", ".join(paths), read, broker_at)


def log_of(name: str, read: "ReadRows", broker_at: Mapping[str, int] | None = None) -> RequestLog:
    """The log of this `name`, of what was read of it. Raises PipelineError if no request was."""
    rows, summary = read.rows, read.summary
    if summary.copies:
        rows = rows.filter(~F.col("file").isin(list(summary.copies)))
    broken = _broken_lines(rows, read, summary.broken_files) if summary.broken_files else ()
    envelopes = Counter[str]()
    for (_, envelope, kind), count in summary.envelopes.items():
        if not way_of(envelope) and kind != Kind.OUTSIDE:
            envelopes[envelope] += count
    if not summary.lines[Kind.PARSED]:
        raise nothing_read(name, broken, summary.lines[Kind.BROKEN], envelopes[OLD_TEXT])
    places = places_of(summary.seen, broker_at)
    if not_known := unknown(summary.seen, places):
        votes = votes_for(rows, not_known, places)
        places = places_of(summary.seen, broker_at, votes)
    nodes = nodes_of(summary.seen)
    logged = logged_by(summary.seen, places)
    place_rows = _rows_of(rows.sparkSession, places, logged)
    groups = groups_of(rows, read.slice_us)
    return RequestLog(
        name=name,
        rows=rows,
        calls=_calls(groups, place_rows, nodes).transform(checkpointed),
        lines={
            "read": sum(summary.lines.values()),
            "parsed": summary.lines[Kind.PARSED],
            "broken": summary.lines[Kind.BROKEN],
            "other": summary.lines[Kind.OTHER],
        },
        copies={unquoted(copy): unquoted(kept) for copy, kept in summary.copies.items()},
        envelopes=dict(sorted(envelopes.items())),
        untimed=summary.untimed,
        broken=broken,
        nodes=nodes,
        seen=tuple(summary.seen),
        places=tuple(places),
        place_rows=place_rows,
        logged=logged,
        refused_slots=summary.refused_slots,
        turns=_turns(rows, summary.spans),
        slice_us=read.slice_us,
    )


def reading_of(timezones: Timezones, zones: Mapping[str, str], period: Period) -> Reading:
    """How lines of a period are read; `zones` are those of files that have one of their own."""
    since, before = period.since, period.before
    return Reading(
        timezones.everywhere or "UTC",
        zones,
        since.us if since else None,
        before.us if before else None,
    )


class OpenedText(NamedTuple):
    """Lines that were read: `rows` of ROWS, their summary, and how files had to be opened."""

    rows: DataFrame
    summary: Summary
    how: Mapping[str, Way]


def read_text(text: DataFrame, reading: Reading) -> OpenedText:
    """The lines of a text as `files.text_of` has it, out of their envelopes."""
    how: dict[str, Way] = {}
    while True:
        rows = rows_of(opened(text, how), reading).transform(checkpointed)
        summary = Summary.of(rows)
        # What was not seen before it was opened: envelopes of mixed kinds, or broken lines in them.
        seen = ((file, name, kind != Kind.BROKEN) for file, name, kind in summary.envelopes)
        further = ways(seen, how)
        if further == how:
            return OpenedText(rows, summary, how)
        how = further


def with_blocks_of(read: OpenedText, text: DataFrame) -> DataFrame:
    """The rows, with blocks of files that were opened as they are, by which lines are numbered: for
    those who keep rows without the text."""
    if not read.how:
        return read.rows
    is_opened = F.col("file").isin(sorted(read.how))
    blocks = text.filter(is_opened).groupBy("file", "block")
    counted = blocks.agg(F.count("*").alias("requests"), F.min("id").alias("id"))
    kept = read.rows.filter(~(is_opened & (F.col("kind") == Kind.BLOCK)))
    told = counted.withColumn("kind", F.lit(str(Kind.BLOCK)))
    return kept.unionByName(told, allowMissingColumns=True)


class ReadRows(NamedTuple):
    """What was read of text and of packs: of the `text` files were opened as `how` says."""

    rows: DataFrame
    summary: Summary
    text: DataFrame | None = None
    how: Mapping[str, Way] = {}
    slice_us: int = 0


def _read(
    spark: SparkSession,
    paths: Sequence[str],
    timezones: Timezones,
    period: Period,
    *,
    by_time: bool,
) -> ReadRows:
    packs, others = packs_among(spark, paths)
    text = text_of(spark, others, period) if others else None
    packed = rows_of_packs(packs, text, timezones, period)
    reading = reading_of(timezones, zones_of(spark, timezones), period)

    def with_packed(rows: DataFrame) -> DataFrame:
        return rows if packed is None else rows.unionByName(packed)

    if text is None:
        assert packed is not None
        rows, summary, how = OpenedText(packed, Summary.of(packed), {})
    else:
        own, summary, how = read_text(text, reading)
        rows = with_packed(own)
        summary = summary if packed is None else Summary.of(rows)
    slice_us = 0
    if by_time:
        slice_us = bucket(max(summary.lasts_us, MOST_BUCKETS * SLICE_US if packs else 0))
        if text is not None:
            in_slices = replace(reading, slice_us=slice_us)
            rows = with_packed(rows_of(opened(text, how), in_slices).transform(checkpointed))
    return ReadRows(rows, summary, text, how, slice_us)


def _nothing_found(
    spark: SparkSession, paths: Sequence[str], period: Period, summary: Summary
) -> KipctlError:
    packs, others = packs_among(spark, paths)
    every = text_of(spark, others) if others else None
    files = [entry.file for pack in packs for entry in pack.files]
    files += every.inputFiles() if every is not None else []
    is_outside = period != ALWAYS and (
        any(entry.first for pack in packs for entry in pack.files)
        or (every is not None and not every.filter(F.contains("value", F.lit(MARKER))).isEmpty())
    )
    name = ", ".join(paths)
    return without_requests(name, files, summary.lines[Kind.OTHER], is_outside=is_outside)


def _turns(rows: DataFrame, spans: Mapping[str, Span]) -> dict[str, Turn]:
    """Files in which clocks were turned."""
    files = [file for file, span in spans.items() if may_turn(span.first_us, span.last_us)]
    if not files:
        return {}
    times = of_kind(rows, Kind.TIMES).filter(F.col("file").isin(files))
    first, last = F.struct("block", "id"), F.struct("block", "last_id")
    slot = F.floor(F.col("first_us") / TURN_SLOT_US).alias("slot")
    in_slots = times.groupBy("file", slot).agg(
        F.min("first_us"), F.max("last_us"), F.min(first), F.max(last)
    )
    slots: dict[str, list[SlotOfFile]] = defaultdict(list)
    for file, _, first_us, last_us, first_at, last_at in in_slots.collect():
        slots[file].append(SlotOfFile(first_us, last_us, tuple(first_at), tuple(last_at)))
    turns = ((file, turned(file_slots)) for file, file_slots in sorted(slots.items()))
    return {unquoted(file): turn for file, turn in turns if turn}


def without_requests(
    name: str, files: Sequence[str], others: int, *, is_outside: bool
) -> KipctlError:
    """Why no request was found: `files` are those that were there, `others` counts other lines;
    `is_outside` says whether requests are outside the period."""
    if is_outside:
        return UsageError(
            f"No request line of {name} lies in the period.",
            "Times are UTC, unless --since and --before, or --timezone for the lines, say more.",
        )
    if not files:
        return UsageError(
            f"{name} holds no files that Spark reads.",
            "It passes over names that begin with _ or .",
        )
    if unread := [file for file in files if why_not_read(file)]:
        return UsageError(f"{unquoted(unread[0])} cannot be read: {why_not_read(unread[0])}.")
    return PipelineError(
        f"{name} holds no request lines ({others:,} other lines).",
        NextStep(
            "Switch kafka.request.logger on first: ",
            Command("request-log on"),
            ", or ",
            Command("lab up --request-log"),
            ".",
        ),
    )


def nothing_read(name: str, broken: Sequence[BrokenLine], lines: int, old: int) -> PipelineError:
    """That none of so many `lines` with the marker could be read; so many of them are `old`."""
    first = broken[0] if broken else None
    shown = f" {first['file']}, line {first['line']}: {first['text']}" if first else ""
    if old == lines:
        return PipelineError(
            f"{name} holds text of Kafka before 2.8 ({lines:,} lines):{shown}",
            "Kafka writes requests as JSON from 2.8.0 on (KIP-673), and that is read.",
        )
    return PipelineError(
        f"No line of {name} that holds {MARKER!r} could be read, of {lines:,}:{shown}",
        f'Read is [2026-01-31 12:00:00,000] DEBUG {MARKER}{IS_FORWARDED}false,"requestHeader":'
        "{...}, plain, or as docker, Kubernetes, JSON layouts and shippers hand it on.",
    )


def _rows_of(
    spark: SparkSession,
    places: Sequence[Place],
    logged: Mapping[tuple[str | None, int | str], Logged],
) -> DataFrame:
    """The places as rows, with `broker_rack`, and how many `minutes` there are of its log."""
    schema = pa.schema(
        [
            ("file", pa.string()),
            ("address", pa.string()),
            ("cluster", pa.string()),
            ("broker", pa.int32()),
            ("broker_rack", pa.string()),
            ("minutes", pa.float64()),
        ]
    )
    rows = [
        (
            *(place.file, place.address, place.cluster, place.broker, place.rack),
            logged[place.cluster, place.address if place.broker is None else place.broker].minutes,
        )
        for place in places
    ]
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return of_table(spark, pa.Table.from_pylist(named, schema))


def _calls(groups: DataFrame, places: DataFrame, nodes: Mapping[str, frozenset[Node]]) -> DataFrame:
    brokers = {node.id for of_cluster in nodes.values() for node in of_cluster}
    parsed = groups.filter(F.col("kind") == Kind.PARSED).drop("kind")
    return parsed.join(places, ["file", "address"], "left").transform(with_caller, brokers)


def _broken_lines(rows: DataFrame, read: ReadRows, files: Sequence[str]) -> tuple[BrokenLine, ...]:
    """The first BROKEN_SHOWN broken lines, by file and number. One of several pieces has the
    first's number.

    Spark reads a file in blocks and does not number its lines: those of each block are counted, and
    those of the blocks before added up. Within a block, ids grow by one from line to line. Of files
    of the text that were opened its lines are counted, as they are.
    """
    chosen = F.col("file").isin(list(files[:BROKEN_SHOWN]))
    is_opened = F.col("file").isin(sorted(read.how))
    shown = of_kind(rows, Kind.SHOWN).filter(chosen).select("file", "block", "id", "text")
    blocks = of_kind(rows, Kind.BLOCK).filter(chosen & ~is_opened)
    counted = blocks.groupBy("file", "block").agg(F.sum("requests"), F.min("id")).collect()
    if read.text is not None and read.how:
        of_opened = read.text.filter(chosen & is_opened).groupBy("file", "block")
        counted += of_opened.agg(F.count("*"), F.min("id")).collect()
    starts: dict[tuple[str, int], int] = {}
    last_file, passed = "", 0
    for file, block, count, first_id in sorted(map(tuple, counted)):
        passed = passed if file == last_file else 0
        starts[file, block] = passed - first_id + 1
        last_file, passed = file, passed + count
    lines = shown.orderBy("file", "block", "id").limit(BROKEN_SHOWN).collect()
    return tuple(
        {
            "file": unquoted(row.file),
            "line": starts[row.file, row.block] + row.id,
            "text": row.text,
        }
        for row in lines
    )
