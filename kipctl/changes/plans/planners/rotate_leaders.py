"""Leaders moved on: to the next replica, or to a broker that has none yet."""

from kipctl.changes.plans.plan import Plan, plan_each
from kipctl.cluster.snapshot import NO_LEADER, Partition, Snapshot


def rotate(snapshot: Snapshot) -> Plan:
    """Make the replica that follows the current leader the preferred one, in every partition.

    The order is turned until that replica stands first; the set of replicas stays. The turn starts
    at the *current* leader, so that the leader moves even where it is not the preferred one. A
    replica that is not in sync cannot be elected and is passed over.
    """

    def replicas(partition: Partition) -> tuple[int, ...] | str:
        first = _next_leader(partition)
        if isinstance(first, str):
            return first
        start = partition.replicas.index(first)
        return partition.replicas[start:] + partition.replicas[:start]

    return plan_each(snapshot.partitions, replicas)


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

    def replicas(partition: Partition) -> tuple[int, ...] | str:
        later = [broker for broker in brokers if broker > partition.leader]
        free = [b for b in (*later, *brokers) if b not in partition.replicas]
        if not free:
            return "every broker has a replica of it"
        if partition.leader == NO_LEADER:
            return "it has no leader"
        if len(partition.replicas) == 1:
            return (free[0],)
        first = _next_leader(partition)
        if isinstance(first, str):
            return first
        others = [r for r in partition.replicas if r not in (partition.leader, first)]
        return (first, *others, free[0])

    return plan_each(snapshot.partitions, replicas)
