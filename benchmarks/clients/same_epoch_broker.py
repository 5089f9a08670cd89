"""A broker whose hints name itself: for a while it refuses, and says that it leads, in the epoch
that it always had (twmb/franz-go#1412).

Kafka's brokers do so for a moment only. Foreign ones, and brokers that are cut off from their
controller, can do it for long. A client that follows such a hint without a pause asks again at
once, for as long as it lasts.
"""

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO
from uuid import UUID

from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kipctl.protocol.message import Response, decode, encode
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

HOST = "127.0.0.1"
NODE, EPOCH = 1, 5
TOPIC_ID = UUID(int=0xA000)
_REQUESTS = {
    asked.api.key: asked
    for asked in (ApiVersionsRequest, InitProducerIdRequest, MetadataRequest, ProduceRequest)
}
_API_VERSIONS = {**{key: asked.api.versions for key, asked in _REQUESTS.items()}, 18: (0, 4)}


class SameEpochBroker:
    """Node 1, which leads all partitions of one topic in epoch 5."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._offsets: Counter[int] = Counter()
        self.refuses = False
        """Whether it says that it does not lead, and that it does."""
        self.asked: Counter[str] = Counter()
        """Requests while it refused, by API."""
        self._listener = socket.create_server((HOST, 0))
        self._port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap_server(self) -> str:
        return f"{HOST}:{self._port}"

    def refuse(self, seconds: float) -> None:
        """Refuse for so long."""
        self.refuses = True
        time.sleep(seconds)
        self.refuses = False

    def close(self) -> None:
        for each in (self._listener, *self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Answer the requests of a connection, one at a time, until either side closes it."""
        with suppress(OSError), connection.makefile("rb") as stream:
            while frame := _frame(stream):
                key, version, correlation_id, client = struct.unpack_from(">hhih", frame)
                if key not in _REQUESTS:  # it was not announced
                    break
                asked = _REQUESTS[key]
                flexible = version >= asked.api.flexible_since
                first, last = _API_VERSIONS[key]
                head = struct.pack(">i", correlation_id)
                answer: Response
                if not first <= version <= last:
                    # KIP-511: an ApiVersions that is too new is answered in version 0.
                    answer, version = self._versions(ErrorCode.UNSUPPORTED_VERSION), 0
                else:
                    answer = self._answer(
                        _read(asked, frame[10 + max(0, client) + flexible :], version), version
                    )
                if flexible and asked is not ApiVersionsRequest:
                    head += b"\0"
                body = head + encode(answer, version)
                connection.sendall(struct.pack(">i", len(body)) + body)

    def _answer(self, request: Any, version: int) -> Response:
        if self.refuses:
            self.asked[type(request).__name__.removesuffix("Request")] += 1
        match request:
            case ApiVersionsRequest():
                return self._versions()
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=4000, producer_epoch=0)
            case MetadataRequest():
                return self._metadata()
        return self._produced(request, has_hints=version >= 10)

    @staticmethod
    def _versions(error: int = 0) -> ApiVersionsResponse:
        keys = (ApiVersion(key, first, last) for key, (first, last) in _API_VERSIONS.items())
        return ApiVersionsResponse(error_code=error, api_keys=tuple(keys))

    def _metadata(self) -> MetadataResponse:
        """Of the one topic, whatever was asked for."""
        partitions = tuple(
            MetadataResponsePartition(
                partition_index=number,
                leader_id=NODE,
                leader_epoch=EPOCH,
                replica_nodes=(NODE,),
                isr_nodes=(NODE,),
            )
            for number in range(self._partitions)
        )
        topic = MetadataResponseTopic(name=self._topic, topic_id=TOPIC_ID, partitions=partitions)
        return MetadataResponse(
            brokers=(MetadataResponseBroker(NODE, HOST, self._port),),
            cluster_id="one-broker-that-names-itself",
            controller_id=NODE,
            topics=(topic,),
        )

    def _produced(self, request: ProduceRequest, has_hints: bool) -> ProduceResponse:
        hints = has_hints and self.refuses
        topics = []
        for topic in request.topic_data:
            answers = tuple(self._of_partition(one.index, hints) for one in topic.partition_data)
            topics.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
        endpoints = (NodeEndpoint(NODE, HOST, self._port),) if hints else ()
        return ProduceResponse(responses=tuple(topics), node_endpoints=endpoints)

    def _of_partition(self, number: int, hints: bool) -> PartitionProduceResponse:
        if self.refuses:
            hint = LeaderIdAndEpoch(NODE, EPOCH) if hints else LeaderIdAndEpoch()
            return PartitionProduceResponse(
                index=number,
                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                base_offset=-1,
                current_leader=hint,
            )
        self._offsets[number] += 1  # of a batch: nobody looks at how many records it has
        return PartitionProduceResponse(index=number, base_offset=self._offsets[number] - 1)


def _read(asked: Any, body: bytes, version: int) -> Any:
    """The request. What Kafka's brokers read past is none of its fields: librdkafka 2.15.1 counts
    the topics of Metadata in four bytes for one, where it asks for none.
    """
    try:
        return decode(asked, body, version)
    except MalformedFrame:
        return asked()


def _frame(stream: BinaryIO) -> bytes:
    """The next request; nothing when the client has closed the connection."""
    size = stream.read(4)
    return stream.read(*struct.unpack(">i", size)) if len(size) == 4 else b""


@contextmanager
def same_epoch_broker(topic: str, partitions: int) -> Iterator[SameEpochBroker]:
    """It listens on loopback until the block is left."""
    broker = SameEpochBroker(topic, partitions)
    try:
        yield broker
    finally:
        broker.close()
