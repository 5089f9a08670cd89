"""The rows that a `kipctl.trace.row_writer.RowWriter` has written, as arrays."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

IntRows = npt.NDArray[np.int64]
CHUNK_ROWS = 1 << 17
"""Rows that are read at once, at most: a run may have written more than fit into memory."""


class RowReader:
    """Reads what a RowWriter has flushed, also while it still writes."""

    def __init__(self, path: Path, width: int) -> None:
        self._path = path
        self._width = width
        self._read = 0

    def new_rows(self) -> IntRows:
        """The rows flushed since the last call, shape (rows, width): CHUNK_ROWS of them at most.

        What is left comes with the next calls.
        """
        rows = read_rows(self._path, self._width, self._read, CHUNK_ROWS)
        self._read += len(rows)
        return rows


def read_rows(path: Path, width: int, skip: int = 0, count: int = -1) -> IntRows:
    """Rows `skip` to `skip + count` (-1: to the end) of a file, shape (rows, width)."""
    if not path.exists():
        return np.empty((0, width), dtype=np.int64)
    values = count * width if count >= 0 else -1
    flat = np.fromfile(path, dtype=np.int64, offset=skip * width * 8, count=values)
    whole = len(flat) // width
    return flat[: whole * width].reshape(whole, width)


def chunks(path: Path, width: int, size: int | None = None) -> Iterable[IntRows]:
    """The file's rows, at most `size` at a time, or CHUNK_ROWS."""

    def read() -> Iterator[IntRows]:
        skip = 0
        while len(rows := read_rows(path, width, skip, size or CHUNK_ROWS)):
            yield rows
            skip += len(rows)

    return read()
