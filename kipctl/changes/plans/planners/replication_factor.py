"""More replicas of each partition, or fewer."""

from collections import Counter
from collections.abc import Sequence

from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.planners.placement import (
    NO_INPUTS,
    NO_SOURCE,
    TOO_FEW_BROKERS,
    Placement,
    PlanInputs,
    in_sync,
)
from kipctl.cluster.snapshot import Partition, Snapshot
from kipctl.errors import UsageError


def replication_factor(
    snapshot: Snapshot, factor: int, inputs: PlanInputs = NO_INPUTS, *, force: bool = False
) -> Plan:
    """Give every partition so many replicas.

    New ones come last, in racks that have none yet, on the brokers with the fewest bytes. Those
    that are too many leave: first who is not in sync, then who shares a rack, from the end of the
    list; never the leader. What would have fewer replicas than its `min.insync.replicas`, or where
    that is not known, is left alone unless forced: acks=all writes would be refused for good.
    Raises UsageError for a factor below 1.
    """
    require_factor(factor)
    placement = Placement(snapshot, inputs)

    def replicas(partition: Partition) -> Sequence[int] | str:
        if len(partition.replicas) == factor:
            return partition.replicas
        if partition.leader not in partition.replicas:
            return NO_SOURCE
        if len(partition.replicas) < factor:
            return _raised(placement, partition, factor)
        refused = "" if force else _too_few(partition, factor, inputs)
        return refused or _lowered(placement, partition, factor)

    return placement.plan(inputs.changeable(snapshot), replicas)


def require_factor(factor: int) -> None:
    """Raise UsageError for a factor below 1."""
    if factor < 1:
        raise UsageError(f"A replication factor of {factor} is none.", "Give 1 or more.")


def _raised(placement: Placement, partition: Partition, factor: int) -> list[int] | str:
    after = list(partition.replicas)
    while len(after) < factor:
        broker = placement.next_broker(after)
        if broker is None:
            return TOO_FEW_BROKERS
        after.append(broker)
    return after


def _too_few(partition: Partition, factor: int, inputs: PlanInputs) -> str:
    least = inputs.min_insync.get(partition.id.topic)
    if least is None:
        return "its min.insync.replicas is not known"
    if factor < least:
        return f"its min.insync.replicas is {least}: acks=all writes would be refused"
    return ""


def _lowered(placement: Placement, partition: Partition, factor: int) -> tuple[int, ...]:
    after = list(partition.replicas)
    can_lead = in_sync(partition, placement.rack)
    while len(after) > factor:
        used = Counter(placement.rack.get(replica) for replica in after)
        leaves = min(
            (replica in can_lead, _is_alone(placement, used, replica), -place, replica)
            for place, replica in enumerate(after)
            if replica != partition.leader
        )[-1]
        after.remove(leaves)
    if after[0] != partition.replicas[0]:
        after.remove(partition.leader)
        after.insert(0, partition.leader)
    return tuple(after)


def _is_alone(placement: Placement, used: Counter[str | None], replica: int) -> bool:
    """Whether a rack, as far as it is known, has no replica left without this one."""
    rack = placement.rack.get(replica)
    return rack is not None and used[rack] == 1
