"""A request log that was read: its lines counted, and what is told of in them, as DataFrames."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kipctl.errors import PipelineError, UsageError
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.inputs import ALWAYS, Files, located
from kipctl.pipeline.period import Period
from kipctl.pipeline.request_log.bodies import with_header, with_metadata
from kipctl.pipeline.request_log.callers import connections_of, with_call, with_caller
from kipctl.pipeline.request_log.cluster import (
    Brokers,
    brokers_of,
    leaders_of,
    topic_names,
)
from kipctl.pipeline.request_log.cuts import MARKER, before, cut, grouped, time_of
from kipctl.protocol.api import ApiKey

BROKEN_SHOWN = 20
_SHOWN_LENGTH = 120


@dataclass(frozen=True, slots=True)
class LineCounts:
    """Lines by what they are. `parsed` and `broken` hold the marker, `other` do not."""

    read: int
    parsed: int
    broken: int
    other: int


class BrokenLine(NamedTuple):
    """A line that holds the marker and no whole JSON: its file, its number (from 1), its start."""

    file: str
    line: int
    text: str


class RequestLog:
    """Lines of brokers' request logs.

    `lines` are counted and `broken` found when it is made: the text is read once for that, and what
    is alike in it is kept, in the executors' memory and disks. The rest is computed from that when
    it is asked for, and kept as well; plans are cut off there (`localCheckpoint`), since Spark
    would go through all of a plan again for each step that is added to it.
    """

    def __init__(self, lines: DataFrame, name: str, timezone: str) -> None:
        self.text = lines
        self.name = name
        self.timezone = timezone
        groups = lines.transform(cut, timezone).transform(grouped).transform(with_header)
        self._groups = groups.withColumn("kind", _kind()).transform(checkpointed)
        counts = {
            row.kind: row.lines
            for row in self._groups.groupBy("kind").agg(F.sum("requests").alias("lines")).collect()
        }
        parsed, broken, other = (counts.get(kind, 0) for kind in ("parsed", "broken", "other"))
        self.lines = LineCounts(parsed + broken + other, parsed, broken, other)
        if not parsed + broken:
            raise PipelineError(
                f"{name} holds no request lines ({other:,} other lines).",
                "Switch kafka.request.logger on first: kipctl request-log on, or kipctl lab up "
                "--request-log.",
            )
        self.broken = self._broken_lines() if broken else ()

    @cached_property
    def _parsed(self) -> DataFrame:
        return self._groups.filter("kind = 'parsed'").transform(with_call)

    @cached_property
    def metadata(self) -> DataFrame:
        """The Metadata lines: what `with_call` adds, `requests` (1 unless a line is there twice),
        `received_us`, and the bodies `request` and `response`."""
        lines = self._parsed.filter(f"whole is not null and api_key = {int(ApiKey.METADATA)}")
        timed = lines.withColumn("received_us", F.unix_micros("first"))
        return timed.transform(with_metadata).drop("whole").transform(checkpointed)

    @cached_property
    def brokers(self) -> Brokers:
        """Those that Metadata answers named."""
        return brokers_of(self.metadata)

    @cached_property
    def topics(self) -> DataFrame:
        """`id` and `name` of those that Metadata answers named."""
        return topic_names(self.metadata).transform(checkpointed)

    @cached_property
    def leaders(self) -> DataFrame:
        """When which leader became known: see `leaders_of`."""
        return leaders_of(self.metadata).transform(checkpointed)

    @cached_property
    def connections(self) -> DataFrame:
        """What the requests of a connection tell together: see `connections_of`."""
        return connections_of(self._parsed, self.brokers).transform(checkpointed)

    @cached_property
    def calls(self) -> DataFrame:
        """The requests, counted where they are alike.

        `requests` (how many), what `with_call` and `with_caller` add, `first` and `last`
        (timestamps of their completion); of consumers that name it `rack`, and `read_bytes`; and
        `whole`, the line, where something is to be read in its body.
        """
        rack = F.get_json_object(F.concat(F.lit('{"rack":'), "rack", F.lit("}")), "$.rack")
        told = self._parsed.withColumn("rack", rack)
        return told.transform(with_caller, self.connections, self.brokers).transform(checkpointed)

    def _broken_lines(self) -> tuple[BrokenLine, ...]:
        broken = self._groups.filter("kind = 'broken'").groupBy("file").count().collect()
        files = sorted(row.file for row in broken if row.file is not None)
        # A piece that no parser accepts, in a line that looked like Kafka's: it may be anywhere.
        everywhere = len(files) < len(broken)
        return broken_lines(self.text, [] if everywhere else files[:BROKEN_SHOWN], self.timezone)


def read_request_log(
    spark: SparkSession,
    paths: Sequence[str],
    timezone: str = "UTC",
    period: Period = ALWAYS,
) -> RequestLog:
    """Read request logs: files, folders, wildcards, .gz, on any file system that Spark reads.

    `timezone` is the zone of the brokers' clocks, which log4j does not write. Of the log the period
    is taken; lines that tell no time are in no period. Raises UsageError when there is no such
    path, or the period is not one of wall time, PipelineError when no line is a request's.
    """
    for path in paths:
        if not Files(spark, path).matching():
            raise UsageError(f"There is no {path}.", "Name files or folders of request logs.")
    for moment in (period.since, period.until):
        if moment and not moment.is_wall:
            raise UsageError(
                "A request log has no start to count from.",
                "Give --since and --until as times, such as 2026-01-31T12:00:00.",
            )
    lines = spark.read.text([located(path) for path in paths]).select(
        "value",
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
    )
    if period != ALWAYS:
        stamp = before(before("value", ',"request":'), MARKER)
        lines = (
            lines.withColumn("_us", F.unix_micros(time_of(stamp, timezone)))
            .filter(period.condition("_us", 0))
            .drop("_us")
        )
    return RequestLog(lines, ", ".join(paths), timezone)


def _kind() -> Column:
    return (
        F.when(~F.col("is_request"), "other")
        .when(F.col("header").isNull(), "broken")
        .otherwise("parsed")
    )


def broken_lines(lines: DataFrame, files: Sequence[str], timezone: str) -> tuple[BrokenLine, ...]:
    """The first BROKEN_SHOWN broken lines, by file and number; `files` hold some, none means all.

    Spark reads a file in blocks and does not number its lines, so these files are read again: the
    lines of each block are counted, and those of the blocks before added up. Within a block, ids
    grow by one from line to line.
    """
    chosen = lines.filter(F.col("file").isin(list(files))) if files else lines
    numbered = chosen.withColumn("id", F.monotonically_increasing_id())
    blocks = numbered.groupBy("file", "block").agg(F.count("*").alias("lines"), F.min("id"))
    counted = sorted(tuple(row) for row in blocks.collect())
    found = (
        cut(numbered, timezone, "value", "block", "id", "file")
        .transform(with_header)
        .filter(_kind() == "broken")
        .select("file", "block", "id", F.substring("value", 1, _SHOWN_LENGTH).alias("text"))
        .orderBy("file", "block", "id")
        .limit(BROKEN_SHOWN)
        .collect()
    )
    starts: dict[tuple[str, int], int] = {}
    last_file, passed = "", 0
    for file, block, count, first_id in counted:
        passed = passed if file == last_file else 0
        starts[file, block] = passed - first_id + 1
        last_file, passed = file, passed + count
    return tuple(
        BrokenLine(unquoted(row.file), starts[row.file, row.block] + row.id, row.text)
        for row in found
    )


def unquoted(file: str) -> str:
    """A file as a person names it: Spark gives URIs, and of this machine's files `file:/PATH`."""
    if not file.startswith("file:/"):
        return file
    return "/" + unquote(file.removeprefix("file:")).lstrip("/")
