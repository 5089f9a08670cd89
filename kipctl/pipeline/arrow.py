"""Python functions over the Arrow batches of a DataFrame."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

Batches = Iterator[pa.RecordBatch]


def map_in_arrow(
    frame: DataFrame, function: Callable[[Batches], Batches], schema: StructType
) -> DataFrame:
    """`DataFrame.mapInArrow`, which asks for pandas although it uses nothing of it."""
    udf = UserDefinedFunction(function, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    columns: Any = udf(*(frame[name] for name in frame.columns))
    return DataFrame(frame._jdf.mapInArrow(columns._jc, False, None), frame.sparkSession)
