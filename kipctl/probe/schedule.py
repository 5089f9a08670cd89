"""When each record should be sent: the open loop that latency is counted from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """`num_records` records from `start_us` on, at `rate` per second.

    A rate of 0 or less, or so high that no nanosecond is left between two records, is unthrottled.

    Record number `seq` is intended for `start_us + seq / rate`, whatever happens to those before
    it, so a stall is charged to every record that had to wait. Unthrottled there are no intended
    times: a record's time is when it was handed to the producer.
    """

    start_us: int
    num_records: int
    rate: float

    @property
    def throttled(self) -> bool:
        return self.interval_ns > 0

    @property
    def interval_ns(self) -> int:
        """Between two records; 0 when unthrottled."""
        return round(1e9 / self.rate) if self.rate > 0 else 0

    def intended_us(self, seq: int) -> int:
        """The intended send time of a record."""
        return self.start_us + seq * self.interval_ns // 1000

    def due(self, now_us: int) -> int:
        """How many records should have been sent by now."""
        if now_us < self.start_us:
            return 0
        elapsed_ns = (now_us - self.start_us) * 1000 + 999
        return min(elapsed_ns // self.interval_ns + 1, self.num_records)
