"""Batches and the partitions' queues that they wait in: what may be sent next, pure."""

from bisect import insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import attrgetter

from kipctl.errors import RefusedError
from kipctl.probe.backoff import Attempts
from kipctl.probe.leadership import NO_EPOCH, ClientPartition
from kipctl.probe.produce.payloads import Variant
from kipctl.trace.redirect_phases import FailedAttempt

NO_SEQUENCE = -1
NO_WINDOW = 1 << 31
_SEQUENCES = 1 << 31
_LAST_EPOCH = (1 << 15) - 1
_NO_BATCH = 1 << 62
_first_seq = attrgetter("first_seq")


@dataclass(slots=True, eq=False)
class Batch:
    """A run of records for one partition, from its creation to its acknowledgement.

    `first_seq` is the number in the run of its first record, `sequence` the idempotent producer's
    base sequence. Times are microseconds (monotonic); 0 is never.
    """

    partition: "Partition"
    first_seq: int
    stride: int
    intended_us: int
    variant: Variant
    records: int = 0
    section: memoryview | None = None
    """Its records as they go on the wire, once it was taken to be sent."""
    sent_us: int = 0
    last_sent_us: int = 0
    broker: int = -1
    attempts: Attempts | None = None
    failures: list[FailedAttempt] | None = None
    number: int = -1
    """Its place among the partition's batches that were ever sent, from 0."""
    sequence: int = NO_SEQUENCE
    producer_epoch: int = NO_EPOCH
    is_settled: bool = False
    """Acknowledged or given up; an answer may still come to one that was in flight."""

    @property
    def is_full(self) -> bool:
        return self.records >= self.variant.capacity


@dataclass(slots=True, eq=False)
class Partition(ClientPartition):
    """One partition's queue. `ordered`: batches must not overtake one another (idempotence).

    `window`: no batch goes out that is so many batches after one that is under way.
    """

    ordered: bool
    window: int
    producer_epoch: int = 0
    started: bool = field(init=False)
    """With idempotence: a batch was acknowledged, so every replica knows the producer."""
    queue: deque[Batch] = field(default_factory=deque)
    outstanding: list[Batch] = field(default_factory=list)
    next_number: int = 0
    next_sequence: int = 0
    unresolved: bool = False
    """A batch was given up, and whether it was appended is not known."""
    renumber_from: int = _NO_BATCH
    """The number of the lowest batch that was refused for good: no leader will ever take the
    sequences from it on. Those before it may be in the log."""
    wake_us: int = 0
    """When a timer looks at the queue again; 0 for no timer."""

    def __post_init__(self) -> None:
        self.restart()

    def append(
        self,
        first_seq: int,
        stride: int,
        count: int,
        intended_us: Callable[[int], int],
        next_variant: Callable[[], Variant],
    ) -> None:
        """Add the records first_seq, first_seq + stride, ... to the last batch or to new ones.

        `intended_us` gives a record's intended send time, `next_variant` a new batch's payload.
        """
        while count:
            last = self.queue[-1] if self.queue else None
            if (
                last is None
                or last.sent_us
                or last.is_full
                or last.first_seq + last.records * stride != first_seq
                or last.stride != stride
            ):
                last = Batch(self, first_seq, stride, intended_us(first_seq), next_variant())
                self.queue.append(last)
            taken = min(count, last.variant.capacity - last.records)
            last.records += taken
            count -= taken
            first_seq += taken * stride

    def split(self, records: int, intended_us: int) -> None:
        """Leave so many records to the first batch in the queue, which never went out.

        The others are the next batch; the first of them was intended for `intended_us`.
        """
        batch = self.queue[0]
        first_seq = batch.first_seq + records * batch.stride
        rest = Batch(self, first_seq, batch.stride, intended_us, batch.variant)
        rest.records = batch.records - records
        batch.records = records
        self.queue.insert(1, rest)

    def may_send(self) -> bool:
        """Whether the order allows the first batch in the queue to go out now.

        With idempotence a retry waits until every batch of a lower sequence is settled, and after
        a batch was given up nothing new goes out until the rest is settled: then the producer epoch
        is raised. What has a sequence keeps it meanwhile, as it may be in the log, and would be
        there twice under another (Java's `RecordAccumulator.shouldStopDrainBatchesForPartition`,
        `TransactionManager.maybeResolveSequences`). Only behind a batch that was refused for good
        nothing can be in the log.

        Two rules go further than Java's, for a new leader that is known before the old one has
        answered. A broker that does not know the producer takes any sequence for its first: so the
        first batch goes alone until it is acknowledged. And a broker tells only the last 5 batches
        when they are repeated: so no batch runs further ahead of one that may have to be.
        """
        if not self.outstanding:
            return True
        if self.renumber_from < _NO_BATCH or not self.started:
            return False
        if self.unresolved and self.queue[0].sequence == NO_SEQUENCE:
            return False
        if self.next_number - self.outstanding[0].number >= self.window:
            return False
        head = self.queue[0]
        return not (
            self.ordered and head.attempts and self.outstanding[0].first_seq < head.first_seq
        )

    def next_batch(self) -> Batch:
        """Remove the first batch from the queue: it goes out. Gives it its sequence number.

        Raises RefusedError when the producer's epochs are used up.
        """
        is_new = self.queue[0].sequence == NO_SEQUENCE
        is_behind = is_new or self.queue[0].number >= self.renumber_from
        must_renumber = self.renumber_from < _NO_BATCH or (self.unresolved and is_new)
        if not self.outstanding and is_behind and must_renumber:
            # KIP-360: a new epoch starts at sequence 0, so what is left gets new numbers.
            if self.producer_epoch == _LAST_EPOCH:
                raise RefusedError(
                    f"So many batches of partition {self.index} were given up that the idempotent "
                    "producer has no epoch left.",
                    "See why they fail, or set enable.idempotence=false.",
                )
            self.producer_epoch += 1
            self.next_sequence = 0
            self.renumber_from, self.unresolved = _NO_BATCH, False
            for waiting in self.queue:
                waiting.sequence = NO_SEQUENCE
        batch = self.queue.popleft()
        if batch.number < 0:
            batch.number = self.next_number
            self.next_number += 1
        if self.ordered:
            if batch.sequence == NO_SEQUENCE:
                batch.sequence = self.next_sequence
                batch.producer_epoch = self.producer_epoch
                self.next_sequence = (self.next_sequence + batch.records) % _SEQUENCES
            insort(self.outstanding, batch, key=_first_seq)
        else:
            self.outstanding.append(batch)
        return batch

    def restart(self) -> None:
        """The topic was made anew: no broker knows the producer there."""
        self.started = not self.ordered

    def requeue(self, batch: Batch) -> None:
        """An attempt failed: the batch goes back to its place in the queue."""
        self.outstanding.remove(batch)
        queue = self.queue
        position = 0
        while position < len(queue) and queue[position].first_seq < batch.first_seq:
            position += 1
        queue.insert(position, batch)

    def is_first_in_sequence(self, batch: Batch) -> bool:
        """Whether no batch of a lower sequence is still to be settled."""
        return self.outstanding[0] is batch and not (
            self.queue and self.queue[0].first_seq < batch.first_seq
        )

    def settle(self, batch: Batch, failed: bool, refused: bool = False) -> None:
        """The batch, in flight or in the queue, is done with.

        One that `failed` may be in the log all the same, unless it was `refused` for good.
        """
        if batch in self.outstanding:
            self.outstanding.remove(batch)
        else:
            self.queue.remove(batch)
        batch.is_settled = True
        self.started = self.started or not failed
        if failed and self.ordered and batch.sequence != NO_SEQUENCE:
            if refused:
                self.renumber_from = min(self.renumber_from, batch.number)
            self.unresolved = True
