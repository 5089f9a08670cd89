"""Rows of whole numbers, appended in nanoseconds and kept in a file as they are.

The probe must not pause to convert or compress, so it writes flat 64-bit integers; what they mean
(strings, nulls, Parquet) is settled after the run, by `kipctl.trace.store`.
"""

import os
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

IntRows = npt.NDArray[np.int64]
CHUNK_ROWS = 1 << 17
"""Rows that are read at once, at most: a run may have written more than fit into memory."""


class RowWriter:
    """Appends rows of `width` integers to a file, in blocks.

    `append(row)` is `array.extend`: it takes any iterable of exactly `width` ints and does not
    check. Call `flush` often enough to bound memory; readers see whole flushed rows.
    """

    def __init__(self, path: Path, width: int) -> None:
        self._file = path.open("wb", buffering=0)
        self._values = array("q")
        self._flushed_rows = 0
        self.width = width
        self.append = self._values.extend

    def flush(self) -> None:
        """Write what was appended.

        Raises OSError when not all of it can be written, as on a full disk: the file then ends
        with a whole row, and what it lacks is written by the next flush that can.
        """
        if not self._values:
            return
        begun = self._file.tell()
        written = 0
        try:
            with memoryview(self._values).cast("B") as rows:
                while written < len(rows):
                    written += self._file.write(rows[written:]) or 0
        finally:
            torn = written % (self.width * self._values.itemsize)
            if torn:
                self._file.truncate(begun + written - torn)
                self._file.seek(0, os.SEEK_END)
            del self._values[: (written - torn) // self._values.itemsize]
            self._flushed_rows += (written - torn) // (self.width * self._values.itemsize)

    @property
    def rows(self) -> int:
        """How many were appended: the number that the next one has."""
        return self._flushed_rows + len(self._values) // self.width

    def amend(self, row: int, column: int, value: int) -> None:
        """Put another value into a row by its number. Raises OSError."""
        if row >= self._flushed_rows:
            self._values[(row - self._flushed_rows) * self.width + column] = value
        else:
            at = (row * self.width + column) * self._values.itemsize
            os.pwrite(self._file.fileno(), array("q", [value]).tobytes(), at)

    def close(self) -> None:
        """Flush and close. Raises OSError as `flush` does; it is closed then, too."""
        try:
            self.flush()
        finally:
            self._file.close()

    def abandon(self) -> None:
        """Close it without what was not flushed: the disk is full."""
        del self._values[:]
        self._file.close()


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
