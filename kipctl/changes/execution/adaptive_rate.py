"""How fast replicas may be copied, by what clients feel: faster while all is well, slower when not.

As TCP finds what a path carries: the rate is doubled until the guard is crossed for the first time,
then halved whenever it is, and raised by a share of what was too much while it is not. A pure rule.
"""

from dataclasses import dataclass, replace

FIRST_RAISE_S = 2.0
"""Between two raises, as long as nothing has been too much."""
RAISE_S = 5.0
"""Between two raises afterwards."""
CUT_S = 10.0
"""After a cut: so long a canary's percentiles, and Kafka's quota (its window is of 11 samples of a
second), still have what was before it in them."""
RAISE_SHARE = 0.1
"""Of the rate that was too much last."""


@dataclass(frozen=True, slots=True)
class AdaptiveRate:
    """A rate in bytes per second, between `floor` and `ceiling`.

    `changed_s` is when it was last changed, or what was read first (seconds of a monotonic clock).
    `too_much` is the rate under which the guard was crossed last, None before; `was_cut` says that
    the last change lowered it.
    """

    rate: int
    floor: int
    ceiling: int
    changed_s: float
    too_much: int | None = None
    was_cut: bool = False

    def after(self, *, is_good: bool, now_s: float) -> "AdaptiveRate":
        """The rate after a look at the guard. It is the same object where nothing changes."""
        passed_s = now_s - self.changed_s
        if not is_good:
            if self.was_cut and passed_s < CUT_S:
                return self
            rate = max(self.floor, self.rate // 2)
            if rate == self.rate:
                return self
            return replace(self, rate=rate, changed_s=now_s, too_much=self.rate, was_cut=True)
        pause_s = CUT_S if self.was_cut else FIRST_RAISE_S if self.too_much is None else RAISE_S
        if passed_s < pause_s:
            return self
        more = self.rate if self.too_much is None else max(1, int(self.too_much * RAISE_SHARE))
        rate = min(self.ceiling, self.rate + more)
        if rate == self.rate:
            return self
        return replace(self, rate=rate, changed_s=now_s, was_cut=False)
