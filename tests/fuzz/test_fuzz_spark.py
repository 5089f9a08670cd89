"""A little fuzzing of what Spark reads. More of it: `python tests/fuzz --target logs`."""

from pathlib import Path

import pytest
from campaigns import SEED, as_many, campaign
from fuzzing import Tally, fuzz
from of_logs import readers_of_logs
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@campaign
def test_whatever_is_in_a_log_it_is_analysed_or_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    readers = readers_of_logs(spark, tmp_path / "logs")
    tally = fuzz("logs", readers, SEED, range(as_many(1, 100)), Tally())
    assert [(finding.fault, finding.reader) for finding in tally.failures.values()] == []
