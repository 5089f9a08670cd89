"""How fast replicas may be copied, by what clients feel. Pure rules.

The rate grows by a share a second until the guard is crossed. Then it is cut, and from there rises
along a cube towards what was too much, as TCP CUBIC does: quickly while it is far below, slowly
near it. When it is past it, it grows by a smaller share a second: what was too much may have been a
pause that had nothing to do with copying, and a rate that crept on from there would stay low.

The quota that Kafka gets for it is another figure. Brokers compare with it the mean of the last
eleven seconds (`ReplicationQuotaManager`: 11 samples of 1 s): where nothing was copied before,
eleven times the quota passes at once, as fast as disks and network can; where it is doubled eleven
times the difference does, and where it is halved nothing passes for five seconds. The mean of the
rates of the last eleven seconds as the quota lets through in each second what is wanted in it.
"""

from dataclasses import dataclass, replace

GROWTH, SLOW_GROWTH = 1.15, 1.05
"""So many times as much a second later: as long as nothing has been too much, and past that."""
GENTLE_CUT, HARD_CUT = 0.8, 0.6
"""What is left of a rate that has come slowly to where it is too much; and of one that grew fast,
or was cut in vain."""
HOLD_S = 5.0
"""After a cut the guard may be crossed by what was before it: so long it is not cut again."""
RETURN_S = 20.0
"""After a cut: when it is again at what was too much."""
SETTLE_S = 8.0
"""Of a broker that has just come back: its start makes clients wait, however little it copies."""
QUOTA_WINDOW_S = 11.0


@dataclass(frozen=True, slots=True)
class AdaptiveRate:
    """A rate in bytes per second, between `floor` and `ceiling`, at a look that was at `looked_s`.

    Times are seconds of a monotonic clock. `too_much` is the rate under which the guard was crossed
    last, None before; `cut_to` what it was cut to then, at `cut_s`; `is_relieved` says that the
    guard has been quiet since. It is not cut before `held_s`. `past` are the rates of the last
    eleven seconds, each with the time since when it held, the newest last.
    """

    rate: int
    floor: int
    ceiling: int
    looked_s: float
    past: tuple[tuple[float, int], ...]
    too_much: int | None = None
    cut_to: int = 0
    cut_s: float = float("-inf")
    held_s: float = float("-inf")
    is_relieved: bool = False

    @classmethod
    def beginning(
        cls, rate: int, floor: int, ceiling: int, now_s: float, before: int | None = None
    ) -> "AdaptiveRate":
        """`before` is the quota under which data was copied until now; None where none was."""
        earlier = () if before is None else ((now_s - QUOTA_WINDOW_S, before),)
        return cls(rate, floor, ceiling, now_s, (*earlier, (now_s, rate)))

    def from_now(self, now_s: float) -> "AdaptiveRate":
        """The same, of a broker that has just come back; the quota was the floor until now."""
        begun = AdaptiveRate.beginning(self.rate, self.floor, self.ceiling, now_s, self.floor)
        return replace(begun, held_s=now_s + SETTLE_S)

    def after(self, *, is_good: bool, now_s: float) -> "AdaptiveRate":
        """The rate after a look at the guard."""
        if is_good:
            growth = SLOW_GROWTH if self.too_much else GROWTH
            rate = int(self.rate * growth ** (now_s - self.looked_s))
            if self.too_much and self.rate < self.too_much:
                left = max(0.0, 1 - (now_s - self.cut_s) / RETURN_S)
                back = int(self.too_much - (self.too_much - self.cut_to) * left**3)
                rate = max(self.rate, back)
            return replace(self, is_relieved=True)._at(min(self.ceiling, rate), now_s)
        if now_s < self.held_s:
            return replace(self, looked_s=now_s)
        share = GENTLE_CUT if self.too_much is not None and self.is_relieved else HARD_CUT
        cut_to = max(self.floor, int(self.rate * share))
        too_much = self.too_much if self.rate == self.floor else self.rate
        cut = replace(self, too_much=too_much, cut_to=cut_to, cut_s=now_s, held_s=now_s + HOLD_S)
        return replace(cut, is_relieved=False)._at(cut_to, now_s)

    def _at(self, rate: int, now_s: float) -> "AdaptiveRate":
        if rate == self.rate:
            return replace(self, looked_s=now_s)
        since = now_s - QUOTA_WINDOW_S
        begun_before = [entry for entry in self.past if entry[0] <= since][-1:]
        past = (*begun_before, *(entry for entry in self.past if entry[0] > since), (now_s, rate))
        return replace(self, rate=rate, looked_s=now_s, past=past)

    def quota(self, now_s: float) -> int:
        """What Kafka is to be given for it now, in bytes per second."""
        since = max(now_s - QUOTA_WINDOW_S, self.past[0][0])
        if now_s <= since:
            return self.past[0][1]
        ends = [at for at, _ in self.past[1:]] + [now_s]
        passed = sum(
            rate * (end - max(begin, since))
            for (begin, rate), end in zip(self.past, ends, strict=True)
            if end > since
        )
        return round(passed / (now_s - since))
