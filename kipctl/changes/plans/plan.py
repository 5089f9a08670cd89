"""What a plan is: which partitions get which replicas, and which are skipped, and why.

The planners make one; so do a given assignment and the way back (`plan_to`). Pure rules.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kipctl.at_once import chunks
from kipctl.cluster.snapshot import Assignment, Partition, PartitionId, Snapshot, is_glob
from kipctl.errors import RefusedError, UsageError, did_you_mean
from kipctl.next_step import Command


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
    def is_election(self) -> bool:
        """True when the replicas are in their order, and the first of them is to lead."""
        return self.before == self.after

    @property
    def preferred_leader(self) -> int:
        return self.after[0]

    @property
    def changes_replication_factor(self) -> bool:
        return len(self.before) != len(self.after)


@dataclass(frozen=True, slots=True)
class SkippedPartition:
    """A partition that is left alone, and why: by the plan, or as it was refused, not submitted, or
    cancelled again. `is_for_later`: it may be done when what is in its way has ended."""

    id: PartitionId
    reason: str
    is_for_later: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.id}: " + self.reason


@dataclass(frozen=True, slots=True)
class Plan:
    """The moves, sorted by partition, and the partitions that are skipped."""

    moves: tuple[Move, ...]
    skipped: tuple[SkippedPartition, ...] = ()

    @property
    def target(self) -> dict[PartitionId, tuple[int, ...]]:
        return {move.id: move.after for move in self.moves}

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(move.id.topic for move in self.moves))

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it is left for later."""
        return not any(skipped.is_for_later for skipped in self.skipped)

    @property
    def preferred_leaders(self) -> dict[PartitionId, int]:
        return {move.id: move.preferred_leader for move in self.moves}

    @property
    def elections(self) -> tuple[Move, ...]:
        """The moves that are elections alone."""
        return tuple(move for move in self.moves if move.is_election)

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

    def skipping(self, reasons: Mapping[PartitionId, str]) -> "Plan":
        """The plan less the moves of these partitions, which are skipped."""
        skipped = tuple(
            SkippedPartition(m.id, reasons[m.id]) for m in self.moves if m.id in reasons
        )
        return replace(self.without(reasons), skipped=(*self.skipped, *skipped))

    def batches(self, size: int) -> Iterator["Plan"]:
        """The moves in order, so many at a time."""
        return (Plan(tuple(moves)) for moves in chunks(self.moves, size))


NO_MOVES = Plan(())


def sorted_plan(steps: Iterable[Move | SkippedPartition]) -> Plan:
    """The plan of these moves and skipped partitions, which come in any order."""
    in_order = sorted(steps, key=lambda step: step.id)
    return Plan(
        tuple(step for step in in_order if isinstance(step, Move)),
        tuple(step for step in in_order if isinstance(step, SkippedPartition)),
    )


def move_of(partition: Partition, after: Sequence[int]) -> Move:
    """The move of this partition to these replicas."""
    return Move(partition.id, partition.replicas, tuple(after), partition.leader)


def plan_each(
    partitions: Iterable[Partition], replicas: Callable[[Partition], Sequence[int] | str | None]
) -> Plan:
    """The plan by the replicas that each of these is to have, asked for one after the other; a text
    says why it is skipped, None that it is none of the plan."""
    chosen = [(partition, replicas(partition)) for partition in partitions]
    return sorted_plan(
        SkippedPartition(partition.id, told) if isinstance(told, str) else move_of(partition, told)
        for partition, told in chosen
        if told is not None
    )


def plan_to(snapshot: Snapshot, target: Assignment) -> Plan:
    """The moves that bring these partitions to the assignment given.

    Partitions that are there already, or no longer exist, are left alone.
    """
    now = snapshot.by_id
    steps: list[Move | SkippedPartition] = []
    for partition_id, replicas in target.items():
        partition = now.get(partition_id)
        if partition is None:
            steps.append(SkippedPartition(partition_id, "it does not exist any more"))
        elif partition.replicas == replicas:
            steps.append(SkippedPartition(partition_id, "it is assigned so already"))
        else:
            steps.append(Move(partition_id, partition.replicas, replicas, partition.leader))
    return sorted_plan(steps)


def require_partitions(snapshot: Snapshot, partitions: Iterable[PartitionId]) -> None:
    """Raise UsageError for a partition that the cluster does not have."""
    known = snapshot.by_id
    for partition_id in partitions:
        if partition_id not in known:
            what = "partition" if partition_id.topic in snapshot.topics else "topic of partition"
            raise UsageError(
                f"There is no {what} {partition_id}."
                f"{did_you_mean(partition_id.topic, set(snapshot.topics) - {partition_id.topic})}",
                "List them: " + Command("inspect leaders"),
            )


def require_moves(plan: Plan, patterns: Sequence[str]) -> None:
    """Raise RefusedError when nothing moves, or nothing of a topic that was named (not globbed)."""
    for topic in patterns:
        of_topic = [skipped for skipped in plan.skipped if skipped.id.topic == topic]
        if not is_glob(topic) and of_topic and topic not in plan.topics:
            raise RefusedError(
                f"Topic {topic!r} cannot be rotated: {of_topic[0].id}: {of_topic[0].reason}.",
                "See its replicas: " + Command("inspect leaders", topic=topic),
            )
    if not plan.moves:
        why = f"{plan.skipped[0].id}: {plan.skipped[0].reason}" if plan.skipped else "no partitions"
        raise RefusedError(
            f"There is nothing to rotate: {why}.", "See: " + Command("inspect leaders")
        )
