"""In which order brokers are restarted, what each restart risks, and what refuses it. Pure rules.

One rack after the other, so that partitions spread over racks never lack replicas of two of them.
Brokers that are controllers too come last, and after all brokers, where it was asked for, the
controllers that are none; the active one at the very end: each restart before it would have moved
it, and it moves once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kipctl.changes.wait_conditions import not_all_in_sync
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.counts import counted
from kipctl.documents.changes import RestartRisk, RollPlanDocument
from kipctl.errors import RefusedError, UsageError
from kipctl.next_step import Command
from kipctl.own_topic_names import is_own
from kipctl.protocol.address import host_port
from kipctl.roll.quorum import Quorum, quorum_problem

_EXAMPLES = 3
CONTROLLER, ACTIVE_CONTROLLER = "controller", "active controller"
"""The role of a node that is no broker."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a roll is planned from.

    `voters` are the ids of the controllers and `active` is the one that leads them; None where the
    cluster does not say. `fenced` are brokers that are registered and not in use. `min_insync` is
    min.insync.replicas by topic, None where it is not known. `moving` are partitions that are being
    reassigned, and `not_known` says in sentences what could not be asked. `quorum` is how far the
    controllers are, None where the cluster does not say. `none_shown` says that the client may not
    Describe any topic, where that may be why there is none.
    """

    snapshot: Snapshot
    voters: frozenset[int] | None = None
    active: int | None = None
    fenced: tuple[int, ...] = ()
    min_insync: Mapping[str, int | None] = field(default_factory=dict)
    moving: tuple[PartitionId, ...] = ()
    not_known: tuple[str, ...] = ()
    quorum: Quorum | None = None
    none_shown: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A broker, or a controller that is none, as its `role` says, and where it listens."""

    broker: int
    host: str
    port: int
    rack: str | None
    role: str

    @property
    def is_controller_only(self) -> bool:
        """Whether it is a controller, and no broker."""
        return self.role in (CONTROLLER, ACTIVE_CONTROLLER)

    @property
    def is_voter(self) -> bool:
        """Whether it is a controller, be it a broker too."""
        return self.role.endswith(CONTROLLER)

    @property
    def name(self) -> str:
        """`broker 3`, or `controller 101`."""
        return f"{'controller' if self.is_controller_only else 'broker'} {self.broker}"

    @property
    def place(self) -> str:
        """`broker 3 (host:9092, rack a)`, as far as that is known."""
        place = (self.host and host_port(self.host, self.port), self.rack and f"rack {self.rack}")
        known = ", ".join(filter(None, place))
        return f"{self.name} ({known})" if known else self.name


class Effect(StrEnum):
    """What a restart does to a partition meanwhile; as JSON names how many.

    LOST: no other replica is in sync, nobody can read or write it. BELOW: fewer are in sync than
    min.insync.replicas, acks=all writes are refused. AT_MINIMUM: just so many are, one that fails
    meanwhile stops it. LESS_THAN_SPARE: fewer above that than was asked for. SINGLE: one is in
    sync, and still takes writes. UNKNOWN: min.insync.replicas is not known, it may be below it.
    """

    LOST = "no_other_replica"
    BELOW = "below_min_insync_replicas"
    AT_MINIMUM = "at_min_insync_replicas"
    LESS_THAN_SPARE = "less_than_spare"
    SINGLE = "one_replica_left"
    UNKNOWN = "min_insync_replicas_not_known"


_HARM = {
    Effect.LOST: "without any replica",
    Effect.BELOW: "below min.insync.replicas",
    Effect.LESS_THAN_SPARE: "with too few above min.insync.replicas",
    Effect.UNKNOWN: "of unknown min.insync.replicas",
}
"""What clients notice, in words."""


@dataclass(frozen=True, slots=True)
class Risk(Node):
    """What the restart of a node, a broker above all, does while it is away: to which partitions.

    Topics that kipctl has made for a run of its own hold nobody's data, and are none of these. With
    `no_quorum` the controllers that are left are no majority: no leader is elected meanwhile.
    """

    replicas: int
    leaders: int
    effects: Mapping[Effect, Sequence[PartitionId]] = field(default_factory=dict)
    no_quorum: bool = False

    @property
    def is_harmful(self) -> bool:
        """Whether clients cannot write, or read, some partitions meanwhile, or may not be able, or
        nobody can lead, or less is to spare than was asked for."""
        return self.no_quorum or not self.effects.keys().isdisjoint(_HARM)

    @property
    def is_known_to_harm(self) -> bool:
        return self.no_quorum or bool(self.effects.keys() & _HARM.keys() - {Effect.UNKNOWN})

    def as_document(self) -> RestartRisk:
        """For JSON: counts, and some of the partitions."""
        by_effect = {effect: self.effects.get(effect, ()) for effect in Effect}
        such_as = {effect: list(map(str, ids[:_EXAMPLES])) for effect, ids in by_effect.items()}
        return {
            "broker": self.broker,
            "host": self.host,
            "port": self.port,
            "rack": self.rack,
            "role": self.role,
            "replica_count": self.replicas,
            "leader_count": self.leaders,
            "no_other_replica": len(by_effect[Effect.LOST]),
            "below_min_insync_replicas": len(by_effect[Effect.BELOW]),
            "at_min_insync_replicas": len(by_effect[Effect.AT_MINIMUM]),
            "less_than_spare": len(by_effect[Effect.LESS_THAN_SPARE]),
            "one_replica_left": len(by_effect[Effect.SINGLE]),
            "min_insync_replicas_not_known": len(by_effect[Effect.UNKNOWN]),
            "no_quorum": self.no_quorum,
            "such_as": {
                "lost": such_as[Effect.LOST],
                "below": such_as[Effect.BELOW],
                "at_minimum": such_as[Effect.AT_MINIMUM],
                "less_than_spare": such_as[Effect.LESS_THAN_SPARE],
                "single": such_as[Effect.SINGLE],
            },
        }


@dataclass(frozen=True, slots=True)
class RollPlan:
    """Nodes in the order of their restarts; why it is refused now; and what is not known.

    `controllers_only` are controllers that are no brokers, of which the roll restarts none.
    """

    steps: tuple[Risk, ...]
    refused: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()
    controllers_only: tuple[int, ...] = ()

    @property
    def order(self) -> str:
        """`brokers 1, 2, 3 and controllers 102, 103, 101`."""
        brokers = ", ".join(str(step.broker) for step in self.steps if not step.is_controller_only)
        controllers = ", ".join(str(step.broker) for step in self.steps if step.is_controller_only)
        named = (("brokers", brokers), ("controllers", controllers))
        return " and ".join(f"{kind} {ids}" for kind, ids in named if ids)

    def as_document(self) -> RollPlanDocument:
        """For JSON."""
        return {
            "nodes": [step.as_document() for step in self.steps],
            "refused": list(self.refused),
            "not_known": list(self.not_known),
            "controllers_left_alone": list(self.controllers_only),
        }


def plan_roll(
    facts: Facts,
    chosen: Sequence[int] | None = (),
    *,
    controllers: bool = False,
    spare: int = 0,
) -> RollPlan:
    """The roll of these brokers, or of all (None: of none), and with `controllers` of those that
    are no brokers. So many replicas above min.insync.replicas are to be left meanwhile: `spare`.
    Raises UsageError for a broker that is not there, and where controllers are not
    known, RefusedError for one that is down."""
    snapshot = facts.snapshot
    alive = snapshot.broker_ids
    for broker in chosen or ():
        if broker not in alive:
            listed = f"(alive: {', '.join(map(str, alive)) or 'none'})"
            if broker in facts.fenced:
                raise RefusedError(
                    f"Broker {broker} is registered, and down {listed}.",
                    "A roll begins when all are up. See: " + Command("inspect brokers"),
                )
            raise UsageError(
                f"Broker {broker} is not in the cluster {listed}.",
                "See: " + Command("inspect brokers"),
            )
    ids = set() if chosen is None else set(chosen or alive)
    voters = facts.voters or frozenset()
    controllers_only = tuple(sorted(voters - frozenset(alive) - frozenset(facts.fenced)))
    after = _controllers(facts, controllers_only) if controllers else ()
    loses_quorum = facts.quorum is not None and not facts.quorum.survives_one
    order = sorted(
        (broker for broker in snapshot.brokers if broker.id in ids),
        key=lambda b: (b.id == facts.active, b.id in voters, b.rack or "", b.id),
    )
    held = _held(snapshot)
    steps = tuple(
        Risk(
            broker.id,
            broker.host,
            broker.port,
            broker.rack,
            _role(broker.id, facts),
            len(held.get(broker.id, ())),
            snapshot.leaders_per_broker[broker.id],
            _effects(broker.id, held.get(broker.id, ()), facts.min_insync, spare),
            no_quorum=loses_quorum and broker.id in voters,
        )
        for broker in order
    )
    steps += after
    return RollPlan(
        steps,
        tuple(_refusals(facts, steps)),
        (*facts.not_known, *_unknown(facts, steps)),
        () if controllers else controllers_only,
    )


def _controllers(facts: Facts, controllers_only: Sequence[int]) -> tuple[Risk, ...]:
    quorum = facts.quorum
    if quorum is None:
        raise UsageError(
            "Which controllers there are is not known, so they cannot be restarted.",
            "DescribeQuorum needs Describe on the cluster.",
        )
    if not controllers_only:
        raise UsageError(
            "There are no controllers that are no brokers.",
            "Leave --controllers out: brokers that are controllers too are restarted with them.",
        )
    steps = []
    for controller in sorted(controllers_only, key=lambda node: (node == quorum.active, node)):
        voter = quorum.voter(controller)
        host, port = (voter.host, voter.port) if voter else ("", 0)
        role = ACTIVE_CONTROLLER if controller == quorum.active else CONTROLLER
        risk = Risk(controller, host, port, None, role, 0, 0, no_quorum=not quorum.survives_one)
        steps.append(risk)
    return tuple(steps)


def require_safe(plan: RollPlan, *, force: bool) -> None:
    """Raise RefusedError for a roll that must not begin now.

    `force` insists on restarts that clients notice; never on beginning while something is down.
    """
    if plan.refused:
        more = (
            f" (and {counted(len(plan.refused) - 1, 'more reason')})"
            if len(plan.refused) > 1
            else ""
        )
        raise RefusedError(
            f"The roll is refused: {plan.refused[0]}{more}.",
            "Wait until all is in sync: "
            + Command("wait", until="in-sync,converged,no-reassignment"),
        )
    if force:
        return
    if harmful := [step for step in plan.steps if step.is_known_to_harm]:
        step = harmful[0]
        what = "stops partitions"
        if step.no_quorum:
            what = "stops the controllers"
        elif step.effects.keys().isdisjoint((Effect.LOST, Effect.BELOW)):
            what = "leaves less to spare than was asked for"
        kind = "node" if any(step.is_controller_only for step in plan.steps) else "broker"
        raise RefusedError(
            f"Restarting {counted(len(harmful), kind, total=len(plan.steps))} {what}:"
            f" {step.name}: {describe_risk(step)}.",
            "See all: " + Command("roll --dry-run") + ". Add replicas, or insist with --force.",
        )
    if doubtful := [step for step in plan.steps if step.is_harmful]:
        step = doubtful[0]
        raise RefusedError(
            f"Whether restarting {counted(len(doubtful), 'broker', total=len(plan.steps))} stops"
            " partitions is"
            f" not known: {step.name}: {describe_risk(step)}.",
            "It takes the right to DescribeConfigs of topics. Repeat it, or insist with --force.",
        )


def describe_risk(risk: Risk) -> str:
    """What a restart does, in a few words; "" of no harm."""
    effects = risk.effects
    parts = [f"{_some(effects[effect])} {_HARM[effect]}" for effect in _HARM if effect in effects]
    if risk.no_quorum:
        parts.append("no majority of controllers is left: no leader is elected meanwhile")
    return ", ".join(parts)


def _some(ids: Sequence[PartitionId]) -> str:
    return f"{counted(len(ids), 'partition')}, such as {ids[0]}," if len(ids) > 1 else f"{ids[0]}"


def _held(snapshot: Snapshot) -> dict[int, list[Partition]]:
    held: dict[int, list[Partition]] = {}
    for partition in snapshot.partitions:
        for replica in partition.replicas:
            held.setdefault(replica, []).append(partition)
    return held


def _effects(
    broker: int, held: Iterable[Partition], min_insync: Mapping[str, int | None], spare: int
) -> dict[Effect, list[PartitionId]]:
    by_effect: dict[Effect, list[PartitionId]] = {}
    for partition in held:
        if not is_own(partition.id.topic):
            left = len(frozenset(partition.isr) - {broker})
            for effect in _effects_on(
                left, len(partition.isr), min_insync.get(partition.id.topic), spare
            ):
                by_effect.setdefault(effect, []).append(partition.id)
    return by_effect


def _effects_on(left: int, in_sync: int, least: int | None, spare: int) -> Iterator[Effect]:
    """What becomes of a partition of which so many replicas, of those in sync, are left."""
    if not left:
        yield Effect.LOST
        return
    if least is None:
        yield Effect.UNKNOWN
    elif left == least:
        yield Effect.AT_MINIMUM
    if least is not None and least <= left < least + spare:
        yield Effect.LESS_THAN_SPARE
    # With more than it has replicas it takes no acks=all writes today either.
    if least is not None and left < least <= in_sync:
        yield Effect.BELOW
    elif left == 1:
        yield Effect.SINGLE


def _role(broker: int, facts: Facts) -> str:
    if broker == facts.active:
        return "broker, active controller"
    return "broker, controller" if broker in (facts.voters or ()) else "broker"


def _refusals(facts: Facts, steps: Iterable[Risk]) -> Iterable[str]:
    snapshot = facts.snapshot
    if facts.none_shown:
        yield facts.none_shown.removesuffix(".")
    if lacking := not_all_in_sync(snapshot):
        yield lacking
    if facts.moving:
        yield (
            f"{counted(len(facts.moving), 'partition', 'are')} being reassigned,"
            f" such as {facts.moving[0]}"
        )
    if facts.quorum and any(step.is_voter for step in steps):
        unmet = quorum_problem(facts.quorum)
        if unmet:
            yield unmet


def _unknown(facts: Facts, steps: Iterable[Risk]) -> Iterable[str]:
    if facts.voters is None:
        yield "Which brokers are controllers is not known: their order is by rack alone."
    topics = sorted({id.topic for step in steps for id in step.effects.get(Effect.UNKNOWN, ())})
    if topics:
        yield (
            f"min.insync.replicas of {counted(len(topics), 'topic')}, such as {topics[0]}, is not"
            " known:"
            " whether they take acks=all writes meanwhile is not either."
        )
    held = {replica for p in facts.snapshot.partitions for replica in p.replicas}
    idle = [broker for broker in facts.fenced if broker not in held]
    if idle:
        yield (
            f"Broker {', '.join(map(str, idle))} is registered and down; it holds no partition that"
            " is shown."
        )
