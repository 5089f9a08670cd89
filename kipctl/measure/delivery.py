"""From the producer's intended send time to the consumer: each record's way, out of both traces.

Nothing is written into the records: the producer's trace says which offset each batch got, the
consumer's when each offset was read (`kipctl.measure.matching`). Both are on the same clock.
"""

from dataclasses import dataclass

import numpy as np

from kipctl.measure.matching import Matching, Source
from kipctl.measure.producer_summary import RecordTimes, record_times
from kipctl.trace.columns import BATCH
from kipctl.trace.rows import IntRows

_NOT_DELIVERED = 1
_NEVER_US = 1 << 62


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of the acknowledged records.

    `times` are of those from number `skip_records` on whose offset is known. `twice` were read
    again: the consumer went back. `extra` were read although no acknowledged batch has their
    offset: of attempts that were appended and then failed (a retry wrote them again), or somebody
    else's.
    """

    times: RecordTimes
    delivered: int
    missing: int
    twice: int
    extra: int


def match_delivery(
    batches: Source,
    reads: Source,
    start_us: int,
    interval_ns: int,
    skip_records: int = 0,
    late_us: int = _NEVER_US,
    skew_us: int = 0,
) -> Delivery:
    """Follow each acknowledged batch to the answer to a Fetch that brought it.

    `batches` and `reads` give rows of these datasets of one topic, with absolute times. No batch is
    acknowledged later than `late_us` after it was read, and none was read more than `skew_us`
    before it was sent, which is how much the clocks of producer and consumer may differ.
    """
    matching = Matching(batches, reads, late_us, skew_us)
    times = record_times(matching.delivered(), start_us, interval_ns, skip_records)
    extra = max(0, matching.read - matching.twice - matching.records)
    # After DUPLICATE_SEQUENCE_NUMBER nobody knows the offset: if it was read, it is among these.
    found = min(matching.unplaced, extra)
    delivered = matching.records + found
    return Delivery(
        times=times,
        delivered=delivered,
        missing=matching.acknowledged - delivered,
        twice=matching.twice,
        extra=extra - found,
    )


def follow_batches(batches: IntRows, reads: IntRows) -> IntRows:
    """The acknowledged batches, with the time at which each was read in place of `acked_us`.

    One that was not read has an `error` other than 0.
    """
    acknowledged: IntRows = batches[batches[:, BATCH["error"]] == 0].copy()
    numbered = np.column_stack([acknowledged, np.arange(len(acknowledged))])
    matching = Matching(lambda: [numbered], lambda: [reads], _NEVER_US, 0)
    acknowledged[:, BATCH["error"]] = _NOT_DELIVERED
    for delivered in matching.delivered():
        acknowledged[delivered[:, -1]] = delivered[:, :-1]
    return acknowledged
