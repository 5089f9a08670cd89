"""A partition's log, which cannot lie: what was appended by whom, and what elections took back.

There is one log of a partition, and in it a branch for each leader epoch: what its leader had. An
election ends the branch and begins another, without what the new leader has not got.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from record_batches import Record, RecordBatch, decode_batch, encode_batch

from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.records import PARTITION_LEADER_EPOCH_AT

_NEVER_US = 1 << 62


@dataclass(frozen=True)
class Produced:
    """One partition's batch in a Produce request, as it came to a broker."""

    broker: int
    connection: int
    version: int
    topic: str
    topic_id: UUID
    """0 in requests by name."""
    partition: int
    content: bytes
    numbers: list[int]
    """Of its records in the run, if the client is simulated."""

    @cached_property
    def batch(self) -> RecordBatch:
        """Raises MalformedFrame."""
        return decode_batch(self.content)

    @property
    def sequence(self) -> int:
        return self.batch.header.base_sequence

    @property
    def epoch(self) -> int:
        return self.batch.header.producer_epoch

    @property
    def values(self) -> list[bytes]:
        return [record.value or b"" for record in self.batch.records]


class Batch(NamedTuple):
    """Offsets from `base` to before `end`; the record before them is of the epoch `before`."""

    base: int
    end: int
    epoch: int
    before: int
    at_us: int
    content: bytes


@dataclass
class Branch:
    """The log as one epoch's leader had it."""

    start: int
    batches: list[Batch]
    began_us: int
    begins_at: int
    ended_us: int = _NEVER_US

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.start

    def end_then(self, us: int) -> int:
        """Where it ended at that time."""
        count = bisect_right(self.batches, us, key=lambda batch: batch.at_us)
        return self.batches[count - 1].end if count else self.start

    def epoch_end(self, asked: int, own: int) -> tuple[int, int]:
        """The largest epoch up to that, and its end (Kafka's LeaderEpochFileCache)."""
        if asked >= own:
            return (own, self.end) if asked == own else (-1, -1)
        epochs = [batch.epoch for batch in self.batches if batch.epoch <= asked]
        later = (batch.base for batch in self.batches if batch.epoch > asked)
        return max(epochs, default=asked), next(later, self.end)


@dataclass
class _ProducerState:
    """An idempotent producer's last batches (`ProducerStateEntry`).

    From a producer that it does not know, a broker takes any sequence for the first.
    """

    epoch: int
    next_sequence: int | None = None
    last: list[tuple[int, int, int]] = field(default_factory=list)


class Log:
    """One partition of one topic."""

    def __init__(self, place: tuple[UUID, int], epoch: int) -> None:
        self.place = place
        self.epoch = epoch
        self.branches = {epoch: Branch(0, [], 0, 0)}
        self.written: dict[tuple[int, int], Batch] = {}
        """All that ever was in it, by base offset and epoch."""
        self.has_refused = False
        """A broker has called an offset out of range, or an epoch later than its own."""
        self.produced: list[Produced] = []
        """What was appended for producers."""
        self._producers: dict[int, _ProducerState] = {}

    @property
    def now(self) -> Branch:
        return self.branches[self.epoch]

    @property
    def batches(self) -> list[Batch]:
        return self.now.batches

    def append(self, content: bytes, count: int, now_us: int) -> None:
        """A batch of so many records, which gets its offsets and its epoch."""
        stamped = bytearray(content)
        base = self.now.end
        struct.pack_into(">q", stamped, 0, base)
        struct.pack_into(">i", stamped, PARTITION_LEADER_EPOCH_AT, self.epoch)
        before = self.batches[-1].epoch if self.batches else -1
        batch = Batch(base, base + count, self.epoch, before, now_us, bytes(stamped))
        self.batches.append(batch)
        self.written[base, self.epoch] = batch

    def write(self, count: int, now_us: int) -> None:
        """So many records that say where they are: `value_at`, then epoch and topic."""
        id, partition = self.place
        base = self.now.end
        records = [
            Record(value_at(partition, base + k) + b"%d:%x" % (self.epoch, id.int))
            for k in range(count)
        ]
        self.append(encode_batch(records), count, now_us)

    def produce(self, produced: Produced, now_us: int) -> tuple[int, int]:
        """Returns an error and the base offset, as a leader does that knows the last 5 batches of
        an idempotent producer. Raises MalformedFrame.
        """
        header, offset = produced.batch.header, self.now.end
        assert header.size == len(produced.content)
        sequence, count, epoch = produced.sequence, header.records_count, produced.epoch
        if header.producer_id >= 0:
            state = self._producers.setdefault(header.producer_id, _ProducerState(epoch))
            if epoch < state.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if epoch > state.epoch:
                state = self._producers[header.producer_id] = _ProducerState(epoch, 0)
            for known, known_count, base_offset in state.last:
                if (known, known_count) == (sequence, count):
                    return 0, base_offset
            if state.next_sequence not in (sequence, None):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            state.next_sequence = sequence + count
            state.last = [*state.last[-4:], (sequence, count, offset)]
        self.append(produced.content, count, now_us)
        self.produced.append(produced)
        return 0, offset

    def delete(self, before: int) -> None:
        """Retention."""
        self.now.batches = [batch for batch in self.batches if batch.base >= before]
        self.now.start = before

    def truncate(self, end: int) -> None:
        """What lies beyond is gone from all replicas."""
        self.now.batches = [batch for batch in self.batches if batch.end <= end]

    def elect(self, epoch: int, end: int, now_us: int) -> None:
        """Another leads, who has what is before that offset."""
        before = self.now
        before.ended_us = now_us
        kept = [batch for batch in before.batches if batch.end <= end]
        self.epoch = epoch
        self.branches[epoch] = Branch(before.start, kept, now_us, 0)
        self.now.begins_at = self.now.end


def read(batches: Iterable[Batch], offset: int, most: int) -> bytes:
    """Batches from that offset on, the last perhaps cut off, the first one whole (KIP-74)."""
    wanted = [batch.content for batch in batches if batch.end > offset]
    return b"".join(wanted)[: max(most, len(wanted[0]))] if wanted else b""


def value_at(partition: int, offset: int) -> bytes:
    """How the value begins that `Log.write` gives to a record."""
    return b"%d:%d:" % (partition, offset)
