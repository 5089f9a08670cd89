"""The rows that a `kipctl.trace.row_writer.RowWriter` has written, as arrays."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kipctl.left_files import open_left
from kipctl.trace.row_writer import file_of

IntRows = npt.NDArray[np.int64]
CHUNK_ROWS = 1 << 17
"""Rows that are read at once, at most: a run may have written more than fit into memory."""


class RowReader:
    """Reads what a RowWriter has flushed, also while it still writes.

    It begins with the first file that is still there.
    """

    def __init__(self, path: Path, width: int) -> None:
        self._path = path
        self._width = width
        self._read = 0
        self.number = 0
        """Of the file that is read: those before it are read to their ends."""

    def new_rows(self) -> IntRows:
        """The rows flushed since the last call, shape (rows, width): CHUNK_ROWS of them at most.

        What is left comes with the next calls.
        """
        while not len(rows := self._rows_there()):
            following = self._following()
            if following is None:
                break
            # From then on the file has all of its rows.
            if len(rows := self._rows_there()):
                break
            self.number, self._read = following, 0
        self._read += len(rows)
        return rows

    def _rows_there(self) -> IntRows:
        path = file_of(self._path, self.number)
        return read_rows(path, self._width, self._read, CHUNK_ROWS)

    def _following(self) -> int | None:
        """The number of the next file; None where there is none yet."""
        if file_of(self._path, self.number + 1).exists():
            return self.number + 1
        if file_of(self._path, self.number).exists():
            return None
        return next((number for number in _numbers(self._path) if number > self.number), None)


def read_all(new_rows: Callable[[], IntRows]) -> IntRows:
    """What is there of rows that come at most CHUNK_ROWS at a time."""
    parts = [new_rows()]
    while len(parts[-1]):
        parts.append(new_rows())
    return np.concatenate(parts)


def read_rows(path: Path, width: int, skip: int = 0, count: int = -1) -> IntRows:
    """Rows `skip` to `skip + count` (-1: to the end) of a file, shape (rows, width).

    Raises DamagedError where it is no regular file.
    """
    values = count * width if count >= 0 else -1
    try:
        with open_left(path) as file:
            flat = np.fromfile(file, dtype=np.int64, offset=skip * width * 8, count=values)
    except FileNotFoundError:  # not yet, or not any more
        return np.empty((0, width), dtype=np.int64)
    whole = len(flat) // width
    return flat[: whole * width].reshape(whole, width)


def chunks(path: Path, width: int, size: int | None = None) -> Iterable[IntRows]:
    """The rows of the files, at most `size` at a time, or CHUNK_ROWS; `path` is the first one."""

    def read() -> Iterator[IntRows]:
        for number in _numbers(path):
            skip = 0
            while len(rows := read_rows(file_of(path, number), width, skip, size or CHUNK_ROWS)):
                yield rows
                skip += len(rows)

    return read()


def _numbers(path: Path) -> list[int]:
    """Those of the files that are there (`file_of`), in order."""
    numbers = [0] if path.exists() else []
    for other in path.parent.glob(f"{path.stem}.*{path.suffix}"):
        number = other.name.removesuffix(path.suffix)[len(path.stem) + 1 :]
        if number.isdecimal():
            numbers.append(int(number))
    return sorted(numbers)
