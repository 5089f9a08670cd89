"""What a plan is: which partitions get which replicas, and which are left alone, and why."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kipctl.cluster.snapshot import PartitionId


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
