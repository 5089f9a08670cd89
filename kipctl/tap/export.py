"""A tap's rows of integers as the datasets of the trace."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from kipctl.tap.process import TapOutcome
from kipctl.tap.recorder import COLUMNS, DATASETS
from kipctl.trace import export
from kipctl.trace.store import Run


def write(
    run: Run,
    outcome: TapOutcome,
    directory: Path,
    datasets: Iterable[str] = DATASETS,
    part: int = 0,
) -> None:
    """Write what a tap has left in that directory into the run, as its part of that number."""
    for dataset in datasets:
        run.write(dataset, record_batches(outcome, directory, dataset), part)


def record_batches(outcome: TapOutcome, directory: Path, dataset: str) -> Iterator[pa.RecordBatch]:
    """The rows of a dataset, in Arrow's form with the schema of `kipctl.trace.schema`."""
    meaning = export.Meaning(outcome.start_us, {"source": "tap"}, outcome.names, COLUMNS)
    return export.record_batches(meaning, directory, dataset)
