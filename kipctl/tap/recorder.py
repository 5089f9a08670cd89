"""The rows of a tap: those of `kipctl.trace.columns`, with the client that each is of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kipctl.trace.columns import BATCH_COLUMNS, REDIRECT_COLUMNS, ReadRow, RpcRow, raw_path
from kipctl.trace.row_writer import RowWriter

DATASETS = ("batches", "rpcs", "redirects", "reads")
_WHO = ("client", "software_name", "software_version")
COLUMNS: Mapping[str, Sequence[str]] = {
    "batches": ("client", *BATCH_COLUMNS),
    "rpcs": (*_WHO, *RpcRow._fields),
    "redirects": ("client", "api", *REDIRECT_COLUMNS),
    "reads": (*_WHO, "client_rack", *ReadRow._fields),
}
APIS = ("produce", "fetch")
PRODUCE, FETCH = range(len(APIS))


@dataclass(slots=True)
class Names:
    """Texts, numbered in the order in which they came up."""

    texts: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))


class Recorder:
    """Writes rows of integers; what the numbers in them stand for is in `names`.

    Without a directory nothing is written.
    """

    def __init__(self, directory: Path | None) -> None:
        self._writers = {
            name: RowWriter(raw_path(directory, name), len(COLUMNS[name]))
            for name in DATASETS
            if directory
        }
        appends = {name: writer.append for name, writer in self._writers.items()}
        self.batch = appends.get("batches", _nowhere)
        self.rpc = appends.get("rpcs", _nowhere)
        self.redirect = appends.get("redirects", _nowhere)
        self.read = appends.get("reads", _nowhere)
        self.clients, self.software, self.versions = Names(), Names(), Names()
        self.topics, self.endpoints, self.racks = Names(), Names(), Names()

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The texts of each column that gives them by number."""
        tables = {
            "client": self.clients,
            "software_name": self.software,
            "software_version": self.versions,
            "topic": self.topics,
            "hint_endpoint": self.endpoints,
            "broker_rack": self.racks,
            "client_rack": self.racks,
        }
        return {column: tuple(table.texts) for column, table in tables.items()} | {"api": APIS}

    def stop(self) -> None:
        """Write no more rows: those written are whole."""
        self.batch = self.rpc = self.redirect = self.read = _nowhere
        for writer in self._writers.values():
            writer.abandon()
        self._writers = {}

    def flush(self) -> None:
        """Raises OSError when the disk is full."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def _nowhere(row: Iterable[int]) -> None:
    """Takes a row that nobody wants."""
