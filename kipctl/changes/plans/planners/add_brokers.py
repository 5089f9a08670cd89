"""New brokers given their fair share."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from heapq import heapify, heappop, heappush

from kipctl.changes.plans.plan import Plan, move_of
from kipctl.changes.plans.planners.placement import NO_INPUTS, Placement, PlanInputs, require_alive
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.errors import UsageError
from kipctl.next_step import Command

_FULL = 0.01
"""Of a fair share: who has as many replicas as the others and lacks fewer bytes needs no more."""


def add(snapshot: Snapshot, brokers: Collection[int], inputs: PlanInputs = NO_INPUTS) -> Plan:
    """Fill these brokers up to the mean of all live ones, in bytes, and move no byte more.

    The fullest broker gives a replica to the emptiest new one, and so on, of a size such that the
    new one has its share of replicas, too, when it has its share of bytes. No new broker becomes
    fuller than the mean by it, and no giver is further from the mean than before. The new one takes
    the giver's place in the list of replicas, so leaders come along. Raises UsageError for a broker
    that is not alive, and when there is no other.
    """
    require_alive(snapshot, brokers)
    new = sorted(set(brokers))
    placement = Placement(snapshot, inputs)
    givers = [broker for broker in placement.load if broker not in new]
    if not givers:
        raise UsageError(
            "No other broker is alive to give replicas.", "See them: " + Command("inspect brokers")
        )
    filling = _Filling(placement, new, inputs.changeable(snapshot))
    while filling.one_round(givers):
        pass
    before = snapshot.by_id
    return Plan(
        tuple(
            move_of(before[partition_id], after)
            for partition_id, after in sorted(filling.after.items())
        )
    )


class _Filling:
    """The replicas as given so far: `after`, of the partitions that change."""

    def __init__(
        self, placement: Placement, new: Sequence[int], partitions: Sequence[Partition]
    ) -> None:
        self.after: dict[PartitionId, tuple[int, ...]] = {}
        self._placement = placement
        self._new = new
        loads = placement.load.values()
        self._mean = sum(load for load, _, _ in loads) / len(loads)
        self._mean_replicas = sum(replicas for _, replicas, _ in loads) / len(loads)
        self._held: dict[int, list[Partition]] = {broker: [] for broker in placement.load}
        for partition in reversed(placement.largest_first(partitions)):
            for replica in partition.replicas:
                if replica in self._held:
                    self._held[replica].append(partition)

    def one_round(self, givers: Sequence[int]) -> bool:
        """Let each give while it can, the fullest first; False when none could.

        What does not fit once does not later, as room and surplus shrink; but who may take a
        partition changes when another of its replicas has moved, so there may be a next round.
        """
        moved = False
        refused: set[tuple[int, int]] = set()
        fullest = [(-self._placement.load[giver][0], giver) for giver in givers]
        heapify(fullest)
        while fullest:
            _, giver = heappop(fullest)
            for taker in sorted(self._new, key=self._load):
                if (giver, taker) in refused:
                    continue
                if self._gives(giver, taker):
                    moved = True
                    heappush(fullest, (-self._placement.load[giver][0], giver))
                    break
                refused.add((giver, taker))
        return moved

    def _load(self, broker: int) -> tuple[int, int, int]:
        return self._placement.load[broker]

    def _gives(self, giver: int, taker: int) -> bool:
        """Move one replica from one to the other, of the size that suits best, if there is one."""
        load, replicas, _ = self._load(taker)
        room, lacking = self._mean - load, self._mean_replicas - replicas
        most = min(room, 2 * (self._load(giver)[0] - self._mean))
        if room <= 0 or most < 0 or (lacking <= 0 and room < self._mean * _FULL):
            return False
        held = self._held[giver]
        for place in self._nearest(held, room / max(1.0, lacking), most):
            partition = held[place]
            now = self.after.get(partition.id, partition.replicas)
            after = tuple(taker if replica == giver else replica for replica in now)
            if taker not in now and not self._placement.objection(partition, after):
                self._placement.place(partition.id, now, after)
                self.after[partition.id] = after
                del held[place]
                return True
        return False

    def _nearest(self, held: Sequence[Partition], size: float, most: float) -> Iterator[int]:
        """Places in the list, sorted by size, of all that are no larger than `most`: first those
        next to this size."""

        def weight(partition: Partition) -> int:
            return self._placement.weight(partition.id)

        above = bisect_left(held, min(size, most), key=weight)
        end = bisect_right(held, most, key=weight)
        below = above - 1
        while below >= 0 or above < end:
            if above >= end or (
                below >= 0 and size - weight(held[below]) < weight(held[above]) - size
            ):
                yield below
                below -= 1
            else:
                yield above
                above += 1
