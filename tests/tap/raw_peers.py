"""A broker and a client that say on the wire whatever a test wants, right or wrong."""

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self
from uuid import UUID

from record_batches import Record, encode_batch

from kipctl.protocol.api import ApiKey, decode_response, encode_request
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.message import R, Request, Response, encode
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

TOPIC = "t"
TOPIC_ID = UUID(int=0xABC)
VERSIONS = {0: (0, 13), 1: (4, 18), 3: (0, 13), 17: (0, 1), 18: (0, 4), 36: (0, 2)}
TIMEOUT_S = 30.0
"""For a test that hangs; nothing else waits for it."""

_FLEXIBLE_SINCE = {0: 9, 1: 12, 3: 9, 36: 2}


class Asked(NamedTuple):
    """A request as it came to the broker, on which of its connections (from 0 up)."""

    connection: int
    api_key: int
    version: int
    correlation_id: int
    frame: bytes
    """Without its length."""

    def answer(self, body: Response | bytes, correlation_id: int | None = None) -> bytes:
        """The frame that answers with this body."""
        said = self.correlation_id if correlation_id is None else correlation_id
        flexible = self.version >= _FLEXIBLE_SINCE.get(self.api_key, 1 << 15)
        content = body if isinstance(body, bytes) else encode(body, self.version)
        frame = struct.pack(">i", said) + b"\0" * flexible + content
        return struct.pack(">i", len(frame)) + frame


Script = Callable[[Asked, socket.socket], bytes | None]
"""What to send as it is, or None for the usual answer; b"" sends nothing."""


class HangUp(Exception):  # noqa: N818
    """Raised by a script: close the connection."""


class RawBroker:
    """Broker 1, which leads the only partition and knows each Produce to be appended at 0.

    A connection is served one request at a time, in a thread of its own.
    """

    def __init__(
        self,
        script: Script = lambda asked, connection: None,
        versions: Mapping[int, tuple[int, int]] = VERSIONS,
    ) -> None:
        self.script = script
        self.versions = versions
        self.asked: list[Asked] = []
        self.ended = threading.Semaphore(0)
        """Released for each connection that has come to its end."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def send(self, connection: int, content: bytes) -> None:
        """Say something without being asked."""
        self._connections[connection].sendall(content)

    def usual(self, asked: Asked) -> bytes:
        """What a broker in its right mind answers."""
        match asked.api_key:
            case ApiKey.API_VERSIONS:
                keys = tuple(ApiVersion(key, *span) for key, span in self.versions.items())
                return asked.answer(ApiVersionsResponse(api_keys=keys))
            case ApiKey.METADATA:
                return asked.answer(self._metadata())
            case ApiKey.PRODUCE:
                return asked.answer(produced(asked.version))
        raise AssertionError(asked)

    def _metadata(self) -> MetadataResponse:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, leader_epoch=5, replica_nodes=(1,), isr_nodes=(1,)
        )
        return MetadataResponse(
            brokers=(MetadataResponseBroker(1, "127.0.0.1", self.port),),
            cluster_id="raw",
            topics=(MetadataResponseTopic(0, TOPIC, TOPIC_ID, partitions=(partition,)),),
        )

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                number = len(self._connections)
                self._connections.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection, number))
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError, HangUp), connection, connection.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                (length,) = struct.unpack(">i", size)
                frame = stream.read(length)
                if len(frame) < length:
                    break
                key, version, correlation_id = struct.unpack_from(">hhi", frame.ljust(8, b"\0"))
                asked = Asked(number, key, version, correlation_id, frame)
                self.asked.append(asked)
                answer = self.script(asked, connection)
                connection.sendall(self.usual(asked) if answer is None else answer)
        self.ended.release()


def produced(version: int) -> ProduceResponse:
    by_id = version >= 13
    topic = TopicProduceResponse(
        name="" if by_id else TOPIC,
        topic_id=TOPIC_ID if by_id else UUID(int=0),
        partition_responses=(PartitionProduceResponse(index=0, base_offset=0),),
    )
    return ProduceResponse(responses=(topic,))


def produce_request(value: bytes = b"value", acks: int = 1) -> ProduceRequest:
    """One record for the topic's only partition, for a version with topic names."""
    data = PartitionProduceData(index=0, records=encode_batch([Record(value=value)]))
    topic = TopicProduceData(name=TOPIC, partition_data=(data,))
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=(topic,))


METADATA = MetadataRequest(topics=None)
EXCHANGE: tuple[tuple[Request[Any], int], ...] = (
    (ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3),
    (METADATA, 12),
    (produce_request(), 9),
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

    def ask(self, request: Request[R], version: int) -> R:
        """Send a request, and the answer to it."""
        frame = self.frame(request, version)
        self.socket.sendall(frame)
        return self.answer_to(type(request), version)

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
