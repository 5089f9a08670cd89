"""The results of a producer's run, from its rows: percentiles, redirects, Metadata requests."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from kipctl.documents.common import Action
from kipctl.documents.runs import LongestRecord, ProduceDocument
from kipctl.measure.client_totals import ClientTotals
from kipctl.measure.distribution import Counting, Distribution
from kipctl.measure.probe_results import ProbeResult, rows_of_probes
from kipctl.probe.health import health_document
from kipctl.probe.produce.run import ProduceOutcome
from kipctl.probe.run import Outcome
from kipctl.trace.clock import wall_time
from kipctl.trace.columns import BATCH
from kipctl.trace.rows import IntRows

_RECORDS_AT_ONCE = 1 << 18


class LongestLatency(NamedTuple):
    """The record of the longest latency, and when it was intended to be sent, on the run's clock;
    both in microseconds."""

    latency_us: int
    intended_us: int
    partition: int


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """Latency (from the intended time) and service time (from the first send) of records."""

    latency: Distribution
    service: Distribution
    bytes: int
    first_us: int
    last_us: int
    """The earliest intended time and the latest acknowledgement."""
    longest: LongestLatency | None = None

    @property
    def seconds(self) -> float:
        return max(1, self.last_us - self.first_us) / 1e6


def record_times(
    batches: Iterable[IntRows], start_us: int, interval_ns: int, skip_records: int = 0
) -> RecordTimes:
    """Times of all acknowledged records from number `skip_records` on.

    A batch's records are expanded by arithmetic: record k was intended for
    `start_us + (first_seq + k * seq_stride) * interval_ns // 1000`; unthrottled (interval 0), for
    the batch's own `intended_us`.
    """
    latencies, services = Counting(), Counting()
    total_bytes, first, last = 0, np.iinfo(np.int64).max, 0
    longest: list[LongestLatency] = []
    for rows in chain.from_iterable(map(_in_portions, batches)):
        acknowledged = rows[rows[:, BATCH["error"]] == 0]
        count, seq, stride, acked = (
            acknowledged[:, BATCH[name]]
            for name in ("records", "first_seq", "seq_stride", "acked_us")
        )
        skipped = np.clip(-((seq - skip_records) // stride), 0, count)
        kept = count - skipped
        acknowledged = acknowledged[kept > 0]
        if not len(acknowledged):
            continue
        count, seq, stride, acked, skipped, kept = (
            column[kept > 0] for column in (count, seq, stride, acked, skipped, kept)
        )
        seq = seq + skipped * stride
        # The first of a batch's records is the one that waited longest.
        intended = acknowledged[:, BATCH["intended_us"]]
        if interval_ns:
            intended = start_us + seq * interval_ns // 1000
        at = int(np.argmax(acked - intended))
        partition = int(acknowledged[at, BATCH["partition"]])
        longest.append(LongestLatency(int(acked[at] - intended[at]), int(intended[at]), partition))
        services.add(acked - acknowledged[:, BATCH["sent_us"]], kept)
        total_bytes += int((acknowledged[:, BATCH["bytes"]] * kept // count).sum())
        if interval_ns:
            within = np.arange(int(kept.sum())) - np.repeat(np.cumsum(kept) - kept, kept)
            seqs = np.repeat(seq, kept) + within * np.repeat(stride, kept)
            latencies.add(np.repeat(acked, kept) - (start_us + seqs * interval_ns // 1000))
        else:
            latencies.add(acked - intended, kept)
        first, last = min(first, int(intended.min())), max(last, int(acked.max()))
    return RecordTimes(
        latencies.distribution,
        services.distribution,
        total_bytes,
        min(first, last),
        last,
        max(longest, default=None),
    )


def _in_portions(batches: IntRows) -> Iterator[IntRows]:
    """The batches, some at a time, so that the times of their records take little memory."""
    before = np.cumsum(batches[:, BATCH["records"]])
    begins = 0
    while begins < len(batches):
        so_far = int(before[begins - 1]) if begins else 0
        ends = int(np.searchsorted(before, so_far + _RECORDS_AT_ONCE, side="right"))
        ends = max(ends, begins + 1)
        yield batches[begins:ends]
        begins = ends


def run_times(
    outcome: ProduceOutcome, results: Sequence[ProbeResult[ProduceOutcome]], skip_records: int = 0
) -> RecordTimes:
    """`record_times` of a whole run."""
    batches = rows_of_probes(results, "batches", outcome.start_us)
    return record_times(batches, outcome.start_us, outcome.interval_ns, skip_records)


def service_times_at_ends(
    outcome: ProduceOutcome, results: Sequence[ProbeResult[ProduceOutcome]]
) -> tuple[Distribution, Distribution]:
    """Service times, in microseconds, of the first fifth and of the last two fifths of the records
    after the warm-up: while brokers warm up they fall."""
    warmup = outcome.spec.warmup_records
    count = max(0, outcome.generated - warmup)
    first, last = Counting(), Counting()
    for rows in rows_of_probes(results, "batches", outcome.start_us):
        done = rows[(rows[:, BATCH["error"]] == 0) & (rows[:, BATCH["first_seq"]] >= warmup)]
        seq = done[:, BATCH["first_seq"]] - warmup
        service = done[:, BATCH["acked_us"]] - done[:, BATCH["sent_us"]]
        for counting, kept in ((first, 5 * seq < count), (last, 5 * seq >= 3 * count)):
            counting.add(service[kept], done[kept, BATCH["records"]])
    return first.distribution, last.distribution


@dataclass(frozen=True, slots=True)
class MeasuredProduce:
    """A finished run: its outcome and the figures of its rows, out of the files.

    `times` are of all records, `steady` of those after the warm-up. No rows are kept: memory does
    not grow with the length of the run.
    """

    outcome: ProduceOutcome
    times: RecordTimes
    steady: RecordTimes
    met: ClientTotals


def measured_produce(
    outcome: ProduceOutcome, results: Sequence[ProbeResult[ProduceOutcome]]
) -> MeasuredProduce:
    """Read what the probes of a run wrote, whose outcome as a whole is `outcome`."""
    times = run_times(outcome, results)
    warmup = outcome.spec.warmup_records
    steady = run_times(outcome, results, warmup) if warmup else times
    met = ClientTotals(exact=True)
    for rows in rows_of_probes(results, "redirects", outcome.start_us):
        met.add_redirects(rows)
    for rows in rows_of_probes(results, "rpcs", outcome.start_us):
        met.add_rpcs(rows)
    return MeasuredProduce(outcome, times, steady, met.finish())


def longest_record(outcome: Outcome, times: RecordTimes) -> LongestRecord | None:
    """Which record of a run took longest, and when that was."""
    if times.longest is None:
        return None
    latency_us, intended_us, partition = times.longest
    into_us = intended_us - outcome.start_us
    return {
        "longest_ms": latency_us / 1000,
        "intended_ms": into_us / 1000,
        "intended": wall_time(outcome.wall_start_us + into_us),
        "partition": partition,
    }


def summarize_produce(
    run: MeasuredProduce, actions: Sequence[Action], kafka_version: str | None
) -> ProduceDocument:
    """The object that `perf produce --output json` prints.

    Times and the rate leave the warm-up out; all else is of the whole run.
    """
    outcome, times = run.outcome, run.steady
    return {
        "topic": outcome.spec.topic,
        "records": {
            "sent": outcome.generated,
            "acknowledged": outcome.acknowledged,
            "failed": outcome.failed,
            "errors": outcome.errors,
        },
        "warmup_records": outcome.spec.warmup_records,
        "latency_ms": times.latency.as_ms(),
        "service_ms": times.service.as_ms(),
        "longest_record": longest_record(outcome, times),
        "records_per_second": round(times.latency.total / times.seconds, 1),
        "cpu_seconds": outcome.cpu_seconds,
        **health_document(outcome.health),
        "redirects": run.met.redirects,
        "metadata_rpcs": run.met.metadata_rpcs,
        "actions": list(actions),
        "leader_discovery": outcome.spec.discovery.value,
        "kafka_version": kafka_version,
        "doubts": [],
    }


def kafka_line(times: RecordTimes, label: str = "") -> str:
    """The line that Kafka's ProducerPerformance (4.3) ends with.

    `label` is "" or " steady state".
    """
    count = times.latency.total
    shown = times.latency.as_ms()
    ms = [int(shown["p50"]), int(shown["p95"]), int(shown["p99"]), int(shown["p999"])]
    return (
        f"{count}{label} records sent, {count / times.seconds:f} records/sec "
        f"({times.bytes / times.seconds / 1048576:.2f} MB/sec), "
        f"{shown['mean']:.2f} ms avg latency, {shown['max']:.2f} ms max latency, "
        f"{ms[0]} ms 50th, {ms[1]} ms 95th, {ms[2]} ms 99th, {ms[3]} ms 99.9th."
    )


def interval_line(times: RecordTimes, seconds: float) -> str:
    """The line that Kafka's ProducerPerformance prints every reporting interval."""
    count = times.latency.total
    shown = times.latency.as_ms()
    return (
        f"{count} records sent, {count / seconds:.1f} records/sec "
        f"({times.bytes / seconds / 1048576:.2f} MB/sec), "
        f"{shown['mean']:.1f} ms avg latency, {shown['max']:.1f} ms max latency."
    )
