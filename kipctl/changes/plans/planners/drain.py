"""A broker emptied: no replica stays on it, and none of the others gets more than its turn."""

from collections.abc import Collection

from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.planners.placement import (
    NO_INPUTS,
    TOO_FEW_BROKERS,
    Placement,
    PlanInputs,
    in_sync,
    require_known,
)
from kipctl.cluster.snapshot import Partition, Snapshot
from kipctl.errors import UsageError
from kipctl.next_step import Command


def drain(snapshot: Snapshot, brokers: Collection[int], inputs: PlanInputs = NO_INPUTS) -> Plan:
    """Move every replica off these brokers, each to one broker, so that nothing more is copied.

    The largest partitions are placed first, each in a rack that has no other replica of it, on the
    broker with the fewest bytes. A new replica takes the place of the old one; where that was the
    first, the broker that is preferred leader least often stands first instead. The brokers may be
    dead ones. Raises UsageError for a broker that is not known, and when none would be left.
    """
    require_known(snapshot, brokers)
    leaving = frozenset(brokers)
    if leaving >= set(snapshot.broker_ids):
        raise UsageError(
            "No other broker is alive to take the replicas.",
            "See them: " + Command("inspect brokers"),
        )
    placement = Placement(snapshot, inputs, excluded=leaving)
    affected = [p for p in inputs.changeable(snapshot) if not leaving.isdisjoint(p.replicas)]

    def replicas(partition: Partition) -> tuple[int, ...] | str:
        after = _replicas_without(placement, partition, leaving)
        return TOO_FEW_BROKERS if after is None else placement.objection(partition, after) or after

    return placement.plan(affected, replicas)


def _replicas_without(
    placement: Placement, partition: Partition, leaving: frozenset[int]
) -> tuple[int, ...] | None:
    """The replicas without those that leave; None when there is no broker for one of them."""
    after = list(partition.replicas)
    kept = [replica for replica in after if replica not in leaving]
    can_lead = set(in_sync(partition, placement.rack))
    for place, replica in enumerate(after):
        if replica in leaving:
            broker = placement.next_broker(kept)
            if broker is None:
                return None
            after[place] = broker
            kept.append(broker)
            can_lead.add(broker)
    if partition.replicas[0] in leaving:
        first = min(can_lead & set(after), key=lambda broker: (placement.preferred[broker], broker))
        after.remove(first)
        after.insert(0, first)
    return tuple(after)
