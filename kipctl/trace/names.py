"""What numbers in rows stand for, where only the client knows: kept beside them as names come."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path

_FILE = "names.json"


class NamesWriter:
    """Writes names, whenever there are new ones. Those of a column come in the order of numbers."""

    def __init__(self, directory: Path, names: Mapping[str, Collection[str]]) -> None:
        self._path = directory / _FILE
        self._names = names
        self._written = 0

    def flush(self) -> None:
        """Write all names if there are new ones. Raises OSError, as on a full disk."""
        count = sum(map(len, self._names.values()))
        if count == self._written:
            return
        unfinished = self._path.with_suffix(".part")
        unfinished.write_text(json.dumps({name: [*of] for name, of in self._names.items()}))
        unfinished.replace(self._path)
        self._written = count


def names_in(directory: Path) -> dict[str, tuple[str, ...]]:
    """The names that were written there, by column; none where no name came."""
    try:
        found = json.loads((directory / _FILE).read_text())
    except FileNotFoundError:
        return {}
    return {name: tuple(of) for name, of in found.items()}
