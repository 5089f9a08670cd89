"""Connections that a client closes because of a hint that is not about their brokers."""

from dataclasses import dataclass, field

WITHIN_US = 100_000
_LEAST = 2
"""Brokers: one may have been idle for too long just then."""
_GOES_ON_US = 1_000_000


@dataclass(slots=True)
class CutConnections:
    """Of one client. Times are monotonic microseconds."""

    _hint_us: int = -WITHIN_US
    _about: tuple[int, int] = (-1, -1)
    """The broker that refused, and the one that the hint names."""
    _cut: set[int] = field(default_factory=set)
    is_pending: bool = False

    def hinted(self, now_us: int, refuser: int, leader: int) -> None:
        """It got a usable hint."""
        if not self.is_pending:
            self._hint_us, self._about = now_us, (refuser, leader)
            self._cut.clear()

    def closed(self, now_us: int, broker: int) -> None:
        """It closed a connection."""
        if now_us - self._hint_us <= WITHIN_US and broker not in self._about:
            self._cut.add(broker)
            self.is_pending = len(self._cut) >= _LEAST

    def were_cut(self, now_us: int, is_connected: bool) -> bool:
        """Whether it closed several, and is there still: one that ends closes all. Once."""
        if not self.is_pending or now_us - self._hint_us < _GOES_ON_US:
            return False
        self.is_pending = False
        self._cut.clear()
        return is_connected
