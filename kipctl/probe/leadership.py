"""Who leads, as far as a client knows: the newest leader epoch counts (KIP-951). Rules, pure."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kipctl.protocol.address import host_port
from kipctl.trace.codes import Decision

if TYPE_CHECKING:  # commands take their options from here, and show their help without it
    from kipctl.protocol.leader_hints import LeaderHint
    from kipctl.protocol.produce_frames import Topic

PartitionKey = TypeVar("PartitionKey", bound=Hashable)

NO_LEADER = -1
NO_EPOCH = -1


class LeaderDiscovery(StrEnum):
    """How the client finds the new leader after NOT_LEADER_OR_FOLLOWER."""

    KIP951 = "kip951"
    """Follow the broker's hint at once; Metadata is refreshed meanwhile, nobody waits for it."""
    REFRESH = "refresh"
    """The KIP's rejected alternative: no hints, a Metadata refresh at once, no backoff after it."""
    BASELINE = "baseline"
    """Clients before KIP-951: hints ignored, `retry.backoff.ms` always waited out."""


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as clients reach it."""

    id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Leader:
    """A partition's leader; `epoch` is -1 when the broker is too old to say."""

    id: int
    epoch: int


class KnownLeader(NamedTuple):
    """When a leader, or a way to it, became known (monotonic microseconds).

    `call` is the `MetadataCall` that showed it, None for a hint. The generation is the topic's.
    """

    epoch: int
    generation: int
    known_us: int
    call: object


_NEVER = KnownLeader(NO_EPOCH, 0, 0, None)
_LEADERS_KEPT = 4
"""Few more are sent to while one batch is held up."""


@dataclass(slots=True, eq=False)
class ClientPartition:
    """A partition as any client knows it. Times are microseconds (monotonic)."""

    topic: "Topic"
    topic_position: int
    """Its topic's number in the trace."""
    index: int
    leaders: tuple[KnownLeader, ...] = field(default=(), init=False)
    """The newest, and those before it that something was sent to, the newest last."""
    generation: int = field(default=0, init=False)
    """Which of the topics of this name it is of, numbered in the order in which their ids were
    shown: epochs of one say nothing of another's."""
    unblocked_us: int = field(default=0, init=False)
    """When what was ahead of its next request last made way."""

    def learn(self, leader: KnownLeader) -> None:
        """It leads now. To the one before nothing went if nothing was sent since: there may have
        been no way to it, or it is none."""
        before = self.leaders
        if before and before[-1].known_us > self.unblocked_us:
            before = before[:-1]
        self.leaders = (*before[1 - _LEADERS_KEPT :], leader)

    def leader_waited_for(self, epoch: int, generation: int, unblocked_us: int) -> KnownLeader:
        """The leader that a retry waited for, after an error in this epoch.

        That is the first newer one that others ahead of it went to: what changed while they held
        the retry up (until `unblocked_us`) cost it nothing. One that became known later is waited
        for, whatever was known before it.
        """
        newest = self.leaders[-1] if self.leaders else _NEVER
        if newest.known_us > unblocked_us:
            return newest
        of_topic = (known for known in self.leaders if known.generation == generation)
        return next((known for known in of_topic if known.epoch > epoch), newest)


class Leadership(Generic[PartitionKey]):
    """The leaders and nodes that one client knows, from Metadata and from hints.

    A leader is replaced only by one of a newer epoch (Metadata: or the same), so an answer that
    was overtaken on its way never undoes a hint (KIP-951; `Metadata.updatePartitionLeadership` and
    `Metadata.updateLatestMetadata` of the Java client).
    """

    def __init__(self, discovery: LeaderDiscovery) -> None:
        self._discovery = discovery
        self._leaders: dict[PartitionKey, Leader] = {}
        self.nodes: dict[int, Node] = {}
        self._shown: dict[int, Node] = {}
        """The brokers as the last Metadata answer that was taken has them."""
        self.hinted_elsewhere: Counter[str] = Counter()
        """Hints that were followed and name another address of a broker than Metadata does, by what
        both say: a proxy that rewrites Metadata and not hints is passed by."""

    def leader(self, partition: PartitionKey) -> Leader | None:
        """The leader to send to, or None when it is not known or cannot be reached."""
        leader = self._leaders.get(partition)
        return leader if leader is not None and leader.id in self.nodes else None

    def any_without_leader(self, partitions: Iterable[PartitionKey]) -> bool:
        """Whether one of them has no leader that can be reached."""
        leaders, nodes = self._leaders, self.nodes
        partition_leaders = map(leaders.get, partitions)
        return any(leader is None or leader.id not in nodes for leader in partition_leaders)

    def epoch(self, partition: PartitionKey) -> int:
        """The newest leader epoch seen, -1 when none was."""
        leader = self._leaders.get(partition)
        return leader.epoch if leader is not None else NO_EPOCH

    def apply_metadata(
        self, nodes: Iterable[Node], leaders: Mapping[PartitionKey, Leader]
    ) -> list[PartitionKey]:
        """Take a Metadata answer; returns the partitions whose leader it changed, or whose leader
        can be reached again.

        What is older than the newest epoch seen is not taken. The answer's nodes replace those
        known, except a node that leads a partition for which the answer was too old. An answer
        without nodes is none (`Metadata.update`'s callers in the Java client: "Ignoring empty
        metadata response"): brokers that start up may give it.
        """
        fresh = {node.id: node for node in nodes}
        if not fresh:
            return []
        self._shown = dict(fresh)
        changed = []
        for partition, offered in leaders.items():
            known = self._leaders.get(partition)
            if known is not None and NO_EPOCH < offered.epoch < known.epoch:
                if known.id in self.nodes:
                    fresh[known.id] = self.nodes[known.id]
            elif known != offered:
                self._leaders[partition] = offered
                changed.append(partition)
        back = fresh.keys() - self.nodes.keys()
        self.nodes = fresh
        if back:
            reached = (key for key, leader in self._leaders.items() if leader.id in back)
            return list(dict.fromkeys((*changed, *reached)))
        return changed

    def forget(self, partitions: Iterable[PartitionKey]) -> None:
        """Know no leader of these any more, nor its epoch."""
        for partition in partitions:
            self._leaders.pop(partition, None)

    def apply_hint(self, partition: PartitionKey, hint: "LeaderHint") -> Decision:
        """Take the hint of an error for a partition, if the rules allow, and say what was done.

        The endpoint of a hint that is followed overrides the node known by that id, with its rack
        (KIP-951, "Client behaviour").
        """
        if hint.leader_id == NO_LEADER or hint.leader_epoch == NO_EPOCH:
            return Decision.ABSENT
        if hint.is_draft:
            return Decision.DRAFT
        if self._discovery is not LeaderDiscovery.KIP951:
            return Decision.IGNORED
        leader = Leader(hint.leader_id, hint.leader_epoch)
        if leader == self._leaders.get(partition):
            return Decision.KNOWN
        if leader.epoch <= (known := self.epoch(partition)):
            return Decision.SAME_EPOCH if leader.epoch == known else Decision.STALE
        at = hint.endpoint
        if at is not None and at.node_id == leader.id:
            self.nodes[leader.id] = Node(at.node_id, at.host, at.port, at.rack)
            shown = self._shown.get(leader.id)
            if shown is not None and (shown.host, shown.port) != (at.host, at.port):
                metadata = host_port(shown.host, shown.port)
                self.hinted_elsewhere[f"broker {leader.id} at {hint.address}, not {metadata}"] += 1
        if leader.id not in self.nodes:
            return Decision.UNKNOWN_NODE
        self._leaders[partition] = leader
        return Decision.FOLLOWED
