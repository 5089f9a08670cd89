"""What `experiment roll` is asked for, and the KIP's own scales."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from kipctl.counts import counted
from kipctl.errors import UsageError
from kipctl.experiments.arms.arm import Arm
from kipctl.experiments.arms.probe_arm import ProbeArm
from kipctl.experiments.roll.published import (
    BROKERS,
    CONTROLLERS,
    EVERY_S,
    HIGH,
    LOW,
    RECORD_SIZE,
    RUNS,
)
from kipctl.load.plan import check_least
from kipctl.verdict import LEAST_RUNS


@dataclass(frozen=True, slots=True, kw_only=True)
class RollPlan:
    """Cells are all pairs of `acks` and `partitions`; each arm has `runs` runs in each cell.

    `restarts` brokers are restarted in each run, in the order of their ids; 0 for all.
    """

    arms: tuple[Arm, ...]
    acks: tuple[str, ...] = ("all", "1")
    partitions: tuple[int, ...] = (LOW["partitions"],)
    runs: int = LEAST_RUNS
    restarts: int = 0
    controlled: bool = True
    throughput: float = 500
    record_size: int = 1000
    warmup_s: float = 5.0
    settle_s: float = 2.0
    broker_warmup_s: float = 10.0
    workers: int = 1
    """That each of kipctl's own producer and consumer is shared among, on Spark."""

    def __post_init__(self) -> None:
        """Raises UsageError for numbers that make no sense."""
        check_least(
            ("--runs", self.runs, 1),
            ("--restarts", self.restarts, 0),
            ("--partitions", min(self.partitions), 1),
            ("--record-size", self.record_size, 1),
            ("--workers", self.workers, 1),
        )
        if self.throughput <= 0:
            raise UsageError("--throughput must be above 0.")
        if self.settle_s <= 0:
            raise UsageError("--every must be above 0.")
        if self.workers > 1:
            self._check_workers()

    def _check_workers(self) -> None:
        others = [arm.name for arm in self.arms if not isinstance(arm, ProbeArm)]
        if others:
            raise UsageError(
                f"{others[0]} is one process: --workers is for kipctl's own clients.",
                "Leave --workers out, or name arms probe-... alone with --arms.",
            )
        if self.workers > min(self.partitions):
            raise UsageError(
                f"{counted(self.workers, 'worker')} share"
                f" {counted(min(self.partitions), 'partition')}.",
                f"Ask for at most {min(self.partitions)} with --workers.",
            )

    @property
    def cells(self) -> tuple[tuple[str, int], ...]:
        """(acks, partitions), in order."""
        return tuple(product(self.acks, self.partitions))


SCALES: Mapping[str, Mapping[str, Any]] = {
    f"kip-{workload['name']}": {
        "partitions": (workload["partitions"],),
        "throughput": workload["throughput"],
        "record_size": RECORD_SIZE,
        "settle_s": EVERY_S,
        "runs": RUNS,
    }
    for workload in (LOW, HIGH)
}
"""The KIP's own workloads, as far as one producer and one consumer can take their place."""


def sizes(scale: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of RollPlan: those of the scale, and what is given (not None) instead."""
    chosen = {name: value for name, value in given.items() if value is not None}
    return {**SCALES.get(scale, {}), **chosen}


def nodes_of(scale: str) -> tuple[int, int]:
    """Brokers and controllers of a fresh lab."""
    return (BROKERS, CONTROLLERS) if scale in SCALES else (3, 1)
