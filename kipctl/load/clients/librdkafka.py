"""librdkafka's producer and consumer, through confluent-kafka, in a process of their own."""

import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Generic, TypeVar, cast

from kipctl.child_process import ChildProcess
from kipctl.errors import UnreachableError
from kipctl.load.clients.client import Consumed, ConsumerLoad, Produced, ProducerLoad, RunningClient
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.reachable import require_reachable

_START_TIMEOUT_S = 60.0
_FETCH_TIMEOUT_S = 300.0

_Result = TypeVar("_Result")


def _in_child(
    folder: Path | None,
    work: str,
    load: ProducerLoad | ConsumerLoad,
    access: Access,
    pipe: Connection,
) -> object:
    # Before anything imports confluent_kafka: the first one on the path is taken.
    if folder is not None:
        sys.path.insert(0, str(folder))
    from kipctl.load.clients import librdkafka_work

    return getattr(librdkafka_work, work)(load, access, pipe.send, pipe.poll)


class _RunningLibrdkafka(Generic[_Result]):
    """A client at work, in a process that ends with its starter's."""

    def __init__(
        self, folder: Path | None, work: str, load: ProducerLoad | ConsumerLoad, access: Access
    ) -> None:
        """Start it; returns when it begins. Raises KipctlError."""
        name = "The librdkafka client"
        self._child = ChildProcess(
            name, _in_child, folder, work, load, access, start_timeout_s=_START_TIMEOUT_S
        )
        self.stop, self.close = self._child.stop, self._child.close
        start_us = self._child.started
        assert isinstance(start_us, int)
        self.start_us = start_us

    def is_done_by(self, time_us: int) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock."""
        return self._child.has_sent(max(0, time_us - now_us()) / 1e6)

    def outcome(self) -> _Result:
        """Wait until it is done. Raises KipctlError with librdkafka's own words if it failed."""
        return cast(_Result, self._child.receive())


@dataclass(frozen=True, slots=True)
class Librdkafka:
    """The librdkafka that confluent-kafka brings: kipctl's own, or that of `fetched`."""

    folder: Path | None = None

    @property
    def version(self) -> str:
        """librdkafka's own; of a fetched one confluent-kafka's, which is named for it."""
        if self.folder is None:
            from confluent_kafka import libversion

            return str(libversion()[0])
        path = [str(self.folder)]
        fetched = importlib.metadata.distributions(name="confluent-kafka", path=path)
        return next(iter(fetched)).version

    @contextmanager
    def producer(self, load: ProducerLoad, access: Access) -> Iterator[RunningClient[Produced]]:
        """A producer in open loop; its process is gone after the block. Raises KipctlError."""
        require_reachable(access)
        running = _RunningLibrdkafka[Produced](self.folder, "produce", load, access)
        with closing(running):
            yield running

    @contextmanager
    def consumer(self, load: ConsumerLoad, access: Access) -> Iterator[RunningClient[Consumed]]:
        """A member of a group; its process is gone after the block. Raises KipctlError."""
        require_reachable(access)
        running = _RunningLibrdkafka[Consumed](self.folder, "consume", load, access)
        with closing(running):
            yield running


def fetched(version: str, cache: Path, message: Callable[[str], None]) -> Librdkafka:
    """confluent-kafka of that version, fetched by pip once and kept in the cache's folder.

    Raises UnreachableError where pip cannot get it, as where there is none for this Python.
    """
    folder = cache / f"confluent-kafka-{version}"
    if not folder.exists():
        message(f"Fetching confluent-kafka {version}.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as scratch:
            target = Path(scratch, "packages")
            _install(version, target)
            if not folder.exists():  # another kipctl may have been quicker
                shutil.move(target, folder)
    return Librdkafka(folder)


def _install(version: str, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-input"]
    command += ["--only-binary=:all:", "--target", str(target), f"confluent-kafka=={version}"]
    try:
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            timeout=_FETCH_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failed:
        said = failed.stderr if isinstance(failed.stderr, str) else ""
        last = next((line for line in reversed(said.splitlines()) if line.strip()), str(failed))
        raise UnreachableError(
            f"confluent-kafka {version} could not be fetched: {last.strip()}",
            "See that pip can install it here, or choose another version.",
        ) from None
