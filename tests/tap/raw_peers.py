"""A broker and a client that say on the wire whatever a test wants, right or wrong."""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

from scripted_broker import ScriptedBroker
from tap_messages import answer_frame, framed, metadata, produce, produced, records

from kipctl.protocol.api import ApiKey, decode_response, encode_request
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.message import R, Request, Response
from kipctl.protocol.metadata import MetadataRequest
from kipctl.tap.process import RunningTap, running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.access import Access

VERSIONS = {0: (0, 13), 1: (4, 18), 3: (0, 13), 17: (0, 1), 18: (0, 4), 36: (0, 2)}
TIMEOUT_S = 30.0
"""For a test that hangs; nothing else waits for it."""


class Asked(NamedTuple):
    """A request as it came to the broker, on which of its connections (from 0 up)."""

    connection: int
    api_key: int
    version: int
    correlation_id: int
    frame: bytes
    """Without its length."""

    def answer(self, body: Response | bytes) -> bytes:
        """The frame that answers with this body, or with whatever stands behind the number."""
        if isinstance(body, bytes):
            return framed(struct.pack(">i", self.correlation_id) + body)
        return answer_frame(body, self.version, self.correlation_id)


Script = Callable[[Asked, socket.socket], bytes | None]
"""What to send as it is, or None for the usual answer; b"" sends nothing."""


class HangUp(OSError):  # noqa: N818
    """Raised by a script: close the connection."""


class RawBroker(ScriptedBroker):
    """Broker 1, which leads the only partition and knows each Produce to be appended."""

    def __init__(self, script: Script = lambda asked, connection: None) -> None:
        super().__init__()
        self.script = script
        self.asked: list[Asked] = []

    def send(self, connection: int, content: bytes) -> None:
        """Say something without being asked."""
        self._connections[connection].sendall(content)

    def usual(self, asked: Asked) -> bytes:
        """What a broker in its right mind answers."""
        match asked.api_key:
            case ApiKey.API_VERSIONS:
                keys = tuple(ApiVersion(key, *span) for key, span in VERSIONS.items())
                return asked.answer(ApiVersionsResponse(api_keys=keys))
            case ApiKey.METADATA:
                return asked.answer(metadata((1, 5), ports={1: self.port}))
            case ApiKey.PRODUCE:
                return asked.answer(produced((0, 0)))
        raise AssertionError(asked)

    def _answer(self, connection: socket.socket, stream: BinaryIO, number: int) -> None:
        while len(size := stream.read(4)) == 4:
            (length,) = struct.unpack(">i", size)
            if len(frame := stream.read(length)) < length:
                return
            asked = Asked(number, *struct.unpack_from(">hhi", frame), frame)
            self.asked.append(asked)
            answer = self.script(asked, connection)
            connection.sendall(self.usual(asked) if answer is None else answer)


ALL_METADATA = MetadataRequest(topics=None)
ONE_RECORD = produce((0, records(1)))
EXCHANGE: tuple[tuple[Request[Any], int], ...] = (
    (ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3),
    (ALL_METADATA, 12),
    (ONE_RECORD, 9),
)
"""What a client says first of all, with the versions."""


class RawClient:
    """A client's connection; correlation ids count from 0."""

    def __init__(self, address: str, client_id: str = "raw") -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def frame(self, request: Request[Any], version: int) -> bytes:
        """The next request's frame; it is not sent."""
        return encode_request(request, version, self.next_id(), self._client_id)

    def next_id(self) -> int:
        """A correlation id that was not used before."""
        self._next += 1
        return self._next - 1

    def send(self, request: Request[Any], version: int) -> None:
        """Send a request, and do not wait for the answer to it."""
        self.socket.sendall(self.frame(request, version))

    def ask(self, request: Request[R], version: int) -> R:
        """Send a request, and the answer to it."""
        self.send(request, version)
        return self.answer_to(type(request), version)

    def exchange(self) -> list[Any]:
        """The answers to what a client says first of all."""
        return [self.ask(request, version) for request, version in EXCHANGE]

    def answer_to(self, request_class: type[Request[R]], version: int) -> R:
        """The next answer, which has to be that to the last frame made."""
        correlation_id, answer = decode_response(request_class, version, self.read())
        assert correlation_id == self._next - 1
        return answer

    def read(self) -> bytes:
        """The next frame without its length."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def is_closed(self) -> bool:
        """Wait for what comes next: True for the end of the connection, False for any byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(min(size - len(parts), 1 << 16))
            if not part:
                raise ConnectionError("the connection ended")
            parts += part
        return bytes(parts)


class Tap:
    """A running tap, and how many of its messages were read."""

    def __init__(self, running: RunningTap) -> None:
        self.show, self.stop, self.pid = running.show, running.stop, running.pid
        self.bootstrap_server = running.bootstrap_server
        self._heard = 0

    def messages(self) -> tuple[str, ...]:
        """What it had to say since it was asked last."""
        outcome = self.show()
        before, self._heard = self._heard, outcome.dropped
        return outcome.messages[before:]

    def complaint(self) -> str:
        """The only line that it has to say."""
        (line,) = self.messages()
        assert "\n" not in line
        return line

    def still_serves(self) -> bool:
        """A client that comes now is served, from its first word on."""
        with RawClient(self.bootstrap_server, "another") as client:
            return client.exchange()[-1] == produced((0, 0))


@contextmanager
def tapped(broker: RawBroker, directory: Path | None = None, **spec: Any) -> Iterator[Tap]:
    """A tap before that broker."""
    with running_tap(TapSpec(access=Access(broker.address), **spec), directory) as running:
        yield Tap(running)
