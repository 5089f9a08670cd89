"""librdkafka's producer and consumer, through confluent-kafka, in a process of their own."""

import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from kipctl.clients import librdkafka_work
from kipctl.clients.load import Consumed, ConsumerLoad, Produced, ProducerLoad, RunningClient
from kipctl.errors import KipctlError
from kipctl.signals import leave_to_starter
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.reachable import demand_reachable

_START_TIMEOUT_S = 60.0

_Load = TypeVar("_Load")
_Result = TypeVar("_Result")
_Work = Callable[
    [_Load, Access, librdkafka_work.Started, librdkafka_work.ShouldStop],
    _Result,
]


class ClientDiedError(KipctlError):
    """The process of librdkafka ended without an outcome: killed, or a fault."""


def _in_child(work: _Work[_Load, _Result], load: _Load, access: Access, pipe: Connection) -> None:
    """The child: does the work, and tells of its start and end through the pipe."""
    leave_to_starter()
    try:
        pipe.send(work(load, access, pipe.send, pipe.poll))
    except KipctlError as error:
        pipe.send(error)
    except BaseException:
        pipe.send(ClientDiedError("The driver of librdkafka failed:\n" + traceback.format_exc()))
    finally:
        pipe.close()


class _RunningLibrdkafka(Generic[_Result]):
    """A client at work, in a process that ends with its starter's."""

    def __init__(self, work: _Work[_Load, _Result], load: _Load, access: Access) -> None:
        """Start it; returns when it begins. Raises KipctlError."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_in_child, args=(work, load, access, theirs), name="kipctl-client", daemon=True
        )
        self._process.start()
        theirs.close()
        try:
            start_us = self._receive(_START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise
        assert isinstance(start_us, int)
        self.start_us = start_us

    def is_done_by(self, time_us: int) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock."""
        return self._pipe.poll(max(0, time_us - now_us()) / 1e6)

    def stop(self) -> None:
        """Ask it to end early; records under way are waited for."""
        with suppress(OSError):  # it may have ended already
            self._pipe.send("stop")

    def outcome(self) -> _Result:
        """Wait until it is done. Raises KipctlError with librdkafka's own words if it failed."""
        outcome: _Result = self._receive(None)
        return outcome

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._pipe.close()

    def _receive(self, timeout_s: float | None) -> Any:
        try:
            if not self._pipe.poll(timeout_s):
                raise ClientDiedError(f"librdkafka did not start within {timeout_s:.0f} s.")
            message = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise ClientDiedError(
                f"The process of librdkafka ended early (exit code {self._process.exitcode})."
            ) from None
        if isinstance(message, KipctlError):
            raise message
        return message


@dataclass(frozen=True, slots=True)
class Librdkafka:
    """The librdkafka that confluent-kafka brings."""

    @property
    def version(self) -> str:
        return librdkafka_work.version()

    @contextmanager
    def producer(self, load: ProducerLoad, access: Access) -> Iterator[RunningClient[Produced]]:
        """A producer in open loop; its process is gone after the block. Raises KipctlError."""
        demand_reachable(access)
        with closing(_RunningLibrdkafka(librdkafka_work.produce, load, access)) as running:
            yield running

    @contextmanager
    def consumer(self, load: ConsumerLoad, access: Access) -> Iterator[RunningClient[Consumed]]:
        """A member of a group; its process is gone after the block. Raises KipctlError."""
        demand_reachable(access)
        with closing(_RunningLibrdkafka(librdkafka_work.consume, load, access)) as running:
            yield running
