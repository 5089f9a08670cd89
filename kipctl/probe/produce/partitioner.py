"""Which partition the next records go to: runs of records, so that the cost is per batch."""

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from kipctl.probe.schedule import WHOLE, Share

Run = tuple[int, int, int, int]
"""(partition position, first sequence number, stride, count)"""


class Partitioner:
    """Assigns the records of numbers first..end-1 to partitions."""

    looks_at_load = False
    """Whether `load` matters to it."""

    def runs(self, first: int, end: int) -> list[Run]:
        raise NotImplementedError

    def load(self, queued: Sequence[int], available: Sequence[bool]) -> None:
        """Tell how many batches wait for each partition, and which have a leader."""


class RoundRobin(Partitioner):
    """Record `seq` goes to partition `seq % partitions` (Kafka's RoundRobinPartitioner)."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def runs(self, first: int, end: int) -> list[Run]:
        n = self._partitions
        return [
            (seq % n, seq, n, (end - seq + n - 1) // n) for seq in range(first, min(end, first + n))
        ]


class Sticky(Partitioner):
    """Fills one batch of a partition, then picks another at random (KIP-794, Java's default).

    Partitions without a leader are left out, and one with many batches waiting is picked less often
    (`BuiltInPartitioner.updatePartitionLoadStats`: weight = longest queue + 1 - own queue).
    """

    looks_at_load = True

    def __init__(self, partitions: int, records_per_batch: int, choose: random.Random) -> None:
        self._records_per_batch = records_per_batch
        self._random = choose.random
        self._cumulative = list(range(1, partitions + 1))
        self._partition = self._pick()
        self._left = records_per_batch

    def _pick(self) -> int:
        return bisect_right(self._cumulative, self._random() * self._cumulative[-1])

    def load(self, queued: Sequence[int], available: Sequence[bool]) -> None:
        longest = max(queued, default=0)
        weights = [
            (longest + 1 - waiting) if usable else 0
            for waiting, usable in zip(queued, available, strict=True)
        ]
        if any(weights):
            self._cumulative = list(accumulate(weights))

    def runs(self, first: int, end: int) -> list[Run]:
        runs = []
        while first < end:
            count = min(self._left, end - first)
            runs.append((self._partition, first, 1, count))
            first += count
            self._left -= count
            if not self._left:
                self._partition = self._pick()
                self._left = self._records_per_batch
        return runs


class Shared(Partitioner):
    """Of all partitions and records, those in one worker's share, dealt out by another partitioner.

    That one counts the worker's own from 0; here they get their numbers among all.
    """

    def __init__(self, share: Share, own: Partitioner) -> None:
        self._worker = share.worker
        self._workers = share.workers
        self._own = own
        self.looks_at_load = own.looks_at_load

    def runs(self, first: int, end: int) -> list[Run]:
        """`first` and `end` count the worker's own records; the runs bear numbers among all."""
        i, n = self._worker, self._workers
        return [
            (i + n * position, i + n * seq, n * stride, count)
            for position, seq, stride, count in self._own.runs(first, end)
        ]

    def load(self, queued: Sequence[int], available: Sequence[bool]) -> None:
        """All partitions are passed; those of the worker itself count."""
        i, n = self._worker, self._workers
        self._own.load(queued[i::n], available[i::n])


def partitioner(
    name: str,
    partitions: int,
    records_per_batch: int,
    choose: random.Random,
    share: Share = WHOLE,
) -> Partitioner:
    """The partitioner of that name, sticky or round-robin, for a share of the partitions.

    There must be at least as many partitions as workers.
    """
    own = share.count(partitions)
    make: dict[str, Callable[[], Partitioner]] = {
        "sticky": lambda: Sticky(own, records_per_batch, choose),
        "round-robin": lambda: RoundRobin(own),
    }
    return make[name]() if share == WHOLE else Shared(share, make[name]())
