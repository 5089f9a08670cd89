"""A broker that copies under Kafka's quota, and clients that share a disk with it, in pure numbers.

A copy goes on at the speed of the line while the mean of the last eleven seconds is not above the
quota, as in Kafka's ReplicationQuotaManager. What is copied goes through a cache to a disk that
bears so many bytes a second: once the cache is full, clients wait for the disk.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kipctl.changes.adapt_throttle import LOOK_S, WINDOW_S
from kipctl.changes.execution.adaptive_rate import QUOTA_WINDOW_S, AdaptiveRate
from kipctl.guard.canary import RATE

MB = 10**6
TICK_S = 0.05
FETCH = 2 * MB
RECORDS_A_TICK = round(RATE * TICK_S)
UNDISTURBED_MS = 8.0
HARMED_MS = 4.0
"""Longer than undisturbed: that is more than 1.5 times."""
LONGEST_S = 3600.0


def pauses_ms(seed: int, seconds: float) -> np.ndarray:
    """How long each record waits for a pause of a broker, of which there are seven in ten seconds:
    most of 10 to 25 ms, some of 100."""
    rng = np.random.default_rng(seed)
    waits = np.zeros(round(seconds * RATE))
    ends = np.cumsum(rng.exponential(1 / 0.7, round(seconds)))
    for at_s, long_ms in zip(ends, rng.lognormal(np.log(15), 0.8, len(ends)), strict=True):
        first = round(at_s * RATE)
        own = waits[first : first + int(long_ms / 1000 * RATE) + 1]
        own[:] = np.maximum(own, long_ms - 1000 / RATE * np.arange(len(own)))
    return waits


@dataclass
class MeanRate:
    """What is compared with the quota: bytes by the time since the oldest of 12 samples began, as
    in Kafka's SampledStat. An idle sample begins anew after eleven seconds, so that after an idle
    time the oldest is up to so old, and eleven times the quota passes at once."""

    samples: list[list[float]] = field(
        default_factory=lambda: [[-float(age), -float(age), 0.0] for age in range(12)]
    )
    """Of each: when it began, when it was last recorded in, bytes."""
    current: int = 0

    def record(self, now_s: float, size: float) -> None:
        if now_s - self.samples[self.current][0] >= 1.0:
            self.current = (self.current + 1) % len(self.samples)
            self.samples[self.current] = [now_s, now_s, 0.0]
        sample = self.samples[self.current]
        sample[1], sample[2] = now_s, sample[2] + size

    def at(self, now_s: float) -> float:
        for sample in self.samples:
            if now_s - sample[1] >= QUOTA_WINDOW_S:
                sample[:] = now_s, now_s, 0.0
        elapsed = now_s - min(began for began, _, _ in self.samples)
        return sum(size for _, _, size in self.samples) / max(1.0, elapsed)


@dataclass
class Copying:
    """`left` bytes over a line of `line` bytes a second, beside clients of a disk that bears so
    many at a time, with `cache` bytes before it; `pauses` have nothing to do with copying.

    The guard is crossed where the `share` of the latest latencies is above 1.5 times that of the
    first eight seconds of pauses.
    """

    left: float
    line: float
    bears: Callable[[float], float]
    cache: float = 50.0 * MB
    pauses: np.ndarray | None = None
    share: float = 0.95
    mean: MeanRate = field(default_factory=MeanRate)
    backlog: float = 0.0
    waits_ms: list[float] = field(default_factory=list)
    """For the disk, of the records of each tick."""
    latencies_ms: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        before = np.zeros(1) if self.pauses is None else self.pauses[: 8 * RATE]
        self.limit_ms = 1.5 * (UNDISTURBED_MS + self._quantile(before))

    def tick(self, now_s: float, quota: float) -> None:
        passes = min(self.left, self.line * TICK_S)
        while passes > 0 and self.mean.at(now_s) <= quota:
            size = min(passes, FETCH)
            passes -= size
            self.left -= size
            self.backlog += size
            self.mean.record(now_s, size)
        bears = self.bears(now_s)
        waits_ms = max(0.0, self.backlog - self.cache) / bears * 1000
        self.backlog = max(0.0, self.backlog - bears * TICK_S)
        self.waits_ms.append(waits_ms)
        known = len(self.latencies_ms)
        here = np.zeros(RECORDS_A_TICK) if self.pauses is None else self.pauses[known:]
        self.latencies_ms += (UNDISTURBED_MS + waits_ms + here[:RECORDS_A_TICK]).tolist()

    @property
    def is_good(self) -> bool:
        recent = self.latencies_ms[-round(WINDOW_S * RATE) :]
        return self._quantile(recent) <= self.limit_ms

    def _quantile(self, latencies: Sequence[float] | np.ndarray) -> float:
        return float(np.quantile(latencies, self.share, method="higher"))


@dataclass(frozen=True)
class Copied:
    """How it went: seconds until all was copied; the share of them in which clients waited longer
    than they should, and how much longer they waited in all, in seconds of clients' waiting."""

    seconds: float
    harmed: float
    waited_s: float


QuotaOf = Callable[[AdaptiveRate, float], int]


def copy_all(copying: Copying, rule: AdaptiveRate, quota_of: QuotaOf) -> Copied:
    """Copy all of it, with a look at the guard every second."""
    now_s = looked_s = 0.0
    quota = quota_of(rule, now_s)
    while copying.left > 0 and now_s < LONGEST_S:
        now_s += TICK_S
        copying.tick(now_s, quota)
        if now_s - looked_s >= LOOK_S:
            looked_s = now_s
            rule = rule.after(is_good=copying.is_good, now_s=now_s)
            quota = quota_of(rule, now_s)
    waits = np.array(copying.waits_ms)
    harmed = float(np.mean(waits > HARMED_MS))
    return Copied(now_s, harmed, float(waits.mean()) / 1000)
