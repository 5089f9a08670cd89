"""In which order brokers are restarted, what each restart risks, and what refuses it. Pure rules.

One rack after the other, so that partitions spread over racks never lack replicas of two of them.
Brokers that are controllers too come last, the active one at the very end: each restart before it
would have moved it, and it moves once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.errors import RefusedError, UsageError
from kipctl.own_names import is_own

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Facts:
    """What a roll is planned from.

    `voters` are the ids of the controllers and `active` is the one that leads them; None where the
    cluster does not tell. `fenced` are brokers that are registered and not in use. `min_insync` is
    min.insync.replicas by topic, None where it is not told. `moving` are partitions that are being
    reassigned, and `not_known` says in sentences what could not be asked. `none_shown` says that
    the client may not Describe any topic, where that may be why there is none.
    """

    snapshot: Snapshot
    voters: frozenset[int] | None = None
    active: int | None = None
    fenced: tuple[int, ...] = ()
    min_insync: Mapping[str, int | None] = field(default_factory=dict)
    moving: tuple[PartitionId, ...] = ()
    not_known: tuple[str, ...] = ()
    none_shown: str = ""


@dataclass(frozen=True, slots=True)
class Risk:
    """What a broker's restart does to partitions while it is away.

    `lost` have no other replica in sync: nobody can read or write them. `below` have fewer in sync
    than min.insync.replicas: acks=all writes are refused. `single` are left with one in-sync
    replica, and still take writes. Of `unknown` min.insync.replicas is not known: they may be
    below it. Topics that
    kipctl has made for a run of its own hold nobody's data, and are in none of these.
    """

    broker: int
    host: str
    port: int
    rack: str | None
    role: str
    replicas: int
    leaders: int
    lost: tuple[PartitionId, ...] = ()
    below: tuple[PartitionId, ...] = ()
    single: tuple[PartitionId, ...] = ()
    unknown: tuple[PartitionId, ...] = ()

    @property
    def is_harmful(self) -> bool:
        """Whether clients cannot write, or read, some partitions meanwhile, or may not be able."""
        return bool(self.lost or self.below or self.unknown)

    def as_document(self) -> dict[str, Any]:
        """For JSON: counts, and some of the partitions."""
        parts = {"lost": self.lost, "below": self.below, "single": self.single}
        return {
            "broker": self.broker,
            "host": self.host,
            "port": self.port,
            "rack": self.rack,
            "role": self.role,
            "replicas": self.replicas,
            "leaders": self.leaders,
            "no_other_replica": len(self.lost),
            "below_min_insync_replicas": len(self.below),
            "one_replica_left": len(self.single),
            "min_insync_replicas_not_known": len(self.unknown),
            "such_as": {name: list(map(str, ids[:_EXAMPLES])) for name, ids in parts.items()},
        }


@dataclass(frozen=True, slots=True)
class RollPlan:
    """Brokers in the order of their restarts; why it is refused now; and what is not known.

    `apart` are controllers that are no brokers: nothing of the roll is about them.
    """

    steps: tuple[Risk, ...]
    refused: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()
    apart: tuple[int, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "order": [step.as_document() for step in self.steps],
            "refused": list(self.refused),
            "not_known": list(self.not_known),
            "controllers_left_alone": list(self.apart),
        }


def plan_roll(facts: Facts, chosen: Sequence[int] = ()) -> RollPlan:
    """The roll of these brokers, or of all. Raises UsageError for a broker that is not there."""
    snapshot = facts.snapshot
    alive = snapshot.broker_ids
    for broker in chosen:
        if broker not in alive:
            how = "is registered, and down" if broker in facts.fenced else "is not in the cluster"
            listed = ", ".join(map(str, alive)) or "none"
            raise UsageError(
                f"Broker {broker} {how} (alive: {listed}).", "See: kipctl inspect brokers"
            )
    ids = set(chosen or alive)
    voters = facts.voters or frozenset()
    order = sorted(
        (broker for broker in snapshot.brokers if broker.id in ids),
        key=lambda b: (b.id == facts.active, b.id in voters, b.rack or "", b.id),
    )
    by_broker = _held(snapshot)
    steps = tuple(
        _risk(
            Risk(
                broker.id,
                broker.host,
                broker.port,
                broker.rack,
                _role(broker.id, facts),
                len(by_broker.get(broker.id, ())),
                snapshot.leaders_per_broker[broker.id],
            ),
            by_broker.get(broker.id, ()),
            facts.min_insync,
        )
        for broker in order
    )
    return RollPlan(
        steps,
        tuple(_refusals(facts)),
        (*facts.not_known, *_unknown(facts, steps)),
        tuple(sorted(voters - frozenset(alive) - frozenset(facts.fenced))),
    )


def demand_safe(plan: RollPlan, *, force: bool) -> None:
    """Raise RefusedError for a roll that must not begin now.

    `force` insists on restarts that clients notice; never on beginning while something is down.
    """
    if plan.refused:
        more = f" (and {len(plan.refused) - 1} more reasons)" if len(plan.refused) > 1 else ""
        raise RefusedError(
            f"The roll is refused: {plan.refused[0]}{more}.",
            "Wait until all is in sync: kipctl wait --until in-sync,converged,no-reassignment",
        )
    if force:
        return
    harmful = [step for step in plan.steps if step.lost or step.below]
    if harmful:
        one = harmful[0]
        raise RefusedError(
            f"Restarting {len(harmful)} of {len(plan.steps)} brokers stops partitions: broker"
            f" {one.broker}: {risk_in_words(one)}.",
            "See all: kipctl roll --dry-run. Add replicas, or insist with --force.",
        )
    if doubtful := [step for step in plan.steps if step.is_harmful]:
        one = doubtful[0]
        raise RefusedError(
            f"Whether restarting {len(doubtful)} of {len(plan.steps)} brokers stops partitions is"
            f" not known: broker {one.broker}: {risk_in_words(one)}.",
            "It takes the right to DescribeConfigs of topics. Repeat it, or insist with --force.",
        )


def risk_in_words(risk: Risk) -> str:
    """What a restart does, in a few words; "" of no harm."""
    parts = []
    if risk.lost:
        parts.append(f"{_some(risk.lost)} without any replica")
    if risk.below:
        parts.append(f"{_some(risk.below)} below min.insync.replicas")
    if risk.unknown:
        parts.append(f"{_some(risk.unknown)} of unknown min.insync.replicas")
    return ", ".join(parts)


def _some(ids: Sequence[PartitionId]) -> str:
    return f"{len(ids):,} partitions, such as {ids[0]}," if len(ids) > 1 else f"{ids[0]}"


def _held(snapshot: Snapshot) -> dict[int, list[Partition]]:
    held: dict[int, list[Partition]] = {}
    for partition in snapshot.partitions:
        for replica in partition.replicas:
            held.setdefault(replica, []).append(partition)
    return held


def _risk(about: Risk, held: Iterable[Partition], min_insync: Mapping[str, int | None]) -> Risk:
    lost, below, single, unknown = [], [], [], []
    for partition in held:
        if is_own(partition.id.topic):
            continue
        left = len(frozenset(partition.isr) - {about.broker})
        least = min_insync.get(partition.id.topic)
        if not left:
            lost.append(partition.id)
            continue
        if least is None:
            unknown.append(partition.id)
        # With more than it has replicas it takes no acks=all writes today either.
        if least is not None and left < least <= len(partition.isr):
            below.append(partition.id)
        elif left == 1:
            single.append(partition.id)
    return Risk(
        about.broker,
        about.host,
        about.port,
        about.rack,
        about.role,
        about.replicas,
        about.leaders,
        tuple(lost),
        tuple(below),
        tuple(single),
        tuple(unknown),
    )


def _role(broker: int, facts: Facts) -> str:
    if broker == facts.active:
        return "broker, active controller"
    return "broker, controller" if broker in (facts.voters or ()) else "broker"


def _refusals(facts: Facts) -> Iterable[str]:
    snapshot = facts.snapshot
    if facts.none_shown:
        yield facts.none_shown.removesuffix(".")
    behind = [p for p in snapshot.partitions if set(p.isr) != set(p.replicas)]
    if behind:
        missing = sorted({b for p in behind for b in set(p.replicas) - set(p.isr)})
        down = [broker for broker in missing if broker not in snapshot.broker_ids]
        away = f"; down: {', '.join(map(str, down))}" if down else ""
        yield (
            f"{len(behind):,} partitions are not all in sync, such as {behind[0].id}"
            f" (not in sync: broker {', '.join(map(str, missing))}{away})"
        )
    if facts.moving:
        yield (f"{len(facts.moving):,} partitions are being reassigned, such as {facts.moving[0]}")


def _unknown(facts: Facts, steps: Iterable[Risk]) -> Iterable[str]:
    if facts.voters is None:
        yield "Which brokers are controllers is not known: their order is by rack alone."
    topics = sorted({one.topic for step in steps for one in step.unknown})
    if topics:
        yield (
            f"min.insync.replicas of {len(topics)} topics, such as {topics[0]}, is not known:"
            " whether they take acks=all writes meanwhile is not either."
        )
    held = {replica for p in facts.snapshot.partitions for replica in p.replicas}
    idle = [broker for broker in facts.fenced if broker not in held]
    if idle:
        yield (
            f"Broker {', '.join(map(str, idle))} is registered and down; it holds no partition that"
            " is shown."
        )
