"""What an unclean election would do, before it is held: who would lead, and what may be lost."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kipctl.cluster.eligible_leader_replicas import EligibleReplicas, ask_eligible_replicas
from kipctl.cluster.log_offsets import offsets_request, reported_offsets
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.errors import KipctlError
from kipctl.protocol.list_offsets import DEBUGGING_REPLICA_ID, LATEST_TIMESTAMP
from kipctl.transport.request import Cluster

_MOST_IN_ONE = 1000
"""Partitions whose log ends are asked for in one request."""


@dataclass(frozen=True, slots=True)
class LeaderlessPartition:
    """A partition without a leader. `log_ends` are those that its live replicas report.

    `last_in_sync` are those that have every acknowledged record: the ISR, and the eligible leader
    replicas (KIP-966; from Kafka 4.1 a cluster may have no other). Without either it is the last
    leader that had been one of them.
    """

    id: PartitionId
    replicas: tuple[int, ...]
    live: tuple[int, ...]
    last_in_sync: tuple[int, ...]
    log_ends: Mapping[int, int] = field(default_factory=dict)

    @property
    def would_lead(self) -> int | None:
        """The broker that the controller would elect; None when no replica is live.

        The first live replica that was in sync, else the first live one, however short its log is
        (`PartitionChangeBuilder.electAnyLeader`).
        """
        in_sync = [broker for broker in self.live if broker in self.last_in_sync]
        return next(iter(in_sync or self.live), None)

    @property
    def is_clean(self) -> bool:
        """Whether what would lead was in sync: then nothing is lost."""
        return self.would_lead in self.last_in_sync

    @property
    def known_loss(self) -> int | None:
        """Records by which another live replica's log is longer; None when it is not known."""
        leader = self.would_lead
        if leader is None or leader not in self.log_ends:
            return None
        return max(self.log_ends.values()) - self.log_ends[leader]

    @property
    def loss(self) -> str:
        """What may be lost, in words."""
        if self.would_lead is None:
            return "nobody can lead: no live replica"
        if self.is_clean:
            return "nothing: it was in sync"
        down = [str(broker) for broker in self.replicas if broker not in self.live]
        beyond = f"; and what {', '.join(down)} (down) has beyond" if down else ""
        if self.known_loss is None:
            return f"not known{beyond}"
        if not self.known_loss:
            return f"no record of a live replica{beyond}"
        longest = max(self.log_ends, key=lambda broker: self.log_ends[broker])
        return f"{self.known_loss:,} records of {longest}{beyond}"


def leaderless(
    partition: Partition,
    brokers: Collection[int],
    log_ends: Mapping[int, int],
    eligible: tuple[int, ...] = (),
) -> LeaderlessPartition:
    """A partition without a leader, in a cluster of these live brokers."""
    live = tuple(
        broker
        for broker in partition.replicas
        if broker in brokers and broker not in partition.offline
    )
    in_sync = tuple(dict.fromkeys((*partition.isr, *eligible)))
    return LeaderlessPartition(partition.id, partition.replicas, live, in_sync, log_ends)


def why_riskier(shown: LeaderlessPartition, now: LeaderlessPartition) -> str:
    """Why an election would not do any more what was shown, but may lose more; "" when it would.

    A pure function. Where what would lead was in sync nothing is lost, whatever was shown.
    """
    leader = now.would_lead
    if leader is None:
        return "none of its replicas is live by now" if shown.live else ""
    if now.is_clean:
        return ""
    if leader != shown.would_lead:
        other = "and nobody before" if shown.would_lead is None else f"not {shown.would_lead}"
        return f"broker {leader} would lead by now, {other}: {now.loss}"
    if shown.is_clean:
        return f"broker {leader} would lead, which was in sync when it was shown: {now.loss}"
    was, ends = shown.log_ends.get(leader), now.log_ends.get(leader)
    if was is not None and (ends is None or ends < was):
        known = "is not known" if ends is None else f"is {ends:,}"
        return f"where the log of broker {leader} ends {known} by now, and was {was:,}"
    if shown.known_loss is not None and (now.known_loss or 0) > shown.known_loss:
        return f"more would be lost by now: {now.loss}"
    return ""


def examine(cluster: Cluster, snapshot: Snapshot) -> tuple[LeaderlessPartition, ...]:
    """The snapshot's partitions without a leader, with the log ends of their live replicas.

    What a broker does not report is left out.
    """
    if not snapshot.leaderless:
        return ()
    brokers = frozenset(snapshot.broker_ids)
    held: dict[int, list[PartitionId]] = {}
    for partition in snapshot.leaderless:
        for broker in leaderless(partition, brokers, {}).live:
            held.setdefault(broker, []).append(partition.id)
    ends: dict[PartitionId, dict[int, int]] = {}
    for broker, ids in held.items():
        for one, end in _log_ends(cluster, broker, ids).items():
            ends.setdefault(one, {})[broker] = end
    eligible = ask_eligible_replicas(cluster, {one.id.topic for one in snapshot.leaderless})
    return tuple(
        leaderless(
            p, brokers, ends.get(p.id, {}), _eligible(eligible.get(p.id, EligibleReplicas()))
        )
        for p in snapshot.leaderless
    )


def _eligible(known: EligibleReplicas) -> tuple[int, ...]:
    return known.replicas or known.last_known


def _log_ends(
    cluster: Cluster, broker: int, partitions: list[PartitionId]
) -> dict[PartitionId, int]:
    """Where the logs of this broker's replicas end, whoever leads; those that it tells."""
    found: dict[PartitionId, int] = {}
    for start in range(0, len(partitions), _MOST_IN_ONE):
        try:
            some = partitions[start:][:_MOST_IN_ONE]
            request = offsets_request(some, LATEST_TIMESTAMP, DEBUGGING_REPLICA_ID)
            found |= reported_offsets(cluster.broker(broker).request(request))
        except KipctlError:
            break
    return found
