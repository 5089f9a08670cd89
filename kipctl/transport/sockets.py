"""What an event loop needs of the world: a clock, connections, and which of them are ready.

The probe's clients know nothing else of it, so that a simulation can take its place.
"""

import errno
import os
import select
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from ipaddress import ip_address
from typing import Protocol

from kipctl.protocol.address import NO_HOST, Address, can_be_host, host_port
from kipctl.transport.access import Access
from kipctl.transport.loop_connection import ConnectionLostError, LoopConnection
from kipctl.transport.secured_connection import SecuredConnection

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
_Addresses = Sequence[tuple[int, int, int, str, tuple[object, ...]]]


class Sockets(Protocol):
    """Non-blocking TCP connections that are polled together, and the clock of their owner."""

    def now_us(self) -> int:
        """Monotonic."""

    def connect(
        self, host: str, port: int, number: int, address: int = 0, receive_buffer_bytes: int = -1
    ) -> LoopConnection | None:
        """Begin to connect; None if it cannot be begun yet.

        Of a host with several addresses (localhost may be ::1 and 127.0.0.1) it takes number
        `address`, counted in a circle. `number` names the connection in the trace. The system
        chooses the size of the receive buffer for -1. Raises ConnectionLostError.
        """

    def watch(self, connection: LoopConnection, events: int) -> None:
        """Report these events of the connection from now on; at first it is both."""

    def poll(self, timeout_s: float) -> list[tuple[int, int]]:
        """Descriptors with the events they have; waits at most so long, to the microsecond."""

    def close(self) -> None:
        """Close what is polled with; connections are closed by their owners."""


class SystemSockets:
    """Those of the operating system."""

    def __init__(self, clock: Callable[[], int], access: Access) -> None:
        """`clock` gives monotonic microseconds."""
        self.now_us = clock
        self._access = access
        self._epoll = select.epoll()
        self._epoll_only = [self._epoll.fileno()]
        self._beside = _Beside()
        self._epoll.register(self._beside.done, READ)
        self._lookups = _Lookups(self._beside)
        self._computing: list[tuple[SecuredConnection, Future[bytes | None]]] = []

    def connect(
        self, host: str, port: int, number: int, address: int = 0, receive_buffer_bytes: int = -1
    ) -> LoopConnection | None:
        """None while the host's name is looked up: then `poll` ends early."""
        broker = Address(host, port)
        place = self._access.mapped(broker)
        addresses = self._lookups.addresses(*place)
        if addresses is None:
            return None
        family, kind, protocol, _, where = addresses[address % len(addresses)]
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer_bytes >= 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        failed = opened.connect_ex(where)
        if failed not in (0, errno.EINPROGRESS):
            opened.close()
            raise ConnectionLostError(f"{host_port(*place)}: {errno.errorcode.get(failed, failed)}")
        self._epoll.register(opened, READ | WRITE)
        tls, sasl = self._access.security.tls, self._access.security.sasl
        if tls is None and sasl is None:
            return LoopConnection(opened, number)
        return SecuredConnection(opened, number, broker, tls, sasl, self.now_us, self._compute)

    def _compute(
        self, connection: SecuredConnection, what: Callable[[], bytes | None]
    ) -> Future[bytes | None]:
        """In a thread; when it is done `poll` says that the connection can be written to."""
        future: Future[bytes | None] = Future()

        def compute() -> None:
            try:
                future.set_result(what())
            except Exception as error:
                future.set_exception(error)

        self._computing.append((connection, future))
        self._beside.run(compute)
        return future

    def watch(self, connection: LoopConnection, events: int) -> None:
        self._epoll.modify(connection, events)

    def poll(self, timeout_s: float) -> list[tuple[int, int]]:
        events = self._epoll.poll(0)
        if not events and timeout_s > 0:
            # epoll rounds up to milliseconds; select waits to the microsecond.
            select.select(self._epoll_only, (), (), timeout_s)
            events = self._epoll.poll(0)
        if self._beside.has_news:
            self._beside.drain_news()
            events = [event for event in events if event[0] != self._beside.done]
            done = [connection for connection, future in self._computing if future.done()]
            self._computing = [entry for entry in self._computing if not entry[1].done()]
            # A connection that is closed by now has no descriptor.
            events += [
                (connection.fileno(), WRITE) for connection in done if connection.fileno() >= 0
            ]
        return events

    def close(self) -> None:
        self._epoll.close()
        self._beside.close()


class _Beside:
    """What runs in threads beside an event loop, and tells it when it is done."""

    def __init__(self) -> None:
        self.done = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        """Readable when a thread has ended."""
        self.has_news = False
        self._lock = threading.Lock()
        self._closed = False

    def run(self, what: Callable[[], None]) -> None:
        threading.Thread(target=self._run, args=(what,), daemon=True).start()

    def _run(self, what: Callable[[], None]) -> None:
        what()
        with self._lock:
            if not self._closed:
                self.has_news = True
                os.eventfd_write(self.done, 1)

    def drain_news(self) -> None:
        """Somebody polls again: what has ended by now is seen then."""
        with self._lock:
            self.has_news = False
            os.eventfd_read(self.done)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            os.close(self.done)


class _Lookups:
    """Addresses of hosts, looked up in threads: a resolver that hangs does not stop the loop.

    What was answered last is used while it is looked up again, once for every connection.
    """

    def __init__(self, beside: _Beside) -> None:
        self._beside = beside
        self._known: dict[tuple[str, int], _Addresses] = {}
        self._failed: dict[tuple[str, int], OSError] = {}
        self._under_way: set[tuple[str, int]] = set()
        self._lock = threading.Lock()

    def addresses(self, host: str, port: int) -> _Addresses | None:
        """What is known; None while nothing is. Raises ConnectionLostError if there is nothing."""
        if _is_number(host):
            return _look_up(host, port)
        with self._lock:
            failed = self._failed.pop((host, port), None)
            if failed is not None:
                raise ConnectionLostError(f"{host}: {failed.strerror}")
            if (host, port) not in self._under_way:
                self._under_way.add((host, port))
                self._beside.run(partial(self._look_up, host, port))
            return self._known.get((host, port))

    def _look_up(self, host: str, port: int) -> None:
        addresses, failed = None, None
        try:
            addresses = _look_up(host, port)
        except OSError as error:
            failed = error
        with self._lock:
            self._under_way.discard((host, port))
            if addresses is not None:
                self._known[host, port] = addresses
            elif failed is not None and (host, port) not in self._known:
                self._failed[host, port] = failed


def _look_up(host: str, port: int) -> _Addresses:
    if not can_be_host(host):  # as brokers have announced it
        raise socket.gaierror(socket.EAI_NONAME, NO_HOST)
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
