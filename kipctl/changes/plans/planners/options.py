"""The planners as a command line names them: each function reads the values of one option."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.planners.add_brokers import add
from kipctl.changes.plans.planners.drain import drain
from kipctl.changes.plans.planners.placement import PlanInputs, known_brokers, require_known
from kipctl.changes.plans.planners.preferred_leaders import (
    balance_leaders,
    balance_leaders_by_bytes,
    leaders_off,
    set_preferred,
)
from kipctl.changes.plans.planners.rack_aware import rack_aware
from kipctl.changes.plans.planners.replace_broker import replace as replace_brokers
from kipctl.changes.plans.planners.replication_factor import replication_factor, require_factor
from kipctl.cluster.snapshot import PartitionId, Snapshot, parse_partition
from kipctl.errors import UsageError, did_you_mean
from kipctl.next_step import Command

RACK_PREFIX, BROKER_PREFIX = "rack:", "broker:"
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class PlannerOption:
    """A planner, with its option as the user wrote it.

    One that never `copies` anything does not look at sizes; one that `weighs` looks at what comes
    in. `spare` are replicas above min.insync.replicas that have to be left. `drained` are brokers
    on which no replica is to stay.
    """

    option: str
    plan: Callable[[Snapshot, PlanInputs], Plan]
    copies: bool = True
    weighs: bool = False
    spare: int = 0
    drained: frozenset[int] = frozenset()

    @property
    def takes_min_insync(self) -> bool:
        """Whether min.insync.replicas has to be known."""
        return bool(self.spare) or "--replication-factor" in self.option


def drain_option(values: Sequence[str]) -> PlannerOption:
    """--drain BROKER, repeatable; BROKER may be several, with commas."""
    brokers = parse_brokers("--drain", values)
    return PlannerOption(
        _written("--drain", values),
        lambda snapshot, inputs: drain(snapshot, brokers, inputs),
        drained=frozenset(brokers),
    )


def leaders_off_option(values: Sequence[str], *, spare: int = 0) -> PlannerOption:
    """--leaders-off BROKER|RACK, repeatable; rack:NAME and broker:ID say which. With `spare` it is
    refused where so many replicas above min.insync.replicas are not left without them."""

    def plan(snapshot: Snapshot, inputs: PlanInputs) -> Plan:
        brokers = {broker for value in values for broker in brokers_of(snapshot, value)}
        return leaders_off(snapshot, brokers, inputs)

    return PlannerOption(_written("--leaders-off", values), plan, copies=False, spare=spare)


def leader_option(values: Sequence[str]) -> PlannerOption:
    """--leader PARTITION=BROKER, repeatable."""
    wanted = _one_each(map(parse_leader, values), "--leader gives {} two leaders: {} and {}.")
    return PlannerOption(
        _written("--leader", values),
        lambda snapshot, inputs: set_preferred(snapshot, wanted),
        copies=False,
    )


def balance_option(value: str) -> PlannerOption:
    """--balance leaders, or bytes."""
    planners = {"leaders": balance_leaders, "bytes": balance_leaders_by_bytes}
    if value not in planners:
        raise UsageError(
            f"--balance {value!r} is not known.", "Write --balance leaders, or --balance bytes."
        )
    weighs = value == "bytes"
    return PlannerOption(f"--balance {value}", planners[value], copies=False, weighs=weighs)


def add_option(values: Sequence[str]) -> PlannerOption:
    """--add BROKER, repeatable; BROKER may be several, with commas."""
    brokers = parse_brokers("--add", values)
    return PlannerOption(
        _written("--add", values), lambda snapshot, inputs: add(snapshot, brokers, inputs)
    )


def replace_option(values: Sequence[str]) -> PlannerOption:
    """--replace A=B, repeatable."""
    two = "--replace gives broker {} two successors: {} and {}."
    successors = _one_each(map(parse_replace, values), two)
    return PlannerOption(
        _written("--replace", values),
        lambda snapshot, inputs: replace_brokers(snapshot, successors, inputs),
    )


def replication_factor_option(value: int, *, force: bool = False) -> PlannerOption:
    """--replication-factor N. Raises UsageError below 1."""
    require_factor(value)
    return PlannerOption(
        f"--replication-factor {value}",
        lambda snapshot, inputs: replication_factor(snapshot, value, inputs, force=force),
    )


def rack_aware_option() -> PlannerOption:
    """--rack-aware."""
    return PlannerOption("--rack-aware", rack_aware)


def parse_brokers(option: str, values: Iterable[str]) -> tuple[int, ...]:
    """The ids in `3`, `3,4` and the like, sorted. Raises UsageError for what is no broker's id."""
    return tuple(sorted({_broker(option, part) for value in values for part in value.split(",")}))


def parse_leader(value: str) -> tuple[PartitionId, int]:
    """`orders:3=2`: the partition and its leader. Raises UsageError."""
    partition, equals, broker = value.rpartition("=")
    if not equals:
        raise UsageError(
            f"--leader {value!r} is not PARTITION=BROKER.", "Write it as in orders:3=2"
        )
    return parse_partition(partition), _broker("--leader", broker)


def parse_replace(value: str) -> tuple[int, int]:
    """`1=4`: the broker to replace, and its successor. Raises UsageError."""
    broker, equals, successor = value.partition("=")
    if not equals:
        raise UsageError(
            f"--replace {value!r} is not A=B.", "Write both brokers' ids: --replace 1=4"
        )
    ids = _broker("--replace", broker), _broker("--replace", successor)
    if ids[0] == ids[1]:
        raise UsageError(f"--replace {value}: a broker cannot replace itself.", "Name another.")
    return ids


def brokers_of(snapshot: Snapshot, value: str) -> frozenset[int]:
    """The brokers that `3`, `zone-a`, `rack:3` or `broker:3` means.

    Raises UsageError for what is neither a broker nor a rack, and for a number that is both.
    """
    rack = value.removeprefix(RACK_PREFIX)
    in_rack = frozenset(broker.id for broker in snapshot.brokers if broker.rack == rack)
    number = value.removeprefix(BROKER_PREFIX)
    is_broker = _is_number(number) and int(number) in known_brokers(snapshot)
    if in_rack and is_broker:
        raise UsageError(
            f"{value} is a broker and a rack.",
            f"Write {BROKER_PREFIX}{value} or {RACK_PREFIX}{value}.",
        )
    if in_rack:
        return in_rack
    if _is_number(number):
        broker = _broker("--leaders-off", number)
        require_known(snapshot, [broker])
        return frozenset({broker})
    known = sorted({broker.rack for broker in snapshot.brokers if broker.rack})
    raise UsageError(
        f"No live broker is in rack {rack!r}; the racks are: {', '.join(known) or 'none'}."
        f"{did_you_mean(rack, known)}",
        "Name one of them, or a broker by its id.",
    )


def _one_each(pairs: Iterable[tuple[K, int]], two: str) -> dict[K, int]:
    """The broker of each. Raises UsageError for one that is given `two`."""
    brokers: dict[K, int] = {}
    for key, broker in pairs:
        if brokers.setdefault(key, broker) != broker:
            raise UsageError(two.format(key, brokers[key], broker), "Give it one.")
    return brokers


def _written(option: str, values: Iterable[str]) -> str:
    return " ".join(f"{option} {value}" for value in values)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _broker(option: str, text: str) -> int:
    if not _is_number(text) or int(text) >= 2**31:
        raise UsageError(
            f"{option}: {text!r} is no broker's id.",
            "Ids are whole numbers. List them: " + Command("inspect brokers"),
        )
    return int(text)


def planner_for(option: str, value: Any, force: bool, spare: int = 0) -> PlannerOption | None:
    """The way to plan that an option names, read from its value; None for any other option.

    Raises UsageError.
    """
    options: Mapping[str, Callable[[Any], PlannerOption]] = {
        "--drain": drain_option,
        "--leaders-off": partial(leaders_off_option, spare=spare),
        "--leader": leader_option,
        "--balance": balance_option,
        "--add": add_option,
        "--replace": replace_option,
        "--replication-factor": partial(replication_factor_option, force=force),
        "--rack-aware": lambda _: rack_aware_option(),
    }
    return options[option](value) if option in options else None
