"""Recorded runs as DataFrames: one row format, however many runs and workers wrote them."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from kipctl.errors import PipelineError, UsageError
from kipctl.pipeline.period import Period
from kipctl.trace.schema import DATASETS, SCHEMA_VERSION
from kipctl.trace.store import RUN_FILE

_TYPES: dict[pa.DataType, DataType] = {
    pa.string(): StringType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.bool_(): BooleanType(),
}
ACTIONS = StructType(
    [
        StructField("run", StringType()),
        StructField("arm", StringType()),
        StructField("number", IntegerType()),
        StructField("action", StringType()),
        StructField("called_us", LongType()),
        StructField("answered_us", LongType()),
        StructField("converged_us", LongType()),
        StructField("partitions", IntegerType()),
        StructField("error", StringType()),
    ]
)
"""What was done to the cluster; times in microseconds since the run's start."""

ALWAYS = Period()
LITTLE = 16 << 20
"""Bytes. At 47 MB, 40 M records, a JVM that optimises (C2) was as quick as one that does not."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run's folder and what its `run.json` says. `name` tells it from the others read with it."""

    name: str
    path: str
    description: dict[str, Any]

    @property
    def arm(self) -> str:
        """What is compared: its way of finding a new leader, unless it was given a name."""
        return str(self.description.get("arm") or self.description.get("leader_discovery", "-"))

    @property
    def interval_ns(self) -> int:
        """Between two records' intended send times; 0 when unthrottled."""
        return int(self.description.get("interval_ns", 0))

    @property
    def warmup_records(self) -> int:
        """The first records of the run, which times and rates leave out."""
        return int(self.description.get("warmup_records", 0))

    @property
    def start_wall_us(self) -> int:
        """The wall clock at the run's start: microseconds since the Unix epoch."""
        return int(self.description.get("start_wall_us", 0))

    @property
    def summary(self) -> dict[str, Any]:
        """What was printed when the run ended; empty when it did not come to that."""
        return dict(self.description.get("summary") or {})


@dataclass(frozen=True, slots=True)
class Trace:
    """Runs as DataFrames.

    Each has the columns of its dataset in `kipctl.trace.schema`, preceded by `run` (its name) and
    `arm`; times are microseconds since the run's start. `batches` has besides `interval_ns` and
    `warmup_records`; `actions` has the schema ACTIONS. A dataset that a run lacks has no rows;
    `present` names those that some run has.
    """

    runs: tuple[RecordedRun, ...]
    batches: DataFrame
    rpcs: DataFrame
    redirects: DataFrame
    reads: DataFrame
    events: DataFrame
    actions: DataFrame
    present: frozenset[str]

    def in_period(self, frame: DataFrame, column: str, period: Period) -> DataFrame:
        """The rows whose moment is in the period; without a date that counts from each run's start.

        `column` holds microseconds since the run's start.
        """
        if period == ALWAYS:
            return frame
        of_runs = (
            (F.col("run") == run.name) & F.expr(period.condition(column, run.start_wall_us))
            for run in self.runs
        )
        return frame.filter(reduce(Column.__or__, of_runs))


def spark_schema(dataset: str) -> StructType:
    """A dataset's schema in Spark's terms."""
    return StructType([StructField(f.name, _TYPES[f.type]) for f in DATASETS[dataset]])


def arrow_schema(schema: StructType) -> pa.Schema:
    """A table's schema in Arrow's terms."""
    arrow = {spark: arrow for arrow, spark in _TYPES.items()} | {DoubleType(): pa.float64()}
    return pa.schema([(field.name, arrow[field.dataType]) for field in schema])


def open_runs(spark: SparkSession, paths: Sequence[str]) -> Trace:
    """The runs in these folders, anywhere Spark reads from; wildcards are expanded.

    A folder of run folders stands for all of them. Raises UsageError for a folder that is no run
    or was written by a newer kipctl, PipelineError for one whose `run.json` cannot be read.
    """
    runs = _named([run for path in paths for run in _runs_at(spark, path)])
    found = {(run.path, name) for run in runs for name in Files(spark, run.path).names()}

    def dataset(name: str) -> DataFrame:
        frames = [_read(spark, run, name) for run in runs if (run.path, name) in found]
        return reduce(DataFrame.unionByName, frames or [_empty(spark, runs[0], name)])

    actions = [row for run in runs for row in action_rows(run)]
    return Trace(
        runs,
        batches=dataset("batches"),
        rpcs=dataset("rpcs"),
        redirects=dataset("redirects"),
        reads=dataset("reads"),
        events=dataset("events"),
        actions=spark.createDataFrame(actions, ACTIONS),
        present=frozenset(name for _, name in found) | ({"actions"} if actions else set()),
    )


def is_little(paths: Sequence[str]) -> bool:
    """Whether all of them are this machine's own files and folders, and hold LITTLE or less."""
    held = 0
    for root in map(Path, paths):
        if not root.exists():
            return False
        held += sum(path.stat().st_size for path in (root, *root.rglob("*")) if path.is_file())
    return held <= LITTLE


def action_rows(run: RecordedRun) -> list[tuple[Any, ...]]:
    """The run's actions as rows of the schema ACTIONS."""

    def us(ms: float | None) -> int | None:
        return None if ms is None else round(ms * 1000)

    return [
        (
            run.name,
            run.arm,
            number,
            action["action"],
            us(action["called_ms"]),
            us(action["answered_ms"]),
            us(action["converged_ms"]),
            action["partitions"],
            action["error"],
        )
        for number, action in enumerate(run.summary.get("actions", ()), 1)
    ]


def _read(spark: SparkSession, run: RecordedRun, dataset: str) -> DataFrame:
    rows = spark.read.schema(spark_schema(dataset)).parquet(f"{literally(run.path)}/{dataset}")
    return rows.select(*_columns(run, dataset))


def _empty(spark: SparkSession, run: RecordedRun, dataset: str) -> DataFrame:
    return spark.createDataFrame([], spark_schema(dataset)).select(*_columns(run, dataset))


def _columns(run: RecordedRun, dataset: str) -> list[Column]:
    """The dataset's columns, and what `Trace` says stands beside them."""
    columns = [F.lit(run.name).alias("run"), F.lit(run.arm).alias("arm")]
    columns += map(F.col, DATASETS[dataset].names)
    if dataset == "batches":
        columns.append(F.lit(run.interval_ns).cast("bigint").alias("interval_ns"))
        columns.append(F.lit(run.warmup_records).cast("bigint").alias("warmup_records"))
    return columns


class Files:
    """A folder on any file system that Spark reads: local, HDFS, object stores."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        folder = located(folder)
        assert spark._jvm is not None
        self._jvm = spark._jvm
        self._folder = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._system = self._folder.getFileSystem(spark._jsc.hadoopConfiguration())

    def exists(self, name: str = "") -> bool:
        path = self._jvm.org.apache.hadoop.fs.Path(self._folder, name) if name else self._folder
        return bool(self._system.exists(path))

    def names(self) -> list[str]:
        """What is in the folder."""
        return [status.getPath().getName() for status in self._system.listStatus(self._folder)]

    def make(self) -> None:
        """Make the folder, and those above it."""
        self._system.mkdirs(self._folder)

    def text(self, name: str) -> str:
        stream = self._system.open(self._jvm.org.apache.hadoop.fs.Path(self._folder, name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def matching(self) -> list[str]:
        """The paths that the folder's wildcards stand for."""
        found = self._system.globStatus(self._folder)
        return [status.getPath().toString() for status in found or ()]


def located(path: str) -> str:
    """The path as Spark must be told it: one that exists on this machine is meant here."""
    here = Path(path)
    # Not as_uri: Hadoop takes %20 for itself, and names what it finds itself this way.
    return f"file:{here.resolve()}" if here.exists() else path


def literally(path: str) -> str:
    """A path in which no character stands for others, where Spark would expand wildcards."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def _runs_at(spark: SparkSession, path: str) -> list[RecordedRun]:
    where = located(path)
    files = Files(spark, where)
    if files.exists() and files.exists(RUN_FILE):
        return [_run_at(spark, where)]
    pattern = literally(where) if files.exists() else where
    inside = Files(spark, f"{pattern}/{RUN_FILE}").matching()
    inside += Files(spark, f"{pattern}/*/{RUN_FILE}").matching()
    if not inside:
        what = "holds no run" if files.exists() else "does not exist"
        raise UsageError(
            f"{path} {what}: there is no {RUN_FILE} in it.",
            "Record one: kipctl perf produce --record DIR; those there are: kipctl runs list.",
        )
    return [_run_at(spark, found.removesuffix(f"/{RUN_FILE}")) for found in sorted(inside)]


def _run_at(spark: SparkSession, path: str) -> RecordedRun:
    try:
        description = json.loads(Files(spark, path).text(RUN_FILE))
    except ValueError as wrong:
        raise PipelineError(f"{path}/{RUN_FILE} is not JSON: {wrong}.") from wrong
    version = description.get("schema_version") if isinstance(description, dict) else None
    if not isinstance(version, int):
        raise UsageError(f"{path}/{RUN_FILE} is no description of a kipctl run.")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{path} was recorded by a newer kipctl: its schema is version {version}, "
            f"this kipctl reads up to {SCHEMA_VERSION}.",
            "Use a newer kipctl.",
        )
    return RecordedRun(path.rstrip("/").rpartition("/")[2], path, description)


def _named(runs: Sequence[RecordedRun]) -> tuple[RecordedRun, ...]:
    """Runs of one folder name go by their whole path; a run given twice is read once."""
    once = tuple({run.path: run for run in runs}.values())
    names = Counter(run.name for run in once)
    return tuple(replace(run, name=run.path) if names[run.name] > 1 else run for run in once)
