"""The files of a request log: each once, and those alone that can hold what is looked for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kipctl.errors import UsageError
from kipctl.pipeline.files import each_once, folder_at, literally
from kipctl.pipeline.period import ALWAYS, Moment, Period
from kipctl.pipeline.preflight import is_zone

_ZSTANDARD = "io.airlift.compress.zstd.ZstdCodec"
LONGEST_LINE = 64 << 20
"""Bytes. A line of Metadata has about 150 for each partition; what is longer is no text."""
DATA_OF_KAFKA = r"^\d{20}[.-]"
"""How names of segments, indexes and snapshots begin (Kafka's `LogFileUtils`)."""
_CLOCK_MARGIN_US = 3600 * 1_000_000
"""A file is written to after its last line is timed; clocks of brokers and storage differ."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file as it lies there: `name` is its URI, `bytes` as it is packed; microseconds since the
    epoch."""

    name: str
    bytes: int
    modified_us: int


def files_at(spark: SparkSession, paths: Sequence[str]) -> list[LogFile]:
    """The files that `text_of` reads lines of, by name. Raises UsageError for a path that is not
    there."""
    roots = [literally(root) for root in _roots(spark, paths)]
    listed = spark.read.format("binaryFile").load(roots, recursiveFileLookup=True)
    files = listed.filter(_holds_lines()).select(
        "_metadata.file_path",
        "_metadata.file_size",
        F.unix_micros("_metadata.file_modification_time"),
    )
    return [LogFile(*row) for row in sorted(files.collect())]


def text_of(spark: SparkSession, paths: Sequence[str], period: Period = ALWAYS) -> DataFrame:
    """The lines of all files at these paths: `value`, `file` (a URI), `block` (where it begins),
    and `id`, which grows by one from line to line of a block.

    Folders are read with all that is in them but `_*`, `.*`, and what Kafka keeps records in; a
    file that several paths or links name is read once. Lines longer than 64 MiB are passed over:
    Spark holds each whole. Files that were last written to an hour before the period begins, or
    earlier, are not opened. Raises UsageError for a path that is not there, and for a period that
    is not one of wall time.
    """
    check_period(period)
    return _lines(spark, _roots(spark, paths), period)


def text_in(spark: SparkSession, files: Iterable[LogFile]) -> DataFrame:
    """The lines of these files, as `text_of` has them."""
    return _lines(spark, [unquote(file.name) for file in files])


def _lines(spark: SparkSession, roots: Sequence[str], period: Period = ALWAYS) -> DataFrame:
    # Hadoop's own codec for .zst needs a native library. This one, in Java, comes with Spark.
    lines = (
        spark.read.option("io.compression.codecs", _ZSTANDARD)
        .option("mapreduce.input.linerecordreader.line.maxlength", LONGEST_LINE)
        .text([literally(root) for root in roots], recursiveFileLookup=True)
        .filter(_holds_lines())
        # Hadoop skips a longer line, but for the start of one that goes on after its block.
        .filter(F.octet_length("value") < LONGEST_LINE)
    )
    if period.since:
        earliest = datetime.fromtimestamp(earliest_us(period.since) / 1e6, UTC)
        lines = lines.filter(F.col("_metadata.file_modification_time") >= F.lit(earliest))
    return lines.select(
        "value",
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("id"),
    )


def _holds_lines() -> Column:
    return ~F.col("_metadata.file_name").rlike(DATA_OF_KAFKA)


def earliest_us(since: Moment) -> int:
    """What was last written to before then holds no line from `since` on."""
    return since.us - _CLOCK_MARGIN_US


def check_period(period: Period) -> Period:
    """The period. Raises UsageError when it is not one of wall time."""
    for moment in (period.since, period.before):
        if moment and not moment.is_wall:
            raise UsageError(
                "A request log has no start to count from.",
                "Give --since and --before as times, such as 2026-01-31T12:00:00.",
            )
    return period


@dataclass(frozen=True, slots=True)
class Timezones:
    """The zones of the brokers' clocks: one for all, but for the logs at some paths. Where none is
    named (None) it is UTC."""

    everywhere: str | None = None
    at: tuple[tuple[str, str], ...] = ()


UTC_EVERYWHERE = Timezones()


def parse_timezones(options: Iterable[str]) -> Timezones:
    """`--timezone ZONE` and `--timezone PATH=ZONE`. Raises UsageError."""
    everywhere: str | None = None
    at = []
    for text in options:
        path, _, name = text.rpartition("=")
        if not is_zone(name):
            raise UsageError(
                f"--timezone {text!r}: there is no such zone.",
                "Give one as Europe/Berlin or +02:00, or PATH=ZONE for the logs at a path.",
            )
        if path:
            at.append((path, name))
        else:
            everywhere = name
    return Timezones(everywhere, tuple(at))


def zones_of(spark: SparkSession, timezones: Timezones) -> dict[str, str]:
    """The zones of files that have one of their own. Raises UsageError for a path that is not
    there."""
    return {file.name: name for path, name in timezones.at for file in files_at(spark, [path])}


def _roots(spark: SparkSession, paths: Sequence[str]) -> list[str]:
    """The files and folders that paths with wildcards stand for, no file twice."""
    roots: list[str] = []
    for path in map(_folder_or_itself, paths):
        if Path(path).exists():
            roots.append(f"file:{Path(path).absolute()}")
            continue
        try:
            matches = folder_at(spark, path).matching()
        except Py4JJavaError as refused:
            raise UsageError(
                f"{path} cannot be read: {refused.java_exception.getMessage()}."
            ) from refused
        if not matches:
            raise UsageError(f"There is no {path}.", "Name files or folders of request logs.")
        roots += matches
    try:
        return each_once(roots) or roots  # links that lead nowhere, Spark reads as nothing
    except OSError as refused:
        raise UsageError(f"{refused.filename} cannot be read: {refused.strerror}.") from refused


def _folder_or_itself(path: str) -> str:
    """`logs` of `logs/*`, which is all that is in it: a store lists it once then, and is not asked
    for each file. What a store holds at its root is named by no folder."""
    folder = path.removesuffix("/*")
    is_root = not folder.strip("/") or ("//" in folder and folder.count("/") == 2)
    return path if is_root else folder
