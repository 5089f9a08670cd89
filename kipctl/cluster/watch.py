"""How the news of a new leader spreads: each broker's Metadata, asked until all of them agree."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from queue import Empty, SimpleQueue
from types import TracebackType

from kipctl.cluster.snapshot import Broker, PartitionId, Snapshot, from_metadata
from kipctl.errors import KipctlError
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.request import BrokerConnection

POLL_S = 0.01
CONNECTION_TIMEOUT_S = 2.0


class EventKind(StrEnum):
    REASSIGNMENT_CALLED = "reassignment called"
    REASSIGNMENT_ANSWERED = "reassignment answered"
    ELECTION_CALLED = "election called"
    ELECTION_ANSWERED = "election answered"
    LEADER_SEEN = "leader seen"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """An action on the cluster, or the first time that a broker showed a partition's new leader.

    `time_us` is of now_us(); the partition's fields are None for an action.
    """

    kind: EventKind
    time_us: int
    topic: str | None = None
    partition: int | None = None
    from_leader: int | None = None
    to_leader: int | None = None
    leader_epoch: int | None = None
    seen_by_broker: int | None = None


@dataclass(frozen=True, slots=True)
class Sighting:
    """A broker showed this leader for the first time at `time_us`."""

    broker: int
    id: PartitionId
    leader: int
    leader_epoch: int
    time_us: int


@dataclass(frozen=True, slots=True)
class Contact:
    """A broker answers again, or does not any more."""

    broker: int
    answers: bool


class LeaderWatch:
    """One thread per broker that asks it for Metadata every 10 ms and queues what is new.

    A context manager: the threads live inside it. A broker that does not answer is asked again.
    """

    def __init__(self, brokers: Iterable[Broker], topics: Iterable[str], access: Access) -> None:
        self._request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=topic) for topic in topics),
            allow_auto_topic_creation=False,
        )
        self._access = access
        self._queue: SimpleQueue[Sighting | Contact] = SimpleQueue()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(broker,), daemon=True) for broker in brokers
        ]

    def __enter__(self) -> "LeaderWatch":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def news(self, timeout_s: float) -> list[Sighting | Contact]:
        """All that is queued; waits up to the timeout for the first."""
        found = []
        try:
            found.append(self._queue.get(timeout=max(0.0, timeout_s)))
            while True:
                found.append(self._queue.get_nowait())
        except Empty:
            return found

    def _watch(self, broker: Broker) -> None:
        shown: dict[PartitionId, tuple[int, int]] = {}
        while not self._over.is_set():
            try:
                with BrokerConnection(
                    broker.host, broker.port, "kipctl", CONNECTION_TIMEOUT_S, self._access
                ) as connection:
                    self._ask(connection, broker.id, shown)
            except KipctlError:
                self._queue.put(Contact(broker.id, answers=False))
                self._over.wait(10 * POLL_S)

    def _ask(
        self, connection: BrokerConnection, broker: int, shown: dict[PartitionId, tuple[int, int]]
    ) -> None:
        last = None
        while not self._over.is_set():
            metadata = connection.request(self._request)
            time_us = now_us()
            if last is None:
                self._queue.put(Contact(broker, answers=True))
            if metadata is not last:
                last = metadata
                for partition in from_metadata(metadata).partitions:
                    news = (partition.leader, partition.leader_epoch)
                    if shown.get(partition.id) != news:
                        shown[partition.id] = news
                        self._queue.put(Sighting(broker, partition.id, *news, time_us))
            self._over.wait(POLL_S)


@dataclass
class Convergence:
    """Which brokers know which leader, against the leaders that are expected.

    It is reached when every broker that answers shows, for every expected partition, the expected
    leader at the newest epoch that any broker has shown.
    """

    before: Snapshot
    expected: dict[PartitionId, int]
    _views: dict[PartitionId, dict[int, tuple[int, int]]] = field(default_factory=dict)
    _silent: set[int] = field(default_factory=set)

    def apply(self, news: Sighting | Contact) -> ClusterEvent | None:
        """Note it; the event to tell of when it is a leader newer than before."""
        if isinstance(news, Contact):
            (self._silent.discard if news.answers else self._silent.add)(news.broker)
            return None
        self._views.setdefault(news.id, {})[news.broker] = (news.leader_epoch, news.leader)
        old = self.before.by_id.get(news.id)
        if old is None or news.leader_epoch <= old.leader_epoch:
            return None
        return ClusterEvent(
            EventKind.LEADER_SEEN,
            news.time_us,
            news.id.topic,
            news.id.partition,
            old.leader,
            news.leader,
            news.leader_epoch,
            news.broker,
        )

    @property
    def silent(self) -> tuple[int, ...]:
        """Brokers that did not answer last time; nobody waits for them."""
        return tuple(sorted(self._silent))

    def missing(self) -> Mapping[PartitionId, tuple[int, ...]]:
        """The expected partitions whose leader some brokers do not show yet, with those brokers."""
        asked = [broker for broker in self.before.broker_ids if broker not in self._silent]
        found = {}
        for partition_id, leader in self.expected.items():
            views = self._views.get(partition_id, {})
            newest = max(views.values(), default=None)
            known = newest is not None and newest[1] == leader
            behind = [broker for broker in asked if not known or views.get(broker) != newest]
            if behind or not asked:
                found[partition_id] = tuple(behind)
        return found
