"""Preferred leaders spread over brokers: as evenly as can be, with the fewest moves, and then as
evenly within each topic as that leaves room for (`topic_spread`).

A flow of least cost. Partitions flow from broker to broker along the replicas that may lead them; a
broker's k-th leader costs 2k - 1 (so that the sum of squares is the cost), and a partition that is
not where it was costs a little, less than any unevenness. First every broker that leads the most
hands leaders on directly, then cycles of negative cost are cancelled until there is none, which is
the optimum (Klein, 1967).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace

import numpy as np

from kipctl.changes.plans.planners.topic_spread import NO_WAY, cycles_in, spread_within_topics

_BACK, _ONWARD, _AWAY = -1, 0, 1
"""What a step costs: back to where it was, from one strange broker to another, away from it."""
_STEPS = (_BACK, _ONWARD, _AWAY)


@dataclass(frozen=True, slots=True)
class Candidates:
    """One partition: the brokers that may lead it, and the one that does; None when no matter."""

    may: tuple[int, ...]
    now: int | None = None
    topic: str = ""


class _Ready:
    """Partitions that may take one step, and a queue of them by what their topics gain by it."""

    def __init__(self) -> None:
        self.members: set[int] = set()
        self._queue: list[tuple[int, int]] = []

    def add(self, partition: int) -> None:
        self.members.add(partition)
        # What it gains is looked at when it is its turn.
        heappush(self._queue, (-NO_WAY, partition))

    def best(self, gain: Callable[[int], int]) -> int:
        while True:
            was, partition = self._queue[0]
            if partition not in self.members:
                heappop(self._queue)
            elif was < -(now := gain(partition)):
                heapreplace(self._queue, (-now, partition))
            else:
                return partition


NO_OTHERS: Mapping[tuple[str, int], int] = {}


def balance(
    fixed: Mapping[int, int],
    choices: Sequence[Candidates],
    others: Mapping[tuple[str, int], int] = NO_OTHERS,
) -> list[int]:
    """The leader of each choice, such that brokers lead as evenly as these replicas allow.

    `fixed` is, by broker, how many partitions it leads besides; every broker that may lead is in
    it. `others` says of some of these how many are of which topic. Of all assignments with the
    least sum of squares it is one that changes the fewest `now`, and of these one with the least
    sum of squares by topic and broker (with a hundred thousand partitions: nearly).
    """
    return _Flow(fixed, choices, others).solved() if choices else []


class _Flow:
    def __init__(
        self,
        fixed: Mapping[int, int],
        choices: Sequence[Candidates],
        others: Mapping[tuple[str, int], int],
    ) -> None:
        self._brokers = sorted(fixed)
        self._index = {broker: place for place, broker in enumerate(self._brokers)}
        self._leads = np.array([fixed[broker] for broker in self._brokers], dtype=np.int64)
        self._may = [tuple(self._index[broker] for broker in choice.may) for choice in choices]
        self._home = [None if choice.now is None else self._index[choice.now] for choice in choices]
        self._topic = [choice.topic for choice in choices]
        self._others = {
            (topic, self._index[broker]): count
            for (topic, broker), count in others.items()
            if broker in self._index
        }
        self._in_topic = Counter(self._others)
        self._at = [0] * len(choices)
        size = len(self._brokers)
        # Who may go from one broker to another, by what the step costs.
        self._ready: dict[tuple[int, int, int], _Ready] = {}
        self._steps = np.full((size, size), NO_WAY, dtype=np.int64)
        self._much = len(choices) + 1
        """What one unit of unevenness costs: more than all moves together."""
        homeless = [partition for partition, home in enumerate(self._home) if home is None]
        for partition, home in enumerate(self._home):
            if home is not None:
                self._assign(partition, home)
        for partition in sorted(homeless, key=lambda partition: len(self._may[partition])):
            self._assign(
                partition, min(self._may[partition], key=lambda at: self._load(partition, at))
            )

    def _load(self, partition: int, broker: int) -> tuple[int, int, int]:
        return int(self._leads[broker]), self._in_topic[self._topic[partition], broker], broker

    def solved(self) -> list[int]:
        self._hand_on()
        while cycle := self._negative_cycle():
            self._cancel(cycle)
        if self._at != self._home:
            self._at = spread_within_topics(
                self._topic, self._may, self._home, self._at, self._leads, self._others
            )
        return [self._brokers[place] for place in self._at]

    def _assign(self, partition: int, broker: int) -> None:
        self._at[partition] = broker
        self._leads[broker] += 1
        self._in_topic[self._topic[partition], broker] += 1
        for other in self._may[partition]:
            if other != broker:
                step = self._step(partition, broker, other)
                ready = self._ready.setdefault((step, broker, other), _Ready())
                ready.add(partition)
                if len(ready.members) == 1:
                    self._steps[broker, other] = self._cheapest(broker, other)

    def _unassign(self, partition: int) -> None:
        broker = self._at[partition]
        self._leads[broker] -= 1
        self._in_topic[self._topic[partition], broker] -= 1
        for other in self._may[partition]:
            if other != broker:
                ready = self._ready[self._step(partition, broker, other), broker, other]
                ready.members.discard(partition)
                if not ready.members:
                    self._steps[broker, other] = self._cheapest(broker, other)

    def _gain(self, partition: int, broker: int, other: int) -> int:
        """By how much its topic has more leaders on the one than on the other."""
        topic = self._topic[partition]
        return self._in_topic[topic, broker] - self._in_topic[topic, other]

    def _step(self, partition: int, broker: int, other: int) -> int:
        home = self._home[partition]
        if home is None:
            return _ONWARD
        return (other != home) - (broker != home)

    def _cheapest(self, broker: int, other: int) -> int:
        for step in _STEPS:
            ready = self._ready.get((step, broker, other))
            if ready and ready.members:
                return step
        return NO_WAY

    def _ready_one(self, broker: int, other: int) -> int:
        """Of those that may go at the least cost one whose topic gains much by it."""
        ready = self._ready[self._cheapest(broker, other), broker, other]
        return ready.best(lambda partition: self._gain(partition, broker, other))

    def _hand_on(self) -> None:
        """From the broker that leads the most, directly, while that makes it more even."""
        done = np.zeros(len(self._brokers), dtype=bool)
        while not done.all():
            giver = int(np.where(done, -1, self._leads).argmax())
            leads = np.where(self._steps[giver] < NO_WAY, self._leads, NO_WAY)
            taker = int(leads.argmin())
            if self._leads[giver] - leads[taker] < 2:
                done[giver] = True
                continue
            partition = self._ready_one(giver, taker)
            self._unassign(partition)
            self._assign(partition, taker)

    def _cancel(self, cycle: Sequence[tuple[int, int]]) -> None:
        going = [(self._ready_one(*step), step[1]) for step in cycle]
        for partition, broker in going:
            self._unassign(partition)
            self._assign(partition, broker)

    def _negative_cycle(self) -> list[tuple[int, int]]:
        """The steps between brokers of a cycle that makes it better; empty when there is none.

        Bellman and Ford's, all brokers at a time. One more node stands for all that is led: it
        gives a leader to a broker and takes one from another.
        """
        size = len(self._brokers)
        arcs = np.full((size + 1, size + 1), NO_WAY, dtype=np.int64)
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
            if nodes := next(cycles_in(before.tolist()), None):
                steps = zip(nodes, nodes[1:] + nodes[:1], strict=True)
                return [(a, b) for a, b in steps if size not in (a, b)]
