"""Other preferred leaders without copying anything: only the order of replicas changes.

The preferred leaders then have to be elected. Only replicas that are in sync come first.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from kipctl.changes.plans.plan import (
    Move,
    Plan,
    SkippedPartition,
    move_of,
    plan_each,
    require_partitions,
    sorted_plan,
)
from kipctl.changes.plans.planners.leader_balance import Candidates, balance
from kipctl.changes.plans.planners.leader_bytes import balance_bytes
from kipctl.changes.plans.planners.placement import (
    NO_INPUTS,
    PlanInputs,
    in_sync,
    require_alive,
    require_known,
)
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.counts import counted
from kipctl.errors import RefusedError
from kipctl.next_step import Command
from kipctl.own_topic_names import is_own


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
    require_spare(snapshot, off, inputs)
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


def require_spare(snapshot: Snapshot, off: frozenset[int], inputs: PlanInputs) -> None:
    """Raise RefusedError unless each partition on these brokers keeps so many replicas in sync
    above min.insync.replicas, `inputs.spare`, when they are away; nothing where none is asked for.
    """
    if not inputs.spare:
        return
    for partition in inputs.changeable(snapshot):
        if is_own(partition.id.topic) or off.isdisjoint(partition.replicas):
            continue
        least = inputs.min_insync.get(partition.id.topic)
        left = len({*partition.isr} - off)
        if least is None or left < least + inputs.spare:
            needs = "is not known" if least is None else f"is {least}"
            raise RefusedError(
                f"{partition.id} has {counted(left, 'replica')} in sync without broker"
                f" {', '.join(map(str, sorted(off)))}, and its min.insync.replicas {needs}: not"
                f" {inputs.spare} to spare.",
                "Wait until all is in sync ("
                + Command("wait")
                + "), add replicas, or leave --spare out.",
            )


def set_preferred(snapshot: Snapshot, wanted: Mapping[PartitionId, int]) -> Plan:
    """Put the broker wanted first in each of these partitions, where it is an in-sync replica.

    Raises UsageError for a partition that does not exist, and a broker that is not alive.
    """
    require_alive(snapshot, wanted.values())
    require_partitions(snapshot, sorted(wanted))

    def replicas(partition: Partition) -> tuple[int, ...] | str:
        broker = wanted[partition.id]
        if broker not in partition.replicas:
            return f"broker {broker} has no replica of it"
        if broker not in in_sync(partition, snapshot.broker_ids):
            return f"broker {broker} is not in sync"
        if broker == partition.replicas[0]:
            return f"broker {broker} is its preferred leader already"
        return _first(partition, broker)

    concerned = (partition for partition in snapshot.partitions if partition.id in wanted)
    return plan_each(concerned, replicas)


def balance_leaders(snapshot: Snapshot, inputs: PlanInputs = NO_INPUTS) -> Plan:
    """Even out how many partitions each live broker is the preferred leader of.

    As even as the in-sync replicas allow, with the fewest partitions changed that it takes. Where
    the preferred leader is not in sync it stays: it has its leaders again when it is back.
    """

    def even(concerned: Sequence[Partition], choices: Sequence[Candidates]) -> list[int]:
        return _balanced(snapshot, concerned, choices)

    return _reordered(snapshot, inputs, even)


def balance_leaders_by_bytes(snapshot: Snapshot, inputs: PlanInputs = NO_INPUTS) -> Plan:
    """Even out how many bytes the partitions get that each live broker is to lead.

    `inputs.sizes` are these bytes; of a partition that is not there none. Otherwise as
    `balance_leaders`.
    """
    sizes = inputs.sizes

    def even(concerned: Sequence[Partition], choices: Sequence[Candidates]) -> list[int]:
        besides = dict.fromkeys(snapshot.broker_ids, 0)
        left_out = {partition.id for partition in concerned}
        for partition in snapshot.partitions:
            if partition.id not in left_out and partition.replicas[0] in besides:
                besides[partition.replicas[0]] += sizes.get(partition.id, 0)
        theirs = [sizes.get(partition.id, 0) for partition in concerned]
        return balance_bytes(besides, choices, theirs)

    return _reordered(snapshot, inputs, even)


def _reordered(
    snapshot: Snapshot,
    inputs: PlanInputs,
    even: Callable[[Sequence[Partition], Sequence[Candidates]], list[int]],
) -> Plan:
    """Put the brokers first that `even` chooses, of the replicas that are in sync."""
    concerned, choices, skipped = [], [], []
    for partition in inputs.changeable(snapshot):
        can_lead = tuple(in_sync(partition, snapshot.broker_ids))
        if partition.replicas[0] in can_lead:
            concerned.append(partition)
            choices.append(Candidates(can_lead, partition.replicas[0], partition.id.topic))
        else:
            skipped.append(SkippedPartition(partition.id, "its preferred leader is not in sync"))
    leaders = even(concerned, choices)
    moves = [
        move_of(partition, _first(partition, broker))
        for partition, broker in zip(concerned, leaders, strict=True)
        if broker != partition.replicas[0]
    ]
    return Plan(tuple(moves), tuple(skipped))


def _first(partition: Partition, broker: int) -> tuple[int, ...]:
    return (broker, *(replica for replica in partition.replicas if replica != broker))


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
