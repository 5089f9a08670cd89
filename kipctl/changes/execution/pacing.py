"""How fast a change goes on, and how often its progress is reported: pure rules."""

from collections.abc import Sequence
from dataclasses import dataclass

from kipctl.changes.plans.plan import Move

FIRST_PAUSE_S = 1.0
LAST_PAUSE_S = 30.0
SHARE_OF_TIME = 0.1


@dataclass(frozen=True, slots=True)
class Pace:
    """How many partitions are submitted at once, and the seconds between two such batches.

    A batch is waited for before the next one. The controller takes 10,000 records in one operation
    (Kafka's `QuorumController.MAX_RECORDS_PER_BATCH`), which is the most there can be. `throttle`
    is that under which data is copied, in bytes per second: the time left is estimated by it. With
    `concurrent` a batch is submitted bit by bit, so that no more replicas are added at a time.
    """

    batch: int = 10_000
    between_s: float = 0.0
    throttle: int | None = None
    concurrent: int | None = None


ONE_BATCH = Pace()


@dataclass(slots=True)
class ReportInterval:
    """When to report progress again: a second after the first time, then whenever a tenth more time
    has passed, and every half minute at most. Times are of one monotonic clock."""

    began_s: float | None = None
    _next_s: float = 0.0

    def is_due(self, now_s: float, at_least_s: float = 0.0) -> bool:
        """Whether a report is due; if it is, the next one is after a pause, or `at_least_s`."""
        if self.began_s is None:
            self.began_s = self._next_s = now_s
        if now_s < self._next_s:
            return False
        self.rest(now_s, at_least_s)
        return True

    def rest(self, now_s: float, at_least_s: float = 0.0) -> None:
        """Put the next report off by a pause from now, or by `at_least_s`."""
        passed_s = now_s - (now_s if self.began_s is None else self.began_s)
        pause_s = min(max(FIRST_PAUSE_S, passed_s * SHARE_OF_TIME), LAST_PAUSE_S)
        self._next_s = now_s + max(pause_s, at_least_s)


def next_moves(left: Sequence[Move], under_way: Sequence[Move], most: int) -> tuple[Move, ...]:
    """Which of the moves that are left are submitted now, in their order.

    At most `most` replicas are added at a time. A move that adds none goes at once; one that adds
    more than `most` goes when nothing else is being added, as it would never go otherwise. What
    comes after a move that has to wait does not overtake it, but for those that add nothing.
    """
    adding = sum(len(move.adding) for move in under_way)
    chosen: list[Move] = []
    is_full = False
    for move in left:
        count = len(move.adding)
        is_full = is_full or bool(count and adding and adding + count > most)
        if not count or not is_full:
            chosen.append(move)
            adding += count
    return tuple(chosen)
