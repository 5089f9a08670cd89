"""Leaders moved on: to the next replica, or to a broker that has none yet."""

from kipctl.changes.plans.plan import Move, Plan, SkippedPartition
from kipctl.cluster.snapshot import NO_LEADER, Partition, Snapshot


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
            skipped.append(SkippedPartition(partition.id, first))
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
            skipped.append(SkippedPartition(partition.id, "every broker has a replica of it"))
        elif partition.leader == NO_LEADER:
            skipped.append(SkippedPartition(partition.id, "it has no leader"))
        elif isinstance(first, str):
            skipped.append(SkippedPartition(partition.id, first))
        else:
            others = [r for r in partition.replicas if r not in (partition.leader, first)]
            after = (*(() if first is None else (first,)), *others, free[0])
            moves.append(Move(partition.id, partition.replicas, after, partition.leader))
    return Plan(tuple(moves), tuple(skipped))
