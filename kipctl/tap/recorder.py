"""The rows of a tap: those of `kipctl.trace.columns`, with the client that each is of."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kipctl.trace.columns import (
    BATCH_COLUMNS,
    EVENT_COLUMNS,
    MOVE_MET_COLUMNS,
    REDIRECT_COLUMNS,
    ReadRow,
    RpcRow,
    raw_path,
)
from kipctl.trace.names import NamesWriter
from kipctl.trace.row_writer import RowWriter

DATASETS = ("batches", "rpcs", "redirects", "reads", "moves", "events")
_WHO = ("client", "software_name", "software_version")
COLUMNS: Mapping[str, Sequence[str]] = {
    "batches": ("client", *BATCH_COLUMNS),
    "rpcs": (*_WHO, *RpcRow._fields),
    "redirects": ("client", "api", *REDIRECT_COLUMNS),
    "reads": (*_WHO, "client_rack", *ReadRow._fields),
    "moves": ("client", "api", *MOVE_MET_COLUMNS),
    "events": EVENT_COLUMNS,
}
APIS = ("produce", "fetch")
PRODUCE, FETCH = range(len(APIS))
MOST_HELD_BYTES = 64 << 20
"""Of rows that wait while others are written."""


@dataclass(slots=True)
class Names:
    """Texts, numbered in the order in which they came up."""

    texts: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))


class Drained(NamedTuple):
    """What was recorded since the last time, to be written."""

    rows: Mapping[str, "array[int]"]
    names: str


class Recorder:
    """Writes rows of integers; what the numbers in them stand for is in `names`, and beside them.

    Without a directory nothing is written. What comes is kept until it is taken and written.
    """

    def __init__(self, directory: Path | None) -> None:
        self.clients, self.software, self.versions = Names(), Names(), Names()
        self.topics, self.endpoints, self.racks = Names(), Names(), Names()
        self._names = {
            "client": self.clients.texts,
            "software_name": self.software.texts,
            "software_version": self.versions.texts,
            "topic": self.topics.texts,
            "hint_endpoint": self.endpoints.texts,
            "broker_rack": self.racks.texts,
            "client_rack": self.racks.texts,
            "api": {name: number for number, name in enumerate(APIS)},
        }
        self._writers = {
            name: RowWriter(raw_path(directory, name), len(COLUMNS[name]))
            for name in DATASETS
            if directory
        }
        self._names_writer = NamesWriter(directory, self._names) if directory else None
        appends = {name: writer.append for name, writer in self._writers.items()}
        self.batch = appends.get("batches", _nowhere)
        self.rpc = appends.get("rpcs", _nowhere)
        self.redirect = appends.get("redirects", _nowhere)
        self.read = appends.get("reads", _nowhere)
        self.move = appends.get("moves", _nowhere)
        self.event = appends.get("events", _nowhere)

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """The texts of each column that gives them by number."""
        return {column: tuple(texts) for column, texts in self._names.items()}

    @property
    def held_bytes(self) -> int:
        """Of rows that were not taken yet."""
        return sum(writer.held_bytes for writer in self._writers.values())

    def drain(self) -> Drained:
        """What was recorded since the last time."""
        rows = {name: writer.drain() for name, writer in self._writers.items()}
        return Drained(rows, self._names_writer.drain() if self._names_writer else "")

    def write(self, drained: Drained) -> None:
        """Write what was taken; another thread may do it, so that a slow disk holds up nobody.

        Raises OSError when the disk is full.
        """
        if (
            self._names_writer
        ):  # first: rows without names, as of who is killed between, tell nothing
            self._names_writer.write(drained.names)
        for name, rows in drained.rows.items():
            self._writers[name].write(rows)

    def stop(self) -> None:
        """Record no more rows: those written are whole."""
        self.batch = self.rpc = self.redirect = self.read = _nowhere
        self.move = self.event = _nowhere
        self.drain()

    def close(self) -> None:
        """Write what is left. Raises OSError when the disk is full; all is closed then, too."""
        with ExitStack() as closing:
            for writer in self._writers.values():
                closing.callback(writer.close)
            if self._names_writer:
                self._names_writer.flush()


class BackgroundWriter:
    """Writes a recorder's rows in a thread: a disk that is slow, or full, holds up no client."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._thread = ThreadPoolExecutor(1, "kipctl-tap-rows")
        self._writing: Future[None] | None = None

    def turn(self) -> str:
        """Have written what came since the last time, or let it wait for what is being written.

        Returns why no more rows are recorded, when that is so from now on; else "".
        """
        problem = ""
        if self._writing is None or self._writing.done():
            failed = self._writing.exception() if self._writing else None
            if failed:
                problem = (isinstance(failed, OSError) and failed.strerror) or repr(failed)
            else:
                self._writing = self._thread.submit(self._recorder.write, self._recorder.drain())
        elif self._recorder.held_bytes > MOST_HELD_BYTES:
            problem = "the disk is too slow for them"
        if not problem:
            return ""
        self._recorder.stop()
        self._writing = None
        return f"No more rows are recorded: {problem}."

    def close(self) -> None:
        """Write what is left, and close. Raises OSError when the disk is full."""
        self._thread.shutdown()
        try:
            self._recorder.close()
        finally:
            if self._writing:
                self._writing.result()


def _nowhere(row: Iterable[int]) -> None:
    """Takes a row that nobody wants."""
