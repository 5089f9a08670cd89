"""Leaders spread within topics too, where brokers are as even as can be and moves as few.

A flow of least cost once more (`leader_balance`), with a node for each topic on each broker between
partitions and brokers: the k-th leader of a topic on a broker costs 2k - 1 there as well, less than
any move. Cycles of negative cost are cancelled, all of a look that have no node in common at once,
until there is none (the optimum) or so much has been worked as `_MOST_WORK` says.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

NO_WAY = 2**60
"""The cost of an arc that there is not."""
_MOST_WORK = 100_000_000
"""Arcs looked at: a second or two. Small and middling clusters are done long before."""
_LOOKS_BETWEEN = 4
"""Passes of Bellman and Ford's before it is looked whether there is a cycle."""


def spread_within_topics(
    topics: Sequence[str],
    may: Sequence[Sequence[int]],
    home: Sequence[int | None],
    at: Sequence[int],
    leads: np.ndarray,
    others: Mapping[tuple[str, int], int],
) -> list[int]:
    """Where each partition is led, as `at` but for swaps that make topics more even.

    Brokers are places in `leads`, which has what each leads in all; `others` are the leaders of
    topics that are not among these partitions.
    """
    return _TopicFlow(topics, may, home, at, leads, others).solved()


class _TopicFlow:
    def __init__(
        self,
        topics: Sequence[str],
        may: Sequence[Sequence[int]],
        home: Sequence[int | None],
        at: Sequence[int],
        leads: np.ndarray,
        others: Mapping[tuple[str, int], int],
    ) -> None:
        node: dict[tuple[str, int], int] = {}
        ways = [
            (partition, node.setdefault((topic, broker), len(node)), broker)
            for partition, topic in enumerate(topics)
            for broker in may[partition]
        ]
        self._way_of, self._way_to, way_broker = np.array(ways, dtype=np.int64).T
        self._at = np.array([node[t, b] for t, b in zip(topics, at, strict=True)], dtype=np.int64)
        self._broker = np.array([broker for _, broker in node], dtype=np.int64)
        self._others = np.array([others.get(key, 0) for key in node], dtype=np.int64)
        homes = np.array([-1 if broker is None else broker for broker in home], dtype=np.int64)
        self._leaves = (way_broker != homes[self._way_of]) & (homes[self._way_of] >= 0)
        self._home = homes
        self._fixed = leads - np.bincount(self._broker[self._at], minlength=len(leads))
        nodes, brokers = len(node), len(leads)
        # A simple cycle passes each node once: what it can gain at one level costs less than one
        # unit of the next.
        self._move = 2 * (len(topics) + int(self._others.sum())) + nodes + 1
        self._uneven = self._move * (nodes + 1)
        own, of_broker = np.arange(nodes), nodes + self._broker
        every, sink = nodes + np.arange(brokers), np.full(brokers, nodes + brokers)
        target = np.concatenate([self._way_to, of_broker, own, sink, every])
        self._order = np.argsort(target, kind="stable")
        self._target = target[self._order]
        self._from = (of_broker, own, every, sink)
        self._nodes, self._starts = np.unique(self._target, return_index=True)
        self._segment = np.repeat(
            np.arange(len(self._nodes)), np.diff([*self._starts, len(self._target)])
        )
        self._size = nodes + brokers + 1

    def solved(self) -> list[int]:
        work = 0
        while work < _MOST_WORK:
            cycles, passes = self._negative_cycles()
            work += passes * len(self._target)
            if not cycles:
                break
            for cycle in cycles:
                for arc in cycle:
                    way = self._order[arc]
                    if way < len(self._way_of):
                        self._at[self._way_of[way]] = self._way_to[way]
        return [int(broker) for broker in self._broker[self._at]]

    def _arcs(self) -> tuple[np.ndarray, np.ndarray]:
        """Where each arc comes from, and what it costs now."""
        led = np.bincount(self._at, minlength=len(self._broker))
        in_topic = led + self._others
        leads = self._fixed + np.bincount(self._broker[self._at], minlength=len(self._fixed))
        from_broker, own, every, sink = self._from
        now = self._at[self._way_of]
        is_home = self._broker[self._at] == self._home
        was_away = (~is_home & (self._home >= 0))[self._way_of]
        step = self._move * (self._leaves.astype(np.int64) - was_away)
        source = np.concatenate([now, own, from_broker, every, sink])
        cost = np.concatenate(
            [
                np.where(now == self._way_to, NO_WAY, step),
                2 * in_topic + 1,
                np.where(led > 0, 1 - 2 * in_topic, NO_WAY),
                self._uneven * (2 * leads + 1),
                self._uneven * (1 - 2 * leads),
            ]
        )
        return source[self._order], cost[self._order]

    def _negative_cycles(self) -> tuple[list[list[int]], int]:
        """Cycles, as arcs, that make it better and have no node in common; after so many passes."""
        source, cost = self._arcs()
        distance = np.zeros(self._size, dtype=np.int64)
        before = np.full(self._size, -1, dtype=np.int64)
        passes = 0
        while True:
            passes += 1
            through = distance[source] + cost
            nearest = np.minimum.reduceat(through, self._starts)
            better = nearest < distance[self._nodes]
            if not better.any():
                return [], passes
            hits = np.flatnonzero((through == nearest[self._segment]) & better[self._segment])
            before[self._target[hits]] = hits
            distance[self._nodes] = np.minimum(nearest, distance[self._nodes])
            if passes % _LOOKS_BETWEEN == 0:
                parents = np.where(before >= 0, source[before], -1).tolist()
                if cycles := [
                    [int(before[node]) for node in nodes] for nodes in cycles_in(parents)
                ]:
                    return cycles, passes


def cycles_in(before: Sequence[int]) -> Iterator[list[int]]:
    """The cycles of this graph of one predecessor each, in the direction of its arcs.

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
            yield cycle[::-1]
