"""Which offsets of a topic have been read, and which answer brought each of them first."""

from itertools import pairwise

import numpy as np

from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

_READ = {name: i for i, name in enumerate(COLUMNS["reads"])}
PARTITION, BEGIN, END, TIME = range(4)
"""The columns of spans: `END` is after the last offset."""


class Ends:
    """How far something has come in each partition: the greatest offset and 1; 0 if nowhere."""

    def __init__(self) -> None:
        self._ends = np.zeros(0, dtype=np.int64)

    def __getitem__(self, partitions: IntRows) -> IntRows:
        self._grow(partitions)
        return self._ends[partitions]

    def advance(self, partitions: IntRows, ends: IntRows) -> None:
        """They have come to at least these."""
        self._grow(partitions)
        np.maximum.at(self._ends, partitions, ends)

    def _grow(self, partitions: IntRows) -> None:
        if (missing := int(partitions.max(initial=-1)) + 1 - len(self._ends)) > 0:
            self._ends = np.concatenate([self._ends, np.zeros(missing, dtype=np.int64)])


class Coverage:
    """The offsets that were read so far of a topic's partitions.

    Kept are a number for each partition, how far it was read, and the gaps before that: a consumer
    reads on where it was, so there is the one before its start, and one more for each jump ahead.
    """

    def __init__(self) -> None:
        self.ends = Ends()
        self._gaps: dict[int, list[tuple[int, int]]] = {}
        self.twice = 0
        """Offsets that were read when they had been read before, each time counted."""

    def add(self, reads: IntRows) -> IntRows:
        """Take further rows of `reads`, with records, in the order in which they were written.

        Returns what they brought first, as spans of shape (n, 4); no two share an offset.
        """
        names = ("partition", "fetch_offset", "next_offset", "time_us")
        rows = reads[:, [_READ[name] for name in names]]
        rows = rows[np.argsort(rows[:, PARTITION], kind="stable")]
        partition, first, after = rows[:, PARTITION], rows[:, BEGIN], rows[:, END]
        before = self._ends_before(partition, after)
        self.ends.advance(partition, after)
        spans = rows.copy()
        spans[:, BEGIN] = np.maximum(first, before)
        filled = [
            span
            for at in np.flatnonzero(first != before)
            for span in self._jumped(rows[at], before[at])
        ]
        return np.concatenate(
            [spans[spans[:, END] > spans[:, BEGIN]], np.array(filled, np.int64).reshape(-1, 4)]
        )

    def _ends_before(self, partition: IntRows, after: IntRows) -> IntRows:
        """How far each row's partition had been read before it."""
        before = self.ends[partition]
        edges = np.flatnonzero(np.diff(partition, prepend=-1, append=-1))
        for begin, end in pairwise(edges.tolist()):
            so_far = np.concatenate([before[begin : begin + 1], after[begin : end - 1]])
            before[begin:end] = np.maximum.accumulate(so_far)
        return before

    def _jumped(self, row: IntRows, before: int) -> list[tuple[int, int, int, int]]:
        """A row that does not begin where its partition had been read to.

        Ahead it leaves a gap; back, what it brought is new where there was a gap.
        """
        partition, first, after, time_us = row.tolist()
        gaps = self._gaps.setdefault(partition, [])
        if first > before:
            gaps.append((before, first))
            return []
        filled, left = [], []
        for begin, end in gaps:
            new_begin, new_end = max(begin, first), min(end, after)
            if new_begin >= new_end:
                left.append((begin, end))
                continue
            filled.append((partition, new_begin, new_end, time_us))
            left += [gap for gap in ((begin, new_begin), (new_end, end)) if gap[0] < gap[1]]
        self._gaps[partition] = left
        self.twice += max(0, min(after, int(before)) - first)
        self.twice -= sum(end - begin for _, begin, end, _ in filled)
        return filled
