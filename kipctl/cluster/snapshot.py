"""What a cluster looks like at one moment: brokers, and each partition's replicas and leader."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from kipctl.errors import RefusedError, UsageError, did_you_mean
from kipctl.next_step import Command
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseTopic
from kipctl.transport.acl_errors import refusal
from kipctl.transport.request import Cluster

NO_LEADER = -1


class PartitionId(NamedTuple):
    """A partition, written topic-number as in Kafka's logs."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Assignment = Mapping[PartitionId, tuple[int, ...]]
"""Replicas by partition, in order: the first is the preferred leader."""


def by_topic(partitions: Iterable[PartitionId]) -> dict[str, tuple[int, ...]]:
    """The numbers of these partitions by topic, all sorted: so Kafka's requests name them."""
    groups = groupby(sorted(partitions), key=lambda partition: partition.topic)
    return {topic: tuple(id.partition for id in group) for topic, group in groups}


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that is alive, at the address of the listener that was asked."""

    id: int
    host: str
    port: int
    rack: str | None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as Metadata shows it. `leader` is -1 when there is none."""

    id: PartitionId
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    offline: tuple[int, ...] = ()
    internal: bool = False

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0]

    @property
    def is_led_by_preferred(self) -> bool:
        return self.leader == self.replicas[0]


@dataclass(frozen=True)
class Snapshot:
    """The cluster as one broker's Metadata showed it; partitions are sorted by topic and number.

    What follows from that is computed once, when it is first asked for.
    """

    cluster_id: str
    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]

    @cached_property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(broker.id for broker in self.brokers)

    @cached_property
    def away(self) -> tuple[int, ...]:
        """Brokers that have replicas, and that Metadata does not list: stopped or fenced ones."""
        held = {broker for partition in self.partitions for broker in partition.replicas}
        return tuple(sorted(held.difference(self.broker_ids)))

    @cached_property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(partition.id.topic for partition in self.partitions))

    @cached_property
    def by_id(self) -> Mapping[PartitionId, Partition]:
        return {partition.id: partition for partition in self.partitions}

    @cached_property
    def assignment(self) -> Assignment:
        return {partition.id: partition.replicas for partition in self.partitions}

    @cached_property
    def leaders_per_broker(self) -> Counter[int]:
        """How many partitions each broker leads; brokers that lead none are counted too."""
        leader_counts = Counter(p.leader for p in self.partitions if p.leader != NO_LEADER)
        leader_counts.update(dict.fromkeys(self.broker_ids, 0))
        return leader_counts

    @property
    def leader_skew(self) -> float | None:
        """The most partitions that a broker leads, over the mean of the brokers; None without."""
        leader_counts = self.leaders_per_broker
        return (
            max(leader_counts.values()) * len(leader_counts) / leader_counts.total()
            if leader_counts.total()
            else None
        )

    @cached_property
    def not_led_by_preferred(self) -> tuple[Partition, ...]:
        return tuple(p for p in self.partitions if not p.is_led_by_preferred)

    @property
    def led_by_another(self) -> tuple[Partition, ...]:
        """The partitions that have a leader, which is not the preferred replica."""
        return tuple(p for p in self.not_led_by_preferred if p.leader != NO_LEADER)

    @property
    def imbalance_percent(self) -> float:
        """The share of partitions that another than the preferred replica leads."""
        return 100 * len(self.not_led_by_preferred) / max(1, len(self.partitions))

    @cached_property
    def leaderless(self) -> tuple[Partition, ...]:
        return tuple(p for p in self.partitions if p.leader == NO_LEADER)

    @cached_property
    def per_topic(self) -> Mapping[str, "Snapshot"]:
        """A snapshot of each topic alone."""
        groups = groupby(self.partitions, key=lambda partition: partition.id.topic)
        return {topic: replace(self, partitions=tuple(group)) for topic, group in groups}

    def only(self, wanted: Iterable[PartitionId]) -> "Snapshot":
        """A snapshot of these partitions alone."""
        chosen = frozenset(wanted)
        return replace(self, partitions=tuple(p for p in self.partitions if p.id in chosen))


def take_snapshot(
    cluster: Cluster, topics: Sequence[str] | None = None, named: Sequence[str] = ()
) -> Snapshot:
    """Ask a broker for Metadata; of all topics, or of these.

    Of all topics it shows those that the user may Describe. Those of `named` (names or globs) that
    it does not show are asked for by name, as it then says why.

    Raises UsageError for a topic that is not there, RefusedError for one that the user has no right
    to see, UnreachableError when no broker answers.
    """
    metadata = cluster.metadata(topics)
    require_named_shown(cluster, {topic.name or "" for topic in metadata.topics}, named)
    require_shown(cluster, metadata.topics)
    if topics and (gone := [topic for topic in metadata.topics if is_missing(topic.error_code)]):
        raise no_topic(gone[0].name or "", cluster.metadata().topics)
    return from_metadata(metadata)


def require_named_shown(cluster: Cluster, shown: Collection[str], named: Iterable[str]) -> None:
    """Ask for topics (globs are passed over) that were not shown by name, as it then says why.

    Raises RefusedError for one that the user has no right to see.
    """
    if missing := [name for name in named if name not in shown and not is_glob(name)]:
        require_shown(cluster, cluster.metadata(missing).topics)


def no_topic(name: str, there: Iterable[MetadataResponseTopic]) -> UsageError:
    """What to say of a topic that is not among those that there are."""
    known = (topic.name for topic in there if topic.name and not is_missing(topic.error_code))
    return UsageError(
        f"There is no topic {name!r}.{did_you_mean(name, known)}",
        "List them: " + Command("inspect leaders"),
    )


def refresh_snapshot(cluster: Cluster, topics: Iterable[str]) -> Snapshot:
    """Ask a broker how topics stand that were there before; those that are gone are left out.

    For what waits, or reports, after something was submitted: a topic that somebody else deleted
    meanwhile is no fault of the command line. Raises RefusedError and UnreachableError.
    """
    metadata = cluster.metadata(sorted(set(topics)))
    require_shown(cluster, metadata.topics)
    return from_metadata(without_missing(metadata))


def without_missing(metadata: MetadataResponse) -> MetadataResponse:
    """The answer without the topics that the broker does not know."""
    there = tuple(topic for topic in metadata.topics if not is_missing(topic.error_code))
    return replace(metadata, topics=there)


def is_missing(error_code: int) -> bool:
    """Whether a topic's error code in Metadata says that the broker does not know the topic."""
    return error_code in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )


def require_shown(cluster: Cluster, topics: Iterable[MetadataResponseTopic]) -> None:
    """Raise RefusedError for a topic that the user has no right to see."""
    for topic in topics:
        if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise refusal(
                f"Topic {topic.name!r} is not shown",
                topic.error_code,
                ApiKey.METADATA,
                cluster.access,
                topic.name or "",
            )


def from_metadata(metadata: MetadataResponse) -> Snapshot:
    """Raises UsageError for an unknown topic, RefusedError for one that may not be seen."""
    partitions = []
    for topic in metadata.topics:
        name = topic.name or str(topic.topic_id)
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise no_topic(name, metadata.topics)
        if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
            raise RefusedError(
                f"The cluster does not show topic {name!r}: {error_name(topic.error_code)}."
            )
        partitions += [
            Partition(
                id=PartitionId(name, partition.partition_index),
                replicas=partition.replica_nodes,
                isr=partition.isr_nodes,
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                offline=partition.offline_replicas,
                internal=topic.is_internal,
            )
            for partition in topic.partitions
        ]
    return Snapshot(
        cluster_id=metadata.cluster_id or "unknown",
        brokers=tuple(
            Broker(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in sorted(metadata.brokers, key=lambda broker: broker.node_id)
        ),
        partitions=tuple(sorted(partitions, key=lambda partition: partition.id)),
    )


def parse_partition(text: str) -> PartitionId:
    """`orders:3`, or `orders-3` as Kafka's logs write it. Raises UsageError."""
    match = re.fullmatch(r"(.*[^:])[:-](\d+)", text, re.ASCII)
    if not match:
        raise UsageError(f"{text!r} is not a partition.", "Write topic:number, as in orders:3")
    return PartitionId(match[1], int(match[2]))


def is_glob(pattern: str) -> bool:
    """True for a pattern such as `orders-*`; every other pattern is a topic's name."""
    return any(sign in pattern for sign in "*?[")


def select(snapshot: Snapshot, patterns: Sequence[str]) -> Snapshot:
    """The partitions of the topics that match a name or glob; all when there are no patterns.

    Internal topics (Metadata says which) match their own name only. Raises UsageError for a
    pattern that matches nothing.
    """
    topics = set(snapshot.topics)
    internal = {p.id.topic for p in snapshot.partitions if p.internal}
    chosen: set[str] = set() if patterns else topics - internal
    for pattern in patterns:
        if is_glob(pattern):
            matching = {t for t in topics if fnmatchcase(t, pattern)} - internal
        else:
            matching = {pattern} & topics
        if not matching:
            kind = "topic matches" if is_glob(pattern) else "topic is named"
            raise UsageError(
                f"No {kind} {pattern!r}.{did_you_mean(pattern, topics)}",
                "List them: " + Command("inspect leaders"),
            )
        chosen |= matching
    return snapshot.only(p.id for p in snapshot.partitions if p.id.topic in chosen)
