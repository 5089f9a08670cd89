"""Which answer to a Fetch brought which acknowledged batch, by offsets and times.

The rule: an offset that was read belongs to the batch that was acknowledged there last, if that was
sent before it was read; one reading of an offset belongs to one batch. A leader without the last
records of the one before truncates them (KIP-101) and gives their offsets to others, so a batch
that was not read before another was acknowledged at one of its offsets is lost.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kipctl.measure.offsets_read import (
    BEGIN,
    END,
    PARTITION,
    REREAD,
    TIME,
    EndOffsets,
    OffsetsRead,
    spans_read,
)
from kipctl.trace.columns import BATCH, COLUMNS, READ
from kipctl.trace.rows import IntRows

_NO_SPAN = -1

Source = Callable[[], Iterable[IntRows]]
"""Rows of a dataset, some at a time, in the order in which they were written; all, at each call."""


class Matcher:
    """Batches and reads of one topic, as they are given: what waits for the other side is kept.

    With `by_time` offsets may go back, on either side: then it matters what came first. Clocks of
    both sides may differ by `skew_us`.
    """

    def __init__(self, by_time: bool, skew_us: int) -> None:
        self._by_time, self._skew_us = by_time, skew_us
        self._waiting = np.empty((0, len(COLUMNS["batches"])), dtype=np.int64)
        self._spans = np.empty((0, 5), dtype=np.int64)
        """What was read and is no batch's yet."""
        self._acked_ends = EndOffsets()
        self._last_us = 0
        self._coverage = OffsetsRead()
        self._reread_as_other = 0
        self.acknowledged = self.unplaced = self.records = self.read = 0
        """Records: that were acknowledged, those of them without an offset, those that are known to
        have been read, and all that were."""

    @property
    def twice(self) -> int:
        """Offsets that were read again without being another batch's."""
        return self._coverage.twice - self._reread_as_other

    def _match(self, batches: IntRows, reads: IntRows) -> IntRows:
        """Take further rows; returns the batches that were read, as `Matching.delivered` does."""
        return self._matched(self._acknowledged(batches), self._read(reads))

    def _acknowledged(self, rows: IntRows) -> IntRows:
        """Those that were acknowledged at an offset."""
        acknowledged = rows[rows[:, BATCH["error"]] == 0]
        placed = _with_offset(rows)
        records = int(acknowledged[:, BATCH["records"]].sum())
        self.acknowledged += records
        self.unplaced += records - int(placed[:, BATCH["records"]].sum())
        self._last_us = max(self._last_us, int(placed[:, BATCH["acked_us"]].max(initial=0)))
        return placed

    def _read(self, rows: IntRows) -> IntRows:
        """The spans that brought records."""
        with_records = _with_records(rows)
        self.read += int(with_records[:, READ["records"]].sum())
        return spans_read(with_records)

    def _matched(self, batches: IntRows, read: IntRows) -> IntRows:
        """Those of all waiting batches that an answer has brought; they wait no more."""
        work = _Unmatched(self._waiting, self._spans, batches, read)
        parts = [work]
        if self._by_time and len(went_back := self._where_offsets_go_back(work)):
            rest = np.setdiff1d(work.partitions(), went_back)
            parts = [
                work.in_partitions(rest),
                *(work.in_partitions(went_back[[at]]) for at in range(len(went_back))),
            ]
        self._acked_ends.advance(_partition(batches), _last_offset(batches) + 1)
        done = [self._all_at_once(parts[0]), *map(self._one_by_one, parts[1:])]
        self._waiting, self._spans, delivered = (
            np.concatenate(rows) for rows in zip(*done, strict=True)
        )
        self.records += int(delivered[:, BATCH["records"]].sum())
        return delivered

    def _where_offsets_go_back(self, work: "_Unmatched") -> IntRows:
        """The partitions in which an offset is that of several batches, or was read several times.

        There it matters what came first.
        """
        batches = _batch_spans(np.concatenate([work.waiting, work.batches]))
        batches = batches[np.lexsort((batches[:, BEGIN], batches[:, PARTITION]))]
        overlap = batches[1:, BEGIN] < batches[:-1, END]
        overlap &= batches[1:, PARTITION] == batches[:-1, PARTITION]
        read = work.read
        back = read[:, BEGIN] < self._coverage.ends.before_each(read[:, PARTITION], read[:, END])
        again = work.spans[:, REREAD] == 1
        ambiguous = (batches[1:][overlap], read[back], work.spans[again])
        return np.unique(np.concatenate(ambiguous)[:, PARTITION])

    def _all_at_once(self, work: "_Unmatched") -> "_Matched":
        """Where each offset is that of one batch, and was read once."""
        spans = np.concatenate([work.spans, self._coverage.add(work.read)])
        batches = np.concatenate([work.waiting, work.batches])
        by = _span_of_last_offset(batches, spans)
        held = np.flatnonzero(by != _NO_SPAN)
        early = spans[by[held], TIME] + self._skew_us < batches[held, BATCH["sent_us"]]
        by[held[early]] = _NO_SPAN
        is_read = by != _NO_SPAN
        delivered = batches[is_read]
        delivered[:, BATCH["acked_us"]] = spans[by[is_read], TIME]
        return _Matched(batches[~is_read], _without(spans, delivered, by[is_read]), delivered)

    def _one_by_one(self, work: "_Unmatched") -> "_Matched":
        """Of one partition, in the order of time."""
        partition = _Partition(work, self._skew_us)
        moments = [(at_us, 0, row) for at_us, row in _timed(work.batches, BATCH["acked_us"])]
        moments += [(at_us, 1, row) for at_us, row in _timed(work.read, TIME)]
        for _, is_reading, row in sorted(moments, key=itemgetter(0, 1)):
            if is_reading:
                partition.read(row, self._coverage.add(row[np.newaxis]))
            else:
                partition.acknowledged(row)
        self._reread_as_other += partition.reread_as_other
        return partition.done()


class Matching(Matcher):
    """Batches and reads of one topic, taken in step: from either as far as the other has come.

    Batches wait for the answer that brings them, and answers for the acknowledgement of what they
    brought; what waits is what one side is ahead of the other. Longer waits a batch that was not
    read: until all reads are taken; and an answer with records that no batch has: until a batch was
    acknowledged `late_us` after it.

    Where offsets only grow, how far a side has come is an offset, since no other order matters.
    Where they go back, on either side, it is a time: each batch is there for what was read before
    the next one was acknowledged at its offsets. Then all waits that the consumer lags behind.

    Clocks of both sides may differ by `skew_us`.
    """

    def __init__(self, batches: Source, reads: Source, late_us: int, skew_us: int) -> None:
        by_time = _offsets_go_back(map(_batch_spans, batches())) or _offsets_go_back(
            spans_read(_with_records(rows)) for rows in reads()
        )
        super().__init__(by_time, skew_us)
        self._batches = _Stream("batches", "acked_us", batches())
        self._reads = _Stream("reads", "time_us", reads())
        self._waiting = self._batches.read(0)
        self._late_us = late_us

    def delivered(self) -> Iterator[IntRows]:
        """The batches that were read, with the time of that in place of `acked_us`."""
        while self._batches.has_more or self._reads.has_more:
            yield self._match(*self._next())
            if not self._reads.has_more:
                self._waiting = self._waiting[:0]
            wanted = self._last_us - self._spans[:, TIME] <= self._late_us
            self._spans = self._spans[wanted & self._batches.has_more]

    def _next(self) -> tuple[IntRows, IntRows]:
        batches, reads = self._batches, self._reads
        if not (batches.has_more and reads.has_more):
            return batches.read(), reads.read()
        if self._by_time:
            until_us = min(batches.last_us, reads.last_us)
            return batches.read(until_us), reads.read(until_us)
        if self._batches_are_ahead():
            return batches.read(0), reads.read()
        return batches.read(), reads.read(0)

    def _batches_are_ahead(self) -> bool:
        """More batches wait for reads to come so far than answers for batches to."""
        unread = _last_offset(self._waiting) >= self._coverage.ends[_partition(self._waiting)]
        unacked = self._spans[:, END] > self._acked_ends[self._spans[:, PARTITION]]
        return bool(unread.sum() > unacked.sum())


class _Unmatched(NamedTuple):
    """What may belong together: batches and spans that waited, and those that are new."""

    waiting: IntRows
    spans: IntRows
    batches: IntRows
    read: IntRows

    def partitions(self) -> IntRows:
        batches = (_partition(self.waiting), _partition(self.batches))
        return np.unique(
            np.concatenate([*batches, self.spans[:, PARTITION], self.read[:, PARTITION]])
        )

    def in_partitions(self, partitions: IntRows) -> "_Unmatched":
        waiting, batches = (
            rows[np.isin(_partition(rows), partitions)] for rows in (self.waiting, self.batches)
        )
        spans, read = (
            rows[np.isin(rows[:, PARTITION], partitions)] for rows in (self.spans, self.read)
        )
        return _Unmatched(waiting, spans, batches, read)


class _Matched(NamedTuple):
    waiting: IntRows
    spans: IntRows
    delivered: IntRows


class _Batch(NamedTuple):
    base: int
    last: int
    sent_us: int
    row: IntRows


class _Partition:
    """A partition whose offsets go back: its batches and readings are taken one after the other."""

    def __init__(self, work: _Unmatched, skew_us: int) -> None:
        self._skew_us = skew_us
        self._waiting = sorted(map(self._batch, work.waiting), key=_base)
        """No two of them share an offset: of two that do the former is lost."""
        self._spans = sorted(work.spans.tolist(), key=_time)
        """What was read and is no batch's, the earliest first."""
        self._delivered = [work.waiting[:0]]
        self.reread_as_other = 0
        """Offsets that were read again, as another batch's than before."""

    def acknowledged(self, row: IntRows) -> None:
        batch = self._batch(row)
        begin = bisect_left(self._waiting, batch.base, key=_last)
        end = bisect_right(self._waiting, batch.last, key=_base)
        self._waiting[begin:end] = [batch]
        sent_us = batch.sent_us - self._skew_us
        since = bisect_left(self._spans, sent_us, key=_time)
        for span in islice(self._spans, since, None):
            if span[BEGIN] <= batch.last < span[END]:
                first, after = (cut(self._spans, span[TIME], key=_time) for cut in _CUTS)
                answer = self._spans[first:after]
                self._spans[first:after] = self._deliver(begin, answer, span[TIME])
                break

    def read(self, row: IntRows, parts: IntRows) -> None:
        """An answer, and what `OffsetsRead` makes of it."""
        first, after, time_us = (int(row[column]) for column in (BEGIN, END, TIME))
        at, left = bisect_left(self._waiting, first, key=_last), parts.tolist()
        while at < len(self._waiting) and self._waiting[at].last < after:
            left = self._deliver(at, left, time_us)
        self._spans += left

    def done(self) -> _Matched:
        waiting = [batch.row[np.newaxis] for batch in self._waiting]
        return _Matched(
            np.concatenate([self._delivered[0], *waiting]),
            np.array(self._spans, dtype=np.int64).reshape(-1, 5),
            np.concatenate(self._delivered),
        )

    def _deliver(self, at: int, answer: list[list[int]], time_us: int) -> list[list[int]]:
        """A waiting batch by an answer at that time, which is left without its offsets."""
        batch = self._waiting.pop(at)
        left = []
        for partition, begin, end, _, again in answer:
            until, on = min(end, batch.base), max(begin, batch.last + 1)
            pieces = [piece for piece in ((begin, until), (on, end)) if piece[0] < piece[1]]
            left += [[partition, *piece, time_us, again] for piece in pieces]
            self.reread_as_other += again * (end - begin - sum(to - start for start, to in pieces))
        delivered = batch.row.copy()
        delivered[BATCH["acked_us"]] = time_us
        self._delivered.append(delivered[np.newaxis])
        return left

    @staticmethod
    def _batch(row: IntRows) -> _Batch:
        base, records, sent_us = (
            int(row[BATCH[name]]) for name in ("base_offset", "records", "sent_us")
        )
        return _Batch(base, base + records - 1, sent_us, row)


_base, _last, _time = itemgetter(0), itemgetter(1), itemgetter(TIME)
_CUTS = (bisect_left, bisect_right)


class _Stream:
    """Rows of a dataset as they come, each at the latest moment so far."""

    def __init__(self, dataset: str, moment: str, rows: Iterable[IntRows]) -> None:
        self._rows = iter(rows)
        self._moment = COLUMNS[dataset].index(moment)
        self._held = np.empty((0, len(COLUMNS[dataset])), dtype=np.int64)
        self._times = self._held[:, self._moment]
        self._fill()

    @property
    def has_more(self) -> bool:
        return len(self._held) > 0

    @property
    def last_us(self) -> int:
        """Of those that would be taken."""
        return int(self._times[-1])

    def read(self, until_us: int | None = None) -> IntRows:
        """What is at hand, up to a moment."""
        count = len(self._held)
        if until_us is not None:
            count = int(np.searchsorted(self._times, until_us, side="right"))
        taken = self._held[:count]
        latest_us = int(self._times[count - 1]) if count else 0
        self._held, self._times = self._held[count:], self._times[count:]
        self._fill(latest_us)
        return taken

    def _fill(self, latest_us: int = 0) -> None:
        while not len(self._held) and (rows := next(self._rows, None)) is not None:
            self._held = rows
            self._times = np.maximum(np.maximum.accumulate(rows[:, self._moment]), latest_us)


def _timed(rows: IntRows, column: int) -> Iterable[tuple[int, IntRows]]:
    """Each row, at the latest moment so far."""
    return zip(np.maximum.accumulate(rows[:, column]).tolist(), rows, strict=True)


def _offsets_go_back(spans: Iterable[IntRows]) -> bool:
    """Whether any begins before its partition has come to."""
    ends = EndOffsets()
    for some in spans:
        ordered = some[np.argsort(some[:, PARTITION], kind="stable")]
        partition, end = ordered[:, PARTITION], ordered[:, END]
        if (ordered[:, BEGIN] < ends.before_each(partition, end)).any():
            return True
        ends.advance(partition, end)
    return False


def _with_records(reads: IntRows) -> IntRows:
    with_records: IntRows = reads[reads[:, READ["records"]] > 0]
    return with_records


def _with_offset(batches: IntRows) -> IntRows:
    """Those that were acknowledged at an offset; with acks=0, for one, none is."""
    with_offset: IntRows = batches[
        (batches[:, BATCH["error"]] == 0) & (batches[:, BATCH["base_offset"]] >= 0)
    ]
    return with_offset


def _batch_spans(batches: IntRows) -> IntRows:
    """Where those that were acknowledged at an offset are, as spans."""
    placed = _with_offset(batches)
    spans = np.zeros((len(placed), 5), dtype=np.int64)
    spans[:, PARTITION], spans[:, BEGIN] = _partition(placed), placed[:, BATCH["base_offset"]]
    spans[:, END] = _last_offset(placed) + 1
    return spans


def _partition(batches: IntRows) -> IntRows:
    return batches[:, BATCH["partition"]]


def _last_offset(batches: IntRows) -> IntRows:
    return batches[:, BATCH["base_offset"]] + batches[:, BATCH["records"]] - 1


def _span_of_last_offset(batches: IntRows, spans: IntRows) -> IntRows:
    """For each batch the number of the span that holds its last offset; -1 if none does."""
    count = len(batches)
    partition = np.concatenate([_partition(batches), spans[:, PARTITION]])
    offset = np.concatenate([_last_offset(batches), spans[:, END] - 1])
    # Spans share no offset: the one that ends next, at the batch's last offset or after it.
    order = np.lexsort((np.arange(len(offset)) >= count, offset, partition))
    number = np.where(order < count, len(order), np.arange(len(order)))
    next_span = np.minimum.accumulate(number[::-1])[::-1]
    by = np.full(count, _NO_SPAN, dtype=np.int64)
    at = np.flatnonzero((order < count) & (next_span < len(order)))
    batch, span = order[at], order[next_span[at]] - count
    holds = (spans[span, PARTITION] == _partition(batches)[batch]) & (
        spans[span, BEGIN] <= _last_offset(batches)[batch]
    )
    by[batch[holds]] = span[holds]
    return by


def _without(spans: IntRows, batches: IntRows, by: IntRows) -> IntRows:
    """What of the spans is left without the batches, each of which is held by span `by`."""
    base = batches[:, BATCH["base_offset"]]
    order = np.lexsort((base, by))
    by, base, after = (column[order] for column in (by, base, _last_offset(batches) + 1))
    is_first, is_last = np.diff(by, prepend=-1) != 0, np.diff(by, append=-1) != 0
    before = spans[by]
    before[:, BEGIN] = np.where(is_first, before[:, BEGIN], np.roll(after, 1))
    before[:, END] = base
    behind = spans[by[is_last]]
    behind[:, BEGIN] = after[is_last]
    untouched = np.ones(len(spans), dtype=bool)
    untouched[by] = False
    left = np.concatenate([spans[untouched], before, behind])
    return left[left[:, BEGIN] < left[:, END]]
