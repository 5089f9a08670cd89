"""Rows as a probe writes them, made by hand; and read back, by column name."""

from pathlib import Path
from typing import Any

import numpy as np

from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import IntRows, read_rows


def rows_of(dataset: str, *rows: dict[str, int], **common: int) -> IntRows:
    """Rows with these values, 0 where none is given."""
    columns = COLUMNS[dataset]
    for row in rows:
        assert set(row) | set(common) <= set(columns)
    return np.array(
        [[(common | row).get(name, 0) for name in columns] for row in rows], dtype=np.int64
    ).reshape(-1, len(columns))


def read_back(directory: Path, dataset: str) -> list[dict[str, Any]]:
    """What a probe wrote, a dictionary per row."""
    columns = COLUMNS[dataset]
    rows = read_rows(raw_path(directory, dataset), len(columns))
    return [dict(zip(columns, row, strict=True)) for row in rows.tolist()]
