"""Whether a session shares its work out, or does all of it in one partition."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

_MOST_BROADCAST = 100_000
"""Rows that every executor is sent, at most."""


def is_in_one_partition(spark: SparkSession) -> bool:
    """Whether shuffles have one partition: little is read, and plans cost more than rows."""
    return spark.conf.get("spark.sql.shuffle.partitions") == "1"


def coalesced(frame: DataFrame) -> DataFrame:
    """What was read, in one partition if all is: then nothing that follows has to be exchanged."""
    return frame.coalesce(1) if is_in_one_partition(frame.sparkSession) else frame


def broadcast_if_few(frame: DataFrame) -> DataFrame:
    """Send it to every executor if it has few rows, which are counted: have it a checkpoint."""
    if is_in_one_partition(frame.sparkSession):
        return frame
    return F.broadcast(frame) if frame.limit(_MOST_BROADCAST).count() < _MOST_BROADCAST else frame
