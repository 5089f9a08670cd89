"""A question about a trace, and the tables that answer it."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kipctl.errors import UsageError
from kipctl.pipeline.actions import action_table
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.columns import is_leader_error
from kipctl.pipeline.inputs import (
    ALWAYS,
    Files,
    RecordedRun,
    Trace,
    arrow_schema,
    open_runs,
)
from kipctl.pipeline.latency import failures, latency, volumes
from kipctl.pipeline.period import Period
from kipctl.pipeline.reads import flip_table, out_of_range_table, read_error_table, read_table
from kipctl.pipeline.redirects import episodes, failed_batches, redirect_table
from kipctl.pipeline.rpcs import metadata_table, rpc_table, with_inferred_causes

Rows = list[dict[str, Any]]
Make = Callable[[], DataFrame]
"""How a table is made: Spark looks at a plan as it grows, and that takes as long as the work."""

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
    "out_of_range": ("run", "arm", "client", "topic", "partition", "broker"),
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
    "out_of_range": "reads",
}
"""Every table, in the order in which they are shown, and the dataset that it is made of."""
_AT_ONCE = 4
"""Tables that are made at the same time: most of a small one's time is waiting for Spark."""


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


@dataclass(frozen=True, slots=True)
class Answer:
    """A table's rows, in order of their columns from the left, and its schema."""

    rows: Rows
    schema: StructType


def run_tables(trace: Trace, question: Question, period: Period = ALWAYS) -> dict[str, Make]:
    """How the tables of recorded runs are made, by name; their columns are in docs/pipeline.md.

    Of a period those batches count whose first record was due in it, redirect episodes that began
    in it, actions called, requests sent and reads answered in it; each of them whole. Tables of
    datasets that no run has are left out.
    """
    within = partial(trace.in_period, period=period)
    batches = within(trace.batches, "intended_us")
    rpcs, reads = within(trace.rpcs, "sent_us"), within(trace.reads, "time_us")
    window = question.window_us if "window" in question.by else None
    of_rpc = ("software_name", "software_version", "api", "api_version")
    of_read = ("client_rack", "broker_rack", "role")

    def metadata() -> DataFrame:
        leader_errors = trace.redirects.filter(is_leader_error()).select(
            "run", "client", F.col("error_us").alias("time_us")
        )
        caused = with_inferred_causes(trace.rpcs, leader_errors)
        return metadata_table(within(caused, "sent_us"), [*question.keys("metadata"), "cause"])

    @_once
    def failed() -> DataFrame:
        # Its plan is long: only its rows are kept.
        return failed_batches(trace.redirects, trace.actions).transform(checkpointed)

    def redirected() -> DataFrame:
        found = within(episodes(failed()), "first_error_us")
        return redirect_table(found, [*question.keys("redirects"), "api"])

    def actions() -> DataFrame:
        found = action_table(trace.actions, trace.batches, failed(), trace.reads)
        return within(found, "called_us")

    made: dict[str, Make] = {  # what takes longest first
        "actions": actions,
        "redirects": redirected,
        "latency": lambda: latency(batches, question.keys("latency"), window),
        "metadata": metadata,
        "records": lambda: volumes(batches, question.keys("records")),
        "failures": lambda: failures(batches, question.keys("failures")),
        "rpcs": lambda: rpc_table(rpcs, [*question.keys("rpcs"), *of_rpc]),
        "reads": lambda: read_table(reads, [*question.keys("reads"), *of_read]),
        "flips": lambda: flip_table(reads, question.keys("flips")),
        "read_errors": lambda: read_error_table(reads, question.keys("read_errors")),
        "out_of_range": lambda: out_of_range_table(reads, question.keys("out_of_range")),
    }
    return {name: make for name, make in made.items() if TABLES[name] in trace.present}


def _once(make: Make) -> Make:
    """Makes it when first asked; whoever asks meanwhile waits."""
    lock, made = Lock(), cache(make)

    def get() -> DataFrame:
        with lock:
            return made()

    return get


def collected(tables: Mapping[str, Make]) -> dict[str, Answer]:
    """What the tables hold, each made and computed in a thread of its own, some at once."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        return dict(zip(tables, threads.map(_answer, tables.values()), strict=True))


def _answer(make: Make) -> Answer:
    table = make()
    rows = [row.asDict(recursive=True) for row in table.collect()]
    return Answer(sorted(rows, key=_order), table.schema)


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
    trace = open_runs(spark, paths)
    if save_to:
        make_new(spark, save_to)
    answers = collected(run_tables(trace, question, period))
    if period != ALWAYS and not any(answer.rows for answer in answers.values()):
        raise UsageError(
            "Nothing of these runs lies in the period.",
            "Times without a date count from each run's start; see --since and --until.",
        )
    if save_to:
        save(spark, answers, save_to)
    return {
        "runs": [_described(run) for run in trace.runs],
        "by": list(question.by),
        "window_us": question.window_us,
        **{name: answers[name].rows if name in answers else [] for name in TABLES},
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
        "stopped": bool(told.get("stopped")),
    }


def make_new(spark: SparkSession, folder: str) -> None:
    """Make the folder for the tables. Raises UsageError when it holds something or cannot be."""
    files = Files(spark, folder)
    try:
        if files.exists() and files.names():
            raise UsageError(f"--save {folder}: it is there already.", "Name a folder that is not.")
        files.make()
    except Py4JJavaError as refused:
        raise UsageError(
            f"--save {folder} cannot be made: {refused.java_exception.getMessage()}."
        ) from refused


def save(spark: SparkSession, answers: Mapping[str, Answer], folder: str) -> None:
    """Write each table as Parquet to `folder/NAME`, a folder of this machine or of Spark's."""
    for name, answer in answers.items():
        if "://" in folder:
            rows = [tuple(row.values()) for row in answer.rows]
            frame = spark.createDataFrame(rows, answer.schema)
            frame.coalesce(1).write.parquet(f"{folder.rstrip('/')}/{name}")
        else:
            # The rows are here already, and executors elsewhere do not see this machine's folders.
            table = pa.Table.from_pylist(answer.rows, arrow_schema(answer.schema))
            (Path(folder) / name).mkdir()
            pq.write_table(table, Path(folder) / name / "part-0.parquet")
