"""One local Spark session for all tests that need a DataFrame."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kipctl.pipeline.session import spark_session


@pytest.fixture(scope="session")
def spark(state_home: object) -> Iterator[SparkSession]:
    with spark_session("local[2]") as session:
        yield session
