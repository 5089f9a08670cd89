"""A broker on loopback that answers what a test tells it to, and remembers what it was asked."""

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO, NamedTuple, Self

from all_requests import ALL_REQUESTS

from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kipctl.protocol.message import Response, decode, encode
from kipctl.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security

_REQUESTS = {cls.api.key: cls for cls in ALL_REQUESTS}

VERSIONS = {0: (0, 13), 2: (1, 8), 3: (0, 13), 18: (0, 4), 43: (0, 2), 46: (0, 0), 60: (0, 2)}
VERSIONS_WITH_LOGIN = {**VERSIONS, 17: (0, 1), 36: (0, 2)}
ALICE = Security(sasl=Sasl("PLAIN", "alice", "secret"))


def a_loopback() -> str:
    """This machine's loopback address by IPv6, or by IPv4 where it has no IPv6."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return "::1"
    except OSError:
        return "127.0.0.1"


HANG_UP = b""
"""As an answer: close the connection."""


class Asked(NamedTuple):
    """A request as it came: on which connection (from 0 up), by whom, in which version, what."""

    connection: int
    client_id: str
    version: int
    correlation_id: int
    request: Any

    def answer(self, response: Response, version: int | None = None) -> bytes:
        """The frame that answers with this message."""
        version = self.version if version is None else version
        flexible = version >= response.api.flexible_since and response.api.key != 18
        header = struct.pack(">i", self.correlation_id) + b"\0" * flexible
        frame = header + encode(response, version)
        return struct.pack(">i", len(frame)) + frame


Answers = Callable[[Asked], Response | bytes | None]


def with_login(answers: Answers, cluster_bits: int) -> Answers:
    """Lets in who logs in, like ALICE, and tells the operations on the cluster that she may do, as
    bits; else as `answers`."""

    def answer(asked: Asked) -> Response | bytes | None:
        match asked.request:
            case SaslHandshakeRequest():
                return SaslHandshakeResponse(mechanisms=("PLAIN",))
            case SaslAuthenticateRequest():
                return SaslAuthenticateResponse()
            case DescribeClusterRequest():
                return DescribeClusterResponse(cluster_authorized_operations=cluster_bits)
        return answers(asked)

    return answer


class ScriptedBroker:
    """Answers ApiVersions from `versions` and everything else as `answers` says.

    An answer is a message, or raw bytes, or `HANG_UP`, or None for silence. It is sent in pieces.
    """

    def __init__(
        self,
        answers: Answers = lambda asked: None,
        versions: Mapping[int, tuple[int, int]] = VERSIONS,
        secure: Callable[[socket.socket], socket.socket] = lambda accepted: accepted,
        host: str = "127.0.0.1",
    ) -> None:
        """`secure` makes of a socket another, as that of TLS; `host` is a number."""
        self.answers = answers
        self._secure = secure
        self.versions = versions
        self.asked: list[Asked] = []
        self.hung_up = threading.Semaphore(0)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family)
        self.port: int = self._listener.getsockname()[1]
        self.address = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()
        for thread in self._threads:
            thread.join()

    def hang_up(self) -> None:
        """Close the connections that are open, and wait until that is done."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            self.hung_up.acquire()
        self._connections.clear()

    def await_end(self) -> None:
        """Wait until all who are connected have hung up, and all that they sent is worked on."""
        for _ in self._connections:
            self.hung_up.acquire()
        self._connections.clear()

    def requests(self) -> list[Any]:
        """What was asked, without the ApiVersions of each connection."""
        return [a.request for a in self.asked if not isinstance(a.request, ApiVersionsRequest)]

    def _accept(self) -> None:
        number = 0
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = self._secure(connection)
                self._connections.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection, number))
                self._threads.append(thread)
                thread.start()
                number += 1

    def _serve(self, connection: socket.socket, number: int) -> None:
        try:
            with suppress(OSError), connection, connection.makefile("rb") as stream:
                self._answer(connection, stream, number)
        finally:  # also when a test's own answers fail: nobody waits for this connection then
            self.hung_up.release()

    def _answer(self, connection: socket.socket, stream: BinaryIO, number: int) -> None:
        while size := stream.read(4):
            asked = self._read(number, stream.read(*struct.unpack(">i", size)))
            self.asked.append(asked)
            answer = self.answers(asked)
            if answer is None and isinstance(asked.request, ApiVersionsRequest):
                answer = ApiVersionsResponse(
                    api_keys=tuple(ApiVersion(key, *v) for key, v in self.versions.items())
                )
            if answer == HANG_UP:
                return
            if answer is not None:
                frame = answer if isinstance(answer, bytes) else asked.answer(answer)
                for piece in (frame[:3], frame[3:9], frame[9:]):
                    connection.sendall(piece)

    @staticmethod
    def _read(number: int, frame: bytes) -> Asked:
        key, version, correlation_id, size = struct.unpack_from(">hhih", frame)
        cls = _REQUESTS[key]
        at = 10 + size + (version >= cls.api.flexible_since)
        client_id = frame[10 : 10 + size].decode()
        return Asked(number, client_id, version, correlation_id, decode(cls, frame[at:], version))
