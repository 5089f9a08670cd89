"""A question about a trace, and the tables that answer it."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kipctl.errors import UsageError
from kipctl.pipeline.actions import action_table
from kipctl.pipeline.columns import is_leader_error
from kipctl.pipeline.inputs import (
    ALWAYS,
    Files,
    RecordedRun,
    Trace,
    open_runs,
    to_write,
)
from kipctl.pipeline.latency import failures, latency, volumes
from kipctl.pipeline.period import Period
from kipctl.pipeline.reads import flip_table, read_error_table, read_table
from kipctl.pipeline.redirects import episodes, failed_batches, redirect_table
from kipctl.pipeline.rpcs import metadata_table, rpc_table, with_inferred_causes

Rows = list[dict[str, Any]]

_OF_BATCH = ("run", "arm", "client", "topic", "partition", "broker")
_OF_CLIENT = ("run", "arm", "client", "broker")
DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "records": _OF_BATCH,
    "latency": (*_OF_BATCH, "window"),
    "failures": _OF_BATCH,
    "redirects": ("run", "arm", "client", "topic", "partition", "action", "brokers"),
    "rpcs": _OF_CLIENT,
    "metadata": _OF_CLIENT,
    "reads": ("run", "arm", "client", "topic", "partition", "broker"),
    "flips": ("run", "arm", "client", "topic", "partition"),
    "read_errors": ("run", "arm", "client", "topic", "partition", "broker"),
}
"""What each table can be broken down by; the table of actions always is by run and action."""
BY = tuple(dict.fromkeys(name for names in DIMENSIONS.values() for name in names))
TABLES = {
    "records": "batches",
    "latency": "batches",
    "failures": "batches",
    "redirects": "redirects",
    "actions": "actions",
    "rpcs": "rpcs",
    "metadata": "rpcs",
    "reads": "reads",
    "flips": "reads",
    "read_errors": "reads",
}
"""Every table, in the order in which they are shown, and the dataset that it is made of."""
_AT_ONCE = 3
"""Tables that are computed at the same time: most of a small one's time is waiting for Spark."""


@dataclass(frozen=True, slots=True)
class Question:
    """What to break the tables down by (of BY); `window_us` is the length of a `window`."""

    by: tuple[str, ...] = ("run", "arm")
    window_us: int = 10_000_000

    def __post_init__(self) -> None:
        """Raises UsageError for what there is no table by."""
        if unknown := [name for name in self.by if name not in BY]:
            raise UsageError(
                f"--by {', '.join(unknown)}: there is no table by that.", f"Known: {', '.join(BY)}."
            )
        if self.window_us <= 0:
            raise UsageError("--window must be above 0.")

    def keys(self, table: str) -> list[str]:
        """What a table is broken down by: the dimensions asked for that it has."""
        return [name for name in self.by if name in DIMENSIONS[table] and name != "window"]


def run_tables(trace: Trace, question: Question) -> dict[str, DataFrame]:
    """The tables of recorded runs, by name; their columns are in docs/pipeline.md.

    Tables of datasets that no run has are left out.
    """
    failed = failed_batches(trace.redirects, trace.actions).cache()
    leader_errors = trace.redirects.filter(is_leader_error()).select(
        "run", "client", F.col("error_us").alias("time_us")
    )
    window = question.window_us if "window" in question.by else None
    tables = {
        "records": volumes(trace.batches, question.keys("records")),
        "latency": latency(trace.batches, question.keys("latency"), window),
        "failures": failures(trace.batches, question.keys("failures")),
        "redirects": redirect_table(episodes(failed), question.keys("redirects")),
        "actions": action_table(trace.actions, trace.batches, failed),
        "rpcs": rpc_table(
            trace.rpcs,
            [*question.keys("rpcs"), "software_name", "software_version", "api", "api_version"],
        ),
        "metadata": metadata_table(
            with_inferred_causes(trace.rpcs, leader_errors),
            [*question.keys("metadata"), "cause"],
        ),
        "reads": read_table(
            trace.reads, [*question.keys("reads"), "client_rack", "broker_rack", "role"]
        ),
        "flips": flip_table(trace.reads, question.keys("flips")),
        "read_errors": read_error_table(trace.reads, question.keys("read_errors")),
    }
    return {name: tables[name] for name in TABLES if TABLES[name] in trace.present}


def collected(tables: Mapping[str, DataFrame]) -> dict[str, Rows]:
    """The rows of each table, in order of their columns from the left."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return dict(zip(tables, threads.map(_rows, tables.values()), strict=True))


def _rows(table: DataFrame) -> Rows:
    rows = [row.asDict(recursive=True) for row in table.collect()]
    return sorted(rows, key=_order)


def _order(row: Mapping[str, Any]) -> list[tuple[bool, str, float, str]]:
    """Sorts numbers as numbers, names as names, and nulls first."""
    return [
        (value is not None, type(value).__name__, value, "")
        if isinstance(value, int | float)
        else (value is not None, type(value).__name__, 0, str(value))
        for value in row.values()
    ]


def analyse_runs(
    spark: SparkSession,
    paths: Sequence[str],
    question: Question = Question(),
    period: Period = ALWAYS,
    save_to: str | None = None,
) -> dict[str, Any]:
    """The document of `analyze --output json`: the runs, and the rows of every table.

    With `save_to` the tables are written there too, each as a folder of Parquet. Raises what
    `open_runs` raises, and UsageError when `save_to` is there already.
    """
    if save_to:
        check_new(spark, save_to)
    trace = open_runs(spark, paths, period)
    tables = run_tables(trace, question)
    rows = collected(tables)
    if save_to:
        save(spark, rows, {name: table.schema for name, table in tables.items()}, save_to)
    return {
        "runs": [_described(run) for run in trace.runs],
        "by": list(question.by),
        "window_us": question.window_us,
        **{name: rows.get(name, []) for name in TABLES},
    }


def _described(run: RecordedRun) -> dict[str, Any]:
    told = run.description
    return {
        "run": run.name,
        "path": run.path,
        "started": told.get("started"),
        "command": told.get("command"),
        "leader_discovery": told.get("leader_discovery"),
        "throughput": told.get("throughput"),
        "acks": told.get("producer", {}).get("acks"),
        "failed": told.get("failed"),
    }


def check_new(spark: SparkSession, folder: str) -> None:
    """Raises UsageError when the folder for the tables is there already."""
    if Files(spark, folder).exists():
        raise UsageError(f"--save {folder}: it is there already.", "Name a folder that is not.")


def save(
    spark: SparkSession,
    rows: Mapping[str, Rows],
    schemas: Mapping[str, StructType],
    folder: str,
) -> None:
    """Write each table as Parquet to `folder/NAME`."""
    where = to_write(folder)
    for name, of_table in rows.items():
        frame = spark.createDataFrame([tuple(row.values()) for row in of_table], schemas[name])
        frame.coalesce(1).write.parquet(f"{where}/{name}")
