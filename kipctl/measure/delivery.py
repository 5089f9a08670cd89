"""From the producer's intended send time to the consumer: each record's way, out of both traces.

Nothing is written into the records: the producer's trace says which offset each batch got, the
consumer's when each offset was read (`kipctl.measure.matching`). Both are on the same clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kipctl.documents.common import Action
from kipctl.documents.runs import EndToEndDocument
from kipctl.measure.consumer_summary import (
    MeasuredConsume,
    brokers,
    fetches,
    flip_groups,
    out_of_range,
)
from kipctl.measure.matching import Matching, Source
from kipctl.measure.producer_summary import (
    MeasuredProduce,
    RecordTimes,
    longest_record,
    record_times,
)
from kipctl.probe.health import health_document
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
    unplaced = min(matching.unplaced, extra)
    delivered = matching.records + unplaced
    return Delivery(
        times=times,
        delivered=delivered,
        missing=matching.acknowledged - delivered,
        twice=matching.twice,
        extra=extra - unplaced,
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


def summarize_end_to_end(
    produced: MeasuredProduce,
    consumed: MeasuredConsume,
    delivery: Delivery,
    actions: Sequence[Action],
    kafka_version: str | None,
    was_awaited: bool,
) -> EndToEndDocument:
    """The object that `perf e2e --output json` prints.

    `latency_ms` is from the intended send time to the answer that brought the record; times and
    the rate leave the warm-up out, all else is of the whole run. Unless what was acknowledged
    `was_awaited` nobody knows whether any is missing: it may have been on its way.
    """
    outcome, times = produced.outcome, delivery.times
    is_known = was_awaited or not delivery.missing
    return {
        "topic": outcome.spec.topic,
        "partitions": consumed.outcome.partitions,
        "client_rack": consumed.outcome.spec.config.client_rack or None,
        "records": {
            "sent": outcome.generated,
            "acknowledged": outcome.acknowledged,
            "failed": outcome.failed,
            "errors": outcome.errors,
            "delivered": delivery.delivered,
            "missing": delivery.missing if is_known else None,
            "twice": delivery.twice,
            "extra": delivery.extra,
        },
        "warmup_records": outcome.spec.warmup_records,
        "latency_ms": times.latency.as_ms(),
        "acknowledged_ms": produced.steady.latency.as_ms(),
        "longest_record": longest_record(outcome, times),
        "seconds": round(times.seconds, 6),
        "records_per_second": round(times.latency.total / times.seconds, 1),
        "cpu_seconds": {
            "producer": outcome.cpu_seconds,
            "consumer": consumed.outcome.cpu_seconds,
        },
        "health": {
            "producer": health_document(outcome.health),
            "consumer": health_document(consumed.outcome.health),
        },
        "fetches": fetches(consumed),
        "brokers": brokers(consumed),
        "flips": flip_groups(consumed),
        "out_of_range": out_of_range(consumed),
        "redirects": {
            "produce": produced.met.redirects,
            "fetch": consumed.met.redirects,
        },
        "metadata_rpcs": {
            "producer": produced.met.metadata_rpcs,
            "consumer": consumed.met.metadata_rpcs,
        },
        "actions": list(actions),
        "leader_discovery": outcome.spec.discovery.value,
        "kafka_version": kafka_version,
        "doubts": [],
    }
