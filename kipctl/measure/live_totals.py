"""The figures of a run so far, counted from its rows as they are written.

They are of the whole run, however long that is, though the rows of its beginning may be gone.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from kipctl.measure.client_totals import ClientTotals
from kipctl.measure.consumer_summary import FetchCalls
from kipctl.measure.delivery import Delivery
from kipctl.measure.distribution import Distribution, distribution
from kipctl.measure.lost_and_late import LiveMatcher
from kipctl.measure.producer_summary import LongestLatency, RecordTimes, record_times
from kipctl.measure.time_histogram import TimeHistogram
from kipctl.protocol.error_codes import error_name
from kipctl.trace.columns import BATCH, READ
from kipctl.trace.rows import IntRows

PRODUCER, CONSUMER = "producer", "consumer"
DATASETS = {
    PRODUCER: ("batches", "redirects", "rpcs"),
    CONSUMER: ("reads", "redirects", "rpcs"),
}
"""What each client writes."""

NewRows = Mapping[tuple[str, str], IntRows]
"""Rows that were written since the last time, by client and dataset."""


class LiveRecordTimes:
    """Latency and service time of records; see `RecordTimes`."""

    def __init__(self) -> None:
        self.latency, self._service = TimeHistogram(), TimeHistogram()
        self._bytes, self._first_us, self._last_us = 0, 0, 0
        self._longest: LongestLatency | None = None

    def add(self, times: RecordTimes) -> None:
        if not times.latency.total:
            return
        self.latency.add(times.latency.values, times.latency.counts)
        self._service.add(times.service.values, times.service.counts)
        self._bytes += times.bytes
        self._first_us = min(self._first_us or times.first_us, times.first_us)
        self._last_us = max(self._last_us, times.last_us)
        self._longest = max(filter(None, (self._longest, times.longest)), default=None)

    @property
    def record_times(self) -> RecordTimes:
        """Of all records so far, rounded down to three digits."""
        return RecordTimes(
            self.latency.distribution,
            self._service.distribution,
            self._bytes,
            self._first_us,
            self._last_us,
            self._longest,
        )


class SoFar(Protocol):
    """What is known of a run while it lasts."""

    clients: dict[str, ClientTotals]
    settled: int
    """Records acknowledged, given up, or read."""
    failed: Counter[str]
    """Records that were given up, by the error's name."""
    newest: tuple[int, Distribution]
    """Of the rows taken last: how many records, and how long they (or Fetches) took."""

    @property
    def leading(self) -> Counter[int]:
        """Partitions by the broker that answered for them last."""


class ProducerTotals:
    """Takes rows of a producer. LiveRecordTimes are monotonic microseconds.

    `start_us`, `interval_ns` and `warmup_records` are those of the run. `acknowledged` leaves the
    warm-up out, all else is of the whole run.
    """

    def __init__(self, start_us: int, interval_ns: int, warmup_records: int = 0) -> None:
        self.start_us, self._interval_ns, self._warmup = start_us, interval_ns, warmup_records
        self.acknowledged = LiveRecordTimes()
        self.settled = 0
        self.failed: Counter[str] = Counter()
        self.clients = {PRODUCER: ClientTotals()}
        self.newest = (0, distribution(()))
        self.counted_until_us = start_us
        """What happened until then is counted."""
        self._leaders: dict[int, int] = {}

    @property
    def leading(self) -> Counter[int]:
        """Partitions by the broker that acknowledged their last batch."""
        return Counter(self._leaders.values())

    def add(self, rows: NewRows, until_us: int) -> None:
        """Rows that were written since the last call; of what happened until then they are all."""
        batches = rows[PRODUCER, "batches"]
        self.newest = self._add_times(batches, self.acknowledged)
        error, records = batches[:, BATCH["error"]], batches[:, BATCH["records"]]
        self.settled += int(records.sum())
        for code in np.unique(error[error != 0]).tolist():
            self.failed[error_name(code)] += int(records[error == code].sum())
        done = batches[error == 0]
        self._leaders |= dict(done[:, [BATCH["partition"], BATCH["broker"]]].tolist())
        for name, client in self.clients.items():
            client.add(rows[name, "redirects"], rows[name, "rpcs"], until_us)
        self.counted_until_us = max(self.counted_until_us, until_us)

    def _add_times(self, batches: IntRows, times: LiveRecordTimes) -> tuple[int, Distribution]:
        """Count records after the warm-up; how many there are in all, and how long they took."""
        all_times = record_times([batches], self.start_us, self._interval_ns)
        is_warm = batches[:, BATCH["first_seq"]].min(initial=self._warmup) >= self._warmup
        times.add(
            all_times
            if is_warm
            else record_times([batches], self.start_us, self._interval_ns, self._warmup)
        )
        done = batches[batches[:, BATCH["error"]] == 0]
        return int(done[:, BATCH["records"]].sum()), all_times.latency


class ConsumerTotals:
    """Takes rows of a consumer."""

    def __init__(self) -> None:
        self.settled = 0
        self.failed: Counter[str] = Counter()
        self.clients = {CONSUMER: ClientTotals()}
        self.newest = (0, distribution(()))
        self._read_from: dict[int, int] = {}

    @property
    def leading(self) -> Counter[int]:
        """Partitions by the broker that their last records came from."""
        return Counter(self._read_from.values())

    def add(self, rows: NewRows, until_us: int) -> None:
        """Rows that were written since the last call; of what happened until then they are all."""
        reads, calls = rows[CONSUMER, "reads"], FetchCalls()
        calls.add(rows[CONSUMER, "rpcs"])
        records = int(reads[:, READ["records"]].sum())
        self.newest = (records, calls.took.distribution)
        self.settled += records
        with_records = reads[reads[:, READ["records"]] > 0]
        self._read_from |= dict(with_records[:, [READ["partition"], READ["broker"]]].tolist())
        client = self.clients[CONSUMER]
        client.add(rows[CONSUMER, "redirects"], rows[CONSUMER, "rpcs"], until_us)


class EndToEndTotals(ProducerTotals):
    """Takes rows of a producer and of the consumer that reads what it writes.

    `lost_after_us`, `late_us` and `forget_us` are those of `LiveMatcher`; `newest` is of the
    records that were read, from the intended send time to the answer that brought them.
    """

    def __init__(
        self,
        start_us: int,
        interval_ns: int,
        warmup_records: int,
        lost_after_us: int,
        late_us: int,
        forget_us: int,
    ) -> None:
        super().__init__(start_us, interval_ns, warmup_records)
        self.matching = LiveMatcher(lost_after_us, late_us, forget_us)
        self.delivered = LiveRecordTimes()
        self.clients[CONSUMER] = ClientTotals()

    @property
    def delivery(self) -> Delivery:
        """What became of the acknowledged records; those that came late are among the delivered,
        but not among the times."""
        matching = self.matching
        delivered = matching.records + matching.late
        extra = max(0, matching.read - matching.twice - delivered)
        # As in `deliver`: those whose offset nobody knows are among these.
        unplaced = min(matching.unplaced, extra)
        return Delivery(
            times=self.delivered.record_times,
            delivered=delivered + unplaced,
            missing=matching.acknowledged - delivered - unplaced,
            twice=matching.twice,
            extra=extra - unplaced,
        )

    def add(self, rows: NewRows, until_us: int) -> None:
        """See `ProducerTotals`."""
        super().add(rows, until_us)
        delivered = self.matching.add(rows[PRODUCER, "batches"], rows[CONSUMER, "reads"], until_us)
        self.newest = self._add_times(delivered, self.delivered)

    def finish(self) -> None:
        """No more is written: what is not known to have come did not."""
        self._add_times(self.matching.finish(), self.delivered)
        for client in self.clients.values():
            client.finish(self.counted_until_us)
