"""A plan as an operator looks at it: brokers before and after, what is copied, what is skipped.

Pure rules, of a snapshot of the whole cluster, a plan, and what brokers report of their logs.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kipctl.changes.plans.log_sizes import NOT_ASKED, LogSizes
from kipctl.changes.plans.plan import Plan
from kipctl.cluster.snapshot import NO_LEADER, PartitionId, Snapshot
from kipctl.counts import counted, format_bytes
from kipctl.documents.plans import BrokerChange, CopyLink, PlanShown, TopicSpread


@dataclass(frozen=True, slots=True)
class SkipReason:
    """A reason to leave partitions alone, how many there are, and one of them."""

    reason: str
    partitions: int
    example: PartitionId

    def __str__(self) -> str:
        partitions = counted(self.partitions, "partition")
        return f"Left alone: {partitions}, such as {self.example}: {self.reason}."


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """The plan in numbers.

    `copied` partitions get a replica that copies their data; `factors` are how many partitions
    change from one number of replicas to another. `unknown_sizes` is how many replicas are copied
    whose size no broker reported: they are in no sum of bytes; `silent` says which brokers did
    not report theirs, and why. `topic_spread` is of the topics that the plan changes.
    """

    partitions: int
    topics: int
    copied: int
    brokers: tuple[BrokerChange, ...]
    links: tuple[CopyLink, ...]
    factors: Mapping[tuple[int, int], int]
    skip_reasons: tuple[SkipReason, ...]
    unknown_sizes: int
    silent: Mapping[int, str]
    topic_spread: TopicSpread

    @property
    def copied_replicas(self) -> int:
        return sum(link.replica_count for link in self.links)

    @property
    def copied_bytes(self) -> int:
        return sum(link.bytes for link in self.links)

    @property
    def filled(self) -> tuple[BrokerChange, ...]:
        """The brokers whose disks have too little room."""
        return tuple(broker for broker in self.brokers if broker.fills)

    def seconds_at(self, bytes_per_s: float) -> float:
        """How long copying takes at least with this throttle, in bytes per second for each broker.

        Throttles hold for what a broker sends as leader and for what it gets as follower (KIP-73),
        so the broker with the most in or out is the last to finish. Writes to the partitions
        meanwhile come on top.
        """
        return max((max(b.bytes_in, b.bytes_out) for b in self.brokers), default=0) / bytes_per_s


def summarize(snapshot: Snapshot, plan: Plan, logs: LogSizes = NOT_ASKED) -> PlanSummary:
    """What the plan does to the cluster of the snapshot, which should be all of it."""
    moves = {move.id: move for move in plan.moves}
    racks = {broker.id: broker.rack for broker in snapshot.brokers}
    leaders, leaders_after = Counter[int](), Counter[int]()
    replicas, replicas_after = Counter[int](), Counter[int]()
    held, held_after = Counter[int](), Counter[int]()
    for partition in snapshot.partitions:
        move = moves.get(partition.id)
        size = logs.sizes.get(partition.id, 0)
        after = partition.replicas if move is None else move.after
        leaders[partition.leader] += 1
        leaders_after[partition.leader if move is None else move.preferred_leader] += 1
        replicas.update(partition.replicas)
        replicas_after.update(after)
        for broker in partition.replicas:
            held[broker] += size
        for broker in after:
            held_after[broker] += size
    links = _links(plan, logs)
    bytes_in, bytes_out = Counter[int](), Counter[int]()
    for link in links:
        bytes_in[link.to_broker] += link.bytes
        bytes_out[link.from_broker] += link.bytes
    usable = {b: disk.usable for b, disk in logs.disks.items() if disk.usable is not None}
    known = {*racks, *leaders, *leaders_after, *replicas, *replicas_after} - {NO_LEADER}
    return PlanSummary(
        partitions=len(plan.moves),
        topics=len(plan.topics),
        copied=sum(bool(move.adding) for move in plan.moves),
        brokers=tuple(
            BrokerChange(
                b,
                racks.get(b),
                b in racks,
                leaders[b],
                leaders_after[b],
                replicas[b],
                replicas_after[b],
                held[b],
                held_after[b],
                bytes_in[b],
                bytes_out[b],
                usable.get(b),
                bytes_in[b] > usable[b] if b in usable else None,
            )
            for b in sorted(known)
        ),
        links=links,
        factors=Counter(
            (len(m.before), len(m.after)) for m in plan.moves if m.changes_replication_factor
        ),
        skip_reasons=skip_reasons(plan),
        unknown_sizes=sum(len(m.adding) for m in plan.moves if m.id not in logs.sizes),
        silent=logs.missing,
        topic_spread=topic_spread(snapshot, plan),
    )


def topic_spread(snapshot: Snapshot, plan: Plan) -> TopicSpread:
    """In how many of the topics that it changes leaders are even, before the plan and after it."""
    topics = frozenset(plan.topics)
    moves = {move.id: move for move in plan.moves}
    before: dict[str, Counter[int]] = {topic: Counter() for topic in topics}
    after: dict[str, Counter[int]] = {topic: Counter() for topic in topics}
    for partition in snapshot.partitions:
        if partition.id.topic in topics:
            move = moves.get(partition.id)
            replicas = partition.replicas if move is None else move.after
            before[partition.id.topic].update(
                dict.fromkeys(partition.replicas, 0) | {partition.leader: 1}
            )
            leader = partition.leader if move is None else move.preferred_leader
            after[partition.id.topic].update(dict.fromkeys(replicas, 0) | {leader: 1})

    def is_even(leads: Counter[int]) -> bool:
        counts = [count for broker, count in leads.items() if broker != NO_LEADER]
        return max(counts) - min(counts) < 2

    return TopicSpread(
        len(topics), sum(map(is_even, before.values())), sum(map(is_even, after.values()))
    )


def skip_reasons(plan: Plan) -> tuple[SkipReason, ...]:
    """Why the plan leaves partitions alone, the most frequent reason first, each with its first."""
    reasons = Counter(skipped.reason for skipped in plan.skipped)
    first = {skipped.reason: skipped.id for skipped in reversed(plan.skipped)}
    return tuple(SkipReason(reason, n, first[reason]) for reason, n in reasons.most_common())


def _links(plan: Plan, logs: LogSizes) -> tuple[CopyLink, ...]:
    copies, copied = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for move in plan.moves:
        for broker in move.adding:
            copies[move.leader, broker] += 1
            copied[move.leader, broker] += logs.sizes.get(move.id, 0)
    return tuple(CopyLink(*pair, copies[pair], copied[pair]) for pair in sorted(copies))


def document(seen: PlanSummary, throttle_bytes_per_s: float | None = None) -> PlanShown:
    """The view as `--output json` prints it; `copied` only of a plan that copies, its `seconds`
    only with a throttle."""
    shown: PlanShown = {
        "counts": {
            "partition_count": seen.partitions,
            "topic_count": seen.topics,
            "copied_count": seen.copied,
            "skipped_count": sum(reason.partitions for reason in seen.skip_reasons),
        },
        "brokers": list(seen.brokers),
        "topic_spread": seen.topic_spread,
        "replication_factor_changes": [
            {"from_factor": old, "to_factor": new, "partitions": n}
            for (old, new), n in seen.factors.items()
        ],
        "left_alone": [
            {
                "reason": reason.reason,
                "partitions": reason.partitions,
                "example": str(reason.example),
            }
            for reason in seen.skip_reasons
        ],
    }
    if seen.links:
        shown["copied"] = {
            "replica_count": seen.copied_replicas,
            "bytes": seen.copied_bytes,
            "unknown_sizes": seen.unknown_sizes,
            "broker_errors": {str(broker): why for broker, why in seen.silent.items()},
            "links": list(seen.links),
            "throttle_bytes_per_second": throttle_bytes_per_s,
            "seconds": seen.seconds_at(throttle_bytes_per_s) if throttle_bytes_per_s else None,
        }
    return shown


def too_little_room(broker: int, bytes_in: int, usable: int) -> str:
    """The sentence about a broker whose disks would fill."""
    return (
        f"Broker {broker} has too little room: {format_bytes(bytes_in)} come,"
        f" {format_bytes(usable)} are free."
    )
