"""A Kafka cluster in memory: a truth, brokers that hear of it late, and logs that cannot lie.

The controller's truth is a row of snapshots. Each broker has its own view, an earlier snapshot, and
answers by it, as a KRaft broker does: one that is behind names an old leader, shows old Metadata,
holds an acks=all batch that it may not append any more.

By itself it behaves: it appends what its leaders get, and refuses the rest with a hint as Kafka 4
does. A test scripts what a real cluster shows only by chance.
"""

import random
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from logs import Log, Produced
from wire import Answer, Call, Connection, Versions, said
from world import Peer, SimulatedSocket, SimulatedSockets, World

from kipctl.probe.leadership import Leader
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
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

TOPIC = "t"
HOST = "127.0.0.1"
PRODUCER_ID = 4000
VERSIONS: Versions = {0: (0, 13), 3: (0, 13), 18: (0, 4), 22: (0, 5)}
NO_ID = UUID(int=0)


class Reply(NamedTuple):
    """What a partition is answered, in place of what the cluster would answer."""

    error: int = 0
    base_offset: int = -1
    hint: Leader | None = None
    endpoint: tuple[int, int] | None = None
    """(node id, port) among the response's endpoints."""


Waiting = Generator[None, None, Reply | None]
"""What a script is that waits before it answers: it yields until it need not any more."""
Script = Callable[[Produced], Reply | Waiting | None]


@dataclass(frozen=True)
class TopicState:
    """A topic as the controller has it."""

    id: UUID
    leaders: tuple[Leader, ...]


@dataclass(frozen=True)
class Snapshot:
    """The cluster's metadata: who is alive, at which port, and who leads."""

    number: int = 0
    nodes: dict[int, int] = field(default_factory=dict)
    topics: dict[str, TopicState] = field(default_factory=dict)

    def leader(self, topic: str, partition: int) -> Leader | None:
        state = self.topics.get(topic)
        if state is None or partition >= len(state.leaders):
            return None
        return state.leaders[partition]


class SimulatedCluster:
    """The controller, its brokers 1 to n and the logs. Times are microseconds of the world.

    Partition p of each topic is led by broker 1 + p % n in epoch 5. `script` is asked for each
    partition of a Produce request, and answers with a Reply, or None for the cluster's own answer;
    it may raise HangUp, Silence or Garbage, and wait (`until`). `on_metadata` is called before
    Metadata is answered, with the broker, and may do the same.
    """

    def __init__(
        self,
        brokers: int = 2,
        partitions: int = 1,
        script: Script = lambda _: None,
        versions: Versions = VERSIONS,
        topics: Sequence[str] = (TOPIC,),
        world: World | None = None,
        lag_us: Callable[[], float] = lambda: 0,
    ) -> None:
        """`lag_us()` is how long a broker takes to hear of a change."""
        self.world = world or World(random.Random(0))
        self.lag_us = lag_us
        self.script = script
        self.versions = {18: VERSIONS[18], **versions}
        self.hints = self.endpoints = True
        """Whether who does not lead says who does, and where that is."""
        self.own_host = HOST
        """What brokers call themselves in hints; Metadata has HOST, as a proxy may have it."""
        self.draft = False
        """Hints on Produce 9 and Fetch 13 to 15 too, as in the KIP's early draft."""
        self.shown: Mapping[int, Leader] | None = None
        """What Metadata shows of leaders instead of what brokers know."""
        self.hidden: set[int] = set()
        """Brokers that Metadata leaves out."""
        self.shows_topics = True
        """If not, there is an error for every topic while a broker is hidden."""
        self.topic_error = 0
        self.producer_id_errors: list[int] = []
        self.api_versions_errors: list[int] = []
        """Errors, and no versions with them, that the next ApiVersions requests are answered."""
        self.on_metadata: Callable[[int], Generator[None, None, None] | None] = lambda broker: None
        self.produced: list[Produced] = []
        self.metadata_asked: list[int] = []
        """Which broker was asked for Metadata; the first is the bootstrap of the run."""
        self.topics_asked: list[tuple[str, ...]] = []
        """Of which topics; () for none or all."""
        self.truth = Snapshot()
        self.logs: dict[tuple[UUID, int], Log] = {}
        self.reigns: dict[tuple[UUID, int, int], int] = {}
        """Who led in each epoch of a partition, by topic id, partition, epoch."""
        self.lost: Counter[int] = Counter()
        """Records that a deposed leader acknowledged with acks=1."""
        self.replica_lag_us = 0
        """How long followers take to have what their leader has."""
        self.loses = 0
        """How many batches the next leader has not got, of those that all should have."""
        self.racks: dict[int, str] = {}
        self.look_again_us = 1000
        """How long a broker that has to wait does so before it looks again."""
        self.room = 1 << 30
        """How many bytes a client may send over a connection before any of them is read."""
        self.names: dict[UUID, str] = {}
        """Of all topics that there ever were."""
        self.brokers = {id: self._new_broker(id) for id in range(1, brokers + 1)}
        self.commit(nodes={id: broker.port for id, broker in self.brokers.items()})
        for topic in topics:
            self._make(topic, [Leader(1 + p % brokers, 5) for p in range(partitions)])

    def _new_broker(self, id: int) -> "Broker":
        return Broker(self, id)

    @property
    def bootstrap_server(self) -> str:
        return self.brokers[1].address

    @property
    def leaders(self) -> Mapping[int, Leader]:
        """Of the first topic, by partition."""
        return MappingProxyType(dict(enumerate(self.truth.topics[TOPIC].leaders)))

    @property
    def log(self) -> dict[int, list[Produced]]:
        """What was appended to the first topic, by partition."""
        id = self.truth.topics[TOPIC].id
        return {index: log.produced for (topic, index), log in self.logs.items() if topic == id}

    def records_in_log(self) -> int:
        return sum(len(each.batch.records) for log in self.log.values() for each in log)

    def sockets(self) -> SimulatedSockets:
        """Those of a client that is near."""
        return SimulatedSockets(self.world, self.listening, lambda: 100, rooms=(self.room,))

    def listening(self, host: str, port: int) -> Peer | None:
        """Who accepts or refuses connections to there."""
        there = [broker for broker in self.brokers.values() if broker.port == port]
        return there[0] if there else Nobody()

    # --- for scripts ---

    def until(self, happened: Callable[[], object]) -> Generator[None, None, None]:
        """Wait, in a script, for this."""
        while not happened():
            yield

    def pause(self, for_us: int) -> Generator[None, None, None]:
        """Wait, in a script, so long."""
        over_us = self.world.now_us + for_us
        return self.until(lambda: self.world.now_us >= over_us)

    def another_request(self, behind: Produced) -> Generator[None, None, None]:
        """Wait, in a script, until the client has sent something behind this request."""
        broker = self.brokers[behind.broker]
        return self.until(lambda: broker.has_more(behind.connection))

    def append(self, produced: Produced) -> Reply:
        """Append as a leader does."""
        id = self.truth.topics[produced.topic].id
        try:
            return Reply(*self.logs[id, produced.partition].produce(produced, self.world.now_us))
        except MalformedFrame:
            return Reply(ErrorCode.CORRUPT_MESSAGE)

    # --- the controller ---

    def commit(self, **changes: Any) -> None:
        """A new truth, which the brokers hear of one by one."""
        self.truth = truth = replace(self.truth, number=self.truth.number + 1, **changes)
        for topic in truth.topics.values():
            for partition, leader in enumerate(topic.leaders):
                if leader.id >= 0:
                    key = topic.id, partition, leader.epoch
                    assert self.reigns.setdefault(key, leader.id) == leader.id, "two in one epoch"
                self._elect((topic.id, partition), leader)
        for broker in self.brokers.values():
            broker.will_hear(truth)

    def _elect(self, place: tuple[UUID, int], leader: Leader) -> None:
        """Another may go on with the log. What is committed is not lost, unless it is unclean."""
        log, now_us = self.logs.get(place), self.world.now_us
        if log is None:
            self.logs[place] = Log(place, leader.epoch)
        elif leader.epoch > log.epoch:
            end = log.now.end_then(now_us - self.world.chance.choice((0, self.replica_lag_us)))
            kept = [batch for batch in log.batches if batch.end <= end]
            if self.loses and kept:
                end = kept[max(0, len(kept) - self.loses)].base
                self.world.tell(lambda: f"partition {place[1]} loses all from {end} on")
            log.elect(leader.epoch, end, now_us)

    def create(self, topic: str, partitions: int) -> None:
        """A new topic, or one of that name made anew: its id is new, its epochs start again."""
        self._make(topic, [Leader(self._any(), 0) for _ in range(partitions)])

    def _make(self, topic: str, leaders: Sequence[Leader]) -> None:
        state = TopicState(UUID(int=0xA000 + len(self.names)), tuple(leaders))
        self.names[state.id] = topic
        self.commit(topics={**self.truth.topics, topic: state})
        self.world.tell(lambda: f"topic {topic} is made: {_shown(state.leaders)}")

    def delete(self, topic: str) -> None:
        self.world.tell(lambda: f"topic {topic} is deleted")
        self.commit(topics={name: t for name, t in self.truth.topics.items() if name != topic})

    def grow(self, topic: str, partitions: int) -> None:
        state = self.truth.topics.get(topic)
        if state is not None:
            more = [Leader(self._any(), 0) for _ in range(partitions)]
            self._lead(topic, (*state.leaders, *more))

    def move(self, partition: int, to: int, topic: str = TOPIC) -> None:
        """A new leader in the next epoch: that broker, or any that is alive."""
        state = self.truth.topics.get(topic)
        if state is None or partition >= len(state.leaders):
            return
        leaders = list(state.leaders)
        to = to if to in self.truth.nodes else self._any()
        leaders[partition] = Leader(to, leaders[partition].epoch + 1)
        self._lead(topic, tuple(leaders))

    def lead(self, *leaders: Leader) -> None:
        """The first topic is led by these, whatever was before."""
        for partition, leader in enumerate(leaders):
            self.reigns.pop((self.truth.topics[TOPIC].id, partition, leader.epoch), None)
        self._lead(TOPIC, leaders)

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
                Leader(self._any(), leader.epoch + 1) if needs(leader) else leader
                for leader in state.leaders
            )
            if leaders != state.leaders:
                self._lead(name, leaders)

    def _lead(self, topic: str, leaders: tuple[Leader, ...]) -> None:
        state = TopicState(self.truth.topics[topic].id, leaders)
        self.commit(topics={**self.truth.topics, topic: state})
        self.world.tell(lambda: f"topic {topic} is led by {_shown(leaders)}")

    def _any(self) -> int:
        alive = sorted(self.truth.nodes)
        return self.world.chance.choice(alive) if alive else -1

    # --- what else brokers answer ---

    def answer_reader(self, broker: "Broker", call: Call) -> Answer:
        """What a broker answers to a consumer."""
        raise AssertionError(call.request)


class Nobody:
    """A `Peer` at whose port nobody listens."""

    def opened(self, socket: SimulatedSocket) -> bool:
        return False

    def arrived(self, socket: SimulatedSocket) -> None: ...

    def closed(self, socket: SimulatedSocket) -> None: ...


class Broker:
    """One broker: its view of the cluster, its connections, and what is wrong with it just now."""

    def __init__(self, cluster: SimulatedCluster, id: int) -> None:
        self.id = id
        self.cluster = cluster
        self.port = 9000 + id
        self.view = cluster.truth
        self.is_up = True
        self.paused_until_us = 0
        self.deaf_until_us = 0
        """Until then it hears nothing of the controller."""
        self.throttle_us = 0
        """How long it does not read after an answer, and says so (KIP-219)."""
        self.is_empty = False
        """It shows no brokers at all, as one that starts up."""
        self.refusal: Callable[[], int] = lambda: 0
        """An error for a batch or a reader, instead of appending or reading."""
        self.regret: Callable[[], int] = lambda: 0
        """An error for a batch after it is appended."""
        self.connections: dict[SimulatedSocket, Connection] = {}
        self._accepted: list[Connection] = []
        self._heard_us = 0

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def will_hear(self, truth: Snapshot) -> None:
        now_us = self.cluster.world.now_us
        self._heard_us = max(
            self._heard_us, self.deaf_until_us, now_us + int(self.cluster.lag_us())
        )

        def hear() -> None:
            if truth.number > self.view.number:
                self.view = truth

        if self._heard_us <= now_us:
            hear()
        else:
            self.cluster.world.after(self._heard_us - now_us, hear)

    def close(self) -> None:
        """It does not listen any more; nobody else hears of that."""
        self.is_up = False
        self.hang_up()

    # --- connections (`world.Peer`) ---

    def opened(self, socket: SimulatedSocket) -> bool:
        if self.is_up:
            connection = Connection(self, socket, len(self._accepted))
            self.connections[socket] = connection
            self._accepted.append(connection)
        return self.is_up

    def arrived(self, socket: SimulatedSocket) -> None:
        if socket in self.connections:
            self.connections[socket].arrived()

    def closed(self, socket: SimulatedSocket) -> None:
        """By the client. What has arrived is read to its end, as by Kafka."""

    def hang_up(self, *sockets: SimulatedSocket) -> None:
        """Break these connections, or all."""
        for socket in sockets or tuple(self.connections):
            socket.reset()
            self.connections.pop(socket, None)

    def has_more(self, connection: int) -> bool:
        return self._accepted[connection].has_more

    # --- answers ---

    def answer(self, call: Call) -> Answer:
        """The answer by what the broker knows."""
        cluster, errors = self.cluster, self.cluster.producer_id_errors
        match call.request:
            case ApiVersionsRequest():
                return self._api_versions(call.version)
            case InitProducerIdRequest() if errors:
                return InitProducerIdResponse(error_code=errors.pop(0))
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=0)
            case MetadataRequest(topics=topics):
                names = [*cluster.truth.topics] if topics is None else [t.name for t in topics]
                cluster.metadata_asked.append(self.id)
                cluster.topics_asked.append(tuple(names))
                yield from said(cluster.on_metadata(self.id))
                return self.metadata(names, call.version)
            case ProduceRequest():
                return (yield from self._produce(call))
        return (yield from cluster.answer_reader(self, call))

    def _api_versions(self, version: int) -> ApiVersionsResponse:
        cluster = self.cluster
        if cluster.api_versions_errors:
            return ApiVersionsResponse(cluster.api_versions_errors.pop(0))
        keys = tuple(ApiVersion(key, *span) for key, span in cluster.versions.items())
        is_known = version <= cluster.versions[18][1]
        return ApiVersionsResponse(0 if is_known else ErrorCode.UNSUPPORTED_VERSION, keys)

    def metadata(self, names: Sequence[str], version: int = 13) -> MetadataResponse:
        view, cluster = self.view, self.cluster
        epochs_behind = int(version < 9 and cluster.world.chance.random() < 0.3)  # (KAFKA-9212)
        if self.is_empty:
            return MetadataResponse(cluster_id="fake")
        topics = []
        for name in names:
            state, error = view.topics.get(name), cluster.topic_error
            if state is None or (cluster.hidden and not cluster.shows_topics):
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if error or state is None:
                topics.append(MetadataResponseTopic(error_code=error, name=name))
                continue
            leaders = dict(enumerate(state.leaders)) if cluster.shown is None else cluster.shown
            partitions = tuple(
                MetadataResponsePartition(
                    error_code=0 if leader.id in view.nodes else ErrorCode.LEADER_NOT_AVAILABLE,
                    partition_index=index,
                    leader_id=leader.id if leader.id in view.nodes else -1,
                    leader_epoch=max(0, leader.epoch - epochs_behind),
                    replica_nodes=tuple(cluster.brokers),
                    isr_nodes=tuple(cluster.brokers),
                )
                for index, leader in leaders.items()
            )
            id = state.id if version >= 10 else NO_ID
            topics.append(MetadataResponseTopic(0, name, id, partitions=partitions))
        nodes = tuple(
            MetadataResponseBroker(id, HOST, port, cluster.racks.get(id))
            for id, port in view.nodes.items()
            if id not in cluster.hidden
        )
        return MetadataResponse(brokers=nodes, cluster_id="fake", topics=tuple(topics))

    def _produce(self, call: Call) -> Answer:
        request, version = call.request, call.version
        batches = [
            self._produced(call, topic, data)
            for topic in request.topic_data
            for data in topic.partition_data
        ]
        while request.acks == -1 and any(
            self._is_deposed(batch.topic, batch.partition) for batch in batches
        ):
            yield
        names_leaders = version >= 10 or (self.cluster.draft and version == 9)
        topics: dict[tuple[str, UUID], list[PartitionProduceResponse]] = {}
        endpoints = {}
        for batch in batches:
            self.cluster.produced.append(batch)
            reply = yield from said(self.cluster.script(batch))
            reply = reply or self._append(batch)
            answer = PartitionProduceResponse(batch.partition, reply.error, reply.base_offset)
            if reply.hint and names_leaders:
                answer = replace(
                    answer, current_leader=LeaderIdAndEpoch(reply.hint.id, reply.hint.epoch)
                )
            if reply.endpoint and names_leaders:
                endpoints[reply.endpoint[0]] = reply.endpoint[1]
            name = batch.topic if version < 13 else ""
            topics.setdefault((name, batch.topic_id), []).append(answer)
        if request.acks == 0:
            return None
        for partitions in topics.values():  # in any order, as real brokers do
            self.cluster.world.chance.shuffle(partitions)
        return ProduceResponse(
            tuple(TopicProduceResponse(*topic, tuple(p)) for topic, p in topics.items()),
            node_endpoints=tuple(
                NodeEndpoint(id, self.cluster.own_host, port) for id, port in endpoints.items()
            ),
        )

    def _produced(self, call: Call, topic: Any, data: Any) -> Produced:
        assert (topic.name == "", topic.topic_id == NO_ID) == (
            call.version >= 13,
            call.version < 13,
        )
        name, numbers = topic.name or self.cluster.names[topic.topic_id], []
        for batch in call.subject or ():
            if (batch.partition.topic.name, batch.partition.index) == (name, data.index):
                numbers = [batch.first_seq + k * batch.stride for k in range(batch.records)]
        return Produced(
            self.id,
            call.connection,
            call.version,
            name,
            topic.topic_id,
            data.index,
            bytes(data.records),
            numbers,
        )

    def _is_deposed(self, topic: str, partition: int) -> bool:
        """It believes that it leads and does not: nobody follows what it would append."""
        believed, truth = self.view.leader(topic, partition), self.cluster.truth
        return (
            believed is not None
            and believed.id == self.id
            and (
                truth.leader(topic, partition) != believed
                or truth.topics[topic].id != self.view.topics[topic].id
            )
        )

    def _append(self, produced: Produced) -> Reply:
        """What the cluster itself does with it."""
        topic, cluster = produced.topic, self.cluster
        state, leader = self.view.topics.get(topic), self.view.leader(topic, produced.partition)
        if state is None or produced.topic_id not in (state.id, NO_ID):
            by_id = produced.version >= 13
            return Reply(
                ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        if leader is None:
            return Reply(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if leader.id != self.id:
            hint = leader if cluster.hints else None
            return Reply(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, hint, self.endpoint_of(hint))
        if self._is_deposed(topic, produced.partition):
            cluster.lost.update(produced.numbers)
            return Reply(0, 1 << 40)
        if error := self.refusal():
            return Reply(error)
        reply = cluster.append(produced)
        return reply._replace(error=reply.error or self.regret())

    def endpoint_of(self, leader: Leader | None) -> tuple[int, int] | None:
        """Where the leader that is hinted at listens, as the broker knows it and says it."""
        known = self.view.nodes
        if leader is None or leader.id not in known or not self.cluster.endpoints:
            return None
        return leader.id, known[leader.id]


def _shown(leaders: Sequence[Leader]) -> str:
    return ", ".join(f"{leader.id} in epoch {leader.epoch}" for leader in leaders)
