"""What a plan comes to: load of brokers before and after, what is copied from where, how long."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from kipctl.cluster.moves.plan import Move, Plan
from kipctl.cluster.snapshot import NO_LEADER, PartitionId, Snapshot

REORDER, COPY, RAISED, LOWERED = (
    "another order",
    "copied to other brokers",
    "more replicas",
    "fewer replicas",
)


@dataclass(frozen=True, slots=True)
class Disk:
    """The volumes of a broker's log directories, in bytes (DescribeLogDirs 4)."""

    total: int
    usable: int


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker before the plan and after it, its preferred leaders elected.

    `bytes_in` are copied to it, `bytes_out` from it, as the leader. What leaves it makes room when
    all is copied: it is not taken off `bytes_in`. `usable` bytes are those of its disks, None where
    it does not tell; `fills` says that they are too few.
    """

    broker: int
    rack: str | None
    alive: bool
    leaders_before: int
    leaders_after: int
    replicas_before: int
    replicas_after: int
    bytes_before: int
    bytes_after: int
    bytes_in: int
    bytes_out: int
    usable: int | None

    @property
    def fills(self) -> bool:
        return self.usable is not None and self.bytes_in > self.usable


@dataclass(frozen=True, slots=True)
class Link:
    """What is copied from one broker, which leads, to another."""

    source: int
    target: int
    replicas: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PlanView:
    """The plan in numbers; `changes` and `left_alone` are how many partitions, by kind and reason.

    `unknown_sizes` is how many replicas are copied whose size nobody told: they are in no sum of
    bytes.
    """

    brokers: tuple[BrokerView, ...]
    links: tuple[Link, ...]
    changes: Mapping[str, int]
    left_alone: Mapping[str, int]
    copied_replicas: int
    copied_bytes: int
    unknown_sizes: int

    @property
    def filled(self) -> tuple[BrokerView, ...]:
        """The brokers whose disks have too little room."""
        return tuple(broker for broker in self.brokers if broker.fills)


def view(
    snapshot: Snapshot,
    plan: Plan,
    sizes: Mapping[PartitionId, int],
    disks: Mapping[int, Disk] | None = None,
) -> PlanView:
    """What the plan does to the cluster of the snapshot, which should be all of it.

    `sizes` are bytes of a replica by partition, `disks` by broker.
    """
    after = {move.id: move for move in plan.moves}
    racks = {broker.id: broker.rack for broker in snapshot.brokers}
    leaders = Counter[int](), Counter[int]()
    replicas = Counter[int](), Counter[int]()
    held = Counter[int](), Counter[int]()
    for partition in snapshot.partitions:
        move = after.get(partition.id)
        size = sizes.get(partition.id, 0)
        then = partition.replicas if move is None else move.after
        leaders[0][partition.leader] += 1
        leaders[1][partition.leader if move is None else move.preferred_leader] += 1
        for when, brokers in enumerate((partition.replicas, then)):
            for broker in brokers:
                replicas[when][broker] += 1
                held[when][broker] += size
    copies = Counter[tuple[int, int]]()
    copied = Counter[tuple[int, int]]()
    coming, going = Counter[int](), Counter[int]()
    unknown = 0
    for move in plan.moves:
        for broker in move.adding:
            size = sizes.get(move.id, 0)
            copies[move.leader, broker] += 1
            copied[move.leader, broker] += size
            coming[broker] += size
            going[move.leader] += size
            unknown += move.id not in sizes
    links = tuple(
        Link(source, target, copies[source, target], copied[source, target])
        for source, target in sorted(copies)
    )
    concerned = {*racks, *replicas[0], *replicas[1]} - {NO_LEADER}
    return PlanView(
        brokers=tuple(
            BrokerView(
                broker,
                racks.get(broker),
                broker in racks,
                leaders[0][broker],
                leaders[1][broker],
                replicas[0][broker],
                replicas[1][broker],
                held[0][broker],
                held[1][broker],
                coming[broker],
                going[broker],
                disks[broker].usable if disks and broker in disks else None,
            )
            for broker in sorted(concerned)
        ),
        links=links,
        changes=_counted(kind for move in plan.moves for kind in _kinds(move)),
        left_alone=_counted(one.reason for one in plan.skipped),
        copied_replicas=copies.total(),
        copied_bytes=copied.total(),
        unknown_sizes=unknown,
    )


def _kinds(move: Move) -> Iterable[str]:
    if move.is_reorder:
        yield REORDER
    if len(move.after) > len(move.before):
        yield RAISED
    elif len(move.after) < len(move.before):
        yield LOWERED
    elif move.adding:
        yield COPY


def _counted(things: Iterable[str]) -> dict[str, int]:
    """How many of each, the most frequent first."""
    return dict(Counter(things).most_common())


def seconds_at(seen: PlanView, bytes_per_s: float) -> float:
    """How long copying takes at least with this throttle, in bytes per second for each broker.

    Throttles hold for what a broker sends as leader and for what it gets as follower (KIP-73), so
    the broker with the most in or out is the last to finish. Writes to the partitions meanwhile
    come on top.
    """
    return max((max(b.bytes_in, b.bytes_out) for b in seen.brokers), default=0) / bytes_per_s


def document(seen: PlanView, throttle_bytes_per_s: float | None = None) -> dict[str, object]:
    """The view as `--output json` prints it; `seconds` is None without a throttle."""
    return {
        "brokers": [
            {**asdict(broker), "fills": broker.fills if broker.usable is not None else None}
            for broker in seen.brokers
        ],
        "links": [asdict(link) for link in seen.links],
        "changes": dict(seen.changes),
        "left_alone": dict(seen.left_alone),
        "copied_replicas": seen.copied_replicas,
        "copied_bytes": seen.copied_bytes,
        "unknown_sizes": seen.unknown_sizes,
        "throttle_bytes_per_s": throttle_bytes_per_s,
        "seconds": seconds_at(seen, throttle_bytes_per_s) if throttle_bytes_per_s else None,
    }
