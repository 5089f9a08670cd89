"""The cluster itself, without sockets: what it is, how it is changed, and how it answers."""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

from kipctl.conform.cluster.apis import REQUESTS, RESPOND, VERSIONS, Answering
from kipctl.conform.cluster.apis.fetch_sessions import Sessions
from kipctl.conform.cluster.apis.start import api_versions
from kipctl.conform.cluster.call import Attempt, Connection, Exchange, framed, read_call
from kipctl.conform.cluster.control import (
    Answer,
    Control,
    Cut,
    Delay,
    Drop,
    Scripted,
    Waiting,
    said,
)
from kipctl.conform.cluster.log import Log
from kipctl.conform.cluster.state import Broker, Group, Image, Place, Replica, topic_id
from kipctl.probe.leadership import Leader, Node
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.message import Response
from kipctl.trace.clock import now_us

HOST = "127.0.0.1"
FIRST_EPOCH = 5
FIRST_PRODUCER_ID = 4000


class HungUpError(Exception):
    """The broker closes the connection instead of answering."""


class SilentError(Exception):
    """The broker answers nothing more on the connection."""


class Cluster:
    """Brokers 1 to n with a rack each, and topics; `topics` has their numbers of partitions.

    Partition p is led by broker 1 + p % n in epoch 5. By itself the cluster behaves as Kafka 4.3
    does. Three functions script it, called for every request: `before` at each look at one,
    also while it waits, so that the cluster can be changed by time; `control` for a whole request;
    `script` for each partition of a Produce, Fetch, ListOffsets or OffsetForLeaderEpoch, which may
    wait. What clients did is in `exchanges` and `connections`. `now_us` is the clock, in
    microseconds.
    """

    id = "scripted-by-kipctl"

    def __init__(
        self,
        topics: Mapping[str, int],
        brokers: int = 3,
        racks: Sequence[str] = ("a", "b", "c"),
        now_us: Callable[[], int] = now_us,
    ) -> None:
        self.now_us = now_us
        self.before: Callable[[], None] = lambda: None
        self.control: Callable[[Exchange], Control | None] = lambda exchange: None
        self.new_leader_end: Callable[[Log], int] = lambda log: log.end
        """Up to where the next leader has a log."""
        self.script: Callable[[Attempt], Scripted | Waiting | None] = lambda attempt: None
        self.versions = dict(VERSIONS)
        """The APIs that it announces, and serves."""
        self.requests = dict(REQUESTS)
        """What it can read, by API; of what is added here `control` has to say the answers."""
        self.has_draft_hints = False
        """Hints on Produce 9 and Fetch 13 to 15 too, as in the early draft of KIP-951."""
        self.order: Callable[[list[Any]], list[Any]] = list
        """The order in which answers to Produce and Fetch name a topic's partitions."""
        self.image = Image()
        self.nodes = self.image.nodes
        """Brokers that are reachable, as the controller knows them."""
        self.leaders = self.image.leaders
        self.topics = self.image.topics
        self.names: dict[UUID, str] = {}
        """Of all topics that there ever were."""
        self.names_leaders = True
        """Whether who does not lead says who does."""
        self.not_held: set[tuple[Place, int]] = set()
        """Replicas that brokers have given away, or have not made yet."""
        self.followers: set[tuple[Place, int]] = set()
        """Replicas from which consumers may read."""
        self.names_followers = True
        """Whether leaders send readers to the follower in their rack."""
        self.logs: dict[tuple[UUID, int], Log] = {}
        """By topic id and partition, also of topics that are gone."""
        self.sessions = Sessions()
        self.epoch_us = time.time_ns() // 1000 - now_us()
        """The wall clock when `now_us` was 0."""
        self.groups: dict[str, Group] = {}
        self.exchanges: list[Exchange] = []
        self.connections: list[Connection] = []
        self.throttle_ms: Callable[[Exchange], int] = lambda call: 0
        """For how long an answer asks the client to be silent (KIP-219)."""
        self.stamp: Callable[[], object] = object
        """What is another when a Fetch that waits might find more than at its last look; by itself
        it always might, as scripts go by time."""
        self.open_listener: Callable[[int], int] = lambda broker: 9000 + broker
        """Makes a broker listen, and gives its port."""
        self.close_listener: Callable[[int], None] = lambda broker: None
        """Makes it refuse, and closes its connections."""
        self._producer_ids = count(FIRST_PRODUCER_ID)
        self._racks = racks
        self.brokers = {id: self._new_broker(id) for id in range(1, brokers + 1)}
        for name, partitions in topics.items():
            self.create(name, partitions)

    def _new_broker(self, id: int) -> Broker:
        return Broker(id, self.image)

    def start(self) -> None:
        """All brokers listen."""
        for id in self.brokers:
            self.restart(id)

    @property
    def bootstrap_server(self) -> str:
        return f"{self.nodes[1].host}:{self.nodes[1].port}"

    # --- what happens to it ---

    def create(self, topic: str, partitions: int, epoch: int = FIRST_EPOCH) -> None:
        """A topic, or one of that name anew, with another id and empty logs."""
        self.delete(topic)
        id = topic_id(len(self.names) + 1)
        self.topics[topic], self.names[id] = id, topic
        for index in range(partitions):
            self.move((topic, index), Leader(1 + index % len(self.brokers), epoch))

    def delete(self, topic: str) -> None:
        """If it is there."""
        self.topics.pop(topic, None)
        for index in self.partitions(topic):
            del self.leaders[topic, index]
        self.changed()

    def log(self, place: Place) -> Log:
        """That of the topic that has the name now."""
        return self.logs[self.topics[place[0]], place[1]]

    @property
    def records(self) -> int:
        """How many its logs have."""
        return sum(log.end - log.start for log in self.logs.values())

    def partitions(self, topic: str) -> range:
        return range(sum(name == topic for name, _ in self.leaders))

    def move(self, place: Place, leader: Leader) -> None:
        """Another leads, of a new partition perhaps; all brokers know it but those that are set to
        believe otherwise.
        """
        self.leaders[place] = leader
        at = self.topics[place[0]], place[1]
        log = self.logs.setdefault(at, Log(leader.epoch))
        if leader.epoch > log.epoch:
            log.elect(leader.epoch, self.new_leader_end(log), self.now_us())
        self.changed()

    def changed(self) -> None:
        """The image has: brokers hear of it, here at once."""

    def stop(self, broker: int) -> None:
        """It refuses connections; Metadata still has it, until it is hidden there."""
        self.sessions.forget(broker)
        self.close_listener(broker)

    def restart(self, broker: int) -> None:
        """It listens again, perhaps at another port."""
        self.sessions.forget(broker)
        rack = self._racks[(broker - 1) % len(self._racks)] if self._racks else None
        self.nodes[broker] = Node(broker, HOST, self.open_listener(broker), rack)
        self.changed()

    # --- replicas ---

    def holds(self, broker: int, place: Place) -> bool:
        """Whether it is a replica."""
        return (place, broker) not in self.not_held

    def follows(self, broker: int, place: Place) -> bool:
        """Whether it may be read from though it does not lead."""
        return (place, broker) in self.followers

    def is_deposed(self, broker: Broker, place: Place) -> bool:
        """It believes that it leads and does not: nobody follows what it would append."""
        topic = place[0]
        is_there = self.leaders.get(place) == broker.leaders.get(place)
        is_same = self.topics.get(topic) == broker.topics.get(topic)
        return broker.leads(place) and not (is_there and is_same)

    def replica(self, broker: Broker, place: Place) -> Replica:
        """What a broker has of a partition's log, by what it has heard."""
        log = self.logs[broker.topics[place[0]], place[1]]
        branch = log.branch(broker.leaders[place].epoch)
        return Replica(branch, branch.start, branch.end, branch.end)

    def append(self, attempt: Attempt) -> tuple[int, int]:
        """As a leader does; an error and the base offset."""
        return self.log(attempt.place).append(attempt.content, self.now_us())

    def nearer(self, place: Place, leader: int, rack: str, offset: int) -> int:
        """The follower in a reader's rack that the leader sends it to, or -1."""
        if not self.names_followers:
            return -1
        near = (
            id
            for at, id in sorted(self.followers)
            if at == place and id != leader and rack and self.nodes[id].rack == rack
        )
        return next(near, -1) if rack != self.nodes[leader].rack else -1

    def new_producer_id(self) -> int:
        return next(self._producer_ids)

    # --- requests ---

    def connected(self, broker: int) -> Connection:
        """A client has connected to it."""
        self.connections.append(Connection(len(self.connections), broker, self.now_us()))
        return self.connections[-1]

    def arrived(self, frame: bytes, connection: Connection) -> Exchange:
        """The request in a frame without its length. Raises MalformedFrame."""
        at = connection.broker, connection.number
        self.exchanges.append(read_call(frame, self.now_us(), *at, self.requests, self.versions))
        return self.exchanges[-1]

    def frame(self, call: Exchange, answer: Response) -> bytes:
        """The answer's, with its length."""
        asked = self.requests.get(call.api, ApiVersionsRequest)
        return framed(call, asked, answer, self.has_draft_hints)

    def scripted(self, attempt: Attempt) -> Waiting:
        """What a script says of one partition, if anything."""
        return (yield from said(self.script(attempt)))

    def answer(self, call: Exchange) -> Answering:
        """The answer, for which it yields until it need not wait any more; None for no answer.

        Raises HungUpError and SilentError, as a broker does that is scripted so, or is asked what
        it does not know.
        """
        answering = self._answer(call)
        while True:
            self.before()
            try:
                next(answering)
            except StopIteration as over:
                call.answered_us, call.response = self.now_us(), over.value
                if over.value is not None and (ms := self.throttle_ms(call)):
                    call.response = replace(over.value, throttle_time_ms=ms)
                return call.response
            yield

    def _answer(self, call: Exchange) -> Answering:
        broker = self.brokers[call.broker]
        match self.control(call):
            case Answer(response=response):
                return response
            case Delay(us=us):
                until_us = self.now_us() + us
                while self.now_us() < until_us:
                    yield
            case Drop():
                raise SilentError
            case Cut():
                raise HungUpError
        if call.request is not None:
            made = RESPOND[type(call.request)](self, broker, call)
            return (yield from made) if isinstance(made, Generator) else made
        if call.api == ApiKey.API_VERSIONS:
            return api_versions(self, broker, call)
        raise HungUpError  # as Kafka does with what it does not serve
