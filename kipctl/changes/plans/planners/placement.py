"""What planners share: where replicas are, how loaded brokers are, and what a move must keep."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kipctl.changes.plans.plan import Plan, plan_each
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.errors import UsageError
from kipctl.next_step import Command

NO_SOURCE = "it has no leader to copy from"
LAST_IN_SYNC = "every in-sync replica of it would leave; wait, or move fewer brokers at a time"
FEWER_RACKS = "its replicas would stand in fewer racks"
TOO_FEW_BROKERS = "too few other brokers are alive"


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What is known of a cluster beside its snapshot.

    `sizes` are bytes by partition; of one that is missing the mean of the others is taken, and
    without any sizes replicas are counted. `min_insync` is `min.insync.replicas` by topic. `chosen`
    are the partitions that may change (None: all); the others count as load all the same. So many
    replicas above `min_insync` are to be left: `spare`.
    """

    sizes: Mapping[PartitionId, int] = field(default_factory=dict)
    min_insync: Mapping[str, int] = field(default_factory=dict)
    chosen: frozenset[PartitionId] | None = None
    spare: int = 0

    def changeable(self, snapshot: Snapshot) -> list[Partition]:
        """The partitions of the snapshot that may change."""
        if self.chosen is None:
            return list(snapshot.partitions)
        return [partition for partition in snapshot.partitions if partition.id in self.chosen]


NO_INPUTS = PlanInputs()


def in_sync(partition: Partition, live: Collection[int]) -> list[int]:
    """The replicas that can lead, in order: in sync, not offline, on brokers that are alive."""
    return [
        replica
        for replica in partition.replicas
        if replica in partition.isr and replica not in partition.offline and replica in live
    ]


def known_brokers(snapshot: Snapshot) -> set[int]:
    """The brokers that are alive, and those that have replicas."""
    return {*snapshot.broker_ids, *snapshot.away}


class UnknownBrokerError(UsageError):
    """A broker that is neither alive nor has a replica, as far as is shown."""


def require_known(snapshot: Snapshot, brokers: Iterable[int]) -> None:
    """Raise UnknownBrokerError for a broker that is neither alive nor has a replica."""
    known = known_brokers(snapshot)
    for broker in brokers:
        if broker not in known:
            raise UnknownBrokerError(
                f"There is no broker {broker}; there are {', '.join(map(str, sorted(known)))}.",
                "List them: " + Command("inspect brokers"),
            )


def require_alive(snapshot: Snapshot, brokers: Iterable[int]) -> None:
    """Raise UsageError for a broker that is not alive: it could not copy anything."""
    for broker in brokers:
        if broker not in snapshot.broker_ids:
            alive = ", ".join(map(str, snapshot.broker_ids))
            raise UsageError(
                f"Broker {broker} is not alive; these are: {alive}.",
                "Check its id, and start it.",
            )


class Placement:
    """Load and racks of the live brokers, as the moves planned so far leave them.

    `load` is (bytes, replicas, id) by live broker, so that the least is the one to place on;
    `preferred` how many partitions have it as their first replica. `eligible` are those that may
    get replicas.
    """

    def __init__(
        self, snapshot: Snapshot, inputs: PlanInputs, excluded: Collection[int] = frozenset()
    ) -> None:
        self.rack = {broker.id: broker.rack for broker in snapshot.brokers}
        self.load = {broker: (0, 0, broker) for broker in self.rack}
        self.preferred = Counter(p.replicas[0] for p in snapshot.partitions if p.replicas)
        self._weights = _weights(snapshot, inputs.sizes)
        self._eligible: dict[str | None, list[int]] = {}
        for broker, rack in self.rack.items():
            if broker not in excluded:
                self._eligible.setdefault(rack, []).append(broker)
        self.racks = frozenset(self._eligible) - {None}
        bytes_of, replicas_of = Counter[int](), Counter[int]()
        for partition in snapshot.partitions:
            weight = self._weights[partition.id]
            for replica in partition.replicas:
                bytes_of[replica] += weight
                replicas_of[replica] += 1
        for broker in self.load:
            self.load[broker] = (bytes_of[broker], replicas_of[broker], broker)

    def weight(self, partition: PartitionId) -> int:
        """Bytes of a replica of it, or 1 where replicas are counted."""
        return self._weights[partition]

    def largest_first(self, partitions: Iterable[Partition]) -> list[Partition]:
        """The order in which greedy placing spreads load best."""
        return sorted(partitions, key=lambda p: (-self._weights[p.id], p.id))

    def racks_of(self, replicas: Iterable[int]) -> set[str | None]:
        """The racks that are known of these replicas' brokers; a dead broker's is not known."""
        return {self.rack.get(replica) for replica in replicas} - {None}

    def next_broker(self, kept: Collection[int]) -> int | None:
        """The broker for one more replica beside these; None when every eligible one has one.

        In a rack that has none of them, else in one that has few, and there the least loaded.
        """
        used = Counter(self.rack.get(replica) for replica in kept)
        by_rack: dict[tuple[bool, int], list[int]] = {}
        for rack, brokers in self._eligible.items():
            crowding = (rack is None or bool(used[rack]), used[rack])
            by_rack.setdefault(crowding, []).extend(brokers)
        for _, brokers in sorted(by_rack.items()):
            loads = [self.load[broker] for broker in brokers if broker not in kept]
            if loads:
                return min(loads)[2]
        return None

    def place(self, partition: PartitionId, before: Sequence[int], after: Sequence[int]) -> None:
        """Count a move as done."""
        weight = self._weights[partition]
        for brokers, sign in ((before, -1), (after, 1)):
            for broker in brokers:
                if broker in self.load:
                    load, replicas, _ = self.load[broker]
                    self.load[broker] = (load + sign * weight, replicas + sign, broker)
        self.preferred[before[0]] -= 1
        self.preferred[after[0]] += 1

    def plan(
        self,
        partitions: Iterable[Partition],
        replicas: Callable[[Partition], Sequence[int] | str],
    ) -> Plan:
        """As `plan_each`, the largest first, each move counted before the next; what stays as it is
        is left out."""

        def placed(partition: Partition) -> Sequence[int] | str | None:
            after = replicas(partition)
            if isinstance(after, str):
                return after
            self.place(partition.id, partition.replicas, after)
            return None if tuple(after) == partition.replicas else after

        return plan_each(self.largest_first(partitions), placed)

    def objection(self, partition: Partition, after: Sequence[int]) -> str | None:
        """Why a move that copies data must not be made; None when it may.

        Somebody has to be there to copy from, and one in-sync replica has to stay, unless there is
        only one replica: that one stays until its successor is in sync (Kafka's
        `PartitionReassignmentReplicas`). And replicas stay apart: in no fewer racks than before.
        """
        if partition.leader not in partition.replicas:
            return NO_SOURCE
        if len(partition.replicas) > 1 and not set(in_sync(partition, self.rack)) & set(after):
            return LAST_IN_SYNC
        if len(self.racks_of(after)) < len(self.racks_of(partition.replicas)):
            return FEWER_RACKS
        return None


def _weights(snapshot: Snapshot, sizes: Mapping[PartitionId, int]) -> dict[PartitionId, int]:
    here = [sizes[p.id] for p in snapshot.partitions if p.id in sizes]
    usual = sum(here) // len(here) if here else 1
    return {p.id: sizes.get(p.id, usual) for p in snapshot.partitions}
