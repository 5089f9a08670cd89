"""Other preferred leaders without copying anything: only the order of replicas changes.

The preferred leaders then have to be elected. Only replicas that are in sync come first.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from kipctl.changes.plans.plan import Move, Plan, SkippedPartition, sorted_plan
from kipctl.changes.plans.planners.leader_balance import Candidates, balance
from kipctl.changes.plans.planners.placement import (
    NO_INPUTS,
    PlanInputs,
    in_sync,
    move_of,
    require_alive,
    require_known,
)
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.errors import UsageError, did_you_mean


def leaders_off(
    snapshot: Snapshot, brokers: Collection[int], inputs: PlanInputs = NO_INPUTS
) -> Plan:
    """Let no partition be led by these brokers; the others share their leaders evenly.

    A partition changes when its preferred leader is there, or when the broker that leads it is and
    the preferred one is not in sync. The brokers come last in its new order, so that the next
    election does not lead back to them. Where an election alone moves the leader, as the preferred
    one is elsewhere and in sync, the move is to the order that there is. Raises UsageError for a
    broker that is not known.
    """
    require_known(snapshot, brokers)
    off = frozenset(brokers)
    concerned, choices = [], []
    steps: list[Move | SkippedPartition] = []
    for partition in inputs.changeable(snapshot):
        can_lead = in_sync(partition, snapshot.broker_ids)
        first = partition.replicas[0]
        if first not in off and partition.leader not in off:
            continue
        if first not in off and first in can_lead:
            steps.append(move_of(partition, partition.replicas))
            continue
        may = tuple(replica for replica in can_lead if replica not in off)
        if may:
            concerned.append(partition)
            choices.append(Candidates(may, topic=partition.id.topic))
        else:
            steps.append(SkippedPartition(partition.id, "no replica on another broker is in sync"))
    leaders = _balanced(snapshot, concerned, choices)
    for partition, leader in zip(concerned, leaders, strict=True):
        rest = [replica for replica in partition.replicas if replica != leader]
        rest.sort(key=lambda replica: replica in off)
        steps.append(move_of(partition, (leader, *rest)))
    return sorted_plan(steps)


def set_preferred(snapshot: Snapshot, wanted: Mapping[PartitionId, int]) -> Plan:
    """Put the broker wanted first in each of these partitions, where it is an in-sync replica.

    Raises UsageError for a partition that does not exist, and a broker that is not alive.
    """
    require_alive(snapshot, wanted.values())
    partitions = snapshot.by_id
    moves, skipped = [], []
    for partition_id, broker in sorted(wanted.items()):
        partition = partitions.get(partition_id)
        if partition is None:
            raise UsageError(
                f"There is no partition {partition_id}."
                f"{did_you_mean(partition_id.topic, set(snapshot.topics) - {partition_id.topic})}",
                "List them: kipctl inspect leaders",
            )
        if broker not in partition.replicas:
            skipped.append(SkippedPartition(partition_id, f"broker {broker} has no replica of it"))
        elif broker not in in_sync(partition, snapshot.broker_ids):
            skipped.append(SkippedPartition(partition_id, f"broker {broker} is not in sync"))
        elif broker == partition.replicas[0]:
            skipped.append(
                SkippedPartition(partition_id, f"broker {broker} is its preferred leader already")
            )
        else:
            moves.append(_first(partition, broker))
    return Plan(tuple(moves), tuple(skipped))


def balance_leaders(snapshot: Snapshot, inputs: PlanInputs = NO_INPUTS) -> Plan:
    """Even out how many partitions each live broker is the preferred leader of.

    As even as the in-sync replicas allow, with the fewest partitions changed that it takes. Where
    the preferred leader is not in sync it stays: it has its leaders again when it is back.
    """
    concerned, choices, skipped = [], [], []
    for partition in inputs.changeable(snapshot):
        can_lead = tuple(in_sync(partition, snapshot.broker_ids))
        if partition.replicas[0] in can_lead:
            concerned.append(partition)
            choices.append(Candidates(can_lead, partition.replicas[0], partition.id.topic))
        else:
            skipped.append(SkippedPartition(partition.id, "its preferred leader is not in sync"))
    leaders = _balanced(snapshot, concerned, choices)
    moves = [
        _first(partition, broker)
        for partition, broker in zip(concerned, leaders, strict=True)
        if broker != partition.replicas[0]
    ]
    return Plan(tuple(moves), tuple(skipped))


def _first(partition: Partition, broker: int) -> Move:
    others = (replica for replica in partition.replicas if replica != broker)
    return move_of(partition, (broker, *others))


def _balanced(
    snapshot: Snapshot, concerned: Iterable[Partition], choices: Sequence[Candidates]
) -> list[int]:
    """The leaders of these partitions, even with those that the others prefer."""
    left_out = {partition.id for partition in concerned}
    others = Counter(
        (p.id.topic, p.replicas[0]) for p in snapshot.partitions if p.id not in left_out
    )
    firsts = Counter[int]()
    for (_, broker), count in others.items():
        firsts[broker] += count
    fixed = {broker: firsts[broker] for broker in snapshot.broker_ids}
    return balance(fixed, choices, others)
