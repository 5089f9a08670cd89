"""The scripted cluster in a simulated world, with what goes wrong in real ones.

The controller's truth is the cluster's image. Each broker has its own, an earlier one, and answers
by it, as a KRaft broker does: one that is behind names an old leader, shows old Metadata, holds an
acks=all batch that it may not append any more.

By itself it behaves. A test scripts what a real cluster shows only by chance.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from brokers import Nobody, SimulatedBroker
from record_batches import RecordBatch, decode_batch
from world import EPOCH_US, Peer, SimulatedSockets, World

from kipctl.conform.cluster import (
    Attempt,
    Cluster,
    Connection,
    Exchange,
    Place,
    Refusal,
    said,
)
from kipctl.conform.cluster.apis import Answering
from kipctl.conform.cluster.apis.hints import refused
from kipctl.conform.cluster.apis.metadata import metadata
from kipctl.conform.cluster.cluster import HOST
from kipctl.conform.cluster.control import Scripted, Waiting
from kipctl.conform.cluster.log import Log
from kipctl.probe.leadership import Leader
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import ApiVersionsResponse
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.init_producer_id import InitProducerIdResponse
from kipctl.protocol.message import ZERO_UUID, Response
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseTopic, metadata_request

TOPIC = "t"
PRODUCER_ID = 4000
Versions = dict[int, tuple[int, int]]
"""The lowest and the highest by API key."""
VERSIONS: Versions = {0: (0, 13), 3: (0, 13), 18: (0, 4), 22: (0, 5)}
NO_ID = ZERO_UUID
Script = Callable[[Attempt], Scripted | Waiting | None]


class SimulatedCluster(Cluster):
    """Times are microseconds of the world. `on_metadata` is called before Metadata is answered,
    with the broker, and may wait as scripts do (`until`), or raise what they raise: HungUpError,
    SilentError, Garbage.
    """

    brokers: dict[int, SimulatedBroker]  # type: ignore[assignment]

    def __init__(
        self,
        brokers: int = 2,
        partitions: int = 1,
        script: Script = lambda _: None,
        versions: Versions = VERSIONS,
        topics: Sequence[str] = (TOPIC,),
        world: World | None = None,
        lag_us: Callable[[], float] = lambda: 0,
        racks: Sequence[str] = (),
    ) -> None:
        """`lag_us()` is how long a broker takes to hear of a change."""
        self.world = world or World(random.Random(0))
        self.lag_us = lag_us
        self.endpoints = True
        """Whether who names a leader says where that is."""
        self.own_host = HOST
        """What brokers call themselves in hints; Metadata has HOST, as a proxy may have it."""
        self.unlisted: set[int] = set()
        """Brokers that Metadata leaves out, though it names them as leaders."""
        self.shows_topics = True
        """If not, there is an error for every topic while a broker is not listed."""
        self.topic_error = 0
        self.producer_id_errors: list[int] = []
        self.api_versions_errors: list[int] = []
        """Errors, and no versions with them, that the next ApiVersions requests are answered."""
        self.on_metadata: Callable[[int], Generator[None, None, None] | None] = lambda broker: None
        self.appended: dict[Log, list[Attempt]] = defaultdict(list)
        """What came into logs from producers."""
        self.reigns: dict[tuple[UUID, int, int], int] = {}
        """Who led in each epoch of a partition, by topic id, partition, epoch."""
        self.replica_lag_us = 0
        """How long followers take to have what their leader has."""
        self.loses = 0
        """How many batches the next leader has not got, of those that all should have."""
        self.look_again_us = 1000
        """How long a broker that has to wait does so before it looks again."""
        self.reads_ahead = False
        """Whether brokers read what comes while they are busy, so that its time is known."""
        self.room = 1 << 30
        """How many bytes a client may send over a connection before any of them is read."""
        self.minds: dict[tuple[int, int], Any] = {}
        """What a client has in mind with a request, by connection and correlation id."""
        self.sent_us: dict[tuple[int, int], int] = {}
        self._calls: dict[int, list[Exchange]] = defaultdict(list)
        self._changes = 0
        world = self.world
        super().__init__(dict.fromkeys(topics, partitions), brokers, racks, lambda: world.now_us)
        self.script, self.epoch_us = script, EPOCH_US
        self.new_leader_end = self._replicated_end
        self.versions = {18: VERSIONS[18], **versions}
        # In any, as real brokers have it.
        self.order = lambda parts: world.chance.sample(parts, len(parts))
        self.open_listener = lambda broker: self.brokers[broker].port
        self.close_listener = lambda broker: self.brokers[broker].close()
        self.start()

    def _new_broker(self, id: int) -> SimulatedBroker:
        return SimulatedBroker(self, id)

    def sockets(self) -> SimulatedSockets:
        """Those of a client that is near."""
        return SimulatedSockets(self.world, self.listening, lambda: 100, rooms=(self.room,))

    def listening(self, host: str, port: int) -> Peer | None:
        """Who accepts or refuses connections to there."""
        there = [broker for broker in self.brokers.values() if broker.port == port]
        return there[0] if there else Nobody()

    # --- what came ---

    def arrived(self, frame: bytes, connection: Connection) -> Exchange:
        call = super().arrived(frame, connection)
        self._calls[call.api].append(call)
        return call

    def calls(self, api: ApiKey) -> list[Exchange]:
        return self._calls[api]

    def attempts(self, api: ApiKey) -> list[Attempt]:
        """By partition, in the order in which they came."""
        return [attempt for call in self.calls(api) for attempt in call.tried.values()]

    @property
    def produced(self) -> list[Attempt]:
        return self.attempts(ApiKey.PRODUCE)

    @property
    def metadata_asked(self) -> list[int]:
        """Which broker was asked for Metadata; the first is the bootstrap of the run."""
        return [call.broker for call in self.calls(ApiKey.METADATA)]

    def numbers(self, attempt: Attempt) -> list[int]:
        """Of its records in the run."""
        for batch in self.minds[attempt.connection, attempt.call.correlation_id] or ():
            if (batch.partition.topic.name, batch.partition.index) == attempt.place:
                return [batch.first_seq + k * batch.stride for k in range(batch.records)]
        return []

    # --- for scripts ---

    def until(self, happened: Callable[[], object]) -> Generator[None, None, None]:
        """Wait, in a script, for this."""
        while not happened():
            yield

    def pause(self, for_us: int) -> Generator[None, None, None]:
        """Wait, in a script, so long."""
        over_us = self.world.now_us + for_us
        return self.until(lambda: self.world.now_us >= over_us)

    def another_request(self, behind: Attempt) -> Generator[None, None, None]:
        """Wait, in a script, until the client has sent something behind this request."""
        served = self.brokers[behind.broker].connections.values()
        (its,) = (c for c in served if c.seen.number == behind.connection)
        return self.until(lambda: its.has_more)

    def append(self, attempt: Attempt) -> tuple[int, int]:
        log = self.log(attempt.place)
        end = log.end
        told = super().append(attempt)
        if log.end > end:
            self.appended[log].append(attempt)
        return told

    def scripted(self, attempt: Attempt) -> Waiting:
        told = yield from super().scripted(attempt)
        return told or self.ails(attempt)

    def ails(self, attempt: Attempt, must_lead: bool = True) -> Refusal | None:
        """What is wrong with a broker that would append, or read, otherwise."""
        broker = self.brokers[attempt.broker]
        refusal, regret = broker.refusal(), attempt.api == ApiKey.PRODUCE and broker.regret()
        if not (refusal or regret) or refused(self, broker, attempt, must_lead):
            return None
        if refusal:
            return Refusal(refusal)
        if self.is_deposed(broker, attempt.place):
            return None
        error, offset = self.append(attempt)
        return Refusal(error or regret, offset=offset)

    def show(self, leaders: Mapping[Place, Leader] | None) -> None:
        """What Metadata shows of leaders instead of what brokers know."""
        for broker in self.brokers.values():
            broker.shown.maps[0].clear()
            broker.shown.update(leaders or {})

    # --- the controller ---

    def changed(self) -> None:
        """The brokers hear of it one by one."""
        for (topic, index), leader in self.leaders.items():
            if leader.id >= 0:
                key = self.topics[topic], index, leader.epoch
                assert self.reigns.setdefault(key, leader.id) == leader.id, "two in one epoch"
        self._changes += 1
        image = self.image.copy()
        for broker in self.brokers.values():
            broker.will_hear(self._changes, image)

    def all_hear(self) -> None:
        """Of all that was, whatever they wait for."""
        lag_us, self.lag_us = self.lag_us, lambda: 0
        for broker in self.brokers.values():
            broker.heard_us = 0
        self.changed()
        self.lag_us = lag_us

    def _replicated_end(self, log: Log) -> int:
        """What is committed is not lost, unless it is unclean."""
        end = log.now.end_then(
            self.world.now_us - self.world.chance.choice((0, self.replica_lag_us))
        )
        kept = [batch for batch in log.batches if batch.end <= end]
        if self.loses and kept:
            end = kept[max(0, len(kept) - self.loses)].base
            self.world.tell(lambda: f"a partition loses all from {end} on")
        return end

    def recreate(self, topic: str, partitions: int) -> None:
        """A topic made anew: its id is new, its epochs start again."""
        self.create(topic, 0)
        self.grow(topic, partitions)
        self.world.tell(lambda: f"topic {topic} is made anew")

    def grow(self, topic: str, partitions: int) -> None:
        if topic in self.topics:
            for _ in range(partitions):
                self.move((topic, len(self.partitions(topic))), Leader(self._any(), 0))

    def elect(self, partition: int, to: int, topic: str = TOPIC) -> None:
        """A new leader in the next epoch: that broker, or any that is alive."""
        place = topic, partition
        if place in self.leaders:
            to = to if to in self.nodes else self._any()
            self.move(place, Leader(to, self.leaders[place].epoch + 1))

    def move(self, place: Place, leader: Leader) -> None:
        super().move(place, leader)
        self.world.tell(lambda: f"{place} is led by {leader.id} in epoch {leader.epoch}")

    def lead(self, *leaders: Leader) -> None:
        """The first topic is led by these, whatever was before."""
        for partition, leader in enumerate(leaders):
            self.reigns.pop((self.topics[TOPIC], partition, leader.epoch), None)
            self.move((TOPIC, partition), leader)

    def leave(self, broker: int) -> None:
        """A broker is not alive any more: others lead, or nobody."""
        self.nodes.pop(broker, None)
        self.changed()
        self._reelect(lambda leader: leader.id == broker)

    def join(self, broker: int) -> None:
        """It is back, perhaps at another port."""
        self.restart(broker)
        self._reelect(lambda leader: leader.id < 0)

    def _reelect(self, needs: Callable[[Leader], bool]) -> None:
        for place, leader in tuple(self.leaders.items()):
            if needs(leader):
                self.move(place, Leader(self._any(), leader.epoch + 1))

    def _any(self) -> int:
        alive = sorted(self.nodes)
        return self.world.chance.choice(alive) if alive else -1

    # --- answers ---

    def metadata(self, names: Iterable[str], version: int = 13) -> MetadataResponse:
        """As broker 1 has it."""
        request = metadata_request(list(names))
        call = Exchange(self.now_us(), 1, -1, ApiKey.METADATA, version, 0, "", request)
        answer = metadata(self, self.brokers[1], call)
        assert isinstance(answer, MetadataResponse)
        return self._as_shown(call, answer)

    def _answer(self, call: Exchange) -> Answering:
        assert call.api == ApiKey.API_VERSIONS or not call.unknown, call.unknown
        match call.api:
            case ApiKey.API_VERSIONS if self.api_versions_errors:
                return ApiVersionsResponse(self.api_versions_errors.pop(0))
            case ApiKey.INIT_PRODUCER_ID if self.producer_id_errors:
                return InitProducerIdResponse(error_code=self.producer_id_errors.pop(0))
            case ApiKey.METADATA:
                yield from said(self.on_metadata(call.broker))
        answer = yield from super()._answer(call)
        assert call.api == ApiKey.API_VERSIONS or not call.unknown, call.unknown  # of its batches
        return self._as_said(call, answer)

    def _as_said(self, call: Exchange, answer: Response | None) -> Response | None:
        """A right answer as it is sent."""
        if isinstance(answer, MetadataResponse):
            return self._as_shown(call, answer)
        return answer

    def _as_shown(self, call: Exchange, answer: MetadataResponse) -> MetadataResponse:
        """With what is wrong with Metadata."""
        is_behind = call.version < 9 and self.world.chance.random() < 0.3  # (KAFKA-9212)
        if self.brokers[call.broker].is_empty:
            return MetadataResponse(cluster_id=self.id)
        error = self.topic_error
        if self.unlisted and not self.shows_topics:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        topics = tuple(
            MetadataResponseTopic(error_code=error, name=topic.name)
            if error and not topic.error_code
            else replace(
                topic,
                partitions=tuple(
                    replace(p, leader_epoch=max(0, p.leader_epoch - is_behind))
                    for p in topic.partitions
                ),
            )
            for topic in answer.topics
        )
        brokers = tuple(node for node in answer.brokers if node.node_id not in self.unlisted)
        return replace(answer, brokers=brokers, topics=topics)


def batch_of(attempt: Attempt) -> RecordBatch:
    """What was sent. Raises MalformedFrame."""
    return decode_batch(attempt.content)


def producer_epoch(attempt: Attempt) -> int:
    return batch_of(attempt).header.producer_epoch


def values(attempt: Attempt) -> list[bytes]:
    return [record.value or b"" for record in batch_of(attempt).records]
