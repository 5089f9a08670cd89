"""Tables as folders of Parquet, on this machine or any file system of Spark's."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.connect import runs_here
from kipctl.pipeline.files import is_uri, literally, made_new, placed
from kipctl.pipeline.inputs import arrow_schema
from kipctl.trace.store import ROWS_A_GROUP


class Collected(Protocol):
    """Rows that are in this process."""

    @property
    def rows(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def schema(self) -> StructType: ...


def make_new(spark: SparkSession, folder: str) -> None:
    """Make the folder for the tables. Raises UsageError when it holds something or cannot be."""
    made_new(spark, placed(folder), "--save", "Name a folder that is not there, and can be made.")
    if not is_uri(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)  # a server elsewhere makes none here


def save(spark: SparkSession, tables: Mapping[str, Collected], folder: str) -> None:
    """Write each table that has been collected to `folder/NAME`."""
    for name, table in tables.items():
        if is_uri(folder):
            rows = [tuple(row.values()) for row in table.rows]
            frame = spark.createDataFrame(rows, table.schema)
            frame.coalesce(1).write.parquet(f"{folder.rstrip('/')}/{name}")
        else:
            # The rows are here already, and executors elsewhere do not see this machine's folders.
            rows_here = pa.Table.from_pylist(list(table.rows), arrow_schema(table.schema))
            (Path(folder) / name).mkdir()
            pq.write_table(rows_here, Path(folder) / name / "part-0.parquet")


def written(table: DataFrame, folder: str) -> DataFrame:
    """The table, with all its rows written to the folder by those who computed it."""
    spark = table.sparkSession
    if not is_uri(folder) and not runs_here(spark):
        # Executors elsewhere do not see this machine's folders: through this process.
        kept = checkpointed(table)
        _write_here(kept, Path(folder))
        return kept
    there = placed(folder)
    table.write.parquet(there)
    return spark.read.schema(table.schema).parquet(literally(there))


def _write_here(table: DataFrame, folder: Path) -> None:
    folder.mkdir()
    schema = arrow_schema(table.schema)
    rows = table.toLocalIterator()
    with pq.ParquetWriter(folder / "part-0.parquet", schema, compression="zstd") as writer:
        while some := [row.asDict(recursive=True) for row in islice(rows, ROWS_A_GROUP)]:
            writer.write_table(pa.Table.from_pylist(some, schema))
