"""Rows of whole numbers, appended in nanoseconds and kept in a file as they are.

The probe must not pause to convert or compress, so it writes flat 64-bit integers; what they mean
(strings, nulls, Parquet) is settled after the run, by `kipctl.trace.store`. Read by
`kipctl.trace.rows`.
"""

import os
from array import array
from io import FileIO
from pathlib import Path


def file_of(path: Path, number: int) -> Path:
    """The file with that number, from 0 on, of rows whose first file is `path`."""
    return path.with_name(f"{path.stem}.{number}{path.suffix}") if number else path


class RowWriter:
    """Appends rows of `width` integers to a file, in blocks.

    `append(row)` is `array.extend`: it takes any iterable of exactly `width` ints and does not
    check. Call `flush` often enough to bound memory; readers see whole flushed rows. Who writes for
    long goes on in another file now and then (`rotate`), so that the oldest can be removed.
    """

    def __init__(self, path: Path, width: int) -> None:
        self._path = path
        self._file = path.open("wb", buffering=0)
        self._number = 0
        self._begins = 0
        self._former: tuple[int, FileIO] | None = None
        self._values = array("q")
        self._flushed_rows = 0
        self.width = width
        self.append = self._values.extend

    def flush(self) -> None:
        """Write what was appended.

        Raises OSError when not all of it can be written, as on a full disk: the file then ends
        with a whole row, and what it lacks is written by the next flush that can.
        """
        self.write(self._values)

    def drain(self) -> "array[int]":
        """What was appended since, for `write`; it is not in the file until that is done."""
        drained = self._values[:]
        del self._values[:]
        return drained

    def write(self, values: "array[int]") -> None:
        """Write rows that were taken, out of the array; another thread may do it.

        Raises OSError as `flush` does.
        """
        if not values:
            return
        begun = self._file.tell()
        written = 0
        try:
            with memoryview(values).cast("B") as rows:
                while written < len(rows):
                    written += self._file.write(rows[written:]) or 0
        finally:
            torn = written % (self.width * values.itemsize)
            if torn:
                self._file.truncate(begun + written - torn)
                self._file.seek(0, os.SEEK_END)
            del values[: (written - torn) // values.itemsize]
            self._flushed_rows += (written - torn) // (self.width * values.itemsize)

    @property
    def rows(self) -> int:
        """How many were appended: the number that the next one has."""
        return self._flushed_rows + len(self._values) // self.width

    @property
    def held_bytes(self) -> int:
        """Of rows that were appended and neither flushed nor taken."""
        return len(self._values) * self._values.itemsize

    def rotate(self) -> None:
        """Go on in the next file (`file_of`). Raises OSError as `flush` does.

        When that is there, the one before it has all its rows.
        """
        self.flush()
        following = file_of(self._path, self._number + 1).open("wb", buffering=0)
        self._close_former()
        self._former = self._begins, self._file
        self._file, self._begins = following, self._flushed_rows
        self._number += 1

    def amend(self, row: int, column: int, value: int) -> None:
        """Put another value into a row by its number. Raises OSError.

        Rows of files before the last two are as they are.
        """
        if row >= self._flushed_rows:
            self._values[(row - self._flushed_rows) * self.width + column] = value
            return
        files = [(self._begins, self._file), *([self._former] if self._former else [])]
        for begins, file in files:
            if row >= begins:
                at = ((row - begins) * self.width + column) * self._values.itemsize
                os.pwrite(file.fileno(), array("q", [value]).tobytes(), at)
                return

    def close(self) -> None:
        """Flush and close. Raises OSError as `flush` does; it is closed then, too."""
        try:
            self.flush()
        finally:
            self._close_former()
            self._file.close()

    def abandon(self) -> None:
        """Close it without what was not flushed: the disk is full."""
        del self._values[:]
        self._close_former()
        self._file.close()

    def _close_former(self) -> None:
        if self._former:
            self._former[1].close()
            self._former = None
