"""What each restart of a roll cost a client, out of its rows: pure.

A restart has two halves: leaders move away (from its call to the preferred election), and back
(from the election to the next restart).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kipctl.documents.common import Waits
from kipctl.documents.experiments import FiguresOfHalves
from kipctl.experiments.arms.restarts import Restart
from kipctl.measure.distribution import Distribution, distribution, distribution_of
from kipctl.trace.columns import BATCH, REDIRECT
from kipctl.trace.rows import IntRows

_REST_US = 1_000_000
"""After the last leaders are back: as long as what they left behind is the last half's."""


_END_US = 1 << 62


@dataclass(frozen=True, slots=True)
class Half:
    """A half of a restart: `away` or `back`, from and to, microseconds since the run's start."""

    broker: int
    direction: str
    begin_us: int
    end_us: int


def halves(restarts: Sequence[Restart], start_us: int) -> list[Half]:
    """The halves of all restarts, in order; of one that failed, those that began.

    A half ends where the next begins, the last one second after its leaders were back.
    """
    begun = [
        (restart.broker, direction, at - start_us)
        for restart in restarts
        for direction, at in (("away", restart.called_us), ("back", restart.elected_us))
        if at
    ]
    if not begun:
        return []
    over = max(restarts[-1].back_us, restarts[-1].elected_us, restarts[-1].called_us) - start_us
    ends = [begin for _, _, begin in begun[1:]] + [over + _REST_US]
    return [
        Half(broker, direction, begin, end)
        for (broker, direction, begin), end in zip(begun, ends, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Records:
    """Records by when they were intended (or read), with their latency; one entry may be many.

    Microseconds; shapes are all (entries,).
    """

    intended_us: IntRows
    latency_us: IntRows
    count: IntRows

    @property
    def latency(self) -> Distribution:
        return distribution([(self.latency_us, self.count)])

    def due(self, begin_us: int, end_us: int) -> IntRows:
        """Rows (latency, count) of those that were intended in [begin, end)."""
        rows: IntRows = np.stack([self.latency_us, self.count], axis=1)
        return rows[(self.intended_us >= begin_us) & (self.intended_us < end_us)]

    def in_halves(self, spans: Sequence["Half"]) -> IntRows:
        """Rows (latency, count) of those from the first half on: what comes before is the quiet
        beginning, and left out."""
        if not spans:
            return np.empty((0, 2), dtype=np.int64)
        return self.due(spans[0].begin_us, _END_US)

    def within(self, spans: Sequence["Half"]) -> Distribution:
        """The latencies of those that were intended in one of the spans."""
        mine = np.zeros(len(self.intended_us), dtype=bool)
        for span in spans:
            mine |= (self.intended_us >= span.begin_us) & (self.intended_us < span.end_us)
        return distribution([(self.latency_us[mine], self.count[mine])])


def records(batches: IntRows, interval_ns: int, skip_records: int = 0) -> Records:
    """Acknowledged records from number `skip_records` on; as `produce.summary.record_times`.

    With an interval each record has its own intended time (relative to the run's start), without
    one its batch's.
    """
    done = batches[batches[:, BATCH["error"]] == 0]
    count, seq, stride, acked, intended = (
        done[:, BATCH[name]]
        for name in ("records", "first_seq", "seq_stride", "acked_us", "intended_us")
    )
    skipped = np.clip(-((seq - skip_records) // np.maximum(stride, 1)), 0, count)
    kept = count - skipped
    if not interval_ns:
        some = kept > 0
        return Records(intended[some], (acked - intended)[some], kept[some])
    within = np.arange(int(kept.sum())) - np.repeat(np.cumsum(kept) - kept, kept)
    seqs = np.repeat(seq + skipped * stride, kept) + within * np.repeat(stride, kept)
    due = seqs * interval_ns // 1000
    return Records(due, np.repeat(acked, kept) - due, np.ones(len(due), dtype=np.int64))


def figures_in(
    spans: Sequence[Half], produced: Records, delivered: Records, redirects: IntRows
) -> FiguresOfHalves:
    """Figures of the records of these halves, and of the batches that first failed in them.

    `redirects` are rows of failed attempts of Produce requests, those of one batch together. All
    kinds of failure count that made a batch be sent again: a lost connection as well as a leader's
    refusal. Detection is the time from a batch's sends to their failures; the client's wait is
    backoff and waiting for Metadata.
    """
    attempt = redirects[:, REDIRECT["attempt"]]
    batch = np.cumsum(attempt == 1) - 1
    first_us = redirects[attempt == 1, REDIRECT["error_us"]]
    mine = np.zeros(len(first_us), dtype=bool)
    for half in spans:
        mine |= (first_us >= half.begin_us) & (first_us < half.end_us)

    def spent(*phases: str) -> Waits:
        total = np.zeros(len(first_us), dtype=np.int64)
        for phase in phases:
            np.add.at(total, batch, redirects[:, REDIRECT[f"{phase}_us"]])
        return spread_ms(distribution_of(total[mine]))

    return {
        "seconds": sum(half.end_us - half.begin_us for half in spans) / 1e6,
        "acknowledged_ms": spread_ms(produced.within(spans)),
        "latency_ms": spread_ms(delivered.within(spans)),
        "batches_sent_again": int(mine.sum()),
        "detection_ms": spent("detect"),
        "client_wait_ms": spent("backoff", "metadata"),
        "not_ready_ms": spent("not_ready"),
    }


def spread_ms(times: Distribution) -> Waits:
    """p50, p99 and max in milliseconds; 0 for none."""
    shown = times.as_ms()
    return {"p50": shown["p50"], "p99": shown["p99"], "max": shown["max"]}
