"""Whole record batches of format 2, encoded and decoded record by record: what fake brokers need.

Source: Kafka's DefaultRecordBatch and DefaultRecord. Timestamps are in milliseconds.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

import cramjam
import lz4.frame
from crc32c import crc32c

from kipctl.protocol.compression import Compression, compress
from kipctl.protocol.primitives import MalformedFrame, Reader
from kipctl.protocol.records import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    MAGIC,
    NO_LEADER_EPOCH,
    PARTITION_LEADER_EPOCH_AT,
    encode_record,
)

BATCH_LENGTH_AT = 8  # int32, bytes that follow it
LAST_OFFSET_DELTA_AT = 23  # int32
RECORDS_COUNT_AT = 57  # int32

COMPRESSION_MASK = 0x07

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

_HEADER = Struct(">qiibIhiqqqhii")
_AFTER_CRC = Struct(">hiqqqhii")
_XERIAL_HEADER_SIZE = 16


class Record(NamedTuple):
    """A record; in a decoded batch with its offset. Header values may be None."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


class BatchHeader(NamedTuple):
    """The header of a batch, field by field as on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return PARTITION_LEADER_EPOCH_AT + self.batch_length


class RecordBatch(NamedTuple):
    """A batch that was read: its header and its records."""

    header: BatchHeader
    compression: Compression
    records: tuple[Record, ...]


def encode_batch(
    records: Sequence[Record],
    compression: Compression = Compression.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """A batch as a producer sends it: base offset 0, offsets as the records come."""
    base_timestamp = records[0].timestamp_ms
    content = compress(
        compression,
        b"".join(
            encode_record(i, r.timestamp_ms - base_timestamp, r.key, r.value, r.headers)
            for i, r in enumerate(records)
        ),
    )
    after_crc = _AFTER_CRC.pack(
        compression,
        len(records) - 1,
        base_timestamp,
        max(record.timestamp_ms for record in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    length = BATCH_HEADER_SIZE - PARTITION_LEADER_EPOCH_AT + len(content)
    crc = crc32c(content, crc32c(after_crc))
    return _HEADER.pack(0, length, NO_LEADER_EPOCH, MAGIC, crc, *_AFTER_CRC.unpack(after_crc)) + (
        content
    )


def decode_batch(buffer: bytes, offset: int = 0) -> RecordBatch:
    """The batch at `offset`; the next one, if any, is `header.size` bytes further.

    Raises `MalformedFrame` when it is cut off, its CRC is wrong, or its records do not parse.
    """
    reader = Reader(buffer)
    reader.offset = offset
    header = BatchHeader(*_HEADER.unpack(reader.take(BATCH_HEADER_SIZE)))
    content = reader.take(header.size - BATCH_HEADER_SIZE)
    if header.magic != MAGIC:
        raise MalformedFrame(f"Record batch: magic {header.magic}, only {MAGIC} is known")
    crc = crc32c(memoryview(buffer)[offset + ATTRIBUTES_AT : reader.offset])
    if crc != header.crc:
        raise MalformedFrame(f"Record batch: its CRC is {header.crc:08x}, its bytes give {crc:08x}")
    compression = Compression(header.attributes & COMPRESSION_MASK)
    reader = Reader(_decompress(compression, content))
    records = tuple(_read_record(reader, header) for _ in range(header.records_count))
    if reader.remaining:
        raise reader.malformed(f"{reader.remaining} bytes left over")
    return RecordBatch(header, compression, records)


def _read_record(reader: Reader, header: BatchHeader) -> Record:
    size = reader.varint()
    end = reader.offset + size
    reader.take(1)  # attributes, unused
    timestamp = header.base_timestamp_ms + reader.varint(64)
    offset = header.base_offset + reader.varint()
    key = _read_bytes(reader)
    value = _read_bytes(reader)
    headers = tuple(_read_header(reader) for _ in range(reader.varint()))
    if reader.offset != end:
        raise reader.malformed(f"{size} bytes announced, {reader.offset - end + size} read")
    return Record(value, key, timestamp, headers, offset)


def _read_bytes(reader: Reader) -> bytes | None:
    size = reader.varint()
    return None if size == -1 else reader.take(size)


def _read_header(reader: Reader) -> tuple[str, bytes | None]:
    return reader.text(reader.varint()), _read_bytes(reader)


def _decompress(compression: Compression, content: bytes) -> bytes:
    match compression:
        case Compression.NONE:
            return content
        case Compression.GZIP:
            return bytes(cramjam.gzip.decompress(content))
        case Compression.SNAPPY:
            reader = Reader(content)
            reader.take(_XERIAL_HEADER_SIZE)
            blocks = []
            while reader.remaining:
                blocks.append(bytes(cramjam.snappy.decompress_raw(reader.take(reader.int32()))))
            return b"".join(blocks)
        case Compression.LZ4:
            return bytes(lz4.frame.decompress(content))
        case Compression.ZSTD:
            return bytes(cramjam.zstd.decompress(content))
