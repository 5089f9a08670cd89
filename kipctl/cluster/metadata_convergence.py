"""How brokers learn of a new leader: brokers' Metadata, asked until all of them agree.

It is to cost less than what it watches: only topics whose leaders change are asked for, of a
bounded number of brokers, with pauses that grow with the time and with the answers.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from queue import Empty, SimpleQueue
from typing import NamedTuple, Self

from kipctl.cluster.snapshot import Broker, PartitionId, Snapshot, is_missing
from kipctl.errors import KipctlError
from kipctl.protocol.metadata import MetadataResponse, metadata_request
from kipctl.protocol.metadata_frames import MetadataAnswer, read_metadata
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.request import BrokerConnection

CONNECTION_TIMEOUT_S = 5.0
"""A broker that does not answer in this time is not waited for."""
FIRST_PAUSE_S = 0.01
LAST_PAUSE_S = 0.5
SHARE_OF_WAIT = 0.05
"""A pause is this part of the time waited so far: so exact is what is seen."""
MOST_BYTES_PER_S = 4_000_000
"""Of Metadata, from all brokers together: each pause is as long as its answer allows."""
MOST_BROKERS = 20
"""Brokers watched at a time; each has a thread."""
_SILENT_PAUSE_S = 0.2


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


OnEvent = Callable[[ClusterEvent], None]


def ignore_event(_: ClusterEvent) -> None:
    """For those who do not follow the events."""


class View(NamedTuple):
    """What a broker shows of a partition; the greater one is the newer."""

    leader_epoch: int
    leader: int


DELETED = View(-2, -2)
"""Of a partition that a broker does not know (any more)."""


@dataclass(frozen=True, slots=True)
class ViewChange:
    """A broker showed another view of a partition than before, for the first time at `time_us`."""

    broker: int
    id: PartitionId
    view: View
    time_us: int


@dataclass(frozen=True, slots=True)
class Availability:
    """A broker answers (again), or does not any more."""

    broker: int
    answers: bool


def views_of(before: Snapshot, wanted: Iterable[PartitionId]) -> dict[PartitionId, View]:
    """How the snapshot shows these partitions; those that it has not are gone."""
    known = before.by_id
    return {
        id: View(known[id].leader_epoch, known[id].leader) if id in known else DELETED
        for id in wanted
    }


def sample_brokers(
    brokers: Sequence[Broker], most: int = MOST_BROKERS, turn: int = 0
) -> tuple[Broker, ...]:
    """At most so many of the brokers, in equal parts of all racks, in the order of their ids.

    Another `turn` takes others, where there are more: one after the other it comes to all.
    """
    ordered = sorted(brokers, key=lambda broker: (broker.rack or "", broker.id))
    count = min(most, len(ordered))
    places = ((2 * number + 1) * len(ordered) // (2 * count) + turn for number in range(count))
    chosen = (ordered[place % len(ordered)] for place in places)
    return tuple(sorted(chosen, key=lambda broker: broker.id))


def pause_s(waited_s: float, took_s: float, answer_bytes: int, brokers: int) -> float:
    """Seconds until a broker is asked again.

    `waited_s` is since the watch began, `took_s` and `answer_bytes` are of the answer before. A
    broker gets as long a rest as it took to answer, and all `brokers` that are watched send no more
    than MOST_BYTES_PER_S together.
    """
    return max(
        FIRST_PAUSE_S,
        min(waited_s * SHARE_OF_WAIT, LAST_PAUSE_S),
        took_s,
        answer_bytes * brokers / MOST_BYTES_PER_S,
    )


class ShownViews:
    """What one broker shows of the partitions watched: of each answer, what is new in it."""

    def __init__(self, views: Mapping[PartitionId, View]) -> None:
        """`views` are those of before: a broker that shows them has no news."""
        self._views: dict[str, dict[int, View]] = {}
        for partition, view in views.items():
            self._views.setdefault(partition.topic, {})[partition.partition] = view

    def news(self, metadata: MetadataResponse | MetadataAnswer) -> list[tuple[PartitionId, View]]:
        """The partitions that an answer shows otherwise than the one before."""
        changed: list[tuple[PartitionId, View]] = []
        for topic in metadata.topics:
            views = self._views.get(topic.name or "")
            if not views:
                continue
            shown: list[tuple[int, tuple[int, int]]] = (
                [(number, DELETED) for number in views]
                if is_missing(topic.error_code)
                else [(p.partition_index, (p.leader_epoch, p.leader_id)) for p in topic.partitions]
            )
            for number, view in shown:
                if views.get(number, view) != view:
                    views[number] = View(*view)
                    changed.append((PartitionId(topic.name or "", number), views[number]))
        return changed


class LeaderWatch:
    """A thread per broker that asks it for Metadata again and again, and queues what is new.

    A context manager: the threads live inside it. A broker that does not answer is asked again.
    """

    def __init__(
        self, brokers: Sequence[Broker], views: Mapping[PartitionId, View], access: Access
    ) -> None:
        """`views` are those of before, of the partitions to watch."""
        self._request = metadata_request(sorted({id.topic for id in views}))
        self._views = views
        self._access = access
        self._began_us = now_us()
        self._queue: SimpleQueue[list[ViewChange | Availability]] = SimpleQueue()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(broker,), daemon=True) for broker in brokers
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def news(self, timeout_s: float) -> list[ViewChange | Availability]:
        """The news of one broker's answer; waits up to the timeout for it, and may find none."""
        try:
            return self._queue.get(timeout=max(0.0, timeout_s))
        except Empty:
            return []

    def _watch(self, broker: Broker) -> None:
        shown = ShownViews(self._views)
        while not self._over.is_set():
            try:
                with BrokerConnection(
                    broker.host, broker.port, "kipctl", CONNECTION_TIMEOUT_S, self._access
                ) as connection:
                    self._ask(connection, broker.id, shown)
            except KipctlError:
                self._queue.put([Availability(broker.id, answers=False)])
                self._over.wait(_SILENT_PAUSE_S)

    def _ask(self, connection: BrokerConnection, broker: int, shown: ShownViews) -> None:
        is_first = True
        while not self._over.is_set():
            asked_us = now_us()
            version, frame = connection.metadata_frame(self._request)
            time_us = now_us()
            news: list[ViewChange | Availability] = []
            if is_first:
                news.append(Availability(broker, answers=True))
            is_first = False
            metadata = read_metadata(version, frame)
            news += (ViewChange(broker, *new, time_us) for new in shown.news(metadata))
            if news:
                self._queue.put(news)
            waited_s, took_s = (time_us - self._began_us) / 1e6, (time_us - asked_us) / 1e6
            size = connection.answer_bytes
            self._over.wait(pause_s(waited_s, took_s, size, len(self._threads)))


class Convergence:
    """Which brokers know which leader, against the leaders that are expected.

    It is reached when every broker that answers shows, for every expected partition, the expected
    leader at the newest epoch that any broker has shown; or that the partition is gone. What news
    cost grows with the brokers watched, not with the partitions.
    """

    def __init__(
        self,
        before: Mapping[PartitionId, View],
        expected: Mapping[PartitionId, int],
        brokers: Iterable[int],
    ) -> None:
        """`before` has a view of each expected partition; `brokers` are those watched."""
        self._before = before
        self._expected = dict(expected)
        self._brokers = tuple(brokers)
        self._views = {id: dict.fromkeys(self._brokers, before[id]) for id in expected}
        self._newest = dict(before)
        self._never_answered = set(self._brokers)
        self._silent: set[int] = set()
        self._behind = {broker: set(expected) for broker in self._brokers}

    def leave_out(self, partitions: Iterable[PartitionId]) -> None:
        """Expect nothing more of these partitions."""
        for partition in partitions:
            self._expected.pop(partition, None)
            for behind in self._behind.values():
                behind.discard(partition)

    def apply(self, news: ViewChange | Availability) -> ClusterEvent | None:
        """Note it; the event to tell of when it is a leader newer than before."""
        broker = news.broker
        self._note_availability(broker, isinstance(news, ViewChange) or news.answers)
        if isinstance(news, Availability) or news.id not in self._expected:
            return None
        shown = self._views[news.id]
        was, shown[broker] = shown[broker], news.view
        if self._silent or was == self._newest[news.id] != news.view:
            self._reevaluate(news.id, (broker,))
        else:  # all others answer, and none of them shows anything newer
            self._update_behind(news.id, max(news.view, self._newest[news.id]), (broker,), shown)
        old = self._before[news.id]
        if news.view.leader_epoch <= old.leader_epoch:
            return None
        return ClusterEvent(
            EventKind.LEADER_SEEN,
            news.time_us,
            news.id.topic,
            news.id.partition,
            old.leader,
            news.view.leader,
            news.view.leader_epoch,
            broker,
        )

    def _note_availability(self, broker: int, answers: bool) -> None:
        is_first, was_silent = broker in self._never_answered, broker in self._silent
        if answers:
            self._silent.discard(broker)
            self._never_answered.discard(broker)
        else:
            self._silent.add(broker)
        if was_silent == answers:  # what it shows counts again, or no more, for all others too
            for id in self._expected:
                self._reevaluate(id, self._brokers)
        elif is_first and answers:
            for id in self._expected:
                self._reevaluate(id, (broker,))

    def _reevaluate(self, partition: PartitionId, brokers: Iterable[int]) -> None:
        """Whether these brokers know; all of them, if there is newer to be known."""
        views = self._views[partition]
        if self._silent:
            views = {broker: view for broker, view in views.items() if broker not in self._silent}
        newest = max(views.values(), default=self._before[partition])
        self._update_behind(partition, newest, brokers, views)

    def _update_behind(
        self,
        partition: PartitionId,
        newest: View,
        brokers: Iterable[int],
        views: Mapping[int, View],
    ) -> None:
        """Note who of these, or of all if it is new to all, does not show the newest view."""
        if newest != self._newest[partition]:
            self._newest[partition] = newest
            brokers = self._brokers
        is_expected = newest.leader == self._expected[partition] or newest == DELETED
        for broker in brokers:
            if is_expected and views.get(broker) == newest and broker not in self._never_answered:
                self._behind[broker].discard(partition)
            else:
                self._behind[broker].add(partition)

    @property
    def _answering(self) -> list[int]:
        return [broker for broker in self._brokers if broker not in self._silent]

    @property
    def is_reached(self) -> bool:
        """Whether every broker that answers knows; False while none does."""
        answering = self._answering
        return bool(answering) and not any(self._behind[broker] for broker in answering)

    @property
    def silent(self) -> tuple[int, ...]:
        """Brokers that did not answer last time: nobody waits for them, or knows what they know."""
        return tuple(sorted(self._silent))

    def gone(self) -> tuple[PartitionId, ...]:
        """The expected partitions that no broker knows any more."""
        return tuple(id for id in self._expected if self._newest[id] == DELETED)

    def missing(self) -> Mapping[PartitionId, tuple[int, ...]]:
        """The expected partitions whose leader some brokers do not show yet, with those brokers."""
        answering = self._answering
        behind = {
            id: tuple(broker for broker in answering if id in self._behind[broker])
            for id in self._expected
        }
        return {partition: who for partition, who in behind.items() if who or not answering}
