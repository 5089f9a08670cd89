"""What `kipctl experiment redirect` is asked to measure, what it takes, and whether it can be."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from kipctl.counts import counted
from kipctl.errors import RefusedError, UsageError
from kipctl.experiments.arms.arm import Arm, pairs
from kipctl.experiments.arms.names import ARMS, parse_arms
from kipctl.experiments.arms.stand import Place
from kipctl.experiments.arms.tapped import ROUND_ROBIN, Conditions, Load
from kipctl.lab.cluster import labs_folder
from kipctl.load.plan import OWN_TOPIC, check_least, usual_rate
from kipctl.verdict import LEAST_RUNS


class Scale(StrEnum):
    """Sizes that go together: for this machine, for a first look, and the KIP's own."""

    DEFAULT = "default"
    QUICK = "quick"
    KIP = "kip"


QUICK_ARMS = ("probe-baseline", "probe-kip951", "java-3.6.0", "java-4.3.1")
ACKS = ("1", "all")
_QUIET_S = 0.5
"""Of the time before the first rotation that counts, what is not warm-up."""
_PREPARING_S = 5.0
"""About what a run takes besides its records: a tap and a client to start, rows to read."""
_BIG_BYTES = 1 << 30
"""Of values in a run: with more its topic is made anew for every run, to bound what is on disk."""
_REPLICAS = 3
_BEING_REMOVED = 1.1
"""Runs on disk at a time, of big ones: what the last one wrote goes while the next one writes."""
_LARGE_CORES = 16
_TOLD_IN_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectPlan:
    """What is measured: `runs` runs of each arm. Sizes in bytes, times in seconds, rates per s.

    A rotation of all leaders is due every `every_s` as long as records are.
    """

    arms: tuple[Arm, ...] = field(default_factory=lambda: parse_arms(",".join(ARMS)))
    runs: int = 3
    acks: str = "1"
    idempotence: bool = False
    whole_run: bool = False
    """No warm-up: what comes before the first rotation counts too, as in the KIP."""
    num_records: int = 12_500
    throughput: int = 1000
    record_size: int = 1000
    partitions: int = 100
    every_s: float = 2.5
    conditions: Conditions = field(default_factory=Conditions)
    broker_warmup_s: float = 20.0
    until_met: int = 0
    """A run ends before all its records are sent once its client has met so many moved leaders;
    0: not."""

    def __post_init__(self) -> None:
        """Raises UsageError for what makes no sense."""
        if self.every_s <= 0:
            raise UsageError("--every must be above 0.")
        check_least(
            ("--runs", self.runs, 1),
            ("--num-records", self.num_records, 1),
            ("--throughput", self.throughput, 1),
            ("--record-size", self.record_size, 1),
            ("--partitions", self.partitions, 1),
        )
        if self.acks not in ACKS:
            raise UsageError(f"--acks is {self.acks}; it is one of {', '.join(ACKS)}.")
        if not pairs(self.arms):
            raise UsageError(
                "Nothing would be compared: no arm has another of the same client beside it.",
                "Name it too, as NAME-unhinted for NAME, librdkafka for librdkafka-Nms.",
            )
        if self.seconds <= self.every_s:
            raise UsageError(
                f"{counted(self.num_records, 'record')} at {self.throughput:,}/s take"
                f" {self.seconds:g} s: "
                f"no rotation is due within them, with --every {self.every_s:g}.",
                "Send more records, or rotate more often.",
            )

    @property
    def seconds(self) -> float:
        """What the records of a run take."""
        return self.num_records / self.throughput

    @property
    def rotations(self) -> int:
        """How many are due in a run."""
        return int((self.num_records - 1) / self.throughput / self.every_s)

    @property
    def warmup_records(self) -> int:
        """Those that are sent while clients warm up, until just before the second rotation.

        At the first one a JVM still loads what it needs at a leader's error. If there is but one,
        it counts.
        """
        if self.whole_run:
            return 0
        quiet_s = self.every_s * min(2, self.rotations) - _QUIET_S
        return int(self.throughput * max(0.0, quiet_s))

    @property
    def is_big(self) -> bool:
        return self.num_records * self.record_size > _BIG_BYTES

    @property
    def load(self) -> Load:
        """What every client is given. Where Kafka's clients have other defaults than one another,
        they are set alike, and every partition is written to, so that every move is met.
        """
        return Load(
            topic=OWN_TOPIC,
            num_records=self.num_records,
            throughput=self.throughput,
            record_size=self.record_size,
            partitions=self.partitions,
            warmup_records=self.warmup_records,
            until_met=self.until_met,
            properties={
                "acks": self.acks,
                "enable.idempotence": str(self.idempotence).lower(),
                "linger.ms": "0",
                "batch.size": "16384",
                "max.in.flight.requests.per.connection": "5",
                "partitioner.class": ROUND_ROBIN,
            },
        )

    def under(self, stale_metadata_us: int) -> "RedirectPlan":
        """The same with Metadata stale for so long after a change; rotations give it time."""
        conditions = replace(self.conditions, stale_metadata_us=stale_metadata_us)
        return replace(self, conditions=conditions)


def least_every_s(conditions: Conditions) -> float:
    """What a rotation needs to be over before the next one."""
    waits_us = conditions.stale_metadata_us + 2 * conditions.metadata_delay_us
    return 1.0 + 1.5 * waits_us / 1e6


_ROTATIONS = 4
"""In a run whose number of records is not given."""
_SIZES: Mapping[Scale, Mapping[str, Any]] = {
    Scale.DEFAULT: {"every_s": 2.5},
    Scale.QUICK: {
        "every_s": 1.0,
        "runs": LEAST_RUNS,
        "broker_warmup_s": 8.0,
        "arms": parse_arms(",".join(QUICK_ARMS)),
    },
    Scale.KIP: {
        "throughput": 100_000,
        "num_records": 40_000_000,
        "acks": "all",
        "idempotence": True,
        "whole_run": True,
    },
}


def planned(
    scale: Scale, given: Mapping[str, Any], conditions: Conditions, stalest_us: int = 0
) -> RedirectPlan:
    """A plan of that scale, with what is given (not None) by the names of RedirectPlan's fields.

    Rotations are far enough apart for Metadata to be stale for `stalest_us`, if that is more than
    the conditions have. Raises UsageError.
    """
    sizes = {"throughput": usual_rate(os.cpu_count() or 1), **_SIZES[scale]}
    sizes |= {name: value for name, value in given.items() if value is not None}
    if scale is Scale.KIP:  # one rotation, in the middle
        sizes.setdefault("every_s", sizes["num_records"] / sizes["throughput"] / 2)
    elif "every_s" not in given or given["every_s"] is None:
        stale_us = max(stalest_us, conditions.stale_metadata_us)
        least = least_every_s(replace(conditions, stale_metadata_us=stale_us))
        sizes["every_s"] = max(sizes["every_s"], least)
    if "num_records" not in sizes:
        seconds = max(0.0, sizes["every_s"]) * (_ROTATIONS + 1)
        sizes["num_records"] = max(1, int(sizes["throughput"] * seconds))
    return RedirectPlan(conditions=conditions, **sizes)


def nodes_of(scale: Scale) -> tuple[int, int]:
    """Brokers and controllers of a lab: the KIP's where it is asked for or the machine is large."""
    is_large = (os.cpu_count() or 1) >= _LARGE_CORES
    return (6, 3) if scale is Scale.KIP or is_large else (3, 1)


def resources_needed(plan: RedirectPlan, place: Place, times: int = 1) -> str:
    """How much is measured, `times` over, how long that takes, and what a lab's machine lacks."""
    runs = times * plan.runs * len(plan.arms)
    seconds = plan.broker_warmup_s + runs * (plan.seconds + _PREPARING_S)
    lasts = f"{seconds / 60:,.0f} min" if seconds > _TOLD_IN_S else f"{seconds:.0f} s"
    said = (
        f"{counted(runs, 'run')} of {plan.seconds:g} s, with "
        f"{counted(plan.rotations, 'rotation')} of "
        f"{counted(plan.partitions, 'leader')} in each: about {lasts}."
    )
    cores, nodes = os.cpu_count() or 1, place.brokers + place.controllers
    if not place.is_lab or cores >= nodes + 2:
        return said
    return (
        f"{said} {counted(nodes, 'node')}, the tap and the client share {cores} cores: "
        "times are longer than on machines of their own."
    )


def check_room(plan: RedirectPlan, place: Place) -> None:
    """Raise RefusedError when a lab's disk cannot hold what the runs write."""
    if not place.is_lab:
        return
    folder = next(folder for folder in (labs_folder(), *labs_folder().parents) if folder.exists())
    kept = _BEING_REMOVED if plan.is_big else plan.runs * len(plan.arms)
    needed = kept * plan.num_records * plan.record_size * min(_REPLICAS, place.brokers)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise RefusedError(
            f"The lab would write {needed / 1e9:,.0f} GB, and {free / 1e9:,.0f} GB are free for it "
            f"in {folder}.",
            "Send fewer records with --num-records, or smaller ones with --record-size.",
        )
