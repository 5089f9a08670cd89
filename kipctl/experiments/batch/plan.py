"""What `kipctl experiment batch` is asked to measure, and how long that takes."""

import os
from dataclasses import dataclass, field

from kipctl.counts import counted
from kipctl.errors import UsageError
from kipctl.load.plan import check_least, usual_rate
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.verdict import LEAST_RUNS

ALL = "all"
USUAL = "1,5,20,all"
PARTITIONS = 60
ACKS = ("all", "1")
_OF_A_BATCH_S = 0.2
_PREPARING_S = 4.0
"""About what a batch takes, and what a run takes besides its batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """`runs` runs of each batch size, in each of which all leaders rotate so often.

    Sizes are partitions; a record's size is bytes, the rate records per second, times seconds.
    Before the first rotation and after each `settle_s` go by.
    """

    sizes: tuple[int, ...]
    runs: int = LEAST_RUNS
    rotations: int = 3
    partitions: int = PARTITIONS
    throughput: float = field(default_factory=lambda: usual_rate(os.cpu_count() or 1))
    record_size: int = 1000
    acks: str = "all"
    discovery: LeaderDiscovery = LeaderDiscovery.KIP951
    settle_s: float = 2.0
    broker_warmup_s: float = 15.0

    def __post_init__(self) -> None:
        """Raises UsageError for what makes no sense."""
        check_least(
            ("--runs", self.runs, 1),
            ("--rotations", self.rotations, 1),
            ("--partitions", self.partitions, 1),
            ("--record-size", self.record_size, 1),
        )
        if not self.throughput > 0:
            raise UsageError("--throughput must be above 0.")
        if self.acks not in ACKS:
            raise UsageError(f"--acks is {self.acks}; it is one of {', '.join(ACKS)}.")

    def batches(self, size: int) -> int:
        """How many a rotation has."""
        return -(-self.partitions // size)

    @property
    def resources_needed(self) -> str:
        """What is done, and about how long that takes."""
        batches = self.rotations * sum(map(self.batches, self.sizes))
        quiet_s = len(self.sizes) * (_PREPARING_S + self.settle_s * (self.rotations + 1))
        seconds = self.broker_warmup_s + self.runs * (quiet_s + _OF_A_BATCH_S * batches)
        return (
            f"{counted(self.runs * len(self.sizes), 'run')} with"
            f" {counted(self.rotations, 'rotation')} of"
            f" {counted(self.partitions, 'leader')} in each: some {seconds / 60:.0f} min."
        )


def parse_sizes(text: str, partitions: int) -> tuple[int, ...]:
    """Batch sizes such as `1,5,20,all`, each once, the smallest first. Raises UsageError.

    One of as many partitions as the topic has, or more, is all of them at once.
    """
    sizes: list[int] = []
    for word in (word.strip() for word in text.split(",")):
        if word != ALL and not (word.isascii() and word.isdigit() and int(word)):
            raise UsageError(
                f"--batches {text!r} are no batch sizes.", f"Write partitions at a time: {USUAL}"
            )
        sizes.append(partitions if word == ALL else min(int(word), partitions))
    return tuple(sorted(set(sizes)))
