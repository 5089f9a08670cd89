"""Whether what the tap sees can be trusted: how busy the machine is, how late the tap itself."""

from collections import deque
from typing import NamedTuple

from kipctl.client_behaviour.doubt import Doubt
from kipctl.client_behaviour.episode import AT_ONCE_US
from kipctl.machine import MAX_BUSY, CpuTimes, busy_share, cpu_times
from kipctl.tap.times import Times

LOOK_US = 50_000
"""So often the tap looks how late it is."""
_BUSY_FACTOR = 10
"""On a busy machine processes wait for a turn, as the tap does; few for so many times longer."""
_WINDOW = 100
"""Looks: what was up in the last 5 s tells of an episode that ends."""


class _Look(NamedTuple):
    late_us: int
    cpu: CpuTimes | None


class Watch:
    """Looks at the clock and at the machine every `LOOK_US`."""

    def __init__(self) -> None:
        self._looks: deque[_Look] = deque(maxlen=_WINDOW)
        self._began = cpu_times()
        self.late = Times()
        """How late it was, each time."""
        self.most_busy = 0.0
        """The largest share of the CPU time that was used when doubts were asked for."""

    def look(self, late_us: int) -> None:
        """It is so much later than it was to be."""
        self.late.add(max(0, late_us))
        self._looks.append(_Look(late_us, cpu_times()))

    @property
    def busy(self) -> float | None:
        """The share of the machine's CPU time that was used since the tap began, 0 to 1."""
        return busy_share(self._began, cpu_times())

    @property
    def late_us(self) -> int:
        """The most that it was late in the last looks: what came one by one may be read together,
        and what had left before an answer was read seems to follow it."""
        return max((look.late_us for look in self._looks), default=0)

    def doubts(self, reaction_us: int) -> list[Doubt]:
        """What may have made a reaction that was seen just now, or longer."""
        doubts = []
        if self._looks:
            busy = busy_share(self._looks[0].cpu, self._looks[-1].cpu) or 0.0
            self.most_busy = max(busy, self.most_busy)
            late_us = self.late_us
            if busy > MAX_BUSY and _BUSY_FACTOR * late_us >= reaction_us:
                doubts.append(Doubt.BUSY)
            if late_us >= max(AT_ONCE_US, reaction_us) / 2:
                doubts.append(Doubt.TAP)
        return doubts
