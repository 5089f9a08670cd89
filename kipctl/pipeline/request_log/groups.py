"""Lines that are alike, counted, with what their header says: the finest rows that are kept."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kipctl.pipeline.jvm import mapped_in_arrow
from kipctl.pipeline.request_lines.followed import (
    FOLLOWED_COLUMNS,
    FOLLOWED_REQUESTS,
    followed_requests,
)
from kipctl.pipeline.request_lines.reader import LineReader, Reading
from kipctl.pipeline.request_lines.rows import OF_LINES, ROWS, Kind

_KEYS = [name for name, _ in OF_LINES]


def rows_of(lines: DataFrame, reading: Reading) -> DataFrame:
    """Rows of ROWS from lines (`value`, `file`, `block`, `id`, and `envelope` if it is there)."""
    return mapped_in_arrow(lines, LineReader(reading), ROWS)


def of_kind(rows: DataFrame, *kinds: str) -> DataFrame:
    return rows.filter(F.col("kind").isin(*kinds))


def followed_of(rows: DataFrame) -> DataFrame:
    """Rows of FOLLOWED_REQUESTS, one for each request in those of Kind.FOLLOWED."""
    return mapped_in_arrow(rows.select(*FOLLOWED_COLUMNS), followed_requests, FOLLOWED_REQUESTS)


def groups_of(rows: DataFrame, slice_us: int = 0) -> DataFrame:
    """Those of ROWS that count lines, alike ones of all tasks (of one slice of time) in one row."""
    slices = [F.floor(F.col("first_us") / slice_us).alias("_slice")] if slice_us else []
    counted = of_kind(rows, Kind.PARSED, Kind.BROKEN, Kind.OTHER, Kind.OUTSIDE).groupBy(
        *_KEYS, *slices
    )
    return counted.agg(
        F.sum("requests").alias("requests"),
        F.min("first_us").alias("first_us"),
        F.max("last_us").alias("last_us"),
        F.sum(F.coalesce("record_bytes", F.lit(0))).alias("record_bytes"),
    ).drop("_slice")
