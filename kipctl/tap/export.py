"""A tap's rows of integers as the datasets of the trace."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from kipctl.tap.process import TapOutcome
from kipctl.tap.recorder import COLUMNS
from kipctl.trace import export


def record_batches(outcome: TapOutcome, directory: Path, dataset: str) -> Iterator[pa.RecordBatch]:
    """The rows of a dataset, in Arrow's form with the schema of `kipctl.trace.schema`."""
    meaning = export.Meaning(outcome.start_us, {"source": "tap"}, outcome.names, COLUMNS)
    return export.record_batches(meaning, directory, dataset)
