"""From the producer's intended send time to the consumer: each record's way, out of both traces.

Nothing is written into the records: the producer's trace says which offset each batch got, the
consumer's when each offset came. Both are on the same clock.
"""

from dataclasses import dataclass

import numpy as np

from kipctl.probe.produce.summary import RecordTimes, record_times
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

_BATCH = {name: i for i, name in enumerate(COLUMNS["batches"])}
_READ = {name: i for i, name in enumerate(COLUMNS["reads"])}
_NOT_DELIVERED = 1


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of the acknowledged records.

    `times` are of those from number `skip_records` on. `twice` came again: the consumer went back,
    after a truncation or a reset. `extra` are records that came although no acknowledged batch has
    their offset: of attempts that were appended and then failed (a retry wrote them again), or
    somebody else's.
    """

    times: RecordTimes
    delivered: int
    missing: int
    twice: int
    extra: int


def deliver(
    batches: IntRows, reads: IntRows, start_us: int, interval_ns: int, skip_records: int = 0
) -> Delivery:
    """Follow each acknowledged batch to the Fetch answer that brought it.

    `batches` and `reads` are rows of these datasets of one topic, with absolute times.
    """
    followed = follow_batches(batches, reads)
    came = followed[:, _BATCH["error"]] == 0
    count = followed[:, _BATCH["records"]]
    delivered = int(count[came].sum())
    with_records = reads[(reads[:, _READ["records"]] > 0)]
    twice = _read_again(with_records)
    return Delivery(
        times=record_times([followed], start_us, interval_ns, skip_records),
        delivered=delivered,
        missing=int(count[~came].sum()),
        twice=twice,
        extra=int(with_records[:, _READ["records"]].sum()) - twice - delivered,
    )


def follow_batches(batches: IntRows, reads: IntRows) -> IntRows:
    """The acknowledged batches, with the time at which each was read in place of `acked_us`.

    A batch is delivered by the first answer that holds its last offset; one that was not has an
    `error` other than 0.
    """
    acknowledged: IntRows = batches[batches[:, _BATCH["error"]] == 0].copy()
    with_records = reads[(reads[:, _READ["records"]] > 0)]
    count = acknowledged[:, _BATCH["records"]]
    for partition in np.unique(acknowledged[:, _BATCH["partition"]]):
        mine = np.flatnonzero(acknowledged[:, _BATCH["partition"]] == partition)
        theirs = with_records[with_records[:, _READ["partition"]] == partition]
        theirs = theirs[np.argsort(theirs[:, _READ["next_offset"]], kind="stable")]
        first = acknowledged[mine, _BATCH["base_offset"]]
        last = first + count[mine] - 1
        at = np.searchsorted(theirs[:, _READ["next_offset"]], last, side="right")
        found = at < len(theirs)
        where = at[found]
        begins = theirs[where, _READ["fetch_offset"]] <= last[found]
        # An offset of -1 (acks=0) was acknowledged without a place in the log.
        begins &= first[found] >= 0
        is_delivered = np.zeros(len(mine), dtype=bool)
        is_delivered[np.flatnonzero(found)[begins]] = True
        acknowledged[mine[is_delivered], _BATCH["acked_us"]] = theirs[
            where[begins], _READ["time_us"]
        ]
        acknowledged[mine[~is_delivered], _BATCH["error"]] = _NOT_DELIVERED
    if not len(with_records):
        acknowledged[:, _BATCH["error"]] = _NOT_DELIVERED
    return acknowledged


def _read_again(reads: IntRows) -> int:
    """How many of the offsets that were read had been read before."""
    again = 0
    for partition in np.unique(reads[:, _READ["partition"]]):
        rows = reads[reads[:, _READ["partition"]] == partition]
        rows = rows[np.argsort(rows[:, _READ["fetch_offset"]], kind="stable")]
        first, after = rows[:, _READ["fetch_offset"]], rows[:, _READ["next_offset"]]
        covered = np.maximum.accumulate(np.concatenate([first[:1], after[:-1]]))
        again += int(np.clip(np.minimum(after, covered) - first, 0, None).sum())
    return again
