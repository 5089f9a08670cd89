"""What is going to be moved where: rotation, a given assignment, and the way back. Pure rules."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kipctl.cluster.snapshot import NO_LEADER, Assignment, Partition, PartitionId, Snapshot, is_glob
from kipctl.errors import RefusedError


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's replicas, before and after; `leader` leads it before."""

    id: PartitionId
    before: tuple[int, ...]
    after: tuple[int, ...]
    leader: int

    @property
    def adding(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def is_reorder(self) -> bool:
        """True when the same brokers keep the partition: no data is copied."""
        return not self.adding and not self.removing

    @property
    def preferred_leader(self) -> int:
        return self.after[0]

    @property
    def changes_replication_factor(self) -> bool:
        return len(self.before) != len(self.after)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A partition that the plan leaves alone, and why."""

    id: PartitionId
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The moves, sorted by partition, and what is left alone."""

    moves: tuple[Move, ...]
    skipped: tuple[Skipped, ...] = ()

    @property
    def target(self) -> dict[PartitionId, tuple[int, ...]]:
        return {move.id: move.after for move in self.moves}

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(move.id.topic for move in self.moves))

    @property
    def preferred_leaders(self) -> dict[PartitionId, int]:
        return {move.id: move.preferred_leader for move in self.moves}

    @property
    def copies_data(self) -> bool:
        return any(move.adding for move in self.moves)

    @property
    def changes_replication_factor(self) -> bool:
        return any(move.changes_replication_factor for move in self.moves)

    def without(self, partitions: Iterable[PartitionId]) -> "Plan":
        """The plan less the moves of these partitions."""
        left_out = frozenset(partitions)
        return replace(self, moves=tuple(m for m in self.moves if m.id not in left_out))

    def leaving_alone(self, reasons: Mapping[PartitionId, str]) -> "Plan":
        """The plan less the moves of these partitions, which are among what is left alone."""
        skipped = tuple(Skipped(m.id, reasons[m.id]) for m in self.moves if m.id in reasons)
        return replace(self.without(reasons), skipped=(*self.skipped, *skipped))

    def batches(self, size: int) -> Iterator["Plan"]:
        """The moves in order, so many at a time."""
        for first in range(0, len(self.moves), size):
            yield Plan(self.moves[first : first + size])


def rotate(snapshot: Snapshot) -> Plan:
    """Make the replica that follows the current leader the preferred one, in every partition.

    The order is turned until that replica stands first; the set of replicas stays. The turn starts
    at the *current* leader, so that the leader moves even where it is not the preferred one. A
    replica that is not in sync cannot be elected and is passed over.
    """
    moves, skipped = [], []
    for partition in snapshot.partitions:
        first = _next_leader(partition)
        if isinstance(first, str):
            skipped.append(Skipped(partition.id, first))
            continue
        start = partition.replicas.index(first)
        after = partition.replicas[start:] + partition.replicas[:start]
        moves.append(Move(partition.id, partition.replicas, after, partition.leader))
    return Plan(tuple(moves), tuple(skipped))


def _next_leader(partition: Partition) -> int | str:
    """The in-sync replica that comes after the leader, or why there is none."""
    replicas = partition.replicas
    if len(replicas) < 2:
        return "it has too few replicas to rotate (1)"
    if partition.leader == NO_LEADER or partition.leader not in replicas:
        return "it has no leader"
    start = replicas.index(partition.leader)
    for replica in replicas[start + 1 :] + replicas[:start]:
        if replica in partition.isr and replica not in partition.offline:
            return replica
    return "no replica but its leader is in sync"


def replace_leaders(snapshot: Snapshot) -> Plan:
    """Give every partition another broker instead of its leader.

    The next in-sync replica stands first, and the new broker, which has to copy the log, last: the
    leader of before is no replica any more. The new one is the next broker after the leader, by
    id, that has no replica.
    """
    brokers = sorted(broker.id for broker in snapshot.brokers)
    moves, skipped = [], []
    for partition in snapshot.partitions:
        later = [broker for broker in brokers if broker > partition.leader]
        free = [b for b in (*later, *brokers) if b not in partition.replicas]
        first = _next_leader(partition) if len(partition.replicas) > 1 else None
        if not free:
            skipped.append(Skipped(partition.id, "every broker has a replica of it"))
        elif partition.leader == NO_LEADER:
            skipped.append(Skipped(partition.id, "it has no leader"))
        elif isinstance(first, str):
            skipped.append(Skipped(partition.id, first))
        else:
            others = [r for r in partition.replicas if r not in (partition.leader, first)]
            after = (*(() if first is None else (first,)), *others, free[0])
            moves.append(Move(partition.id, partition.replicas, after, partition.leader))
    return Plan(tuple(moves), tuple(skipped))


def reach(snapshot: Snapshot, target: Assignment) -> Plan:
    """The moves that bring these partitions to the assignment given.

    Partitions that are there already, or no longer exist, are left alone.
    """
    now = snapshot.by_id
    moves, skipped = [], []
    for partition_id, replicas in sorted(target.items()):
        partition = now.get(partition_id)
        if partition is None:
            skipped.append(Skipped(partition_id, "it does not exist any more"))
        elif partition.replicas == replicas:
            skipped.append(Skipped(partition_id, "it is assigned so already"))
        else:
            moves.append(Move(partition_id, partition.replicas, replicas, partition.leader))
    return Plan(tuple(moves), tuple(skipped))


def demand_moves(plan: Plan, patterns: Sequence[str]) -> None:
    """Raise RefusedError when nothing moves, or nothing of a topic that was named (not globbed)."""
    for topic in patterns:
        of_topic = [skipped for skipped in plan.skipped if skipped.id.topic == topic]
        if not is_glob(topic) and of_topic and topic not in plan.topics:
            raise RefusedError(
                f"Topic {topic!r} cannot be rotated: {of_topic[0].id}: {of_topic[0].reason}.",
                "See its replicas: kipctl inspect leaders --topic " + topic,
            )
    if not plan.moves:
        why = f"{plan.skipped[0].id}: {plan.skipped[0].reason}" if plan.skipped else "no partitions"
        raise RefusedError(f"There is nothing to rotate: {why}.", "See: kipctl inspect leaders")
