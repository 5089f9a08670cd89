"""Rows of integers as the datasets of the trace: strings, nulls, times since the run's start."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kipctl.trace.codes import Decision, MetadataCause, RangeCase, RangeHandling
from kipctl.trace.columns import COLUMNS, MOMENTS, raw_path
from kipctl.trace.rows import IntRows, chunks
from kipctl.trace.schema import DATASETS
from kipctl.typed_json import DamagedError

_NAMES: dict[str, Sequence[str]] = {
    "decision": [decision.name.lower() for decision in Decision],
    "cause": [cause.name.lower() for cause in MetadataCause],
    "range_case": [case.name.lower() for case in RangeCase],
    "range_handling": [handling.name.lower() for handling in RangeHandling],
}
_NULL_IF_NONE = {
    "to_broker",
    "to_epoch",
    "hint_leader",
    "hint_epoch",
    "base_offset",
    "preferred_read_replica",
    "next_offset",
    "high_watermark",
    "wait_us",
    "seen_by",
}
"""Columns in which -1 stands for nothing."""

IntColumn = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What rows of integers mean: whose they are, and what their numbers stand for.

    `constants` are columns that have one value in all rows, `names` those whose numbers are
    positions in a list. `start_us` is the run's start on the monotonic clock. `columns` are those
    of the rows, where they are not `kipctl.trace.columns`.
    """

    start_us: int
    constants: Mapping[str, str | None]
    names: Mapping[str, Sequence[str]]
    columns: Mapping[str, Sequence[str]] = field(default_factory=lambda: COLUMNS)


def record_batches(meaning: Meaning, directory: Path, dataset: str) -> Iterator[pa.RecordBatch]:
    """The rows of a dataset, in Arrow's form with the schema of `kipctl.trace.schema`.

    Raises DamagedError for numbers that none of its columns holds.
    """
    path = raw_path(directory, dataset)
    for rows in chunks(path, len(meaning.columns[dataset])):
        try:
            batch = _record_batch(meaning, rows, dataset)
        except pa.ArrowInvalid as wrong:
            raise DamagedError.of(path, wrong) from None
        yield batch


def _record_batch(meaning: Meaning, rows: IntRows, dataset: str) -> pa.RecordBatch:
    columns = {name: rows[:, i] for i, name in enumerate(meaning.columns[dataset])}
    names = {**_NAMES, **meaning.names}
    arrays = []
    for column in DATASETS[dataset]:
        if column.name in meaning.constants:
            constant = pa.scalar(meaning.constants[column.name], pa.string())
            arrays.append(pa.repeat(constant, len(rows)))
        elif column.name in names:
            arrays.append(_strings(columns[column.name], names[column.name]))
        else:
            arrays.append(_numbers(column, columns[column.name], meaning.start_us))
    return pa.RecordBatch.from_arrays(arrays, schema=DATASETS[dataset])


def _strings(codes: IntColumn, names: Sequence[str]) -> pa.Array:
    """The names at those positions; null for -1, and where a name is not known any more."""
    indices = pa.array(codes, mask=(codes < 0) | (codes >= len(names)))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string())).cast(pa.string())


def _numbers(field: pa.Field, values: IntColumn, start_us: int) -> pa.Array:
    if field.name in MOMENTS:
        return pa.array(values - start_us, field.type, mask=values == 0)
    if pa.types.is_boolean(field.type):
        return pa.array(values != 0)
    mask = values == -1 if field.name in _NULL_IF_NONE else None
    return pa.array(values, mask=mask).cast(field.type)
