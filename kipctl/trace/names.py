"""What numbers in rows stand for, where only the client knows: kept beside them as names come."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from kipctl.left_files import read_left
from kipctl.trace.run_start import write_whole
from kipctl.typed_json import decoded

_FILE = "names.json"
_OF_A_PROBE = 2 << 20
"""Bytes; racks, and addresses of thousands of brokers, have less."""


class NamesWriter:
    """Writes names, whenever there are new ones. Those of a column come in the order of numbers."""

    def __init__(self, directory: Path, names: Mapping[str, Collection[str]]) -> None:
        self._path = directory / _FILE
        self._names = names
        self._written = 0

    def flush(self) -> None:
        """Write all names if there are new ones. Raises OSError, as on a full disk."""
        self.write(self.drain())

    def drain(self) -> str:
        """All names, for `write`, if there are new ones; else empty."""
        count = sum(map(len, self._names.values()))
        if count == self._written:
            return ""
        self._written = count
        return json.dumps({column: [*names] for column, names in self._names.items()})

    def write(self, drained: str) -> None:
        """Write names that were taken, if any; another thread may do it. Raises OSError."""
        if drained:
            write_whole(self._path, drained.encode())


def names_in(directory: Path, most: int = _OF_A_PROBE) -> dict[str, tuple[str, ...]]:
    """The names that were written there, by column, in `most` bytes; none where no name came.

    Raises DamagedError.
    """
    left = directory / _FILE
    try:
        return decoded(read_left(left, most), dict[str, tuple[str, ...]], str(left))
    except FileNotFoundError:
        return {}
