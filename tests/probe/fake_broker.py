"""A small cluster on loopback: real sockets, Kafka's rules of leadership and idempotence, no disk.

By itself it behaves: it appends what its leaders get, refuses the rest with a hint as Kafka 4 does,
and shows the truth in Metadata. A test scripts what a real cluster shows only by chance.
"""

import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any, NamedTuple, Self
from uuid import UUID

from record_batches import RecordBatch, decode_batch

from kipctl.probe.leadership import Leader
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kipctl.protocol.list_offsets import ListOffsetsRequest
from kipctl.protocol.message import Request, Response, decode, encode
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kipctl.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

TOPIC = "t"
TOPIC_ID = UUID(int=0xABC)
PRODUCER_ID = 4000
VERSIONS = {0: (0, 13), 3: (0, 13), 18: (0, 4), 22: (0, 5)}

_REQUESTS: dict[int, type[Request[Any]]] = {
    cls.api.key: cls
    for cls in (
        ApiVersionsRequest,
        FetchRequest,
        InitProducerIdRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetForLeaderEpochRequest,
        ProduceRequest,
        SaslAuthenticateRequest,
        SaslHandshakeRequest,
    )
}

_LAID_OUT_LIKE = {
    (ProduceRequest, 9): 10,
    **{(FetchRequest, version): 16 for version in (13, 14, 15)},
}
"""The version with hints that an answer differs from by their tags alone."""


class HangUp(Exception):  # noqa: N818
    """Raised by a script: close the connection instead of answering."""


class Silence(Exception):  # noqa: N818
    """Raised by a script: never answer."""


class Garbage(Exception):  # noqa: N818
    """Raised by a script: send these bytes instead of an answer, after a right length."""


class Reply(NamedTuple):
    """What a partition is answered, in place of what the cluster would answer."""

    error: int = 0
    base_offset: int = -1
    hint: Leader | None = None
    endpoint: tuple[int, int] | None = None
    """(node id, port) among the response's endpoints."""


@dataclass(frozen=True)
class Produced:
    """One partition's batch in a Produce request, as it came to a broker."""

    broker: int
    connection: int
    version: int
    partition: int
    batch: RecordBatch

    @property
    def sequence(self) -> int:
        return self.batch.header.base_sequence

    @property
    def epoch(self) -> int:
        return self.batch.header.producer_epoch

    @property
    def values(self) -> list[bytes]:
        return [record.value or b"" for record in self.batch.records]


Script = Callable[[Produced], Reply | None]


@dataclass
class _ProducerState:
    """A producer's last batches in a partition, by which brokers know duplicates.

    From a producer that it does not know, a broker takes any sequence for the first.
    """

    epoch: int
    next_sequence: int | None = None
    last: list[tuple[int, int, int]] = field(default_factory=list)


class FakeCluster:
    """Brokers 1 to n, one topic; partition p is led by broker 1 + p % n in epoch 5.

    `script` is asked for each partition of a Produce request, in the broker's thread, and answers
    with a Reply, or None for the cluster's own answer. `shown`, if set, is what Metadata shows
    of leaders instead of the truth; `hidden` brokers are missing from it.
    """

    def __init__(
        self,
        brokers: int = 2,
        partitions: int = 1,
        script: Script = lambda _: None,
        versions: dict[int, tuple[int, int]] = VERSIONS,
        secure: Callable[[socket.socket], socket.socket] = lambda accepted: accepted,
        log_in: Callable[[tuple[int, int], Any], Response | None] = lambda connection, asked: None,
    ) -> None:
        """`secure` makes of a socket another, as that of TLS. `log_in` answers requests of a login
        on a broker's connection, and None to others.
        """
        self.script = script
        self.secure = secure
        self.log_in = log_in
        self.versions = versions
        self.hints = True
        self.draft = False
        """Hints on Produce 9 and Fetch 13 to 15 too, as in the KIP's early draft."""
        self.leaders = {p: Leader(1 + p % brokers, 5) for p in range(partitions)}
        self.shown: dict[int, Leader] | None = None
        self.hidden: set[int] = set()
        self.topic_error = 0
        self.producer_id_errors: list[int] = []
        self.api_versions_errors: list[int] = []
        """Errors, and no versions with them, that the next ApiVersions requests are answered."""
        self.on_metadata: Callable[[int], None] = lambda broker: None
        self.produced: list[Produced] = []
        self.metadata_asked: list[int] = []
        """Which broker was asked for Metadata; the first is the bootstrap of the run."""
        self.log: dict[int, list[Produced]] = defaultdict(list)
        self.failures: list[BaseException] = []
        self._producers: dict[tuple[int, int], _ProducerState] = {}
        self._lock = threading.RLock()
        self.brokers = {id: _Broker(self, id) for id in range(1, brokers + 1)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for broker in self.brokers.values():
            broker.close()
        assert not self.failures, self.failures

    @property
    def bootstrap_server(self) -> str:
        return f"127.0.0.1:{self.brokers[1].port}"

    def move(self, partition: int, to: int) -> None:
        """A new leader, in the next epoch."""
        self.leaders[partition] = Leader(to, self.leaders[partition].epoch + 1)

    def readdress(self, broker: int) -> None:
        """The broker comes back at another port, as a pod does at another address."""
        self.brokers[broker].close()
        self.brokers[broker] = _Broker(self, broker)

    def records_in_log(self) -> int:
        return sum(len(p.batch.records) for batches in self.log.values() for p in batches)

    def await_another_request(self, produced: Produced) -> None:
        """Wait, in a script, until the client has sent something behind this request."""
        self.brokers[produced.broker].await_more(produced.connection)

    # --- answers ---

    def answer(self, broker: int, connection: int, version: int, request: Any) -> Response | None:
        if said := self.log_in((broker, connection), request):
            return said
        match request:
            case ApiVersionsRequest() if self.api_versions_errors:
                return ApiVersionsResponse(self.api_versions_errors.pop(0))
            case ApiVersionsRequest():
                keys = tuple(ApiVersion(key, *span) for key, span in self.versions.items())
                known = self.versions[18][1]
                return ApiVersionsResponse(35 if version > known else 0, keys)
            case InitProducerIdRequest():
                if self.producer_id_errors:
                    return InitProducerIdResponse(error_code=self.producer_id_errors.pop(0))
                return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=0)
            case MetadataRequest():
                return self._metadata(broker)
            case ProduceRequest():
                return self._produce(broker, connection, version, request)
        raise AssertionError(request)

    def _metadata(self, broker: int) -> MetadataResponse:
        self.metadata_asked.append(broker)
        self.on_metadata(broker)
        with self._lock:
            leaders = self.leaders if self.shown is None else self.shown
            partitions = tuple(
                MetadataResponsePartition(
                    partition_index=p,
                    leader_id=leader.id,
                    leader_epoch=leader.epoch,
                    replica_nodes=tuple(self.brokers),
                    isr_nodes=tuple(self.brokers),
                )
                for p, leader in leaders.items()
            )
            nodes = tuple(
                MetadataResponseBroker(id, "127.0.0.1", b.port)
                for id, b in self.brokers.items()
                if id not in self.hidden
            )
            if self.topic_error:
                partitions = ()
            topic = MetadataResponseTopic(self.topic_error, TOPIC, TOPIC_ID, partitions=partitions)
            return MetadataResponse(brokers=nodes, cluster_id="fake", topics=(topic,))

    def _produce(
        self, broker: int, connection: int, version: int, request: ProduceRequest
    ) -> ProduceResponse | None:
        (topic,) = request.topic_data
        assert (topic.topic_id, topic.name) == (
            (TOPIC_ID, "") if version >= 13 else (UUID(int=0), TOPIC)
        )
        results = []
        endpoints: dict[int, int] = {}
        for data in topic.partition_data:
            assert data.records
            try:
                batch = decode_batch(data.records)
            except MalformedFrame:
                reply = self._refusal(broker, data.index) or Reply(ErrorCode.CORRUPT_MESSAGE)
            else:
                assert batch.header.size == len(data.records)
                reply = self._take(Produced(broker, connection, version, data.index, batch))
            hint = reply.hint or Leader(-1, -1)
            if reply.endpoint:
                endpoints[reply.endpoint[0]] = reply.endpoint[1]
            results.append(
                PartitionProduceResponse(
                    index=data.index,
                    error_code=reply.error,
                    base_offset=reply.base_offset,
                    current_leader=LeaderIdAndEpoch(hint.id, hint.epoch)
                    if self._names_leaders(version)
                    else LeaderIdAndEpoch(),
                )
            )
        if request.acks == 0:
            return None
        # In any order, as real brokers do.
        results = results[1::2] + results[::2]
        nodes = tuple(NodeEndpoint(id, "127.0.0.1", port) for id, port in endpoints.items())
        return ProduceResponse(
            (TopicProduceResponse(topic.name, topic.topic_id, tuple(results)),),
            node_endpoints=nodes if self._names_leaders(version) else (),
        )

    def _names_leaders(self, version: int) -> bool:
        return version >= 10 or (self.draft and version == 9)

    def _take(self, produced: Produced) -> Reply:
        with self._lock:
            self.produced.append(produced)
        reply = self.script(produced)
        with self._lock:
            refusal = self._refusal(produced.broker, produced.partition)
            return reply or refusal or self.append(produced)

    def _refusal(self, broker: int, partition: int) -> Reply | None:
        """What one that does not lead says, before it looks at the batch."""
        leader = self.leaders[partition]
        if leader.id == broker:
            return None
        if not self.hints:
            return Reply(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        port = self.brokers[leader.id].port
        return Reply(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, leader, (leader.id, port))

    def append(self, produced: Produced) -> Reply:
        """Append as a leader does, which knows an idempotent producer's last 5 batches."""
        log = self.log[produced.partition]
        header = produced.batch.header
        offset = sum(len(before.batch.records) for before in log)
        if header.producer_id >= 0:
            assert header.producer_id == PRODUCER_ID
            key = (produced.partition, header.producer_id)
            state = self._producers.setdefault(key, _ProducerState(header.producer_epoch))
            if header.producer_epoch < state.epoch:
                return Reply(ErrorCode.INVALID_PRODUCER_EPOCH)
            if header.producer_epoch > state.epoch:
                state = self._producers[key] = _ProducerState(header.producer_epoch, 0)
            for sequence, count, base_offset in state.last:
                if (sequence, count) == (header.base_sequence, header.records_count):
                    return Reply(0, base_offset)
            if state.next_sequence not in (header.base_sequence, None):
                return Reply(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            state.next_sequence = header.base_sequence + header.records_count
            state.last = [
                *state.last[-4:],
                (header.base_sequence, header.records_count, offset),
            ]
        log.append(produced)
        return Reply(0, offset)


class _Broker:
    """A listener with a thread per connection: one request at a time on each, as in Kafka."""

    def __init__(self, cluster: FakeCluster, id: int) -> None:
        self._cluster = cluster
        self._id = id
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._streams: dict[int, BufferedReader] = {}
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop listening, close every connection, and wait for that."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def await_more(self, connection: int) -> None:
        if not self._streams[connection].peek(1):
            raise HangUp

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = self._cluster.secure(connection)
                thread = threading.Thread(
                    target=self._serve, args=(connection, len(self._connections))
                )
                self._connections.append(connection)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        silent = False
        with suppress(OSError, HangUp), connection, connection.makefile("rb") as stream:
            self._streams[number] = stream
            while size := stream.read(4):
                (length,) = struct.unpack(">i", size)
                frame = stream.read(length)
                if len(frame) < length:
                    break  # the client has hung up in the midst of it
                if silent:
                    continue  # a broker that hangs still takes what its socket buffers hold
                try:
                    answer = self._answer(number, frame)
                except Silence:
                    silent = True
                    continue
                except Garbage as garbage:
                    answer = garbage.args[0]
                except (HangUp, OSError):
                    raise
                except BaseException as failure:
                    self._cluster.failures.append(failure)
                    raise HangUp from failure
                if answer is not None:
                    connection.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, number: int, frame: bytes) -> bytes | None:
        key, version, correlation_id, size = struct.unpack_from(">hhih", frame)
        cls = _REQUESTS[key]
        flexible = version >= cls.api.flexible_since
        body = frame[10 + size + flexible :]
        known = version <= cls.api.versions[1]
        request = decode(cls, body, version) if known else cls()
        answer = self._cluster.answer(self._id, number, version, request)
        if answer is None:
            return None
        if isinstance(answer, ApiVersionsResponse):
            flexible = False
            version = 0 if answer.error_code == ErrorCode.UNSUPPORTED_VERSION else version
        header = struct.pack(">i", correlation_id) + b"\0" * flexible
        if self._cluster.draft:
            version = _LAID_OUT_LIKE.get((cls, version), version)
        return header + encode(answer, version)
