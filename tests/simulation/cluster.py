"""A simulated Kafka cluster: a truth, brokers that hear of it late, and logs that cannot lie.

The controller's truth is a row of snapshots. Each broker has its own view, an earlier snapshot, and
answers by it, as a KRaft broker does: one that is behind names an old leader, shows old Metadata,
holds an acks=all batch that it may not append any more. What is appended is appended to the truth's
logs, by Kafka's rules for idempotent producers.
"""

import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from uuid import UUID

from record_batches import decode_batch
from world import SimulatedSocket, World

from kipctl.probe.leadership import Leader
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import FetchRequest, FetchResponse
from kipctl.protocol.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kipctl.protocol.message import Request, Response, decode, encode
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from kipctl.protocol.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

PRODUCER_ID = 4000
_REQUESTS: dict[int, type[Request[Any]]] = {
    cls.api.key: cls
    for cls in (
        ApiVersionsRequest,
        FetchRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetForLeaderEpochRequest,
        ProduceRequest,
    )
}
_FIRST_WITH_HINTS = {ProduceRequest: 10, FetchRequest: 16}
_DRAFTS = {ProduceRequest: range(9, 10), FetchRequest: range(13, 16)}
"""Versions whose answers are laid out like the first with hints, when there are hints in them."""
_OBEYED = {ProduceRequest: 6, FetchRequest: 8, ListOffsetsRequest: 3}
"""Requests that brokers throttle, and from which version on clients obey (KIP-219)."""
Reply = Callable[[], Response | None]
"""The answer by what a broker knows now; None while it has to wait."""


@dataclass(frozen=True)
class TopicState:
    """A topic as the controller has it."""

    id: UUID
    leaders: tuple[Leader, ...]


@dataclass(frozen=True)
class Snapshot:
    """The cluster's metadata: who is alive, at which port, and who leads."""

    nodes: dict[int, int] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)

    def leader(self, topic: str, partition: int) -> Leader | None:
        state = self.topics.get(topic)
        if state is None or partition >= len(state.leaders):
            return None
        return state.leaders[partition]


@dataclass
class _ProducerState:
    """An idempotent producer's last batches in a partition (`ProducerStateEntry`)."""

    epoch: int
    next_sequence: int | None = None
    last: list[tuple[int, int, int]] = field(default_factory=list)


class Log:
    """One partition's log: who appended what, by the numbers of the run's records."""

    def __init__(self) -> None:
        self.end = 0
        self.copies: Counter[int] = Counter()
        self._producers: dict[int, _ProducerState] = {}

    def append(
        self, records: list[int], producer_id: int, epoch: int, sequence: int
    ) -> tuple[int, int]:
        """Returns an error and the base offset, as a leader does that knows the last 5 batches."""
        offset, count = self.end, len(records)
        if producer_id >= 0:
            state = self._producers.setdefault(producer_id, _ProducerState(epoch))
            if epoch < state.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if epoch > state.epoch:
                if sequence:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                state = self._producers[producer_id] = _ProducerState(epoch, 0)
            for known, known_count, base_offset in state.last:
                if (known, known_count) == (sequence, count):
                    return 0, base_offset
            if state.next_sequence not in (sequence, None):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            state.next_sequence = sequence + count
            state.last = [*state.last[-4:], (sequence, count, offset)]
        self.copies.update(records)
        self.end += count
        return 0, offset


class Readable(Protocol):
    """The logs as brokers show them to a consumer."""

    def elect(self, truth: Snapshot) -> None:
        """There is a new truth: other leaders may go on with the logs."""

    def reply(self, broker: "Broker", request: Any, version: int, sent_us: int) -> Reply:
        """What a broker answers to a request that the client sent then."""


class Cluster:
    """The controller, its brokers and the logs. Times are microseconds of the world."""

    def __init__(
        self,
        world: World,
        brokers: int,
        lag_us: Callable[[], float],
        versions: Mapping[int, tuple[int, int]],
        hints: bool,
        endpoints: bool,
    ) -> None:
        """`lag_us()` is how long a broker takes to hear of a change; `versions` are those that
        brokers speak besides ApiVersions; hints may be without endpoints.
        """
        self.world = world
        self.lag_us = lag_us
        self.hints = hints
        self.endpoints = endpoints
        self.truth = Snapshot()
        self.versions = {**versions, 18: (0, 4)}
        self.readable: Readable | None = None
        """What is read, where a consumer is the client."""
        self.logs: dict[tuple[UUID, int], Log] = defaultdict(Log)
        self.reigns: dict[tuple[UUID, int, int], int] = {}
        """Who led in each epoch of a partition, by topic id, partition, epoch."""
        self.lost: Counter[int] = Counter()
        """Records that a deposed leader acknowledged with acks=1."""
        self.racks: dict[int, str] = {}
        self.look_again_us = 1000
        """How long a broker that has to wait does so before it looks again."""
        self.names: dict[UUID, str] = {}
        """Of all topics that there ever were."""
        self.brokers = {id: Broker(self, id) for id in range(1, brokers + 1)}
        self.commit(nodes={id: broker.port for id, broker in self.brokers.items()})
        for broker in self.brokers.values():
            broker.view = self.truth

    # --- the controller ---

    def commit(self, **changes: Any) -> None:
        """A new truth, which the brokers hear of one by one."""
        self.truth = truth = replace(self.truth, **changes)
        for topic in truth.topics.values():
            for partition, leader in enumerate(topic.leaders):
                if leader.id >= 0:
                    key = topic.id, partition, leader.epoch
                    assert self.reigns.setdefault(key, leader.id) == leader.id, "two in one epoch"
        if self.readable:
            self.readable.elect(truth)
        for broker in self.brokers.values():
            broker.will_hear(truth)

    def create(self, topic: str, partitions: int) -> None:
        """A new topic, or one of that name made anew: its id is new, its epochs start again."""
        alive = sorted(self.truth.nodes)
        leaders = tuple(Leader(self._one_of(alive), 0) for _ in range(partitions))
        state = TopicState(UUID(int=0xA000 + len(self.names)), leaders)
        self.names[state.id] = topic
        self.commit(topics={**self.truth.topics, topic: state})
        self.world.tell(f"topic {topic} is made: {_shown(leaders)}")

    def delete(self, topic: str) -> None:
        self.world.tell(f"topic {topic} is deleted")
        self.commit(topics={name: t for name, t in self.truth.topics.items() if name != topic})

    def grow(self, topic: str, partitions: int) -> None:
        state = self.truth.topics.get(topic)
        if state is not None:
            more = [Leader(self._one_of(sorted(self.truth.nodes)), 0) for _ in range(partitions)]
            self._lead(topic, (*state.leaders, *more))

    def move(self, topic: str, partition: int, to: int) -> None:
        """An election, to that broker or to any that is alive."""
        state = self.truth.topics.get(topic)
        if state is None or partition >= len(state.leaders):
            return
        alive = sorted(self.truth.nodes)
        to = to if to in alive else self._one_of(alive)
        leaders = list(state.leaders)
        leaders[partition] = Leader(to, leaders[partition].epoch + 1)
        self._lead(topic, tuple(leaders))

    def leave(self, broker: int) -> None:
        """A broker is not alive any more: others lead, or nobody."""
        nodes = {id: port for id, port in self.truth.nodes.items() if id != broker}
        self._reelect(nodes, lambda leader: leader.id == broker)

    def join(self, broker: int) -> None:
        """It is back, perhaps at another port."""
        nodes = {**self.truth.nodes, broker: self.brokers[broker].port}
        self._reelect(nodes, lambda leader: leader.id < 0)

    def _reelect(self, nodes: dict[int, int], needs: Callable[[Leader], bool]) -> None:
        self.commit(nodes=nodes)
        for name, state in self.truth.topics.items():
            leaders = tuple(
                Leader(self._one_of(sorted(nodes)), leader.epoch + 1) if needs(leader) else leader
                for leader in state.leaders
            )
            if leaders != state.leaders:
                self._lead(name, leaders)

    def _lead(self, topic: str, leaders: tuple[Leader, ...]) -> None:
        state = TopicState(self.truth.topics[topic].id, leaders)
        self.commit(topics={**self.truth.topics, topic: state})
        self.world.tell(f"topic {topic} is led by {_shown(leaders)}")

    def _one_of(self, brokers: list[int]) -> int:
        return self.world.chance.choice(brokers) if brokers else -1


class Broker:
    """One broker: its view of the cluster, its connections, and what is wrong with it just now."""

    def __init__(self, cluster: Cluster, id: int) -> None:
        self.id = id
        self.port = 9000 + id
        self.view = Snapshot()
        self.is_up = True
        self.paused_until_us = 0
        self.deaf_until_us = 0
        """Until then it hears nothing of the controller."""
        self.throttle_us = 0
        """How long it does not read after an answer, and says so (KIP-219)."""
        self.hidden: set[int] = set()
        """Brokers that it leaves out of Metadata."""
        self.shows_topics = True
        """If not, there is an error for every topic while a broker is hidden."""
        self.is_empty = False
        """It shows no brokers at all, as one that starts up."""
        self.refusal: Callable[[], int] = lambda: 0
        """An error for a batch or a reader, instead of appending or reading."""
        self.regret: Callable[[], int] = lambda: 0
        """An error for a batch after it is appended."""
        self.connections: dict[SimulatedSocket, _Connection] = {}
        self._cluster = cluster
        self._world = cluster.world
        self._heard_us = 0

    def will_hear(self, truth: Snapshot) -> None:
        now_us = self._world.now_us
        self._heard_us = max(self._heard_us, self.deaf_until_us, now_us + self._cluster.lag_us())

        def hear() -> None:
            self.view = truth

        self._world.after(self._heard_us - now_us, hear)

    # --- connections (`world.Peer`) ---

    def opened(self, socket: SimulatedSocket) -> bool:
        if self.is_up:
            self.connections[socket] = _Connection(self, socket, self._cluster)
        return self.is_up

    def received(self, socket: SimulatedSocket, data: bytes) -> None:
        if socket in self.connections:
            self.connections[socket].received(data)

    def closed(self, socket: SimulatedSocket) -> None:
        self.connections.pop(socket, None)

    def hang_up(self) -> None:
        """Break all connections."""
        for socket in self.connections:
            socket.reset()
        self.connections.clear()

    # --- answers ---

    def answer(
        self, request: Any, version: int, records_of: Callable[[str, int], list[int]]
    ) -> Response | None:
        """The answer by what the broker knows now; None while it has to wait."""
        match request:
            case ApiVersionsRequest():
                keys = tuple(ApiVersion(key, *span) for key, span in self._cluster.versions.items())
                known = self._cluster.versions[18][1]
                return ApiVersionsResponse(35 if version > known else 0, keys)
            case MetadataRequest():
                return self.metadata([topic.name or "" for topic in request.topics or ()])
            case ProduceRequest():
                return self._produce(request, version, records_of)
        raise AssertionError(request)

    def metadata(self, names: list[str]) -> MetadataResponse:
        view = self.view
        if self.is_empty:
            return MetadataResponse(cluster_id="simulated")
        topics = []
        for name in names:
            state = view.topics.get(name)
            if state is None or (self.hidden and not self.shows_topics):
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                topics.append(MetadataResponseTopic(error_code=error, name=name))
                continue
            partitions = tuple(
                MetadataResponsePartition(
                    error_code=0 if leader.id in view.nodes else ErrorCode.LEADER_NOT_AVAILABLE,
                    partition_index=index,
                    leader_id=leader.id if leader.id in view.nodes else -1,
                    leader_epoch=leader.epoch,
                    replica_nodes=(leader.id,),
                )
                for index, leader in enumerate(state.leaders)
            )
            topics.append(MetadataResponseTopic(0, name, state.id, partitions=partitions))
        nodes = tuple(
            MetadataResponseBroker(id, f"b{id}", port, self._cluster.racks.get(id))
            for id, port in view.nodes.items()
            if id not in self.hidden
        )
        return MetadataResponse(brokers=nodes, cluster_id="simulated", topics=tuple(topics))

    def _produce(
        self, request: ProduceRequest, version: int, records_of: Callable[[str, int], list[int]]
    ) -> ProduceResponse | None:
        names = self._cluster.names
        results, endpoints = [], {}
        if request.acks == -1 and any(
            self._is_deposed(topic.name or names[topic.topic_id], data.index)
            for topic in request.topic_data
            for data in topic.partition_data
        ):
            return None
        for topic in request.topic_data:
            name = topic.name or names[topic.topic_id]
            partitions = []
            for data in topic.partition_data:
                records = records_of(name, data.index)
                if self._knows(name, topic.topic_id):
                    error, offset, hint = self._append(name, version, data, records)
                else:
                    by_id = version >= 13
                    error = (
                        ErrorCode.UNKNOWN_TOPIC_ID
                        if by_id
                        else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                    offset, hint = -1, None
                if hint and hint.id in self.view.nodes and self._cluster.endpoints:
                    endpoints[hint.id] = self.view.nodes[hint.id]
                named = LeaderIdAndEpoch(hint.id, hint.epoch) if hint else LeaderIdAndEpoch()
                partitions.append(
                    PartitionProduceResponse(data.index, error, offset, current_leader=named)
                )
            self._world.chance.shuffle(partitions)
            results.append(TopicProduceResponse(topic.name, topic.topic_id, tuple(partitions)))
        nodes = tuple(NodeEndpoint(id, f"b{id}", port) for id, port in endpoints.items())
        return ProduceResponse(tuple(results), node_endpoints=nodes)

    def _is_deposed(self, topic: str, partition: int) -> bool:
        """It believes that it leads and does not: nobody follows what it would append."""
        believed = self.view.leader(topic, partition)
        return (
            believed is not None
            and believed.id == self.id
            and (
                self._cluster.truth.leader(topic, partition) != believed
                or self._cluster.truth.topics[topic].id != self.view.topics[topic].id
            )
        )

    def _knows(self, topic: str, id: UUID) -> bool:
        state = self.view.topics.get(topic)
        return state is not None and id in (state.id, UUID(int=0))

    def _append(
        self, topic: str, version: int, data: Any, records: list[int]
    ) -> tuple[int, int, Leader | None]:
        """Error, base offset and hint."""
        leader = self.view.leader(topic, data.index)
        if leader is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, None
        if leader.id != self.id:
            hinted = self._cluster.hints and version >= _DRAFTS[ProduceRequest][0]
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, leader if hinted else None
        if self._is_deposed(topic, data.index):
            self._cluster.lost.update(records)
            return 0, 1 << 40, None
        if error := self.refusal():
            return error, -1, None
        batch = decode_batch(data.records)
        header = batch.header
        assert len(batch.records) == header.records_count == len(records)
        log = self._cluster.logs[self.view.topics[topic].id, data.index]
        error, offset = log.append(
            records, header.producer_id, header.producer_epoch, header.base_sequence
        )
        return error or self.regret(), offset, None


@dataclass
class _Call:
    """A request that a broker has taken up; `sent` are its records, by topic and partition."""

    request: Any
    version: int
    correlation_id: int
    flexible: bool
    sent: dict[tuple[str, int], list[int]]
    answer: Reply


class _Connection:
    """A broker's side of a connection: one request at a time, as Kafka's channels have it."""

    def __init__(self, broker: Broker, socket: SimulatedSocket, cluster: Cluster) -> None:
        self._broker = broker
        self._socket = socket
        self._cluster = cluster
        self._world = cluster.world
        self._inbox = b""
        self._is_busy = False
        self.muted_until_us = 0

    def received(self, data: bytes) -> None:
        self._inbox += data
        self._next()

    def _next(self) -> None:
        """Take the next request, when it is whole and the broker reads."""
        if self._is_busy or len(self._inbox) < 4 or self._socket not in self._broker.connections:
            return
        size = struct.unpack_from(">i", self._inbox)[0]
        if len(self._inbox) < 4 + size:
            return
        wait_us = max(self.muted_until_us, self._broker.paused_until_us) - self._world.now_us
        self._is_busy = True
        if wait_us > 0:
            self._world.after(wait_us, self._again)
            return
        frame, self._inbox = self._inbox[4 : 4 + size], self._inbox[4 + size :]
        self._world.after(self._world.chance.choice((20, 100, 1000)), lambda: self._serve(frame))

    def _again(self) -> None:
        self._is_busy = False
        self._next()

    def _serve(self, frame: bytes) -> None:
        world, broker = self._world, self._broker
        if self._socket not in broker.connections:
            return
        if broker.paused_until_us > world.now_us:
            world.after(broker.paused_until_us - world.now_us, lambda: self._serve(frame))
            return
        key, version, correlation_id, client = struct.unpack_from(">hhih", frame)
        cls = _REQUESTS[key]
        assert version <= cls.api.versions[1]
        flexible = version >= cls.api.flexible_since
        known = self._cluster.versions[key]
        request = cls()
        if known[0] <= version <= known[1]:
            request = decode(cls, frame[10 + client + flexible :], version)
        else:
            assert cls is ApiVersionsRequest, "a version that nobody has announced"
        sent = {
            (batch.partition.topic.name, batch.partition.index): [
                batch.first_seq + k * batch.stride for k in range(batch.records)
            ]
            for batch in (self._socket.subjects[correlation_id] if cls is ProduceRequest else ())
        }
        answer: Reply = lambda: broker.answer(  # noqa: E731
            request, version, lambda *place: sent.get(place, [])
        )
        if self._cluster.readable and cls not in (ApiVersionsRequest, MetadataRequest):
            sent_us = self._socket.sent_us[correlation_id]
            answer = self._cluster.readable.reply(broker, request, version, sent_us)
        self._reply(_Call(request, version, correlation_id, flexible, sent, answer))

    def _reply(self, call: "_Call") -> None:
        world, broker, version, flexible = self._world, self._broker, call.version, call.flexible
        if self._socket not in broker.connections:
            return
        if broker.paused_until_us > world.now_us:
            world.after(broker.paused_until_us - world.now_us, lambda: self._reply(call))
            return
        cls, answer = type(call.request), call.answer()
        if answer is None:  # it waits for followers that do not come, or for records
            world.after(self._cluster.look_again_us, lambda: self._reply(call))
            return
        if cls is ApiVersionsRequest:
            flexible = False
            version = 0 if answer.error_code == ErrorCode.UNSUPPORTED_VERSION else version
        throttle_us = 0
        if cls in _OBEYED and broker.throttle_us:
            self.muted_until_us = world.now_us + broker.throttle_us
            throttle_us = broker.throttle_us if version >= _OBEYED[cls] else 0
            answer = replace(answer, throttle_time_ms=broker.throttle_us // 1000)
        if self._cluster.hints and version in _DRAFTS.get(cls, ()):
            version = _FIRST_WITH_HINTS[cls]
        if cls is ProduceRequest and call.request.acks == 0:
            self._again()
            return
        self._tell(answer, call.sent)
        body = struct.pack(">i", call.correlation_id) + b"\0" * flexible + encode(answer, version)
        self._socket.answer(struct.pack(">i", len(body)) + body, throttle_us)
        self._again()

    def _tell(self, answer: Response, sent: dict[tuple[str, int], list[int]]) -> None:
        """What is answered, in words; a Produce by its partitions' errors and hints."""
        what = type(answer).__name__
        if isinstance(answer, MetadataResponse):
            what += f" of brokers {[node.node_id for node in answer.brokers]}"
            for topic in answer.topics:
                leaders = [(p.leader_id, p.leader_epoch) for p in topic.partitions]
                what += f", error {topic.error_code}, leaders {leaders}"
        if isinstance(answer, ProduceResponse):
            what += f" to records {list(sent.values())}"
            for topic in answer.responses:
                for p in topic.partition_responses:
                    hint = p.current_leader.leader_id, p.current_leader.leader_epoch
                    what += f"; {p.index}: error {p.error_code}, hint {hint}"
        if isinstance(answer, FetchResponse):
            what += f", error {answer.error_code}, session {answer.session_id}"
            for topic in answer.responses:
                for p in topic.partitions:
                    hint = p.current_leader.leader_id, p.current_leader.leader_epoch
                    what += (
                        f"; {p.partition_index}: error {p.error_code}, {len(p.records or b'')} B,"
                        f" high {p.high_watermark}, nearer {p.preferred_read_replica}, hint {hint}"
                    )
        if isinstance(answer, ListOffsetsResponse):
            for topic in answer.topics:
                for p in topic.partitions:
                    what += f"; {p.partition_index}: error {p.error_code}, offset {p.offset}"
        if isinstance(answer, OffsetForLeaderEpochResponse):
            for topic in answer.topics:
                for p in topic.partitions:
                    what += f"; {p.partition}: error {p.error_code}, end {p.end_offset}"
        self._world.tell(f"broker {self._broker.id} answers {what}"[:300])


def _shown(leaders: tuple[Leader, ...]) -> str:
    return ", ".join(f"{leader.id} in epoch {leader.epoch}" for leader in leaders)
