"""Leaders that had moved, and that a client met: how many, and how long it waited for each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kipctl.client_behaviour.behaviour import Waits
from kipctl.tap.leaders import PartitionId

_REMEMBERED = 10_000
"""A summary of them is made once a second, for every client."""


class Move(NamedTuple):
    """What a move is: what a client produces and what it fetches waits by itself.

    `generation` is the topic's, `epoch` the new leader's; below 0 where Metadata has no epochs.
    """

    api: int
    partition: PartitionId
    generation: int
    epoch: int


Record = Callable[[Move, int, int | None, int], None]
"""Of a move: when the first refusal was, the wait (None: it was not found, or in a loop), how often
the new leader refused. Microseconds."""


def _nowhere(move: Move, error_us: int, wait_us: int | None, not_ready: int) -> None:
    """Takes what nobody wants."""


@dataclass(slots=True)
class MovesMet:
    """Of one client. What is recorded is what is counted, so that a page of the run says the
    same."""

    record: Record = _nowhere
    total: int = 0
    _waits: dict[Move, int | None] = field(default_factory=dict)
    """Of the last of them."""
    _summary: Waits | None = None
    """It is asked for each second; thousands are sorted when there is another."""

    def met(
        self, move: Move, error_us: int, wait_us: int | None = None, not_ready: int = 0
    ) -> None:
        """It met that one; of several waits for it the longest counts."""
        is_known = move in self._waits
        if is_known and wait_us is None:
            return
        self.record(move, error_us, wait_us, not_ready)
        self._summary = None
        self.total += not is_known
        known_us = self._waits.get(move) or 0
        self._waits[move] = None if wait_us is None else max(wait_us, known_us)
        if len(self._waits) > _REMEMBERED:
            del self._waits[next(iter(self._waits))]

    @property
    def waits(self) -> Waits:
        """How many were found, and p50, p99 (nearest ranks) and the longest of the waits."""
        if self._summary is None:
            self._summary = self._summarized()
        return self._summary

    def _summarized(self) -> Waits:
        waits = sorted(wait for wait in self._waits.values() if wait is not None)
        if not waits:
            return Waits(met=self.total)
        last = len(waits) - 1
        p50, p99 = waits[last // 2], waits[(99 * len(waits) - 1) // 100]
        return Waits(len(waits), p50, p99, waits[last], self.total)
