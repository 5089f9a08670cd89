"""How many records are in what was fetched, from the headers of its batches: nothing is unpacked.

Source: Kafka's DefaultRecordBatch, and CompletedFetch of the consumer for aborted transactions.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from kipctl.protocol.primitives import MalformedFrame, Reader
from kipctl.protocol.records import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    CONTROL,
    MAGIC,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    PARTITION_LEADER_EPOCH_AT,
    TRANSACTIONAL,
)

_HEADER = Struct(">qiixIhi16xq6xi")
"""Base offset, length, leader epoch, CRC, attributes, last offset delta, producer id and number of
records."""
_ABORT = 0
"""The type of a control record that ends an aborted transaction."""


class Counted(NamedTuple):
    """What a reader gets from fetched batches.

    `records` and `bytes` (of their whole batches, as they are on the wire) leave out control
    batches, aborted transactions and records before the offset that was asked for. `next_offset`
    is where to read on, `epoch` the leader epoch of the last batch; -1 for none.
    """

    records: int
    bytes: int
    next_offset: int
    epoch: int


class CorruptBatchError(MalformedFrame):
    """A batch whose bytes are not those that its CRC was made of."""


class OldFormatError(MalformedFrame):
    """Messages of format 0 or 1, which brokers wrote before Kafka 0.11."""


def count_records(
    fetched: memoryview,
    fetch_offset: int,
    check_crcs: bool = True,
    aborted: Sequence[tuple[int, int]] | None = None,
) -> Counted:
    """Count what is in the batches of a fetched partition, of which the last may be cut off.

    `aborted` are (producer id, first offset) of the answer's aborted transactions, for
    `isolation.level=read_committed`; None reads all. Of a batch in which the fetch offset lies it
    is taken that no record between was compacted away.

    Counting ends before a batch that is wrong: the next answer begins with it. Raises
    MalformedFrame, CorruptBatchError or OldFormatError when nothing comes before it.
    """
    records = size = 0
    next_offset, last_epoch = fetch_offset, NO_LEADER_EPOCH
    aborts = sorted(aborted or (), key=lambda transaction: transaction[1])
    aborting: set[int] = set()
    unpack, end_of_all = _HEADER.unpack_from, len(fetched)
    at = 0
    try:
        while end_of_all - at > MAGIC_AT:
            if (magic := fetched[at + MAGIC_AT]) != MAGIC:
                error = OldFormatError if magic < MAGIC else MalformedFrame
                raise error(f"Record batch: magic {magic}, only {MAGIC} is known (byte {at})")
            if end_of_all - at < BATCH_HEADER_SIZE:
                break
            base, length, epoch, crc, attributes, delta, producer, count = unpack(fetched, at)
            end = at + PARTITION_LEADER_EPOCH_AT + length
            if end - at < BATCH_HEADER_SIZE:
                raise MalformedFrame(f"Record batch: length {length} (byte {at})")
            if end > end_of_all:
                break
            if check_crcs and crc32c(fetched[at + ATTRIBUTES_AT : end]) != crc:
                raise CorruptBatchError(
                    f"Record batch at offset {base}: its CRC is wrong (byte {at})"
                )
            if not 0 <= count <= delta + 1:
                raise MalformedFrame(
                    f"Record batch: {count} records, {delta + 1} offsets (byte {at})"
                )
            last = base + delta
            if last >= fetch_offset:
                while aborts and aborts[0][1] <= last:
                    aborting.add(aborts.pop(0)[0])
                if attributes & CONTROL:
                    # One that was emptied by compaction has outlived its transaction's records.
                    if count and producer in aborting and _control_type(fetched[at:end]) == _ABORT:
                        aborting.discard(producer)
                elif not (attributes & TRANSACTIONAL and producer in aborting):
                    is_whole = base >= fetch_offset
                    records += count if is_whole else min(count, last - fetch_offset + 1)
                    size += end - at
                next_offset, last_epoch = last + 1, epoch
            at = end
    except MalformedFrame:
        if next_offset == fetch_offset:
            raise
    return Counted(records, size, next_offset, last_epoch)


def _control_type(batch: memoryview) -> int:
    """The type in the key of a control batch's only record."""
    reader = Reader(bytes(batch))
    reader.offset = BATCH_HEADER_SIZE
    reader.varint()  # the record's size
    reader.take(1)
    reader.varint(64)
    reader.varint()
    reader.varint()  # the key's size: version and type, two bytes each
    reader.int16()
    return reader.int16()
