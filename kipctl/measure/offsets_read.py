"""Which offsets of a topic have been read, and which answer brought each of them first."""

from itertools import pairwise

import numpy as np

from kipctl.trace.columns import READ
from kipctl.trace.rows import IntRows

PARTITION, BEGIN, END, TIME, REREAD = range(5)
"""The columns of spans: `END` is after the last offset, `AGAIN` 1 if they had been read before."""


class EndOffsets:
    """How far something has come in each partition: the greatest offset and 1; 0 if nowhere."""

    def __init__(self) -> None:
        self._ends = np.zeros(0, dtype=np.int64)

    def __getitem__(self, partitions: IntRows) -> IntRows:
        if (missing := int(partitions.max(initial=-1)) + 1 - len(self._ends)) > 0:
            self._ends = np.concatenate([self._ends, np.zeros(missing, dtype=np.int64)])
        return self._ends[partitions]

    def before_each(self, partitions: IntRows, ends: IntRows) -> IntRows:
        """How far each of these, by partition and then one after the other, found it come."""
        before = self[partitions]
        edges = np.flatnonzero(np.diff(partitions, prepend=-1, append=-1))
        for begin, end in pairwise(edges.tolist()):
            so_far = np.concatenate([before[begin : begin + 1], ends[begin : end - 1]])
            before[begin:end] = np.maximum.accumulate(so_far)
        return before

    def advance(self, partitions: IntRows, ends: IntRows) -> None:
        """They have come to at least these."""
        self[partitions]
        np.maximum.at(self._ends, partitions, ends)


def spans_read(reads: IntRows) -> IntRows:
    """Rows of `reads` as spans of shape (n, 5), by partition, each in their own order."""
    names = ("partition", "fetch_offset", "next_offset", "time_us")
    spans = np.zeros((len(reads), 5), dtype=np.int64)
    spans[:, :REREAD] = reads[:, [READ[name] for name in names]]
    return spans[np.argsort(spans[:, PARTITION], kind="stable")]


class OffsetsRead:
    """The offsets that were read so far of a topic's partitions.

    Kept are a number for each partition, how far it was read, and the gaps before that: a consumer
    reads on where it was, so there is the one before its start, and one more for each jump ahead.
    """

    def __init__(self) -> None:
        self.ends = EndOffsets()
        self._gaps: dict[int, list[tuple[int, int]]] = {}
        self.twice = 0
        """Offsets that were read when they had been read before, each time counted."""

    def add(self, read: IntRows) -> IntRows:
        """Take further spans, as `offsets_read` gives them.

        Returns those that they brought first, and those that had been read before.
        """
        before = self.ends.before_each(read[:, PARTITION], read[:, END])
        self.ends.advance(read[:, PARTITION], read[:, END])
        spans = read.copy()
        spans[:, BEGIN] = np.maximum(read[:, BEGIN], before)
        more = [
            part
            for at in np.flatnonzero(read[:, BEGIN] != before)
            for part in self._out_of_order(read[at], int(before[at]))
        ]
        return np.concatenate(
            [spans[spans[:, END] > spans[:, BEGIN]], np.array(more, np.int64).reshape(-1, 5)]
        )

    def _out_of_order(self, span: IntRows, before: int) -> list[tuple[int, int, int, int, int]]:
        """One that does not begin where its partition had been read to: its part before that.

        Ahead it leaves a gap; back, what it brought is new where there was a gap.
        """
        partition, first, after, time_us, _ = span.tolist()
        gaps = self._gaps.setdefault(partition, [])
        if first > before:
            gaps.append((before, first))
            return []
        parts, left, at = [], [], first
        until = min(after, before)
        for begin, end in sorted(gaps):
            new_begin, new_end = max(begin, first), min(end, until)
            if new_begin >= new_end:
                left.append((begin, end))
                continue
            parts += [(at, new_begin, 1), (new_begin, new_end, 0)]
            at = new_end
            left += [gap for gap in ((begin, new_begin), (new_end, end)) if gap[0] < gap[1]]
        parts.append((at, until, 1))
        self._gaps[partition] = left
        self.twice += sum(end - begin for begin, end, again in parts if again)
        return [
            (partition, begin, end, time_us, again) for begin, end, again in parts if begin < end
        ]
