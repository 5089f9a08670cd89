"""HTTP servers on loopback that do what no honest one does: bytes as a test says, now and then."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

OK = b"HTTP/1.1 200 OK\r\n"
_PAUSE_S = 0.02


class Peer:
    """A server whose every connection is handled, in a thread of its own, by `speak`."""

    def __init__(self, speak: Callable[["Peer", socket.socket], None]) -> None:
        self._speak = speak
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/metrics"
        self.heard: list[bytes] = []
        """The request of each connection."""
        self.was_asked = threading.Event()
        self.over = threading.Event()
        self.was_left = threading.Event()
        """A client hung up before the peer had said all."""
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._threads.append(threading.Thread(target=self._handle, args=(connection,)))
            self._threads[-1].start()

    def _handle(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self.heard.append(request(connection))
            self.was_asked.set()
            try:
                self._speak(self, connection)
            except OSError:
                self.was_left.set()

    def end(self) -> None:
        self.over.set()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for thread in self._threads:
            thread.join()


def request(connection: socket.socket) -> bytes:
    """All of it; what came of it, if no more does."""
    heard, size = b"", None
    while size is None or len(heard) < size:
        if not (more := connection.recv(65536)):
            break
        heard += more
        head, end, _ = heard.partition(b"\r\n\r\n")
        if end:
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            size = len(head + end) + (int(length[1]) if length else 0)
    return heard


@contextmanager
def peer(speak: Callable[[Peer, socket.socket], None]) -> Iterator[Peer]:
    """One, for as long as the block runs."""
    opened = Peer(speak)
    try:
        yield opened
    finally:
        opened.end()


def saying(answer: bytes) -> Callable[[Peer, socket.socket], None]:
    """All of it at once, then the end."""
    return lambda _, connection: connection.sendall(answer)


def trickling(before: bytes, byte: bytes = b"#") -> Callable[[Peer, socket.socket], None]:
    """A byte now and then, for ever, after what is said at once."""

    def speak(peer: Peer, connection: socket.socket) -> None:
        connection.sendall(before)
        while not peer.over.wait(_PAUSE_S):
            connection.sendall(byte)

    return speak


TRICKLES = {
    "a body": trickling(OK + b"\r\n"),
    "headers": trickling(OK + b"X: "),
    "a status line": trickling(b"HTTP/1.1 "),
    "chunks": trickling(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
    "answers before the answer": trickling(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}
"""By what comes slowly."""
