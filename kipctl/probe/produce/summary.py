"""What a run came to, computed from its rows: exact percentiles, redirects, Metadata requests."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kipctl.probe.distribution import QUANTILES, Distribution, distribution
from kipctl.probe.parts import Part, rows_of_parts
from kipctl.probe.produce.run import ProbeOutcome
from kipctl.probe.summary import metadata_rpcs, redirects
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

_BATCH = {name: i for i, name in enumerate(COLUMNS["batches"])}


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """Latency (from the intended time) and service time (from the first send) of records."""

    latency: Distribution
    service: Distribution
    bytes: int
    first_us: int
    last_us: int
    """The earliest intended time and the latest acknowledgement."""

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
    latencies, services = [], []
    total_bytes, first, last = 0, np.iinfo(np.int64).max, 0
    for rows in batches:
        acknowledged = rows[rows[:, _BATCH["error"]] == 0]
        count, seq, stride, acked = (
            acknowledged[:, _BATCH[name]]
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
        intended = acknowledged[:, _BATCH["intended_us"]]
        services.append((acked - acknowledged[:, _BATCH["sent_us"]], kept))
        total_bytes += int((acknowledged[:, _BATCH["bytes"]] * kept // count).sum())
        if interval_ns:
            within = np.arange(int(kept.sum())) - np.repeat(np.cumsum(kept) - kept, kept)
            seqs = np.repeat(seq + skipped * stride, kept) + within * np.repeat(stride, kept)
            intended = start_us + seqs * interval_ns // 1000
            latencies.append((np.repeat(acked, kept) - intended, np.ones(len(seqs), np.int64)))
        else:
            latencies.append((acked - intended, kept))
        first, last = min(first, int(intended.min())), max(last, int(acked.max()))
        if len(latencies) > 64:
            latencies, services = [_merged(latencies)], [_merged(services)]
    return RecordTimes(
        distribution(latencies), distribution(services), total_bytes, min(first, last), last
    )


def _merged(parts: list[tuple[IntRows, IntRows]]) -> tuple[IntRows, IntRows]:
    whole = distribution(parts)
    return whole.values, whole.counts


def run_times(
    outcome: ProbeOutcome, parts: Sequence[Part[ProbeOutcome]], skip_records: int = 0
) -> RecordTimes:
    """`record_times` of a whole run."""
    batches = rows_of_parts(parts, "batches", outcome.start_us)
    return record_times(batches, outcome.start_us, outcome.interval_ns, skip_records)


@dataclass(frozen=True, slots=True)
class Measured:
    """A finished run: its outcome and what its rows come to, out of the files.

    `times` are of all records, `steady` of those after the warm-up.
    """

    outcome: ProbeOutcome
    times: RecordTimes
    steady: RecordTimes
    redirect_rows: IntRows
    rpc_rows: IntRows


def measured(outcome: ProbeOutcome, directory: Path) -> Measured:
    """Read what the probe wrote into the directory."""
    return measured_together(outcome, [Part(outcome, directory)])


def measured_together(outcome: ProbeOutcome, parts: Sequence[Part[ProbeOutcome]]) -> Measured:
    """Read what the probes of a run wrote, whose outcome as a whole is `outcome`."""
    times = run_times(outcome, parts)
    warmup = outcome.spec.warmup_records
    return Measured(
        outcome,
        times,
        run_times(outcome, parts, warmup) if warmup else times,
        _rows(outcome, parts, "redirects"),
        _rows(outcome, parts, "rpcs"),
    )


def _rows(outcome: ProbeOutcome, parts: Sequence[Part[ProbeOutcome]], dataset: str) -> IntRows:
    empty = np.empty((0, len(COLUMNS[dataset])), dtype=np.int64)
    return np.concatenate([empty, *rows_of_parts(parts, dataset, outcome.start_us)])


def summarize(
    run: Measured, actions: Sequence[dict[str, Any]], kafka_version: str | None
) -> dict[str, Any]:
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
        "records_per_second": round(times.latency.total / times.seconds, 1),
        "cpu_seconds": round(outcome.cpu_s, 3),
        "redirects": redirects(run.redirect_rows),
        "metadata_rpcs": metadata_rpcs(run.rpc_rows),
        "actions": list(actions),
        "leader_discovery": outcome.spec.discovery.value,
        "kafka_version": kafka_version,
    }


def kafka_line(times: RecordTimes, label: str = "") -> str:
    """The line that Kafka's ProducerPerformance (4.3) ends with.

    `label` is "" or " steady state".
    """
    count = times.latency.total
    shown = times.latency.as_ms()
    ms = [int(shown[name]) for name in QUANTILES]
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
