"""From the producer's intended send time to the consumer: each record's way, out of both traces.

Nothing is written into the records: the producer's trace says which offset each batch got, the
consumer's when each offset came. Both are on the same clock.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kipctl.measure.coverage import BEGIN, END, PARTITION, TIME, Coverage, Ends
from kipctl.measure.produced import RecordTimes, record_times
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

_BATCH = {name: i for i, name in enumerate(COLUMNS["batches"])}
_READ = {name: i for i, name in enumerate(COLUMNS["reads"])}
_NOT_DELIVERED = 1
_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of the acknowledged records.

    `times` are of those from number `skip_records` on whose offset is known. `twice` came again:
    the consumer went back, after a truncation or a reset. `extra` are records that came although no
    acknowledged batch has their offset: of attempts that were appended and then failed (a retry
    wrote them again), or somebody else's.
    """

    times: RecordTimes
    delivered: int
    missing: int
    twice: int
    extra: int


def deliver(
    batches: Iterable[IntRows],
    reads: Iterable[IntRows],
    start_us: int,
    interval_ns: int,
    skip_records: int = 0,
    late_us: int = 1 << 62,
) -> Delivery:
    """Follow each acknowledged batch to the Fetch answer that brought it.

    `batches` and `reads` are rows of these datasets of one topic, with absolute times, some at a
    time, in the order in which they were written. No batch is acknowledged later than `late_us`
    after it was read.
    """
    matching = _Matching(batches, reads, late_us)
    times = record_times(matching.delivered(), start_us, interval_ns, skip_records)
    extra = matching.read - matching.coverage.twice - matching.records
    # After DUPLICATE_SEQUENCE_NUMBER nobody knows the offset: if it came, it is among the extra.
    found = min(matching.unplaced, max(extra, 0))
    delivered = matching.records + found
    return Delivery(
        times=times,
        delivered=delivered,
        missing=matching.acknowledged - delivered,
        twice=matching.coverage.twice,
        extra=extra - found,
    )


def follow_batches(batches: IntRows, reads: IntRows) -> IntRows:
    """The acknowledged batches, with the time at which each was read in place of `acked_us`.

    A batch is delivered by the first answer that holds its last offset; one that was not has an
    `error` other than 0.
    """
    acknowledged: IntRows = batches[batches[:, _BATCH["error"]] == 0].copy()
    spans = Coverage().add(_with_records(reads))
    by = _delivered_by(acknowledged, spans)
    has_come = by != _NOWHERE
    acknowledged[has_come, _BATCH["acked_us"]] = spans[by[has_come], TIME]
    acknowledged[~has_come, _BATCH["error"]] = _NOT_DELIVERED
    return acknowledged


class _Matching:
    """Batches and reads, taken in step: from either only as far as the other has come.

    Batches wait for the answer that brings them, and answers for the acknowledgement of what they
    brought; what waits is what one side is ahead of the other. Longer waits a batch that never
    came: until all is read; and an answer with records that no batch has: until a batch was
    acknowledged `late_us` after it.
    """

    def __init__(self, batches: Iterable[IntRows], reads: Iterable[IntRows], late_us: int) -> None:
        self._batches, self._reads, self._late_us = iter(batches), iter(reads), late_us
        self._waiting = np.empty((0, len(COLUMNS["batches"])), dtype=np.int64)
        self._spans = np.empty((0, 4), dtype=np.int64)
        self._unclaimed = np.empty(0, dtype=np.int64)
        """Of each span, how many offsets are no batch's yet."""
        self._ends = Ends()
        """Of what was acknowledged."""
        self._last_us = 0
        self.coverage = Coverage()
        self.acknowledged = self.unplaced = self.records = self.read = 0
        """Records: that were acknowledged, those of them without an offset, those that are known to
        have come, and all that came."""

    def delivered(self) -> Iterator[IntRows]:
        """The batches that came, with the time at which each was read in place of `acked_us`."""
        more_batches = more_reads = True
        while more_batches or more_reads:
            if more_batches and not (more_reads and self._batches_are_ahead()):
                more_batches = self._take_batches()
            else:
                more_reads = self._take_reads()
            yield self._matched()
            if not more_reads:
                self._waiting = self._waiting[:0]
            wanted = self._unclaimed > 0
            wanted &= self._last_us - self._spans[:, TIME] <= self._late_us
            wanted &= more_batches
            self._spans, self._unclaimed = self._spans[wanted], self._unclaimed[wanted]

    def _batches_are_ahead(self) -> bool:
        """More batches wait for reads to come so far than answers for batches to."""
        unread = _last_offset(self._waiting) >= self.coverage.ends[_partition(self._waiting)]
        spans = self._spans
        return bool(unread.sum() > (spans[:, END] > self._ends[spans[:, PARTITION]]).sum())

    def _take_batches(self) -> bool:
        """Whether there were more."""
        rows = next(self._batches, None)
        if rows is None:
            return False
        acknowledged = rows[rows[:, _BATCH["error"]] == 0]
        self.acknowledged += int(acknowledged[:, _BATCH["records"]].sum())
        is_placed = acknowledged[:, _BATCH["base_offset"]] >= 0
        self.unplaced += int(acknowledged[~is_placed, _BATCH["records"]].sum())
        placed = acknowledged[is_placed]
        self._ends.advance(_partition(placed), _last_offset(placed) + 1)
        self._last_us = max(self._last_us, int(placed[:, _BATCH["acked_us"]].max(initial=0)))
        self._waiting = np.concatenate([self._waiting, placed])
        return True

    def _take_reads(self) -> bool:
        """Whether there were more."""
        rows = next(self._reads, None)
        if rows is None:
            return False
        with_records = _with_records(rows)
        self.read += int(with_records[:, _READ["records"]].sum())
        spans = self.coverage.add(with_records)
        self._spans = np.concatenate([self._spans, spans])
        self._unclaimed = np.concatenate([self._unclaimed, spans[:, END] - spans[:, BEGIN]])
        return True

    def _matched(self) -> IntRows:
        """Those of the waiting batches that a waiting answer brought; they wait no more."""
        by = _delivered_by(self._waiting, self._spans)
        has_come = by != _NOWHERE
        delivered: IntRows = self._waiting[has_come]
        delivered[:, _BATCH["acked_us"]] = self._spans[by[has_come], TIME]
        records = delivered[:, _BATCH["records"]]
        np.subtract.at(self._unclaimed, by[has_come], records)
        self.records += int(records.sum())
        self._waiting = self._waiting[~has_come]
        return delivered


def _with_records(reads: IntRows) -> IntRows:
    found: IntRows = reads[reads[:, _READ["records"]] > 0]
    return found


def _partition(batches: IntRows) -> IntRows:
    return batches[:, _BATCH["partition"]]


def _last_offset(batches: IntRows) -> IntRows:
    return batches[:, _BATCH["base_offset"]] + batches[:, _BATCH["records"]] - 1


def _delivered_by(batches: IntRows, spans: IntRows) -> IntRows:
    """For each batch the number of the span that holds its last offset; -1 if none does.

    An offset of -1 (acks=0) was acknowledged without a place in the log.
    """
    count = len(batches)
    partition = np.concatenate([_partition(batches), spans[:, PARTITION]])
    offset = np.concatenate([_last_offset(batches), spans[:, END] - 1])
    # Spans share no offset: the one that ends next, at the batch's last offset or after it.
    order = np.lexsort((np.arange(len(offset)) >= count, offset, partition))
    number = np.where(order < count, len(order), np.arange(len(order)))
    next_span = np.minimum.accumulate(number[::-1])[::-1]
    by = np.full(count, _NOWHERE, dtype=np.int64)
    at = np.flatnonzero((order < count) & (next_span < len(order)))
    batch, span = order[at], order[next_span[at]] - count
    holds = (spans[span, PARTITION] == _partition(batches)[batch]) & (
        spans[span, BEGIN] <= _last_offset(batches)[batch]
    )
    holds &= batches[batch, _BATCH["base_offset"]] >= 0
    by[batch[holds]] = span[holds]
    return by
