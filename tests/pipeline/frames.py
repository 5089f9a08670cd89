"""Frames made by hand, for tests of the functions that read them."""

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kipctl.pipeline.inputs import ACTIONS, spark_schema

Row = dict[str, Any]

_COMMON: Row = {"run": "r", "arm": "kip951", "client": "c", "topic": "t", "partition": 0}


def frame(spark: SparkSession, dataset: str, rows: Iterable[Row], **common: Any) -> DataFrame:
    """A DataFrame of a Trace; a column that is not named is null."""
    columns = [StructField("run", StringType()), StructField("arm", StringType())]
    columns += spark_schema(dataset)
    if dataset == "batches":
        columns += [
            StructField("interval_ns", LongType()),
            StructField("warmup_records", LongType()),
        ]
    return of_schema(spark, StructType(columns), rows, **common)


def action_frame(spark: SparkSession, rows: Iterable[Row], **common: Any) -> DataFrame:
    return of_schema(spark, ACTIONS, rows, **common)


def of_schema(
    spark: SparkSession, schema: StructType, rows: Iterable[Row], **common: Any
) -> DataFrame:
    whole = []
    for row in rows:
        assert set(row) | set(common) <= set(schema.names)
        whole.append(tuple((_COMMON | common | row).get(name) for name in schema.names))
    return spark.createDataFrame(whole, schema)


def rows_by(table: DataFrame, *keys: str) -> dict[Any, Row]:
    """The rows of a table by their keys (a tuple if there are several), which are left out."""
    rows: dict[Any, Row] = {}
    for row in table.collect():
        values = row.asDict()
        key = tuple(values.pop(name) for name in keys)
        assert key not in rows
        rows[key if len(key) > 1 else key[0]] = values
    return rows


def only(table: DataFrame) -> Row:
    """The one row of a table."""
    [row] = table.collect()
    return row.asDict()


def part_of(whole: Row, expected: Row) -> Row:
    """The columns of a row that are expected, for a comparison that shows both."""
    return {name: whole[name] for name in expected}
