"""A pack: the rows that lines of request logs are read into, kept as Parquet, by day and broker.

`_pack.N.json` says which files are in it, and in which folder of `_rows` the rows of each are; the
greatest N holds. What a pack is written with is seen by nobody before that file is there.
"""

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from time import time

import msgspec
import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from kipctl.errors import PipelineError, UsageError
from kipctl.next_step import Command, NextStep
from kipctl.pipeline.connect import is_connect, runs_here
from kipctl.pipeline.files import Files, is_uri, literally, located, made_new, placed, unquoted
from kipctl.pipeline.jvm import of_table, schema_of
from kipctl.pipeline.period import ALWAYS, Moment, Period
from kipctl.pipeline.request_lines.rows import ROWS, Kind
from kipctl.pipeline.request_log.files import LogFile, Timezones, earliest_us

FORMAT = 1
"""Raised with whatever makes rows of before unreadable, or not what lines are read into now."""
SLICE_US = 5_000_000
"""Rows are counted in slices of this length, and `--since` and `--before` lie between slices. The
slots by which clients are followed are whole slices, and so are all steps of a page's time axis but
shorter ones: of 10 s those of 25 s would not be. Shorter slices would count little together."""
ANY_DAY = "any"
"""The day of rows that are of no time: where the lines of a file are, what was named in it."""
_ROWS = "_rows"
_MANIFEST = re.compile(r"_pack\.(\d{1,18})\.json")
_KEPT_US = 24 * 3600 * 1_000_000
"""What a pack was before may be read for so long by an analysis that began then."""
_PARTITIONED = StructType([StructField(name, StringType()) for name in ("batch", "day", "log")])
_NAMED = ("batch", "packed_as", "file")
_PACK_ANEW = NextStep("Pack the logs anew: ", Command("request-log pack PATH --to DIR"), ".")


class PackedFile(msgspec.Struct, frozen=True):
    """A file whose rows are in a pack: how it lay there, under which name its rows are in which
    batch, the zone of its broker's clock, its lines, and what tells its `first` request from
    others."""

    file: str
    bytes: int
    modified_us: int
    zone: str
    batch: str
    packed_as: str
    lines: int
    first: str | None


class _Format(msgspec.Struct):
    format: int


class _Contents(msgspec.Struct):
    files: tuple[PackedFile, ...]
    format: int = FORMAT


def files_of(text: str, name: str) -> tuple[PackedFile, ...]:
    """What the text of `_pack.N.json`, the file of this name, says is in a pack. Raises
    PipelineError for one that is damaged or of another format."""
    try:
        told = msgspec.json.decode(text, type=_Format).format
        if told == FORMAT:
            return msgspec.json.decode(text, type=_Contents).files
    except (msgspec.DecodeError, RecursionError) as wrong:
        raise PipelineError(f"{name} is damaged: {wrong}.", _PACK_ANEW) from None
    raise PipelineError(
        f"{name} is of a pack of format {told}, and this kipctl reads format {FORMAT}.", _PACK_ANEW
    )


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack's folder, as its file of this `number` says what is in it."""

    spark: SparkSession
    folder: str
    number: int = 0
    files: tuple[PackedFile, ...] = ()

    @classmethod
    def at(cls, spark: SparkSession, folder: str) -> "Pack | None":
        """The pack in the folder; None if there is none. Raises PipelineError for one that is
        damaged or of another format."""
        if Path(folder).is_file():
            return None
        if is_connect(spark):  # such a server lists no name that begins with _
            if any(_numbers(os.listdir(folder)) if Path(folder).is_dir() else ()):
                raise UsageError(
                    f"{folder} is a pack, and packs are not read by Spark Connect.",
                    "Leave --master out, or give a cluster of Spark's.",
                )
            return None
        try:
            there = Files(spark, folder)
            numbers = sorted(_numbers(there.names()))
        except Py4JError:  # a wildcard, or nothing: who reads lines says so
            return None
        if not numbers:
            return None
        file = f"{unquoted(folder)}/{_name(numbers[-1])}"
        try:
            text = there.text(_name(numbers[-1]))
        except Py4JJavaError as refused:
            why = refused.java_exception.getMessage()
            raise PipelineError(f"{file} cannot be read: {why}.", _PACK_ANEW) from None
        return cls(spark, folder, numbers[-1], files_of(text, file))

    @classmethod
    def at_or_new(cls, spark: SparkSession, folder: str) -> "Pack":
        """The pack in the folder, an empty one if nothing is there. Raises UsageError for a folder
        that holds something else or cannot be made."""
        if not is_uri(folder) and not runs_here(spark):
            raise UsageError(
                f"--to {folder}: executors elsewhere do not see this machine's folders.",
                "Name one that all machines see, as hdfs://HOST/packs, or file:/PATH if they share"
                " it.",
            )
        place = placed(folder)
        if pack := cls.at(spark, place):
            return pack
        made_new(spark, place, "--to", "Name a pack, or a folder that is not there.")
        return cls(spark, place).with_files(())

    def with_files(self, files: Iterable[PackedFile]) -> "Pack":
        """The pack with these files, as it is from now on. Raises PipelineError if another kipctl
        has changed it meanwhile."""
        there = Files(self.spark, self.folder)
        after = replace(self, number=self.number + 1, files=tuple(sorted(files, key=_by_name)))
        text = msgspec.json.encode(_Contents(after.files)).decode()
        if not there.write_new(_name(after.number), text):
            raise PipelineError(
                f"Another kipctl packs into {unquoted(self.folder)}.",
                "Wait until it has ended: what it packed is not packed again.",
            )
        old = {*_numbers(there.written_before(_now_us() - _KEPT_US))}
        for number in old:
            if number + 1 in old:  # who began to read by it has ended since the next one came
                there.remove_from(_name(number))
        return after

    def write(self, rows: DataFrame) -> str:
        """Write rows of ROWS, with `day` and `log`, as a batch of its own; returns its name."""
        batch = uuid.uuid4().hex
        by = ("day", "log")
        # Files of about one size, whatever tasks read; without adaptive execution as tasks read.
        ordered = rows.hint("rebalance", *by).sortWithinPartitions(*by, "kind", "file", "slice")
        to = f"{self.folder}/{_ROWS}/batch={batch}"
        ordered.write.option("compression", "zstd").partitionBy(*by).parquet(to)
        return batch

    def remove_unused(self) -> None:
        """Remove batches that no `_pack.N.json` names which is there: an analysis may still read by
        one of before."""
        there = Files(self.spark, f"{self.folder}/{_ROWS}")
        if not there.exists():
            return
        told = Files(self.spark, self.folder)
        names = [_name(number) for number in _numbers(told.names())]
        used = {f"batch={file.batch}" for name in names for file in files_of(told.text(name), name)}
        for name in there.written_before(_now_us() - _KEPT_US):
            if name not in used:
                there.remove_from(name)

    def rows(self, period: Period = ALWAYS, without: Set[str] = frozenset()) -> DataFrame:
        """Rows of ROWS of the period, as lines of that period are read, but for those of some files
        (`without`, as `unquoted` has them). Raises what `slices_of` does."""
        first, end = slices_of(period)
        files = [
            entry
            for entry in self.files
            if unquoted(entry.file) not in without
            and (period.since is None or entry.modified_us >= earliest_us(period.since))
        ]
        if not files:
            return of_table(self.spark, ROWS.empty_table())
        base = f"{located(self.folder)}/{_ROWS}"
        batches = sorted({entry.batch for entry in files})
        read = (
            self.spark.read.schema(StructType([*schema_of(ROWS).fields, *_PARTITIONED.fields]))
            .option("basePath", base)
            .parquet(*(literally(f"{base}/batch={batch}") for batch in batches))
        )
        columns = {name: [getattr(entry, name) for entry in files] for name in _NAMED}
        names = of_table(self.spark, pa.table(columns))
        return (
            read.filter(_of_days(period))
            .withColumnRenamed("file", "packed_as")
            .join(F.broadcast(names), ["batch", "packed_as"])
            .filter(_is_within(first, end))
            .select(*ROWS.names)
        )


def packs_among(spark: SparkSession, paths: Sequence[str]) -> tuple[list[Pack], list[str]]:
    """The packs among the paths, and the others. Raises what `Pack.at` does."""
    packs = {path: Pack.at(spark, path) for path in paths}
    return [pack for pack in packs.values() if pack], [path for path in paths if not packs[path]]


def rows_of_packs(
    packs: Sequence[Pack], text: DataFrame | None, timezones: Timezones, period: Period
) -> DataFrame | None:
    """The rows of all packs; a file that is in several of them, or in the text, is taken once, from
    the text if it is there. Raises UsageError for a zone that is not the one that it was packed
    with."""
    in_text = text.inputFiles() if packs and text is not None else ()
    taken = {unquoted(file) for file in in_text}
    whole: DataFrame | None = None
    for pack in packs:
        _check_zone(pack, timezones)
        rows = pack.rows(period, taken)
        taken |= {unquoted(entry.file) for entry in pack.files}
        whole = rows if whole is None else whole.unionByName(rows)
    return whole


def _check_zone(pack: Pack, timezones: Timezones) -> None:
    named = [name for path, name in timezones.at if located(path) == located(pack.folder)]
    for zone in (*named, timezones.everywhere):
        others = sorted({entry.zone for entry in pack.files} - {zone})
        if zone is not None and others:
            raise UsageError(
                f"--timezone {zone}: {unquoted(pack.folder)} was packed with {others[0]}.",
                NextStep("Pack again: ", Command("request-log pack PATH --to DIR", timezone=zone)),
            )


def same_file(packed: PackedFile, file: LogFile, zone: str) -> bool:
    """Whether a file is what was packed, by its size, its time, and the zone of its lines."""
    return (packed.bytes, packed.modified_us, packed.zone) == (file.bytes, file.modified_us, zone)


def slices_of(period: Period) -> tuple[int | None, int | None]:
    """The numbers of the first slice of a period, and of that after its last; None where it is
    open. Raises UsageError where no slice begins then."""
    return _slice("--since", period.since), _slice("--before", period.before)


def _slice(option: str, moment: Moment | None) -> int | None:
    if moment is None:
        return None
    number, within = divmod(moment.us, SLICE_US)
    if within:
        before, after = (_written(at * SLICE_US) for at in (number, number + 1))
        raise UsageError(
            f"{option} {_written(moment.us)} lies between two times that packs tell apart.",
            f"They count in slices of {SLICE_US // 1_000_000} s: give {before} or {after}.",
        )
    return number


def _written(us: int) -> str:
    at = datetime.fromtimestamp(us / 1e6, UTC)
    return at.isoformat(timespec="milliseconds" if us % 1_000_000 else "seconds")


def day_of(slice_number: Column) -> Column:
    """The day (UTC) of a column of slices, as text; ANY_DAY of null."""
    days = F.floor(slice_number * SLICE_US / F.lit(86_400_000_000)).cast("int")
    return F.coalesce(
        F.date_add(F.lit("1970-01-01").cast("date"), days).cast("string"), F.lit(ANY_DAY)
    )


def _of_days(period: Period) -> Column:
    since, before = period.since, period.before
    kept = F.lit(True)
    if since:
        kept &= F.col("day") >= _written(since.us)[:10]
    if before:
        kept &= F.col("day") <= _written(before.us)[:10]
    return kept | (F.col("day") == ANY_DAY)


def _is_within(first: int | None, end: int | None) -> Column:
    """Whether a row is of the slices from `first` on, to that before `end`: as if only lines of
    that time had been read."""
    if first is None and end is None:
        return F.lit(True)
    begin = F.lit(-(1 << 62) if first is None else first)
    stop = F.lit(1 << 62 if end is None else end)
    is_inside = (F.col("slice") >= begin) & (F.col("slice") < stop)
    is_named = F.exists("slices", lambda span: (span["last"] >= begin) & (span["first"] < stop))
    return F.coalesce(
        F.when(F.col("kind") == Kind.BLOCK, F.lit(True))
        .when(F.col("kind").isin(Kind.NODE, Kind.TOPIC), is_named)
        .otherwise(is_inside),
        F.lit(False),
    )


def _now_us() -> int:
    return int(time() * 1e6)


def _name(number: int) -> str:
    return f"_pack.{number}.json"


def _numbers(names: Iterable[str]) -> Iterator[int]:
    for name in names:
        if told := _MANIFEST.fullmatch(name):
            yield int(told[1])


def _by_name(entry: PackedFile) -> str:
    return entry.file
