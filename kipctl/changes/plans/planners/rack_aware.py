"""Replicas set apart: in as many racks as there can be."""

from collections import Counter

from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.planners.placement import NO_INPUTS, Placement, PlanInputs, in_sync
from kipctl.cluster.snapshot import Partition, Snapshot
from kipctl.errors import UsageError


def rack_aware(snapshot: Snapshot, inputs: PlanInputs = NO_INPUTS) -> Plan:
    """Move only replicas that share a rack, one to each rack that has none of the partition.

    Of those that share a rack one that is not in sync goes first, then the last of the list; the
    leader stays. A new replica takes the place of the old one, on the broker with the fewest bytes
    of its rack. The rack of a dead broker is not known: its replicas stay where they are. Raises
    UsageError when fewer than two racks are known.
    """
    placement = Placement(snapshot, inputs)
    if len(placement.racks) < 2:
        raise UsageError(
            "The brokers that are alive stand in fewer than two racks.",
            "Set broker.rack on every broker, and restart it.",
        )

    def replicas(partition: Partition) -> list[int] | str:
        after = list(partition.replicas)
        unused = placement.racks - placement.racks_of(after)
        while unused and (leaves := _shares_a_rack(placement, partition, after)) is not None:
            broker = placement.next_broker(after)
            if broker is None or placement.rack[broker] not in unused:
                break
            unused -= {placement.rack[broker]}
            after[after.index(leaves)] = broker
        is_same = tuple(after) == partition.replicas
        return after if is_same else placement.objection(partition, after) or after

    return placement.plan(inputs.changeable(snapshot), replicas)


def _shares_a_rack(placement: Placement, partition: Partition, replicas: list[int]) -> int | None:
    """The replica that is to leave a rack that has several; None when none has."""
    used = Counter(placement.rack.get(replica) for replica in replicas)
    can_lead = in_sync(partition, placement.rack)
    crowded = [
        (replica in can_lead, -place, replica)
        for place, replica in enumerate(replicas)
        if replica != partition.leader
        and (rack := placement.rack.get(replica)) is not None
        and used[rack] > 1
    ]
    return min(crowded)[2] if crowded else None
