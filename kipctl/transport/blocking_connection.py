"""A blocking connection to one broker: opened, secured, and ready for whole frames."""

import select
import socket
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from random import random
from typing import Any, NamedTuple

from kipctl.protocol.address import NO_HOST, Address, can_be_host
from kipctl.protocol.api import LARGEST_FRAME
from kipctl.protocol.primitives import INT32, MalformedFrame
from kipctl.security.tls import failure
from kipctl.transport.access import Access
from kipctl.transport.login import Login, renewal_due_s

CONNECT_TIMEOUT_S = 10.0
"""Seconds for opening a connection, as Java's socket.connection.setup.timeout.ms."""
_CHUNK = 1 << 18
_TLS_RECORDS = (20, 21, 22)


class Steps(NamedTuple):
    """What opening a connection took, in seconds; 0 for what it did not need."""

    tcp: float
    tls: float
    login: float


class TlsError(OSError):
    """The TCP connection was made, and TLS was not agreed upon."""


class BlockingConnection:
    """One request at a time. What fails raises OSError, of which TimeoutError and TLS's are some.

    It is to be used again until `ends` (of the monotonic clock): then its session is over.
    """

    def __init__(self, broker: Address, access: Access, deadline: float) -> None:
        """Open it, and log in, by the deadline of the monotonic clock.

        Raises OSError, AuthenticationError and what tokens' sources raise.
        """
        self._deadline = deadline
        self.ends = float("inf")
        began = time.monotonic()
        timeout_s = min(self._left(), CONNECT_TIMEOUT_S)
        place = access.mapped(broker)
        if not can_be_host(place.host):  # as brokers have announced it
            raise OSError(NO_HOST)
        try:
            self._socket = socket.create_connection(place, timeout_s)
        except TimeoutError:
            raise OSError("no answer to the attempt to connect") from None
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected = private = time.monotonic()
            if tls := access.security.tls:
                self._secure(tls.context(), broker.host)
                private = time.monotonic()
            if sasl := access.security.sasl:
                self._log_in(Login(sasl, broker))
            self.steps = Steps(connected - began, private - connected, time.monotonic() - private)
        except BaseException:
            self.close()
            raise

    def _secure(self, context: ssl.SSLContext, host: str) -> None:
        try:
            self._socket.settimeout(min(self._left(), CONNECT_TIMEOUT_S))
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except TimeoutError:
            raise TlsError("no answer to the TLS handshake: it may speak no TLS") from None
        except OSError as error:
            raise TlsError(failure(error)) from error

    def _log_in(self, login: Login) -> None:
        frame: bytes | None = login.begin()
        while frame is not None:
            frame = login.answered(self._exchange(frame))
        if seconds := renewal_due_s(login.session_lifetime_ms, random()):
            self.ends = time.monotonic() + seconds

    def exchange(self, frame: bytes, deadline: float) -> bytes:
        """Send a frame; returns the next that comes, without its length.

        Raises OSError and MalformedFrame.
        """
        self._deadline = deadline
        return self._exchange(frame)

    def _exchange(self, frame: bytes) -> bytes:
        try:
            self._socket.settimeout(self._left())
            # Why a connection was closed, the broker may have said before.
            with suppress(ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                self._socket.sendall(frame)
            head = self._receive(4)
            (size,) = INT32.unpack(head)
            if head[0] in _TLS_RECORDS and head[1] == 3:
                raise TlsError("it speaks TLS: set security.protocol to SSL or SASL_SSL")
            if not 4 <= size <= LARGEST_FRAME:
                is_http = ", as an HTTP server answers" if head == b"HTTP" else ""
                raise MalformedFrame(f"length {size}{is_http}")
            return self._receive(size)
        except ssl.SSLError as error:
            raise OSError(failure(error)) from error

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            self._socket.settimeout(self._left())
            chunk = self._socket.recv(min(size - len(received), _CHUNK))
            if not chunk:
                raise ConnectionResetError("it closed the connection instead of answering")
            received += chunk
        return bytes(received)

    def _left(self) -> float:
        """Seconds until the deadline; raises `TimeoutError` when there are none."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    @property
    def certificate(self) -> Mapping[str, Any]:
        """What the broker has shown, as `ssl.SSLSocket.getpeercert` has it; nothing without TLS."""
        if not isinstance(self._socket, ssl.SSLSocket):
            return {}
        return self._socket.getpeercert() or {}

    @property
    def tls_version(self) -> str | None:
        return self._socket.version() if isinstance(self._socket, ssl.SSLSocket) else None

    def is_over(self) -> bool:
        """Whether the broker closed it (or, out of turn, sent something), or its session ended."""
        if time.monotonic() >= self.ends:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        if not poll.poll(0):
            return False
        if not isinstance(self._socket, ssl.SSLSocket):
            return True
        self._socket.setblocking(False)
        try:
            self._socket.recv(1)
        except ssl.SSLWantReadError:
            return False  # something of TLS's own
        except OSError:
            return True
        return True

    def close(self) -> None:
        self._socket.close()
