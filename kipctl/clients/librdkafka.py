"""librdkafka's producer and consumer, through confluent-kafka, in a process of their own."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Generic, TypeVar, cast

from kipctl.child_process import ChildProcess
from kipctl.clients import librdkafka_work
from kipctl.clients.load import Consumed, ConsumerLoad, Produced, ProducerLoad, RunningClient
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.reachable import require_reachable

_START_TIMEOUT_S = 60.0

_Load = TypeVar("_Load")
_Result = TypeVar("_Result")
_Work = Callable[
    [_Load, Access, librdkafka_work.Started, librdkafka_work.ShouldStop],
    _Result,
]


def _in_child(
    work: _Work[_Load, _Result], load: _Load, access: Access, pipe: Connection
) -> _Result:
    return work(load, access, pipe.send, pipe.poll)


class _RunningLibrdkafka(Generic[_Result]):
    """A client at work, in a process that ends with its starter's."""

    def __init__(self, work: _Work[_Load, _Result], load: _Load, access: Access) -> None:
        """Start it; returns when it begins. Raises KipctlError."""
        self._child = ChildProcess(
            "The librdkafka client", _in_child, work, load, access, start_timeout_s=_START_TIMEOUT_S
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
    """The librdkafka that confluent-kafka brings."""

    @property
    def version(self) -> str:
        return librdkafka_work.version()

    @contextmanager
    def producer(self, load: ProducerLoad, access: Access) -> Iterator[RunningClient[Produced]]:
        """A producer in open loop; its process is gone after the block. Raises KipctlError."""
        require_reachable(access)
        with closing(_RunningLibrdkafka(librdkafka_work.produce, load, access)) as running:
            yield running

    @contextmanager
    def consumer(self, load: ConsumerLoad, access: Access) -> Iterator[RunningClient[Consumed]]:
        """A member of a group; its process is gone after the block. Raises KipctlError."""
        require_reachable(access)
        with closing(_RunningLibrdkafka(librdkafka_work.consume, load, access)) as running:
            yield running
