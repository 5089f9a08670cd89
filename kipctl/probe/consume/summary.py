"""What a consumer's run came to, computed from its rows: who was read, and why that changed."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kipctl.probe.consume.run import ConsumeOutcome
from kipctl.probe.distribution import Counting, Distribution, distribution
from kipctl.probe.parts import Part, rows_of_parts, together
from kipctl.probe.summary import metadata_calls, metadata_rpcs, redirects
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import error_name
from kipctl.trace.codes import RangeCase, RangeHandling
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import IntRows

_READ = {name: i for i, name in enumerate(COLUMNS["reads"])}
_RPC = {name: i for i, name in enumerate(COLUMNS["rpcs"])}
_NONE = -1
MEGABYTE = 1024 * 1024

TimeText = Callable[[int], str]
"""Writes a wall clock (Unix epoch, microseconds)."""

NAMED = "named by the leader"
LOST = "connection lost"
OTHER = "the leader moved, or the lease was over"


@dataclass(frozen=True, slots=True)
class Measured:
    """A finished run: its outcome and its reads, sorted by time.

    Of requests `calls` counts the Fetches; rows are kept of Metadata requests and of Fetches that
    were lost.
    """

    outcome: ConsumeOutcome
    reads: IntRows
    calls: "FetchCalls"
    lost: IntRows
    metadata_rows: IntRows
    redirects: IntRows

    @property
    def seconds(self) -> float:
        """From the start to the last record."""
        with_records = self.reads[self.reads[:, _READ["records"]] > 0]
        if not len(with_records):
            return 0.0
        last_us = int(with_records[:, _READ["time_us"]].max())
        return max(1, last_us - self.outcome.start_us) / 1e6


def measured(outcome: ConsumeOutcome, parts: Sequence[Part[ConsumeOutcome]]) -> Measured:
    """Read what the consumers of a run wrote, whose outcome as a whole is `outcome`."""

    calls, lost, metadata = FetchCalls(), [], []
    for rpcs in rows_of_parts(parts, "rpcs", outcome.start_us):
        lost.append(calls.add(rpcs))
        metadata.append(metadata_calls(rpcs))
    reads = together("reads", _reads(outcome, parts))
    reads = reads[np.argsort(reads[:, _READ["time_us"]], kind="stable")]
    redirect_rows = together("redirects", rows_of_parts(parts, "redirects", outcome.start_us))
    return Measured(
        outcome, reads, calls, together("rpcs", lost), together("rpcs", metadata), redirect_rows
    )


class FetchCalls:
    """Fetch requests, counted."""

    def __init__(self) -> None:
        self.requests = self.lost = self.request_bytes = self.response_bytes = 0
        self.took = Counting()

    def add(self, rpcs: IntRows) -> IntRows:
        """Count those among rows of `rpcs`; returns the rows of those that were lost."""
        calls = rpcs[rpcs[:, _RPC["api_key"]] == ApiKey.FETCH]
        is_answered = calls[:, _RPC["received_us"]] > 0
        answered = calls[is_answered]
        self.requests += len(calls)
        self.lost += len(calls) - len(answered)
        self.request_bytes += int(calls[:, _RPC["request_bytes"]].sum())
        self.response_bytes += int(calls[:, _RPC["response_bytes"]].sum())
        self.took.add(answered[:, _RPC["received_us"]] - answered[:, _RPC["sent_us"]])
        lost: IntRows = calls[~is_answered]
        return lost


def _reads(outcome: ConsumeOutcome, parts: Sequence[Part[ConsumeOutcome]]) -> Iterator[IntRows]:
    """The parts' reads, with racks numbered as in the outcome; each part has its own numbers."""
    rack = _READ["broker_rack"]
    for part in parts:
        racks = part.outcome.racks
        numbers = np.array([*map(outcome.racks.index, racks), _NONE])
        for rows in rows_of_parts([part], "reads", outcome.start_us):
            renumbered = rows.copy()
            # One that a dead worker did not come to tell is not known.
            renumbered[:, rack] = numbers[np.minimum(rows[:, rack], len(racks))]
            yield renumbered


class Flip(NamedTuple):
    """A partition's records came from another broker than before; `gap_us` lies between them."""

    partition: int
    from_broker: int
    to_broker: int
    why: str
    time_us: int
    gap_us: int


def flips(run: Measured) -> list[Flip]:
    """Every change of the broker that a partition is read from, in the order of time.

    The reason is what was seen between: the last error, a replica that the leader named, a
    connection that was lost; else its leader moved, or the lease was over.
    """
    found = []
    reads, column = run.reads, _column(run.reads)
    order = np.lexsort((column("time_us"), column("partition"), column("topic")))
    reads = reads[order]
    column = _column(reads)
    has_records = np.flatnonzero(column("records") > 0)
    for before, after in pairwise(has_records):
        a, b = reads[before], reads[after]
        if a[_READ["partition"]] != b[_READ["partition"]] or a[_READ["topic"]] != b[_READ["topic"]]:
            continue
        if a[_READ["broker"]] == b[_READ["broker"]]:
            continue
        between = reads[before + 1 : after]
        errors = between[between[:, _READ["error"]] != 0]
        named = between[between[:, _READ["preferred_read_replica"]] == b[_READ["broker"]]]
        from_us, to_us = int(a[_READ["time_us"]]), int(b[_READ["time_us"]])
        if len(errors):
            why = error_name(int(errors[-1][_READ["error"]]))
        elif len(named):
            why = NAMED
        elif _was_lost(run.lost, int(a[_READ["broker"]]), from_us, to_us):
            why = LOST
        else:
            why = OTHER
        found.append(
            Flip(
                int(a[_READ["partition"]]),
                int(a[_READ["broker"]]),
                int(b[_READ["broker"]]),
                why,
                to_us,
                to_us - from_us,
            )
        )
    return sorted(found, key=lambda flip: flip.time_us)


def _was_lost(lost: IntRows, broker: int, from_us: int, to_us: int) -> bool:
    """A Fetch to the broker that was sent before `to_us` never came back."""
    sent = lost[lost[:, _RPC["broker"]] == broker, _RPC["sent_us"]]
    return bool(((sent >= from_us) & (sent <= to_us)).any())


class _Column:
    def __init__(self, rows: IntRows) -> None:
        self._rows = rows

    def __call__(self, name: str) -> npt.NDArray[np.int64]:
        return self._rows[:, _READ[name]]


_column = _Column


def summarize(
    run: Measured, actions: Sequence[dict[str, Any]], kafka_version: str | None
) -> dict[str, Any]:
    """The object that `perf consume --output json` prints; bytes are of whole record batches."""
    outcome, seconds = run.outcome, run.seconds
    gigabytes = outcome.bytes / 1e9
    return {
        "topic": outcome.spec.topic,
        "partitions": outcome.partitions,
        "client_rack": outcome.config.client_rack or None,
        "records": {"read": outcome.records, "bytes": outcome.bytes},
        "partitions_failed": outcome.errors,
        "seconds": round(seconds, 6),
        "mb_per_second": round(outcome.bytes / MEGABYTE / seconds, 3) if seconds else 0.0,
        "records_per_second": round(outcome.records / seconds, 1) if seconds else 0.0,
        "cpu_seconds": round(outcome.cpu_s, 3),
        **outcome.health.as_document(),
        "cpu_seconds_per_gb": round(outcome.cpu_s / gigabytes, 3) if gigabytes else None,
        "fetches": fetches(run),
        "brokers": brokers(run),
        "flips": flip_groups(run),
        "out_of_range": out_of_range(run),
        "redirects": redirects(run.redirects),
        "metadata_rpcs": metadata_rpcs(run.metadata_rows),
        "actions": list(actions),
        "leader_discovery": outcome.spec.discovery.value,
        "kafka_version": kafka_version,
    }


def fetches(run: Measured) -> dict[str, Any]:
    """Fetch requests: how many, how long, and what partitions were answered."""
    calls, column = run.calls, _column(run.reads)
    errors = Counter(error_name(int(code)) for code in column("error") if code)
    return {
        "requests": calls.requests,
        "lost": calls.lost,
        "request_bytes": calls.request_bytes,
        "response_bytes": calls.response_bytes,
        "took_ms": calls.took.distribution.as_ms(),
        "partitions_with_records": int((column("records") > 0).sum()),
        "preferred_replica_named": int((column("preferred_read_replica") != _NONE).sum()),
        "errors": dict(errors),
    }


def _of(values: npt.NDArray[np.int64]) -> Distribution:
    return distribution([(values, np.ones(len(values), np.int64))])


def brokers(run: Measured) -> list[dict[str, Any]]:
    """What was read from each broker, as leader and as follower; `share` is of the bytes."""
    column, racks = _column(run.reads), run.outcome.racks
    total = int(column("bytes").sum())
    found = []
    keys = np.unique(run.reads[:, [_READ["broker"], _READ["is_leader"]]], axis=0)
    for broker, is_leader in keys.tolist():
        rows = run.reads[(column("broker") == broker) & (column("is_leader") == is_leader)]
        of = _column(rows)
        rack = int(of("broker_rack")[0])
        records, size = int(of("records").sum()), int(of("bytes").sum())
        found.append(
            {
                "broker": broker,
                "rack": racks[rack] if rack != _NONE else None,
                "read_as": "leader" if is_leader else "follower",
                "partitions": len(np.unique(of("partition")[of("records") > 0])),
                "answers": len(rows),
                "records": records,
                "bytes": size,
                "share": round(size / total, 6) if total else 0.0,
                "local": None
                if rack == _NONE or not run.outcome.config.client_rack
                else racks[rack] == run.outcome.config.client_rack,
            }
        )
    return found


def flip_groups(run: Measured) -> list[dict[str, Any]]:
    """`flips` that are alike, in the order of their first."""
    groups: dict[tuple[int, int, str], list[Flip]] = {}
    for flip in flips(run):
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
                "p50": _of(np.array([flip.gap_us for flip in alike])).quantile(0.5) / 1000,
                "max": max(flip.gap_us for flip in alike) / 1000,
            },
        }
        for (before, after, why), alike in groups.items()
    ]


def out_of_range(run: Measured) -> list[dict[str, Any]]:
    """How often an offset was out of range, by case (KIP-392) and what was done about it."""
    column = _column(run.reads)
    is_case = column("range_case") != _NONE
    pairs = zip(column("range_case")[is_case], column("range_handling")[is_case], strict=True)
    return [
        {
            "case": RangeCase(int(case)).name.lower(),
            "handling": RangeHandling(int(handling)).name.lower(),
            "times": times,
        }
        for (case, handling), times in sorted(Counter(pairs).items())
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


def kafka_line(run: Measured, time_text: TimeText) -> str:
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
    new_records, new_size = (int(rows[:, _READ[name]].sum()) for name in ("records", "bytes"))
    records, size = records + new_records, size + new_size
    rates = f"{new_size / MEGABYTE / seconds:.4f}", f"{new_records / seconds:.4f}"
    now_us = time.time_ns() // 1000
    line = (
        f"{time_text(now_us)}, 0, {size / MEGABYTE:.4f}, {rates[0]}, {records}, {rates[1]}, "
        f"0, {round(seconds * 1000)}, {rates[0]}, {rates[1]}"
    )
    return line, records, size
