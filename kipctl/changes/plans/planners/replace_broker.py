"""One broker in another's place, in every replica list."""

from collections.abc import Mapping

from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.planners.placement import (
    NO_INPUTS,
    Placement,
    PlanInputs,
    require_alive,
    require_known,
)
from kipctl.cluster.snapshot import Partition, Snapshot
from kipctl.errors import UsageError


def replace(
    snapshot: Snapshot, successors: Mapping[int, int], inputs: PlanInputs = NO_INPUTS
) -> Plan:
    """Give each broker's replicas to its successor, at the same place of the list.

    `successors` are by the broker that they replace, which may be dead. Raises UsageError for a
    broker that is not known, and for a successor that is not alive, or is to be replaced itself.
    """
    require_known(snapshot, successors)
    require_alive(snapshot, successors.values())
    for broker, successor in successors.items():
        if successor in successors:
            raise UsageError(
                f"Broker {successor} cannot take the place of {broker} and be replaced itself.",
                "Do one after the other.",
            )
    placement = Placement(snapshot, inputs)

    def replicas(partition: Partition) -> tuple[int, ...] | str:
        after = tuple(successors.get(replica, replica) for replica in partition.replicas)
        if after == partition.replicas:
            return after
        if twice := [broker for broker in after if after.count(broker) > 1]:
            return f"broker {twice[0]} has, or would get, another replica of it"
        return placement.objection(partition, after) or after

    return placement.plan(inputs.changeable(snapshot), replicas)
