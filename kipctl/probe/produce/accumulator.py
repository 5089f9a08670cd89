"""The records that are due, in their partitions' queues (Java's RecordAccumulator)."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle

from kipctl.probe.metadata_refresh import NEVER_US
from kipctl.probe.produce.batches import Batch, Partition
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.partitioner import Partitioner
from kipctl.probe.produce.payloads import Variant
from kipctl.probe.schedule import Schedule


class Accumulator:
    """Fills the partitions' queues as the schedule says, and wakes those that had to wait.

    Times are monotonic microseconds.
    """

    def __init__(
        self,
        config: ProducerConfig,
        partitions: Sequence[Partition],
        partitioner: Partitioner,
        variants: Sequence[Variant],
    ) -> None:
        self._config = config
        self._partitions = partitions
        self._partitioner = partitioner
        self._next_variant = cycle(variants).__next__
        self._buffer_records = max(
            1, config.buffer_memory * variants[0].capacity // variants[0].ends[-1]
        )
        self._schedule = Schedule(0, 0, 0)
        self._throttled = False
        self._own_records = 0
        self._timers: list[tuple[int, int, Partition]] = []
        self._timer_number = 0
        self._stopped = False
        self.generated = 0
        """How many records were put into the queues."""
        self.settled = 0
        """How many of them are acknowledged or given up."""
        self.due_us = NEVER_US
        """When the next record is due."""

    def start(self, schedule: Schedule) -> None:
        """The schedule to follow from now on."""
        self._schedule = schedule
        self._throttled = schedule.throttled
        self._own_records = schedule.own_records
        self.due_us = schedule.next_due_us(0)

    def stop(self) -> None:
        """Generate no further records."""
        self._stopped = True
        self.due_us = NEVER_US

    @property
    def is_over(self) -> bool:
        """Every record that will be generated is settled."""
        generated_all = self._stopped or self.generated >= self._own_records
        return generated_all and self.settled >= self.generated

    def append_due(self, now_us: int) -> Iterator[Partition]:
        """Put the records that are due into queues; yields the partitions that got some.

        Unthrottled, records are due as long as `buffer.memory` has room for them.
        """
        schedule = self._schedule
        if self._throttled:
            end = schedule.due(now_us)
        else:
            end = min(self._own_records, self.settled + self._buffer_records)
        intended_us = schedule.intended_us if self._throttled else lambda seq: now_us
        first, self.generated = self.generated, max(end, self.generated)
        if end >= self._own_records or not self._throttled:
            self.due_us = NEVER_US  # unthrottled: until a batch is settled
        else:
            self.due_us = schedule.next_due_us(end)
        for position, seq, stride, count in self._partitioner.runs(first, self.generated):
            partition = self._partitions[position]
            partition.append(seq, stride, count, intended_us, self._next_variant)
            yield partition

    def settle(self, batch: Batch, failed: bool, refused: bool = False) -> None:
        """The batch is acknowledged, or given up (`Partition.settle`): it makes room."""
        batch.partition.settle(batch, failed, refused)
        self.settled += batch.records
        if not self._throttled and not self._stopped:
            self.due_us = 0

    def next_batch(self, partition: Partition, now_us: int, backoff_us: int) -> Batch | None:
        """The partition's next batch if it may go out now; else a timer wakes it when it may.

        `backoff_us` is how long after its last error a retry has to wait.
        """
        if not partition.queue or not partition.may_send():
            return None
        batch = partition.queue[0]
        if batch.failures:
            allowed = batch.failures[-1].error_us + backoff_us
        elif self._config.linger_ms and not batch.is_full and len(partition.queue) == 1:
            allowed = batch.intended_us + int(self._config.linger_ms * 1000)
        else:
            allowed = now_us
        if allowed <= now_us:
            if batch.section is None:
                self._cut(batch)
            return batch
        if not 0 < partition.wake_us <= allowed:
            partition.wake_us = allowed
            self._timer_number += 1
            heapq.heappush(self._timers, (allowed, self._timer_number, partition))
        return None

    def _cut(self, batch: Batch) -> None:
        """Leave the batch as many records as there is a section of; the others are the next."""
        records = batch.variant.within(batch.records)
        if records < batch.records:
            first_left = batch.first_seq + records * batch.stride
            intended_us = max(batch.intended_us, self._schedule.intended_us(first_left))
            batch.partition.split(records, intended_us)

    @property
    def wake_us(self) -> int:
        """When the next timer fires; NEVER_US when there is none."""
        return self._timers[0][0] if self._timers else NEVER_US

    def due_timers(self, now_us: int) -> Iterator[Partition]:
        """The partitions whose timers have fired."""
        while self._timers and self._timers[0][0] <= now_us:
            partition = heapq.heappop(self._timers)[2]
            partition.wake_us = 0
            yield partition

    def expired(self, now_us: int) -> Iterator[Batch]:
        """Batches past `delivery.timeout.ms`; each has to be settled before the next.

        In flight (Java's `Sender.getExpiredInflightBatches`), then in queues.
        """
        oldest = now_us - self._config.delivery_timeout_ms * 1000
        for partition in self._partitions:
            if partition.outstanding:
                yield from [b for b in partition.outstanding if b.intended_us <= oldest]
            while partition.queue and partition.queue[0].intended_us <= oldest:
                yield partition.queue[0]

    def load(self, has_leader: Callable[[Partition], bool]) -> None:
        """Tell the partitioner how long the queues are and which partitions have a leader."""
        if self._partitioner.looks_at_load:
            self._partitioner.load(
                [len(p.queue) for p in self._partitions], [has_leader(p) for p in self._partitions]
            )
