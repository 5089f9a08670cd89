"""A plan as an operator looks at it: what it does to each broker, and what it leaves alone."""

from collections import Counter
from dataclasses import dataclass

from kipctl.cluster.moves.plan import Plan
from kipctl.cluster.snapshot import NO_LEADER, PartitionId, Snapshot


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """How many partitions a broker leads and holds, of the whole cluster, before and after.

    The leaders of after are those once the preferred leaders of what moves are elected.
    """

    broker: int
    leaders: int
    leaders_after: int
    replicas: int
    replicas_after: int


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A reason to leave partitions alone, how many there are, and one of them."""

    reason: str
    partitions: int
    example: PartitionId


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """`copied` partitions get a replica that copies their data; `factors` are by the number of
    replicas before and after, where that changes."""

    partitions: int
    topics: int
    copied: int
    brokers: tuple[BrokerLoad, ...]
    factors: dict[tuple[int, int], int]
    left_alone: tuple[LeftAlone, ...]


def summarize(snapshot: Snapshot, plan: Plan) -> PlanSummary:
    """What the plan does to a cluster of which the snapshot shows everything. A pure function."""
    moves = {move.id: move for move in plan.moves}
    leaders, leaders_after = Counter[int](), Counter[int]()
    replicas, replicas_after = Counter[int](), Counter[int]()
    for partition in snapshot.partitions:
        move = moves.get(partition.id)
        leaders[partition.leader] += 1
        leaders_after[move.preferred_leader if move else partition.leader] += 1
        replicas.update(partition.replicas)
        replicas_after.update(move.after if move else partition.replicas)
    known = {*snapshot.broker_ids, *leaders, *leaders_after, *replicas, *replicas_after}
    reasons = Counter(skipped.reason for skipped in plan.skipped)
    first = {skipped.reason: skipped.id for skipped in reversed(plan.skipped)}
    return PlanSummary(
        len(plan.moves),
        len(plan.topics),
        sum(bool(move.adding) for move in plan.moves),
        tuple(
            BrokerLoad(b, leaders[b], leaders_after[b], replicas[b], replicas_after[b])
            for b in sorted(known - {NO_LEADER})
        ),
        dict(
            Counter(
                (len(m.before), len(m.after)) for m in plan.moves if m.changes_replication_factor
            )
        ),
        tuple(LeftAlone(reason, n, first[reason]) for reason, n in reasons.most_common()),
    )
