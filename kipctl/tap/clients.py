"""The clients that the tap has seen, what they did, and what it still knows of each."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kipctl.client_behaviour.behaviour import Seen
from kipctl.client_behaviour.episode import HintFault
from kipctl.client_behaviour.facts import Event
from kipctl.client_behaviour.in_a_row import InARow
from kipctl.client_behaviour.recreated_topics import RecreatedTopics
from kipctl.client_behaviour.replica_reads import ReplicaReads
from kipctl.client_behaviour.software import Software
from kipctl.client_behaviour.unreachable import UnreachableBrokers
from kipctl.tap.cut_connections import CutConnections
from kipctl.tap.episodes import Episodes
from kipctl.tap.leaders import UNKNOWN, PartitionId
from kipctl.tap.metadata_causes import MetadataRequests, drop_oldest
from kipctl.tap.sightings import FindingSeen
from kipctl.tap.times import Times
from kipctl.trace.codes import Decision

_REMEMBERED_ANSWERS = 32
_FORGOTTEN_US = 300_000_000
_GONE_US = 10_000_000
"""Without a connection for so long it tries no more what it was refused."""


class Identity(NamedTuple):
    """What a client says of itself; the software is "" where it does not say (before KIP-511).

    `host` is where it connects from: there may be others of its name.
    """

    client_id: str
    software_name: str
    software_version: str
    host: str = ""


class Leader(NamedTuple):
    """As a client was shown it; -1 for what it was not."""

    broker: int = UNKNOWN
    epoch: int = UNKNOWN


class Shown(NamedTuple):
    """A topic's leaders by partition. Clients that were shown the same share one."""

    topic_id: bytes
    leaders: Mapping[int, Leader]


class MetadataAnswer(NamedTuple):
    """An answer that a client got, with the leaders that it showed. Monotonic microseconds."""

    sent_us: int
    answered_us: int
    topics: Mapping[str, Shown]


_NOBODY = Leader()


@dataclass(slots=True)
class Counts:
    """What a client did since it was first seen."""

    connections: int = 0
    lost: int = 0
    """Connections that ended while requests were in flight."""
    resets: int = 0
    """Connections that the tap has reset (`--reset`)."""
    requests: Counter[int] = field(default_factory=Counter)
    """By API key."""
    acks_0: int = 0
    """Produce requests that want no answer: none refuses them."""
    not_decoded: int = 0
    """Requests of APIs or versions that kipctl does not know, of those that it would read."""
    produce_errors: Counter[int] = field(default_factory=Counter)
    """Partitions answered with an error, by its code."""
    fetch_errors: Counter[int] = field(default_factory=Counter)
    """Those of share groups too."""
    leader_errors: int = 0
    """Of both, those that say that the leader is another."""
    hints: int = 0
    draft_hints: int = 0
    """Hints in the form of KIP-951's earlier draft, which clients do not read."""
    dropped_hints: int = 0
    """Hints that `--drop-hints` has taken out."""
    redirects: int = 0
    """Batches and fetches that were sent again after a leader error, and then succeeded."""
    metadata: Counter[str] = field(default_factory=Counter)
    """Metadata requests by cause."""
    same_again: int = 0
    """Of those that nothing explains, answered as the request before them was."""
    decisions: Counter[Decision] = field(default_factory=Counter)
    """Answers that the leader is another, by what became of the hint."""


class Client:
    """One client: all connections with the same identity."""

    def __init__(
        self, identity: Identity, number: tuple[int, int, int], episodes: Episodes
    ) -> None:
        self.identity = identity
        self.number = number
        """Its id, software and version, as the rows have them."""
        self.names_none = False
        """It asked for ApiVersions, and did not name its software: nor do its other connections."""
        self.counts = Counts()
        self.open_connections = 0
        self.metadata = MetadataRequests()
        self.nodes: frozenset[int] = frozenset()
        """That the last Metadata has shown it."""
        self.topics: dict[str, Shown] = {}
        """That Metadata has shown it."""
        self.newer: dict[PartitionId, Leader] = {}
        """What it was shown by hints, or by Metadata before the last one, of newer epochs."""
        self.asked_before: list[str] | None = []
        """The topics of its last Metadata request that was answered; None: all."""
        self.cut = CutConnections()
        self.replica_reads = ReplicaReads()
        self.unreachable = UnreachableBrokers()
        self.recreated = RecreatedTopics()
        self.positions = InARow()
        """What it was refused about where to read."""
        self.leader_error = False
        """It got one since its last Metadata request."""
        self.had_error = False
        self.waiting = 0
        """Batches and fetches that met an error, and have not been sent again."""
        self.repeats_batches = False
        """A batch of its was known again."""
        self.answers: deque[MetadataAnswer] = deque(maxlen=_REMEMBERED_ANSWERS)
        """Metadata answers while something was waiting."""
        self.episodes = episodes
        self.sightings = episodes.sightings
        self.took = Times()
        """From the creation of its batches to their answers; from their first request where they
        were not read."""
        self._disconnected_us = 0
        """Since when it has had no connection; 0 while it has."""

    def metadata_is_older(self, partition: PartitionId) -> bool:
        """Whether the last Metadata showed an epoch before one that it was shown otherwise."""
        return 0 <= self._leader_in_metadata(partition).epoch < self.leader_shown(partition).epoch

    def leader_shown(self, partition: PartitionId) -> Leader:
        """The leader of the newest epoch that it was shown, by Metadata or by hints."""
        shown = self._leader_in_metadata(partition)
        newer = self.newer.get(partition, _NOBODY)
        return newer if newer.epoch > shown.epoch else shown

    def _leader_in_metadata(self, partition: PartitionId) -> Leader:
        topic = self.topics.get(partition.topic)
        return topic.leaders.get(partition.partition, _NOBODY) if topic else _NOBODY

    def fault_of_hint(
        self, partition: PartitionId, refuser: int, hint: Leader, is_placed: bool | None
    ) -> HintFault | None:
        """Why that hint is of no use to it, by a broker that says that it does not lead.

        `is_placed` says whether it comes with an endpoint (None: with none) that is the leader's,
        as far as is known.
        """
        known = self.leader_shown(partition)
        if hint.broker == refuser:
            return HintFault.REFUSER
        if hint.epoch < known.epoch:
            return HintFault.OLDER
        if hint.epoch == known.epoch and hint.broker != known.broker:
            return HintFault.SAME_EPOCH
        if is_placed is None:
            return None if hint.broker in self.nodes else HintFault.NO_ENDPOINT
        return None if is_placed else HintFault.OTHER_ENDPOINT

    def hinted(self, partition: PartitionId, hint: Leader) -> None:
        """It was shown a leader by a refusal."""
        if hint.epoch > self.leader_shown(partition).epoch:
            self.newer[partition] = hint

    def shown(self, nodes: frozenset[int], topics: Mapping[str, Shown], at_us: int) -> bool:
        """It was shown Metadata, topics by name; whether it was shown just that before."""
        is_same = nodes == self.nodes
        self.nodes = nodes
        for name, now in topics.items():
            before = self.topics.get(name)
            if before is not now and before != now:
                is_same = False
                self._replace(name, before, now, at_us)
        drop_oldest(self.topics)
        if self.unreachable:
            self._look_for_others(topics, at_us)
        if nodes:
            self.unreachable.shown(nodes)
        for about in self.episodes.open:
            topic_name, number = about.partition
            if topic_name in topics:
                leader = topics[topic_name].leaders.get(number, _NOBODY)
                self.episodes.metadata(about, *leader, at_us)
        return is_same

    def _look_for_others(self, topics: Mapping[str, Shown], at_us: int) -> None:
        """Metadata may name other leaders than those that it cannot reach."""
        for name, topic in topics.items():
            for number, leader in topic.leaders.items():
                self.unreachable.named(PartitionId(name, number), leader.broker, at_us)

    def _replace(self, topic: str, old: Shown | None, now: Shown, at_us: int) -> None:
        """What it was shown of newer epochs counts on, unless the topic was made anew."""
        self.topics[topic] = now
        if old is None:
            return
        if old.topic_id != now.topic_id:
            self.recreated.shown(topic, old.topic_id, now.topic_id, at_us)
            for partition in [id for id in self.newer if id.topic == topic]:
                del self.newer[partition]
            return
        for number, known in old.leaders.items():
            if known.epoch > now.leaders.get(number, _NOBODY).epoch:
                self.hinted(PartitionId(topic, number), known)

    def seen(self, drops_hints: bool) -> Seen:
        """What is to be judged of it."""
        counts = self.counts
        return self.episodes.seen(
            leader_errors=counts.leader_errors,
            hints=0 if drops_hints else counts.hints,
            draft_hints=counts.draft_hints,
            dropped_hints=counts.dropped_hints,
        )

    def findings(self, drops_hints: bool, now_us: int) -> tuple[FindingSeen, ...]:
        """What it, or what brokers send it, is found to do wrong; the worst first."""
        software = Software(self.identity.software_name, self.identity.software_version)
        doubts = self.seen(drops_hints).doubts
        return self.sightings.findings(self.episodes.still(now_us), software, doubts)

    def tick(self, now_us: int) -> None:
        """Drop what it knew some minutes after its last connection: it begins anew then."""
        if self.took.new:
            self.took.count()
        if self.cut.were_cut(now_us, self.open_connections > 0):
            self.sightings.note(Event.OTHERS_CUT, now_us)
        if self.open_connections:
            self._disconnected_us = 0
        else:
            self._disconnected_us = self._disconnected_us or now_us
            self.episodes.disconnected_us = now_us
        gone_us = now_us - (self._disconnected_us or now_us)
        if self.episodes.open or self.episodes.carried or self.episodes.over:
            self.episodes.tick(now_us, gone_us > _GONE_US)
        if gone_us > _FORGOTTEN_US and self.metadata.have_begun:
            self.metadata, self.nodes = MetadataRequests(), frozenset()
            self.topics, self.newer = {}, {}
            self.answers.clear()

    def metadata_named_us(
        self, partition: PartitionId, leader: int, since_us: int, until_us: int
    ) -> tuple[int, int]:
        """When Metadata first named that leader in that time: it was asked for, and answered.

        (0, 0) if it did not.
        """
        asked_us = 0
        for answer in self.answers:
            if since_us <= answer.answered_us <= until_us:
                asked_us = asked_us or answer.sent_us
                topic = answer.topics.get(partition.topic)
                if topic and topic.leaders.get(partition.partition, _NOBODY).broker == leader:
                    return asked_us, answer.answered_us
        return 0, 0
