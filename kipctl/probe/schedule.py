"""When each record should be sent: the open loop that latency is counted from (no coordinated
omission)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """What one worker of several has of a run: every `workers`-th, from number `worker` on.

    So it is with the records of a run as with the partitions of its topic: number `k` of its own
    is number `worker + k * workers` of all.
    """

    worker: int = 0
    workers: int = 1

    def number(self, own: int) -> int:
        """The number, among all, of its own."""
        return self.worker + own * self.workers

    def count(self, total: int) -> int:
        """How many of the first `total` are its own."""
        return (total - self.worker + self.workers - 1) // self.workers


WHOLE = Share()
"""The share of the only worker."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """`num_records` records from `start_us` on, at `rate` per second, and one worker's share.

    A rate of 0 or less, or so high that no nanosecond is left between two records, is unthrottled.

    Record number `seq` is intended for `start_us + seq * interval_ns / 1000`, whatever happens to
    those before it, so a stall is charged to every record that had to wait. The interval is whole
    nanoseconds, so that who reads a recorded run knows every time: `paced_rate` is what that makes.
    Unthrottled there are no intended
    times: a record's time is when it was handed to the producer.

    `num_records`, `rate` and the numbers are those of the whole run, whoever sends it: all workers
    that know the start agree on every record's time. What is due is the worker's own.
    """

    start_us: int
    num_records: int
    rate: float
    share: Share = WHOLE

    @property
    def throttled(self) -> bool:
        return self.interval_ns > 0

    @property
    def interval_ns(self) -> int:
        """Between two records; 0 when unthrottled."""
        return round(1e9 / self.rate) if self.rate > 0 else 0

    @property
    def paced_rate(self) -> float:
        """Records per second at that interval; 0 when unthrottled."""
        return 1e9 / self.interval_ns if self.interval_ns else 0

    @property
    def own_records(self) -> int:
        """How many of the records are the worker's own."""
        return self.share.count(self.num_records)

    def intended_us(self, seq: int) -> int:
        """The intended send time of record number `seq` of the run."""
        return self.start_us + seq * self.interval_ns // 1000

    def due(self, now_us: int) -> int:
        """How many of its own records the worker should have sent by now."""
        if now_us < self.start_us:
            return 0
        elapsed_ns = (now_us - self.start_us) * 1000 + 999
        return self.share.count(min(elapsed_ns // self.interval_ns + 1, self.num_records))

    def next_due_us(self, sent: int) -> int:
        """When a worker that has sent so many records has to send the next."""
        return self.intended_us(self.share.number(sent))
