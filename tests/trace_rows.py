"""Rows of traces as the probe and the tap write them, with the values that a test wants."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.export import Meaning, record_batches
from kipctl.trace.rows import IntRows
from kipctl.trace.store import Run


def table(dataset: str, *given: Mapping[str, int], other: int = 0) -> IntRows:
    """Rows of a dataset in which all is `other` but what is given."""
    rows = np.full((len(given), len(COLUMNS[dataset])), other, dtype=np.int64)
    for row, values in zip(rows, given, strict=True):
        for name, value in values.items():
            row[COLUMNS[dataset].index(name)] = value
    return rows


def table_of(dataset: str, count: int, **columns: object) -> IntRows:
    """So many rows, by columns: a value for all rows, or one for each; what is not given is 0."""
    rows = np.zeros((count, len(COLUMNS[dataset])), dtype=np.int64)
    for name, value in columns.items():
        rows[:, COLUMNS[dataset].index(name)] = value
    return rows


def record(
    run: Run, dataset: str, rows: IntRows, client: str, part: int = 0, start: int = 0
) -> None:
    """Write rows that a tap saw of a client of that id into a run; their topic 0 is "t"."""
    meaning = Meaning(
        start,
        {
            "source": "tap",
            "client": client,
            "software_name": "x",
            "software_version": "1",
            "api": "produce",
        },
        {"topic": ["t", "u"], "hint_endpoint": ["h:1"], "broker_rack": []},
    )
    with TemporaryDirectory() as folder:
        rows.tofile(raw_path(Path(folder), dataset))
        run.write(dataset, record_batches(meaning, Path(folder), dataset), part)
