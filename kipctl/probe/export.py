"""The probe's rows of integers as the datasets of the trace: strings, nulls, relative times."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kipctl import __version__
from kipctl.probe.links import SOFTWARE_NAME
from kipctl.probe.outcome import Outcome
from kipctl.probe.tracing import COLUMNS, MOMENTS, raw_path
from kipctl.trace.codes import Decision, MetadataCause, RangeCase, RangeHandling
from kipctl.trace.rows import IntRows, chunks
from kipctl.trace.schema import DATASETS

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
}
"""Columns in which -1 stands for nothing."""

IntColumn = npt.NDArray[np.int64]


def record_batches(outcome: Outcome, directory: Path, dataset: str) -> Iterator[pa.RecordBatch]:
    """The rows of a dataset, in Arrow's form with the schema of `kipctl.trace.schema`."""
    rows_at_a_time = chunks(raw_path(directory, dataset), len(COLUMNS[dataset]))
    for rows in rows_at_a_time:
        yield _record_batch(outcome, rows, dataset)


def _record_batch(outcome: Outcome, rows: IntRows, dataset: str) -> pa.RecordBatch:
    columns = {name: rows[:, i] for i, name in enumerate(COLUMNS[dataset])}
    constants = {
        "source": "probe",
        "client": outcome.config.client_id,
        "software_name": SOFTWARE_NAME,
        "software_version": __version__,
        **outcome.constants,
    }
    names: dict[str, Sequence[str]] = {
        **_NAMES,
        **outcome.names,
    }
    arrays = []
    for field in DATASETS[dataset]:
        if field.name in constants:
            arrays.append(pa.repeat(pa.scalar(constants[field.name], pa.string()), len(rows)))
        elif field.name in names:
            arrays.append(_strings(columns[field.name], names[field.name]))
        else:
            arrays.append(_numbers(field, columns[field.name], outcome.start_us))
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
