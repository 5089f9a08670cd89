"""Recorded runs as DataFrames: one row format, however many runs and workers wrote them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
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

from kipctl.errors import PipelineError
from kipctl.pipeline.columns import NONE
from kipctl.pipeline.failures import cannot_be_read
from kipctl.pipeline.files import folder_at, literally
from kipctl.pipeline.jvm import of_table
from kipctl.pipeline.partitions import coalesced
from kipctl.pipeline.period import ALWAYS, Period
from kipctl.pipeline.recorded_runs import RecordedRun, runs_at
from kipctl.trace.schema import DATASETS, NEEDED
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

OF_RUN = StructType([StructField("run", StringType()), StructField("arm", StringType())])
"""What stands beside the columns of every dataset."""
OF_BATCHES_RUN = StructType(
    [*OF_RUN, StructField("interval_ns", LongType()), StructField("warmup_records", LongType())]
)
"""And beside those of batches."""
READ = ("batches", "rpcs", "redirects", "reads", "moves")
"""The datasets that tables are made of."""
FEW_RUNS = 16
"""Their names are chosen by an expression; those of more are joined."""
LITTLE = 16 << 20
"""Bytes. At 47 MB, 40 M records, a JVM that optimises (C2) was as quick as one that does not."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Runs as DataFrames.

    Each has the columns of its dataset in `kipctl.trace.schema`, preceded by `run` (its name) and
    `arm` (the client, of a tap's rows); times are microseconds since the run's start. `batches` has
    besides `interval_ns` and `warmup_records`; `actions` has the schema ACTIONS. A dataset that no
    run has is empty, and vanishes from plans; `present` names those that some run has (and that
    hold rows, as far as that can be known without Spark).
    """

    runs: tuple[RecordedRun, ...]
    batches: DataFrame
    rpcs: DataFrame
    redirects: DataFrame
    reads: DataFrame
    actions: DataFrame
    present: frozenset[str]
    moves: DataFrame | None = None
    told_moves: tuple[str, ...] = ()
    """Names of the runs of taps that have written down which moved leaders clients met (`moves`):
    those of others follow from `redirects`."""

    def in_period(self, frame: DataFrame, column: str, period: Period) -> DataFrame:
        """The rows whose moment is in the period; without a date that counts from each run's start.

        `column` holds microseconds since the run's start.
        """
        if period == ALWAYS:
            return frame
        starts = sorted({run.start_wall_us for run in self.runs})
        if not period.is_by_wall or len(starts) == 1:
            return frame.filter(period.condition(column, starts[0]))
        schema = [StructField("_run", StringType()), StructField("_start_wall_us", LongType())]
        starts_of = [(run.name, run.start_wall_us) for run in self.runs]
        runs = _local(frame.sparkSession, StructType(schema), starts_of)
        # The first condition is one on the files alone: what no run can need is not read.
        own = period.condition(column, "_start_wall_us")
        return (
            frame.filter(period.widest(starts[0], starts[-1]).condition(column, 0))
            .join(runs, F.col("run") == F.col("_run"))
            .filter(own)
            .drop("_run", "_start_wall_us")
        )


def spark_schema(dataset: str) -> StructType:
    """A dataset's schema in Spark's terms."""
    return StructType([StructField(f.name, _TYPES[f.type]) for f in DATASETS[dataset]])


def arrow_schema(schema: StructType) -> pa.Schema:
    """A table's schema in Arrow's terms."""
    arrow = {spark: arrow for arrow, spark in _TYPES.items()} | {DoubleType(): pa.float64()}

    def arrow_type(kind: DataType) -> pa.DataType:
        return pa.struct(list(arrow_schema(kind))) if isinstance(kind, StructType) else arrow[kind]

    return pa.schema([(field.name, arrow_type(field.dataType)) for field in schema])


def open_runs(
    spark: SparkSession, paths: Sequence[str], arms: Mapping[str, str] | None = None
) -> Trace:
    """The runs in these folders, anywhere Spark reads from; wildcards are expanded.

    A folder of run folders stands for all of them. Each dataset is read as one, of however many
    runs. `arms` names those of runs by their paths, in place of what the runs say.
    Raises UsageError for a folder that is no run or was written by a newer kipctl,
    PipelineError for one whose `run.json` cannot be read or whose files are not of this schema.
    """
    runs = runs_at(spark, paths)
    if arms:
        runs = tuple(
            replace(run, description=run.description | {"arm": arms.get(run.path, run.arm)})
            for run in runs
        )
    by_dataset = _runs_with(spark, runs)
    actions = [row for run in runs for row in action_rows(run)]
    told = [
        run.name for run in runs if run.is_of_tap and "moves" in folder_at(spark, run.path).names()
    ]
    read = [name for name in READ if told or name != "moves"]
    return Trace(
        runs,
        **{name: _read(spark, name, runs, by_dataset[name]) for name in read},
        actions=_local(spark, ACTIONS, actions),
        present=frozenset([*filter(by_dataset.get, READ), *["actions"] * bool(actions)]),
        told_moves=tuple(told),
    )


def is_little(paths: Sequence[str]) -> bool:
    """Whether all of them are this machine's own files and folders, and hold LITTLE or less.

    Wildcards are expanded.
    """
    held = 0
    try:
        for path in paths:
            roots = [Path(path)] if Path(path).exists() else [*map(Path, glob(path))]
            if not roots:
                return False
            files = (file for root in roots for file in (root, *root.rglob("*")) if file.is_file())
            held += sum(file.stat().st_size for file in files)
    except OSError:  # one is closed, or was renamed meanwhile: Spark tells, or finds another
        return False
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


def _runs_with(spark: SparkSession, runs: Sequence[RecordedRun]) -> dict[str, list[RecordedRun]]:
    """The runs that have each dataset; of those on this machine, that have rows in it.

    Raises PipelineError for files whose columns are not those of the dataset: a column that was
    called otherwise would be read as null in every row.
    """
    by_dataset: dict[str, list[RecordedRun]] = {name: [] for name in READ}
    elsewhere = []
    for run in runs:
        if folder := run.local_folder:
            names = [name for name in READ if rows_in(folder / name, name)]
        else:
            elsewhere.append(run)
            names = folder_at(spark, run.path).names()
        for name in READ:
            if name in names:
                by_dataset[name].append(run)
    for run in by_dataset["batches"]:
        if "interval_ns" not in run.description:
            raise PipelineError(
                f"{run.path}/{RUN_FILE} does not say interval_ns: when records were due is not "
                "known.",
                "It is 0 for a run without a rate.",
            )
    for name in READ:
        if folders := [
            literally(f"{run.path}/{name}") for run in by_dataset[name] if run in elsewhere
        ]:
            schema = spark.read.option("mergeSchema", "true").parquet(*folders).schema
            _check_columns(folders[0], name, {f.name: f.dataType for f in schema})
    return by_dataset


def rows_in(folder: Path, dataset: str) -> int:
    """How many rows a dataset's files in a folder of this machine have: their footers say it.

    Raises PipelineError for a file that is none of the dataset's.
    """
    rows = 0
    for file in sorted(folder.glob("[!._]*.parquet")):
        try:
            opened = pq.ParquetFile(file)
        except (OSError, pa.ArrowInvalid) as broken:
            raise PipelineError(cannot_be_read(str(file), str(broken))) from broken
        with opened:
            types = {field.name: _TYPES.get(field.type) for field in opened.schema_arrow}
            _check_columns(str(file), dataset, types)
            rows += opened.metadata.num_rows
    return rows


def _check_columns(path: str, dataset: str, types: Mapping[str, DataType | None]) -> None:
    """See that what a file has is what this kipctl reads; older files may have fewer columns, but
    those without which it says nothing."""
    known = {field.name: field.dataType for field in spark_schema(dataset)}
    strange = [name for name, kind in types.items() if known.get(name) != kind]
    if strange:
        raise PipelineError(
            f"{path} has columns that {dataset} have not, or of another type: "
            f"{', '.join(strange)}.",
            "Another kipctl wrote it: analyse it with that one.",
        )
    if missing := [name for name in NEEDED[dataset] if name not in types]:
        raise PipelineError(
            f"{path} is no file of {dataset}: it has no {', '.join(missing)}.",
            "Another program wrote it, or has changed it.",
        )


def _local(spark: SparkSession, schema: StructType, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """Rows of this process, few of them; where there are none, plans lose what would join them."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrow = arrow_schema(schema)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, arrow, strict=True)], arrow)
    frame = of_table(spark, table)
    return coalesced(frame) if rows else frame


def _read(
    spark: SparkSession,
    dataset: str,
    runs: Sequence[RecordedRun],
    having: Sequence[RecordedRun],
) -> DataFrame:
    """A dataset of all runs that have it, with what `Trace` says stands beside its columns."""
    schema = spark_schema(dataset)
    of_run = OF_BATCHES_RUN if dataset == "batches" else OF_RUN
    beside = [field.name for field in of_run][2:]
    if not having:
        nothing = StructType([*of_run.fields[:2], *schema.fields, *of_run.fields[2:]])
        return _local(spark, nothing, [])
    rows = (
        spark.read.schema(schema)
        .parquet(*(f"{literally(run.path)}/{dataset}" for run in having))
        .transform(coalesced)
    )
    if len(having) == 1:
        values = _literals(having[0], of_run)
        return rows.select(values[0], _or_client(values[1]), *schema.names, *values[2:])
    # What comes before `/batches/part-0.parquet`.
    file = F.col("_metadata.file_path")
    inside = F.length(F.substring_index(file, "/", -2))
    folder = F.substring(file, F.lit(1), F.length(file) - inside - 1)
    uris = [folder_at(spark, run.path).uri for run in having]
    if len(having) <= FEW_RUNS:
        choices = (
            F.when(folder == uri, F.struct(*_literals(run, of_run)))
            for run, uri in zip(having, uris, strict=True)
        )
        named = rows.select("*", F.coalesce(*choices).alias("_of"))
        own = {name: F.col(f"_of.{name}") for name in of_run.names}
    else:
        keyed = StructType([StructField("_folder", StringType()), *of_run])
        table = [(uri, *_of(run)[: len(of_run)]) for run, uri in zip(having, uris, strict=True)]
        named = rows.select("*", folder.alias("_in")).join(
            _local(spark, keyed, table), F.col("_in") == F.col("_folder")
        )
        own = {name: F.col(name) for name in of_run.names}
    arm = _or_client(own["arm"])
    return named.select(own["run"], arm, *schema.names, *(own[name] for name in beside))


def _or_client(arm: Column) -> Column:
    return F.coalesce(arm, F.col("client"), F.lit(NONE)).alias("arm")


def _of(run: RecordedRun) -> tuple[str, str | None, int, int]:
    return run.name, run.arm_of_rows, run.interval_ns, run.warmup_records


def _literals(run: RecordedRun, schema: StructType) -> list[Column]:
    return [
        F.lit(value).cast(field.dataType).alias(field.name)
        for value, field in zip(_of(run), schema, strict=False)
    ]
