"""Request logs while they are written: lines as they come, and what they say with all before them.

Spark Structured Streaming reads what was added to the files (`live_source`), each line once. It is
read into rows as any text is, and the rows are kept in a folder; what they say is found by the same
analysis, of all rows. So the end is that of `analyse` of the same lines.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kipctl.documents.analysis import RequestLogAnalysis
from kipctl.errors import KipctlError, UsageError
from kipctl.pipeline.failures import failure_of
from kipctl.pipeline.jvm import of_table, schema_of
from kipctl.pipeline.launch import log_path
from kipctl.pipeline.period import ALWAYS, Period
from kipctl.pipeline.request_lines.envelope import PIECES
from kipctl.pipeline.request_lines.rows import ROWS, Kind
from kipctl.pipeline.request_log.analysis import LogQuestion, analyse
from kipctl.pipeline.request_log.files import (
    LONGEST_LINE,
    UTC_EVERYWHERE,
    Timezones,
    check_period,
    earliest_us,
)
from kipctl.pipeline.request_log.live_files import LiveFiles
from kipctl.pipeline.request_log.live_source import EARLIEST, NAME, PATHS, LiveLogs
from kipctl.pipeline.request_log.log import (
    ReadRows,
    log_of,
    read_text,
    reading_of,
    with_blocks_of,
    without_requests,
)
from kipctl.pipeline.request_log.summary import Summary

_EVERY_S = 5
"""What was written is looked for so often, if the last look has ended."""
_WAIT_S = 0.2
_PLAIN = LogQuestion()
_MOST_FOLDERS = 16
"""Rows of more batches are put together."""


class Look(NamedTuple):
    """What was known at a moment: the document (None before a request was read), how many `lines`
    were read, and how far reading is `behind`: seconds since the last answer that was read, by the
    broker's clock; None where no line tells a time."""

    document: RequestLogAnalysis | None
    lines: int
    behind: float | None


@contextmanager
def following(
    spark: SparkSession,
    paths: Sequence[str],
    question: LogQuestion = _PLAIN,
    timezones: Timezones = UTC_EVERYWHERE,
    period: Period = ALWAYS,
    broker_at: Mapping[str, int] | None = None,
) -> "Iterator[Following]":
    """Logs at paths of this machine that are still written; the others are as of
    `read_request_log`. What was read is forgotten at the end."""
    check_period(period)
    # A JVM that is being ended may still write there.
    with TemporaryDirectory(prefix="kipctl-follow-", ignore_cleanup_errors=True) as folder:
        live = LiveFiles(paths)
        zoned = [(LiveFiles([path]), zone) for path, zone in timezones.at]
        for files in (live, *(files for files, _ in zoned)):
            files.scan()  # what has come later is known by that
        kept = _Rows(spark, Path(folder, "rows"), live, zoned, timezones, period)
        spark.dataSource.register(LiveLogs)
        source = spark.readStream.format(NAME).option(PATHS, json.dumps(list(paths)))
        since = earliest_us(period.since) if period.since else 0
        lines = source.option(EARLIEST, since).load().writeStream.foreachBatch(kept.add)
        lines = lines.option("checkpointLocation", f"file:{folder}/checkpoint")
        yield Following(kept, lines, ", ".join(paths), question, broker_at)


@dataclass(slots=True)
class Following:
    """What was read so far of logs that are still written."""

    _kept: "_Rows"
    _lines: DataStreamWriter
    _name: str
    _question: LogQuestion
    _broker_at: Mapping[str, int] | None
    _told: int = 0
    _document: RequestLogAnalysis | None = None

    def until(
        self, has_ended: Callable[[float], bool], show: Callable[[Look], None]
    ) -> KipctlError | None:
        """Read until `has_ended` (that waits up to so many seconds) says so; `show` has a look
        after each batch, or some, if the look before took longer.

        Returns what ended it before that, with what was read until then still there. Raises it, and
        UsageError for lines that cannot be followed, if nothing was read.
        """
        query = self._lines.trigger(processingTime=f"{_EVERY_S} seconds").start()
        try:
            while query.isActive and not has_ended(_WAIT_S):
                if self._told < self.batches:
                    self._look(show)
            failed = self._kept.failed or query.exception()
            if failed and not self.batches:
                raise failed
            if failed is None or isinstance(failed, KipctlError):
                return failed
            return failure_of(failed, log_path(), has_ended=False)
        finally:
            query.stop()

    def _look(self, show: Callable[[Look], None]) -> None:
        self._told = self.batches
        rows = self._kept.rows()
        if rows.summary.lines[Kind.PARSED]:
            self._document = analyse(log_of(self._name, rows, self._broker_at), self._question)
        last_us = max((span.last_us for span in rows.summary.spans.values()), default=None)
        behind = None if last_us is None else time.time() - last_us / 1e6
        show(Look(self._document, sum(rows.summary.lines.values()), behind))

    def document(self, save_to: str | None = None) -> RequestLogAnalysis:
        """What `analyse` has of the lines that were read. Raises what `read_request_log` does."""
        if self._document and self._told == self.batches and save_to is None:
            return self._document
        rows = self._kept.rows()
        if not rows.summary.requests:
            files, is_outside = self._kept.files, self._kept.period != ALWAYS
            others = rows.summary.lines[Kind.OTHER]
            raise without_requests(self._name, files, others, is_outside=is_outside)
        return analyse(log_of(self._name, rows, self._broker_at), self._question, save_to)

    @property
    def batches(self) -> int:
        """How many were read."""
        return self._kept.batches

    @property
    def folder(self) -> Path:
        """Where rows are kept."""
        return self._kept.folder


@dataclass(slots=True)
class _Rows:
    """The rows of all batches, kept in a folder, and files by the names that they have now."""

    spark: SparkSession
    folder: Path
    live: LiveFiles
    zoned: Sequence[tuple[LiveFiles, str]]
    """Those of which a zone is told."""
    timezones: Timezones
    period: Period
    batches: int = 0
    failed: Exception | None = None
    _folders: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _zones: dict[str, str] = field(default_factory=dict)

    def add(self, batch: DataFrame, number: int) -> None:
        """Keep the rows of a batch; if that fails, why. A batch that is read again takes the place
        of what was written of it."""
        try:
            self._note_zones()
            lines = batch.withColumn("value", F.col("value").cast("string"))
            text = lines.filter(F.octet_length("value") < LONGEST_LINE)
            read = read_text(text, reading_of(self.timezones, self._zones, self.period))
            if any(way.how > PIECES for way in read.how.values()):
                raise UsageError(
                    "Requests of these logs are printed over several lines: they are not followed.",
                    "Leave --follow out, or follow the brokers' own files.",
                )
            self._folders.append(self._written(with_blocks_of(read, text), f"batch-{number}"))
            self.batches += 1
        except Exception as failed:
            self.failed = failed
            raise

    def rows(self) -> ReadRows:
        """All that was read."""
        self._note_names()
        if not (folders := self._folders[:]):
            empty = of_table(self.spark, ROWS.empty_table())
            return ReadRows(empty, Summary.of(empty))
        kept = self.spark.read.schema(schema_of(ROWS)).parquet(*folders)
        if len(folders) > _MOST_FOLDERS:
            merged = self._written(kept, f"until-{self.batches}")
            self._folders[: len(folders)] = [merged]
            for folder in folders:
                shutil.rmtree(folder.removeprefix("file:"))
            kept = self.spark.read.schema(schema_of(ROWS)).parquet(merged)
        names = pa.table({"file": [*self._names], "name": [*self._names.values()]})
        rows = (
            kept.join(F.broadcast(of_table(self.spark, names)), "file", "left")
            .withColumn("file", F.coalesce("name", "file"))
            .select(*ROWS.names)
        )
        return ReadRows(rows, Summary.of(rows))

    @property
    def files(self) -> list[str]:
        """The names of those that there are."""
        return sorted(self._names.values())

    def _written(self, rows: DataFrame, name: str) -> str:
        folder = f"file:{self.folder}/{name}"
        rows.hint("rebalance").write.mode("overwrite").parquet(folder)
        return folder

    def _note_names(self) -> None:
        """A name that is another file's now stays that of the one before with a mark."""
        now = {key: Path(file.path).as_uri() for key, file in self.live.scan(self._names).items()}
        taken = {*now.values()}
        for key, name in self._names.items():
            if key not in now and name in taken:
                self._names[key] = f"{name}#{key[:8]}"
        self._names |= now

    def _note_zones(self) -> None:
        for files, zone in self.zoned:
            for key in files.scan(self._zones):
                self._zones.setdefault(key, zone)
