"""A partition's log: what was appended, with the offsets and epochs that a leader gives.

There is one of a partition, and in it a branch for each leader epoch: what its leader had. An
election ends the branch and begins another, without what the new leader has not got.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.primitives import Reader
from kipctl.protocol.records import ATTRIBUTES_AT, BATCH_HEADER_SIZE, MAGIC, one_record_batch

_HEADER = Struct(">qiibIhiqqqhii")
_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_LEADER_EPOCH_AT = 12
_BEFORE_LENGTH = 12
_COMPRESSION = 0x07
_NEVER_US = 1 << 62
_REMEMBERED = 5
"""So many batches of an idempotent producer a leader remembers."""


class BatchHeader(NamedTuple):
    """What a batch says of itself; `size` is in bytes."""

    size: int
    records: int
    producer_id: int
    producer_epoch: int
    sequence: int


class Batch(NamedTuple):
    """Offsets from `base` to before `end`, appended at that time; the record before them is of the
    epoch `before`, or there is none (-1).
    """

    base: int
    end: int
    epoch: int
    before: int
    us: int
    header: BatchHeader
    content: bytes


def batch_headers(content: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """Each batch of a record set, with its bytes.

    Raises ValueError where one is none, is cut off, or is another than its CRC says.
    """
    at = 0
    while at < len(content):
        if len(content) - at < BATCH_HEADER_SIZE:
            raise ValueError("a batch is cut off")
        (_, length, _, magic, crc, _, _, _, _, id, epoch, sequence, count) = _HEADER.unpack_from(
            content, at
        )
        size = _BEFORE_LENGTH + length
        if magic != MAGIC or size > len(content) - at:
            raise ValueError("no batch of format 2, or one that is cut off")
        if crc32c(memoryview(content)[at + ATTRIBUTES_AT : at + size]) != crc:
            raise ValueError("a batch of another CRC than its own")
        yield BatchHeader(size, count, id, epoch, sequence), content[at : at + size]
        at += size


def records_in(content: bytes) -> Iterator[tuple[int, bytes]]:
    """What tells each record of batches from others: its timestamp, and its key, value and headers
    as bytes. A compressed batch counts as one record. Batches are as `batch_headers` takes them.
    """
    for header, batch in batch_headers(content):
        fields, body = _HEADER.unpack_from(batch), batch[BATCH_HEADER_SIZE:]
        attributes, timestamp = fields[5], fields[7]
        if attributes & _COMPRESSION:
            yield timestamp, body
            continue
        reader = Reader(body)
        for _ in range(header.records):
            end = reader.varint() + reader.offset
            reader.take(1)
            delta, _ = reader.varint(64), reader.varint()
            yield timestamp + delta, reader.take(end - reader.offset)


@dataclass
class Branch:
    """The log as one epoch's leader had it, from `began_us` to before `ended_us`."""

    start: int = 0
    batches: list[Batch] = field(default_factory=list)
    began_us: int = 0
    begins_at: int = 0
    """Where the leader's own epoch begins in it."""
    ended_us: int = _NEVER_US

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else self.start

    def end_then(self, us: int) -> int:
        """Where it ended at that time."""
        count = bisect_right(self.batches, us, key=lambda batch: batch.us)
        return self.batches[count - 1].end if count else self.start

    def epoch_end(self, asked: int, own: int) -> tuple[int, int]:
        """The largest epoch up to that, and its end (Kafka's LeaderEpochFileCache)."""
        if asked >= own:
            return (own, self.end) if asked == own else (-1, -1)
        epochs = [batch.epoch for batch in self.batches if batch.epoch <= asked]
        later = (batch.base for batch in self.batches if batch.epoch > asked)
        return max(epochs, default=asked), next(later, self.end)

    def read(self, offset: int, most: int, high_watermark: int) -> bytes:
        """What is committed from that offset on, up to so many bytes; the last batch perhaps cut
        off, the first one whole (KIP-74).
        """
        first = bisect_right(self.batches, offset, key=lambda batch: batch.end)
        out = b""
        for batch in self.batches[first:]:
            if batch.end > high_watermark or (out and len(out) >= most):
                break
            out += batch.content[: most - len(out)] if out else batch.content
        return out


@dataclass
class _Producer:
    """An idempotent producer's epoch, next sequence and last batches (`ProducerStateEntry`)."""

    epoch: int
    next_sequence: int | None = None
    last: list[tuple[int, int, int]] = field(default_factory=list)


class Log:
    """One partition's. Times are microseconds of the cluster's clock."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.branches = {epoch: Branch()}
        self.written: dict[tuple[int, int], Batch] = {}
        """All that ever was in it, by base offset and epoch."""
        self._producers: dict[int, _Producer] = {}

    @property
    def now(self) -> Branch:
        return self.branches[self.epoch]

    @property
    def batches(self) -> list[Batch]:
        return self.now.batches

    @property
    def start(self) -> int:
        return self.now.start

    @property
    def end(self) -> int:
        return self.now.end

    def branch(self, epoch: int) -> Branch:
        """As the leader of that epoch, or of the last one before it, had it."""
        return self.branches[max((e for e in self.branches if e <= epoch), default=self.epoch)]

    def append(self, content: bytes, us: int) -> tuple[int, int]:
        """An error and the base offset, of what a producer sends to the leader."""
        base = self.end
        try:
            sent = list(batch_headers(content))
        except ValueError:
            return ErrorCode.CORRUPT_MESSAGE, -1
        for header, batch in sent:
            error, known = self._check_sequence(header)
            if error or known >= 0:
                return error, known
            self._append(header, batch, us)
        return 0, base

    def write(self, value: bytes, us: int) -> None:
        """One record of the cluster's own, for consumers to read."""
        self.append(one_record_batch(value), us)

    def delete(self, before: int) -> None:
        """Retention."""
        self.now.batches = [batch for batch in self.batches if batch.base >= before]
        self.now.start = before

    def truncate(self, end: int) -> None:
        """What lies beyond is gone from all replicas."""
        self.now.batches = [batch for batch in self.batches if batch.end <= end]

    def elect(self, epoch: int, end: int, us: int) -> None:
        """Another leads, who has what is before that offset."""
        before = self.now
        before.ended_us = us
        kept = [batch for batch in before.batches if batch.end <= end]
        self.epoch = epoch
        self.branches[epoch] = Branch(before.start, kept, us)
        self.now.begins_at = self.end

    def _append(self, header: BatchHeader, content: bytes, us: int) -> None:
        stamped, base = bytearray(content), self.end
        _BASE_OFFSET.pack_into(stamped, 0, base)
        _LEADER_EPOCH.pack_into(stamped, _LEADER_EPOCH_AT, self.epoch)
        before = self.batches[-1].epoch if self.batches else -1
        end = base + header.records
        batch = Batch(base, end, self.epoch, before, us, header, bytes(stamped))
        self.batches.append(batch)
        self.written[base, self.epoch] = batch

    def _check_sequence(self, header: BatchHeader) -> tuple[int, int]:
        """An error, or the offset of a batch that is in the log already; 0 and -1 for a new one.

        Of a producer that it does not know, a broker takes any sequence for the first.
        """
        if header.producer_id < 0:
            return 0, -1
        known = self._producers.setdefault(header.producer_id, _Producer(header.producer_epoch))
        if header.producer_epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch > known.epoch:
            known = self._producers[header.producer_id] = _Producer(header.producer_epoch, 0)
        for sequence, records, base in known.last:
            if (sequence, records) == (header.sequence, header.records):
                return 0, base
        if known.next_sequence not in (None, header.sequence):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        known.next_sequence = header.sequence + header.records
        kept = known.last[-(_REMEMBERED - 1) :]
        known.last = [*kept, (header.sequence, header.records, self.end)]
        return 0, -1
