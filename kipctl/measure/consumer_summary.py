"""The results of a consumer's run, computed from its rows: who was read, and why that changed."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kipctl.documents.common import Action
from kipctl.documents.runs import ConsumeDocument, Fetches, OutOfRange, ReadFrom
from kipctl.documents.runs import Flips as FlipsDocument
from kipctl.measure.client_totals import ClientTotals
from kipctl.measure.distribution import Counting, distribution_of
from kipctl.measure.probe_results import ProbeResult, concatenated, rows_of_probes
from kipctl.measure.replica_flips import Flip, Flips
from kipctl.probe.consume.run import ConsumeOutcome
from kipctl.probe.health import health_document
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import error_name
from kipctl.trace.codes import RangeCase, RangeHandling
from kipctl.trace.columns import READ, RPC
from kipctl.trace.rows import IntRows

_NONE = -1
MEGABYTE = 1024 * 1024

TimeText = Callable[[int], str]
"""Writes a wall clock (Unix epoch, microseconds)."""


@dataclass(frozen=True, slots=True)
class MeasuredConsume:
    """A finished run: its outcome and the figures of its rows, out of the files.

    No rows are kept: memory does not grow with the length of the run.
    """

    outcome: ConsumeOutcome
    answers: "Answers"
    calls: "FetchCalls"
    met: ClientTotals

    @property
    def seconds(self) -> float:
        """From the start to the last record."""
        if not self.answers.with_records:
            return 0.0
        return max(1, self.answers.last_us - self.outcome.start_us) / 1e6


def measured_consume(
    outcome: ConsumeOutcome, results: Sequence[ProbeResult[ConsumeOutcome]]
) -> MeasuredConsume:
    """Read what the consumers of a run wrote, whose outcome as a whole is `outcome`."""
    calls, lost, met = FetchCalls(), [], ClientTotals(exact=True)
    for rpcs in rows_of_probes(results, "rpcs", outcome.start_us):
        lost.append(calls.add(rpcs))
        met.add_rpcs(rpcs)
    answers = Answers(concatenated("rpcs", lost))
    for reads in reads_of(outcome, results):
        answers.add(reads)
    for rows in rows_of_probes(results, "redirects", outcome.start_us):
        met.add_redirects(rows)
    return MeasuredConsume(outcome, answers, calls, met.finish())


class FetchCalls:
    """Fetch requests, counted."""

    def __init__(self) -> None:
        self.requests = self.lost = self.request_bytes = self.response_bytes = 0
        self.took = Counting()

    def add(self, rpcs: IntRows) -> IntRows:
        """Count those among rows of `rpcs`; returns the rows of those that were lost."""
        calls = rpcs[rpcs[:, RPC["api_key"]] == ApiKey.FETCH]
        is_answered = calls[:, RPC["received_us"]] > 0
        answered = calls[is_answered]
        self.requests += len(calls)
        self.lost += len(calls) - len(answered)
        self.request_bytes += int(calls[:, RPC["request_bytes"]].sum())
        self.response_bytes += int(calls[:, RPC["response_bytes"]].sum())
        self.took.add(answered[:, RPC["received_us"]] - answered[:, RPC["sent_us"]])
        lost: IntRows = calls[~is_answered]
        return lost


@dataclass(slots=True)
class _FromBroker:
    """What was read from a broker, as leader or as follower."""

    rack: int
    answers: int = 0
    records: int = 0
    bytes: int = 0
    partitions: set[int] = field(default_factory=set)


class Answers:
    """What answers to Fetches said of partitions, counted; `lost` are the Fetches without one.

    Kept are figures of each broker and its partitions, and what `Flips` keeps.
    """

    def __init__(self, lost: IntRows) -> None:
        self.with_records = self.preferred_named = self.last_us = 0
        """Counts; and the time of the last record."""
        self.errors: Counter[int] = Counter()
        self.out_of_range: Counter[tuple[int, int]] = Counter()
        """By `range_case` and `range_handling`."""
        self.brokers: dict[tuple[int, int], _FromBroker] = {}
        """By broker and `is_leader`."""
        self.flips = Flips(lost)

    def add(self, reads: IntRows) -> None:
        """Count rows of `reads`, each partition's in the order of time."""
        column = _column(reads)
        with_records = column("records") > 0
        self.with_records += int(with_records.sum())
        self.last_us = max(self.last_us, int(column("time_us")[with_records].max(initial=0)))
        self.preferred_named += int((column("preferred_read_replica") != _NONE).sum())
        self.errors.update(column("error")[column("error") != 0].tolist())
        is_case = column("range_case") != _NONE
        cases = reads[is_case][:, [READ["range_case"], READ["range_handling"]]]
        self.out_of_range.update((case, handling) for case, handling in cases.tolist())
        keys = column("broker") * 2 + column("is_leader")
        for key in np.unique(keys).tolist():
            self._add_of_broker(divmod(key, 2), reads[keys == key])
        self.flips.add(reads)

    def _add_of_broker(self, key: tuple[int, int], rows: IntRows) -> None:
        column = _column(rows)
        broker = self.brokers.setdefault(key, _FromBroker(int(column("broker_rack")[0])))
        broker.answers += len(rows)
        broker.records += int(column("records").sum())
        broker.bytes += int(column("bytes").sum())
        broker.partitions.update(np.unique(column("partition")[column("records") > 0]).tolist())


def reads_of(
    outcome: ConsumeOutcome, results: Sequence[ProbeResult[ConsumeOutcome]]
) -> Iterator[IntRows]:
    """The parts' reads, with racks numbered as in the outcome; each part has its own numbers."""
    rack = READ["broker_rack"]
    for result in results:
        racks = result.outcome.racks
        numbers = np.array([*map(outcome.racks.index, racks), _NONE])
        for rows in rows_of_probes([result], "reads", outcome.start_us):
            renumbered = rows.copy()
            # A rack that a dead worker had not reported is not known.
            renumbered[:, rack] = numbers[np.minimum(rows[:, rack], len(racks))]
            yield renumbered


def _column(reads: IntRows) -> Callable[[str], IntRows]:
    return lambda name: reads[:, READ[name]]


def summarize_consume(
    run: MeasuredConsume, actions: Sequence[Action], kafka_version: str | None
) -> ConsumeDocument:
    """The object that `perf consume --output json` prints; bytes are of whole record batches."""
    outcome, seconds = run.outcome, run.seconds
    gigabytes, cpu_s = outcome.bytes / 1e9, outcome.cpu_s
    per_gb = round(cpu_s / gigabytes, 3) if gigabytes and cpu_s is not None else None
    return {
        "topic": outcome.spec.topic,
        "partitions": outcome.partitions,
        "client_rack": outcome.spec.config.client_rack or None,
        "records": {"read": outcome.records, "bytes": outcome.bytes},
        "partitions_failed": outcome.errors,
        "seconds": round(seconds, 6),
        "mb_per_second": round(outcome.bytes / MEGABYTE / seconds, 3) if seconds else 0.0,
        "records_per_second": round(outcome.records / seconds, 1) if seconds else 0.0,
        "cpu_seconds": outcome.cpu_seconds,
        **health_document(outcome.health),
        "cpu_seconds_per_gb": per_gb,
        "fetches": fetches(run),
        "brokers": brokers(run),
        "flips": flip_groups(run),
        "out_of_range": out_of_range(run),
        "redirects": run.met.redirects,
        "metadata_rpcs": run.met.metadata_rpcs,
        "actions": list(actions),
        "leader_discovery": outcome.spec.discovery.value,
        "kafka_version": kafka_version,
        "doubts": [],
    }


def fetches(run: MeasuredConsume) -> Fetches:
    """Fetch requests: how many, how long, and what partitions were answered."""
    calls, answers = run.calls, run.answers
    return {
        "requests": calls.requests,
        "lost": calls.lost,
        "request_bytes": calls.request_bytes,
        "response_bytes": calls.response_bytes,
        "took_ms": calls.took.distribution.as_ms(),
        "partitions_with_records": answers.with_records,
        "preferred_replica_named": answers.preferred_named,
        "errors": {error_name(code): times for code, times in answers.errors.items()},
    }


def brokers(run: MeasuredConsume) -> list[ReadFrom]:
    """What was read from each broker, as leader and as follower; `share` is of the bytes."""
    racks, own_rack = run.outcome.racks, run.outcome.spec.config.client_rack
    total = sum(read.bytes for read in run.answers.brokers.values())
    return [
        {
            "broker": broker,
            "rack": racks[read.rack] if read.rack != _NONE else None,
            "read_as": "leader" if is_leader else "follower",
            "partitions": len(read.partitions),
            "answers": read.answers,
            "records": read.records,
            "bytes": read.bytes,
            "share": round(read.bytes / total, 6) if total else 0.0,
            "local": None if read.rack == _NONE or not own_rack else racks[read.rack] == own_rack,
        }
        for (broker, is_leader), read in sorted(run.answers.brokers.items())
    ]


def flip_groups(run: MeasuredConsume) -> list[FlipsDocument]:
    """Flips that are alike, in the order of their first."""
    groups: dict[tuple[int, int, str], list[Flip]] = {}
    for flip in run.answers.flips.all:
        groups.setdefault((flip.from_broker, flip.to_broker, flip.why), []).append(flip)
    return [
        {
            "from_broker": before,
            "to_broker": after,
            "why": why,
            "partitions": len({flip.partition for flip in alike}),
            "times": len(alike),
            "first_ms": (alike[0].time_us - run.outcome.start_us) / 1000,
            "gap_ms": {
                "p50": gaps.quantile(0.5) / 1000,
                "max": int(gaps.values[-1]) / 1000,
            },
        }
        for (before, after, why), alike in groups.items()
        for gaps in [distribution_of(np.array([flip.gap_us for flip in alike]))]
    ]


def out_of_range(run: MeasuredConsume) -> list[OutOfRange]:
    """How often an offset was out of range, by case (KIP-392) and what was done about it."""
    return [
        {
            "case": RangeCase(case).name.lower(),
            "handling": RangeHandling(handling).name.lower(),
            "times": times,
        }
        for (case, handling), times in sorted(run.answers.out_of_range.items())
    ]


HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
"""The line that Kafka's ConsumerPerformance (4.3) prints over its result."""
DETAILED_HEADER = (
    "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
"""The same with --show-detailed-stats."""


def kafka_line(run: MeasuredConsume, time_text: TimeText) -> str:
    """The line that Kafka's ConsumerPerformance ends with.

    The end is that of the last record, not of the wait for more; there is no group, so nothing is
    rebalanced. MB are of whole record batches, as they came over the wire; Kafka's tool counts keys
    and values unpacked.
    """
    outcome = run.outcome
    seconds = run.seconds or 0.001
    end_us = outcome.wall_start_us + round(seconds * 1e6)
    megabytes = outcome.bytes / MEGABYTE
    rates = f"{megabytes / seconds:.4f}", f"{outcome.records / seconds:.4f}"
    return (
        f"{time_text(outcome.wall_start_us)}, {time_text(end_us)}, {megabytes:.4f}, {rates[0]}, "
        f"{outcome.records}, {rates[1]}, 0, {round(seconds * 1000)}, {rates[0]}, {rates[1]}"
    )


def interval_line(
    rows: IntRows, records: int, size: int, seconds: float, time_text: TimeText
) -> tuple[str, int, int]:
    """The line of an interval, with --show-detailed-stats, and the new totals of both.

    `rows` are the reads since the last one, `records` and `size` the totals then.
    """
    new_records, new_size = (int(rows[:, READ[name]].sum()) for name in ("records", "bytes"))
    records, size = records + new_records, size + new_size
    rates = f"{new_size / MEGABYTE / seconds:.4f}", f"{new_records / seconds:.4f}"
    now_us = time.time_ns() // 1000
    line = (
        f"{time_text(now_us)}, 0, {size / MEGABYTE:.4f}, {rates[0]}, {records}, {rates[1]}, "
        f"0, {round(seconds * 1000)}, {rates[0]}, {rates[1]}"
    )
    return line, records, size
