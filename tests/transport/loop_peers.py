"""Both ends of an event loop's connection in a test's own hands.

Nothing waits: a connection that leaves something unread where no poll tells of it does not go on,
and is noticed at once.
"""

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from secure_peers import TLS, loopback, server_context

from kipctl.protocol.address import Address
from kipctl.security.tls import Tls
from kipctl.transport.loop_connection import LoopConnection
from kipctl.transport.secured_connection import SecuredConnection

SERVER = server_context(loopback())
BROKER = Address("localhost", 9092)


class Peer:
    """The other end, at a non-blocking socket: it does what it is told to."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.unsent = b""
        """As it is to be written to the socket."""
        self.read = bytearray()

    def say(self, content: bytes) -> None:
        self.unsent += content

    def take(self, most: int = 1 << 20) -> bool:
        """Read what has come, and think about it; whether anything had."""
        try:
            came = self.end.recv(most)
        except BlockingIOError:
            return False
        self._take_in(came)
        return bool(came)

    def _take_in(self, came: bytes) -> None:
        self.read += came

    def put(self, most: int = 1 << 30) -> int:
        """Write at most so much of what is unsent; how much the socket took."""
        try:
            sent = self.end.send(self.unsent[:most])
        except BlockingIOError:
            return 0
        self.unsent = self.unsent[sent:]
        return sent


class TlsPeer(Peer):
    """A TLS server in memory."""

    def __init__(self, end: socket.socket, context: ssl.SSLContext = SERVER) -> None:
        super().__init__(end)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._is_private = False

    def say(self, content: bytes) -> None:
        self.tls.write(content)
        self.unsent += self._out.read()

    def say_goodbye(self) -> None:
        """TLS's own word for the end."""
        with suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        self.unsent += self._out.read()

    def _take_in(self, came: bytes) -> None:
        self._in.write(came)
        try:
            if not self._is_private:
                self.tls.do_handshake()
                self._is_private = True
            while True:
                self.read += self.tls.read(1 << 20)
        except ssl.SSLWantReadError:
            pass
        finally:
            self.unsent += self._out.read()


def nothing_beside(*_: object) -> NoReturn:
    """For a connection without a login."""
    raise AssertionError


@contextmanager
def pair(
    buffers: int = 0, tls: Tls | None = TLS, context: ssl.SSLContext = SERVER
) -> Iterator[tuple[LoopConnection, Any]]:
    """A connection and its peer, joined by sockets with buffers of this size."""
    ours, theirs = socket.socketpair()
    with theirs:
        for end in (ours, theirs):
            end.setblocking(False)
            if buffers:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
        connection = (
            SecuredConnection(ours, 1, BROKER, tls, None, lambda: 0, nothing_beside)
            if tls
            else LoopConnection(ours, 1)
        )
        try:
            yield connection, TlsPeer(theirs, context) if tls else Peer(theirs)
        finally:
            connection.close()


def turn(connection: LoopConnection, frames: list[bytes]) -> bool:
    """What an event loop does at a turn; whether there was anything to do."""
    writable = [connection] if connection.wants_write else []
    can_read, can_write, _ = select.select([connection], writable, [], 0)
    if not connection.connected:
        if can_read or can_write:
            connection.establish()
        return bool(can_read or can_write)
    if can_write:
        connection.write()
    if can_read:
        frames += map(bytes, connection.read())
    return bool(can_read or can_write)


def shake_hands(connection: LoopConnection, peer: Peer, at_once: int = 1 << 20) -> int:
    """Until the connection is there; how many pieces the server's half took."""
    pieces = 0
    while not connection.connected:
        went_on = turn(connection, [])
        took = peer.take(at_once)
        sent = bool(peer.unsent) and bool(peer.put(at_once))
        pieces += sent
        assert went_on or took or sent, "both wait for each other"
    return pieces


def half_shake_hands(connection: LoopConnection, peer: Peer) -> None:
    """Until the client has nothing more to say; with TLS 1.3 the server is not done yet."""
    connection.establish()
    peer.take()
    peer.put()
    connection.establish()
    assert connection.connected


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content
