"""Preferred leaders spread over brokers: as evenly as can be, and then with the fewest moves.

A flow of least cost. Partitions flow from broker to broker along the replicas that may lead them; a
broker's k-th leader costs 2k - 1 (so that the sum of squares is the cost), and a partition that is
not where it was costs a little, less than any unevenness. First every broker that leads the most
hands leaders on directly, then cycles of negative cost are cancelled until there is none, which is
the optimum (Klein, 1967).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

_NO_WAY = 2**60
_BACK, _ONWARD, _AWAY = -1, 0, 1
"""What a step costs: back to where it was, from one strange broker to another, away from it."""
_STEPS = (_BACK, _ONWARD, _AWAY)


@dataclass(frozen=True, slots=True)
class Candidates:
    """One partition: the brokers that may lead it, and the one that does; None when no matter."""

    may: tuple[int, ...]
    now: int | None = None


def balance(fixed: Mapping[int, int], choices: Sequence[Candidates]) -> list[int]:
    """The leader of each choice, such that brokers lead as evenly as these replicas allow.

    `fixed` is, by broker, how many partitions it leads besides; every broker that may lead is in
    it. Of all assignments with the least sum of squares it is one that changes the fewest `now`.
    """
    return _Flow(fixed, choices).solved()


class _Flow:
    def __init__(self, fixed: Mapping[int, int], choices: Sequence[Candidates]) -> None:
        self._brokers = sorted(fixed)
        self._index = {broker: place for place, broker in enumerate(self._brokers)}
        self._leads = np.array([fixed[broker] for broker in self._brokers], dtype=np.int64)
        self._may = [tuple(self._index[broker] for broker in one.may) for one in choices]
        self._home = [None if one.now is None else self._index[one.now] for one in choices]
        self._at = [0] * len(choices)
        size = len(self._brokers)
        # Who may go from one broker to another, by what the step costs; in order, for one outcome.
        self._ready: dict[tuple[int, int, int], dict[int, None]] = {}
        self._steps = np.full((size, size), _NO_WAY, dtype=np.int64)
        self._much = len(choices) + 1
        """What one unit of unevenness costs: more than all moves together."""
        homeless = [one for one, home in enumerate(self._home) if home is None]
        for one, home in enumerate(self._home):
            if home is not None:
                self._assign(one, home)
        for one in sorted(homeless, key=lambda one: (len(self._may[one]), one)):
            self._assign(one, min(self._may[one], key=lambda broker: (self._leads[broker], broker)))

    def solved(self) -> list[int]:
        self._hand_on()
        while cycle := self._negative_cycle():
            self._cancel(cycle)
        return [self._brokers[place] for place in self._at]

    def _assign(self, one: int, broker: int) -> None:
        self._at[one] = broker
        self._leads[broker] += 1
        for other in self._may[one]:
            if other != broker:
                ready = self._ready.setdefault((self._step(one, broker, other), broker, other), {})
                ready[one] = None
                if len(ready) == 1:
                    self._steps[broker, other] = self._cheapest(broker, other)

    def _unassign(self, one: int) -> None:
        broker = self._at[one]
        self._leads[broker] -= 1
        for other in self._may[one]:
            if other != broker:
                ready = self._ready[self._step(one, broker, other), broker, other]
                del ready[one]
                if not ready:
                    self._steps[broker, other] = self._cheapest(broker, other)

    def _step(self, one: int, broker: int, other: int) -> int:
        home = self._home[one]
        if home is None:
            return _ONWARD
        return (other != home) - (broker != home)

    def _cheapest(self, broker: int, other: int) -> int:
        return next((s for s in _STEPS if self._ready.get((s, broker, other))), _NO_WAY)

    def _ready_one(self, broker: int, other: int) -> int:
        return next(iter(self._ready[self._cheapest(broker, other), broker, other]))

    def _hand_on(self) -> None:
        """From the broker that leads the most, directly, while that makes it more even."""
        done = np.zeros(len(self._brokers), dtype=bool)
        while not done.all():
            giver = int(np.where(done, -1, self._leads).argmax())
            leads = np.where(self._steps[giver] < _NO_WAY, self._leads, _NO_WAY)
            taker = int(leads.argmin())
            if self._leads[giver] - leads[taker] < 2:
                done[giver] = True
                continue
            one = self._ready_one(giver, taker)
            self._unassign(one)
            self._assign(one, taker)

    def _cancel(self, cycle: Sequence[tuple[int, int]]) -> None:
        going = [(self._ready_one(*step), step[1]) for step in cycle]
        for one, broker in going:
            self._unassign(one)
            self._assign(one, broker)

    def _negative_cycle(self) -> list[tuple[int, int]]:
        """The steps between brokers of a cycle that makes it better; empty when there is none.

        Bellman and Ford's, all brokers at a time. One more node stands for all that is led: it
        gives a leader to a broker and takes one from another.
        """
        size = len(self._brokers)
        arcs = np.full((size + 1, size + 1), _NO_WAY, dtype=np.int64)
        arcs[:size, :size] = self._steps
        arcs[size, :size] = -self._much * (2 * self._leads - 1)
        arcs[:size, size] = self._much * (2 * self._leads + 1)
        distance = np.zeros(size + 1, dtype=np.int64)
        before = np.full(size + 1, -1, dtype=np.int64)
        while True:
            through = distance[:, None] + arcs
            nearest = through.argmin(axis=0)
            shorter = through[nearest, np.arange(size + 1)]
            better = shorter < distance
            if not better.any():
                return []
            distance = np.where(better, shorter, distance)
            before = np.where(better, nearest, before)
            if nodes := _cycle_in(before.tolist()):
                steps = zip(nodes, nodes[1:] + nodes[:1], strict=True)
                return [(a, b) for a, b in steps if size not in (a, b)]


def _cycle_in(before: Sequence[int]) -> list[int]:
    """A cycle of this graph of one predecessor each, in the direction of its arcs, if it has one.

    Whatever stands on a cycle of predecessors is a cycle of negative cost.
    """
    seen = [-1] * len(before)
    for start in range(len(before)):
        node = start
        while node >= 0 and seen[node] < 0:
            seen[node] = start
            node = before[node]
        if node >= 0 and seen[node] == start:
            cycle = [node]
            while before[cycle[-1]] != node:
                cycle.append(before[cycle[-1]])
            return cycle[::-1]
    return []
