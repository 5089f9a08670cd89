"""Plans by name: what planners make, a given assignment and the way back. Pure rules."""

from collections.abc import Sequence

from kipctl.cluster.moves import Move, Plan, Skipped
from kipctl.cluster.planners.rotation import replace_leaders, rotate
from kipctl.cluster.snapshot import Assignment, Snapshot, is_glob
from kipctl.errors import RefusedError

__all__ = [
    "Move",
    "Plan",
    "Skipped",
    "demand_moves",
    "reach",
    "replace_leaders",
    "rotate",
]


def reach(snapshot: Snapshot, target: Assignment) -> Plan:
    """The moves that bring these partitions to the assignment given.

    Partitions that are there already, or no longer exist, are left alone.
    """
    now = snapshot.by_id
    moves, skipped = [], []
    for partition_id, replicas in sorted(target.items()):
        partition = now.get(partition_id)
        if partition is None:
            skipped.append(Skipped(partition_id, "it does not exist any more"))
        elif partition.replicas == replicas:
            skipped.append(Skipped(partition_id, "it is assigned so already"))
        else:
            moves.append(Move(partition_id, partition.replicas, replicas, partition.leader))
    return Plan(tuple(moves), tuple(skipped))


def demand_moves(plan: Plan, patterns: Sequence[str]) -> None:
    """Raise RefusedError when nothing moves, or nothing of a topic that was named (not globbed)."""
    for topic in patterns:
        of_topic = [skipped for skipped in plan.skipped if skipped.id.topic == topic]
        if not is_glob(topic) and of_topic and topic not in plan.topics:
            raise RefusedError(
                f"Topic {topic!r} cannot be rotated: {of_topic[0].id}: {of_topic[0].reason}.",
                "See its replicas: kipctl inspect leaders --topic " + topic,
            )
    if not plan.moves:
        why = f"{plan.skipped[0].id}: {plan.skipped[0].reason}" if plan.skipped else "no partitions"
        raise RefusedError(f"There is nothing to rotate: {why}.", "See: kipctl inspect leaders")
