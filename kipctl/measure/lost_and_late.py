"""Which acknowledged batches came, told while producer and consumer still work, for days.

The rule is that of `kipctl.measure.matching`. What waits is bounded by time: a batch that was not
read so long after its acknowledgement is lost, and only its offsets are kept; if they are read
after all, its records are late.
"""

from collections import defaultdict

import numpy as np

from kipctl.measure.matching import Matcher
from kipctl.measure.offsets_read import BEGIN, END, REREAD, TIME
from kipctl.trace.columns import BATCH, COLUMNS
from kipctl.trace.rows import IntRows

_NEVER_US = 1 << 62


class LiveMatcher(Matcher):
    """Batches and reads of one topic, taken as they are written. Times are microseconds.

    A batch is lost that was not read within `lost_after_us`, or whose offset another batch got.
    What was read waits `late_us` for the acknowledgement of a batch; then it is of nobody's batch,
    or of one that was lost. Lost offsets are forgotten after `forget_us`.
    """

    def __init__(self, lost_after_us: int, late_us: int, forget_us: int) -> None:
        super().__init__(by_time=True, skew_us=0)
        self._lost_after_us, self._late_us, self._forget_us = lost_after_us, late_us, forget_us
        self._new_batches = DelayedRows("batches", "acked_us")
        self._new_reads = DelayedRows("reads", "time_us")
        self._offsets = LostOffsets()
        self.lost = self.late = self.extra = 0
        """Records that were lost, those of them that came after all, and those read that are of no
        batch. None of these numbers ever falls."""

    @property
    def waiting(self) -> int:
        """Records that were acknowledged and are neither read nor lost yet."""
        return _records(self._waiting)

    @property
    def twice(self) -> int:
        """Offsets that were read again and that no other batch has got. It never falls."""
        again = self._spans[self._spans[:, REREAD] == 1]
        return super().twice - int((again[:, END] - again[:, BEGIN]).sum())

    def add(self, batches: IntRows, reads: IntRows, until_us: int) -> IntRows:
        """Take what was written since the last call; returns the batches that were read, with the
        time of that in place of `acked_us`.

        All that happened until then is written by now; what is later waits for the next call.
        """
        delivered = self._match_until(batches, reads, until_us)
        is_old = self._waiting[:, BATCH["acked_us"]] <= until_us - self._lost_after_us
        self.lost += _records(self._waiting[is_old])
        self._offsets.add(self._waiting[is_old])
        self._waiting = self._waiting[~is_old]
        self._settle_read(until_us - self._late_us)
        self._offsets.forget(until_us - self._forget_us)
        return delivered

    def finish(self) -> IntRows:
        """Take what was held back: no more is written. What still waits then did not come."""
        delivered = self._match_until(self._new_batches.none, self._new_reads.none, _NEVER_US)
        self._settle_read(_NEVER_US)
        return delivered

    def _match_until(self, batches: IntRows, reads: IntRows, until_us: int) -> IntRows:
        before = self.waiting - (self.acknowledged - self.unplaced)
        delivered = self._match(
            self._new_batches.due(batches, until_us), self._new_reads.due(reads, until_us)
        )
        after = self.waiting - (self.acknowledged - self.unplaced)
        # Of two batches at one offset the former is lost: it neither waits nor was it read.
        self.lost += before - after - _records(delivered)
        return delivered

    def _settle_read(self, before_us: int) -> None:
        """What was read until then is of no batch that is still to be acknowledged."""
        is_settled = self._spans[:, TIME] <= before_us
        for partition, begin, end, _, again in self._spans[is_settled].tolist():
            if not again:
                late = self._offsets.remove(partition, begin, end)
                self.late += late
                self.extra += end - begin - late
        self._spans = self._spans[~is_settled]


class LostOffsets:
    """Offsets of batches that are lost. Those that follow one another take the room of one."""

    def __init__(self) -> None:
        self._of_partition = defaultdict[int, list[tuple[int, int, int]]](list)
        """First offset, the one after the last, and when the last of them was acknowledged."""

    def add(self, batches: IntRows) -> None:
        """Rows of `batches`, the earlier acknowledged first."""
        names = ("partition", "base_offset", "records", "acked_us")
        for partition, begin, records, acked_us in batches[:, [BATCH[n] for n in names]].tolist():
            spans = self._of_partition[partition]
            if spans and spans[-1][1] == begin:
                begin, records = spans[-1][0], records + begin - spans.pop()[0]
            spans.append((begin, begin + records, acked_us))

    def remove(self, partition: int, begin: int, end: int) -> int:
        """How many of these offsets are lost; they are not any more."""
        left, lost = [], 0
        for first, after, acked_us in self._of_partition.get(partition, ()):
            start, to = max(first, begin), min(after, end)
            if start >= to:
                left.append((first, after, acked_us))
                continue
            lost += to - start
            pieces = ((first, start, acked_us), (to, after, acked_us))
            left += [piece for piece in pieces if piece[0] < piece[1]]
        if lost:
            self._of_partition[partition] = left
        return lost

    def forget(self, before_us: int) -> None:
        """Those that were acknowledged before then."""
        for partition, spans in self._of_partition.items():
            self._of_partition[partition] = [span for span in spans if span[2] >= before_us]


class DelayedRows:
    """Rows of a dataset in the order in which they were written, held back until they are due.

    Each is due at its moment, or with the latest one before it.
    """

    def __init__(self, dataset: str, moment: str) -> None:
        self._moment = COLUMNS[dataset].index(moment)
        self.none = np.empty((0, len(COLUMNS[dataset])), dtype=np.int64)
        self._rows = self.none

    def due(self, rows: IntRows, until_us: int) -> IntRows:
        """Rows that are due, of those held and of these."""
        held = np.concatenate([self._rows, rows])
        latest = np.maximum.accumulate(held[:, self._moment])
        due = int(np.searchsorted(latest, until_us, side="right"))
        # A copy: a part of an array keeps all of it.
        self._rows = held[due:].copy()
        return held[:due]


def _records(batches: IntRows) -> int:
    return int(batches[:, BATCH["records"]].sum())
