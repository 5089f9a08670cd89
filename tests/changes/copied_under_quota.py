"""A broker that copies under Kafka's quota, and clients that share a disk with it, in pure numbers.

A copy goes on at the speed of the line while the mean of the last eleven seconds is not above the
quota, as in Kafka's ReplicationQuotaManager. What is copied goes through a cache to a disk that
bears so many bytes a second: once the cache is full, clients wait for the disk.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kipctl.changes.adapt_throttle import LOOK_S, WINDOW_S
from kipctl.changes.execution.adaptive_rate import QUOTA_WINDOW_S, AdaptiveRate

MB = 10**6
TICK_S = 0.05
FETCH = 2 * MB
UNDISTURBED_MS = 8.0
CROSSED_MS = 12.0
LONGEST_S = 3600.0


@dataclass
class MeanRate:
    """What is compared with the quota."""

    samples: deque[tuple[float, float]] = field(default_factory=deque)
    total: float = 0.0

    def record(self, now_s: float, size: float) -> None:
        self.samples.append((now_s, size))
        self.total += size

    def at(self, now_s: float) -> float:
        while self.samples and now_s - self.samples[0][0] >= QUOTA_WINDOW_S:
            self.total -= self.samples.popleft()[1]
        return self.total / max(1.0, now_s - self.samples[0][0]) if self.samples else 0.0


@dataclass
class Copying:
    """`left` bytes over a line of `line` bytes a second, beside clients of a disk that bears so
    many at a time, with `cache` bytes before it."""

    left: float
    line: float
    bears: Callable[[float], float]
    cache: float = 50.0 * MB
    mean: MeanRate = field(default_factory=MeanRate)
    backlog: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    """Of a client's record in each tick."""

    def tick(self, now_s: float, quota: float) -> None:
        passes = min(self.left, self.line * TICK_S)
        while passes > 0 and self.mean.at(now_s) <= quota:
            size = min(passes, FETCH)
            passes -= size
            self.left -= size
            self.backlog += size
            self.mean.record(now_s, size)
        bears = self.bears(now_s)
        waits_s = max(0.0, self.backlog - self.cache) / bears
        self.backlog = max(0.0, self.backlog - bears * TICK_S)
        self.latencies_ms.append(UNDISTURBED_MS + waits_s * 1000)

    @property
    def is_good(self) -> bool:
        recent = self.latencies_ms[-int(WINDOW_S / TICK_S) :]
        return float(np.quantile(recent, 0.99, method="higher")) <= CROSSED_MS


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
    waits = np.array(copying.latencies_ms) - UNDISTURBED_MS
    harmed = float(np.mean(waits > CROSSED_MS - UNDISTURBED_MS))
    return Copied(now_s, harmed, float(waits.mean()) / 1000)
