"""Whole record batches of format 2, encoded and decoded record by record: what fake brokers need.

Source: Kafka's DefaultRecordBatch and DefaultRecord. Timestamps are in milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

import cramjam
import lz4.frame
from crc32c import crc32c

from kipctl.protocol.compression import Compression, compress
from kipctl.protocol.primitives import EncodeError, MalformedFrame, Reader
from kipctl.protocol.records import (
    ATTRIBUTES_AT,
    BATCH_HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    PARTITION_LEADER_EPOCH_AT,
    encode_record,
)

BASE_OFFSET_AT = 0  # int64
BATCH_LENGTH_AT = 8  # int32, bytes that follow it
LAST_OFFSET_DELTA_AT = 23  # int32
BASE_TIMESTAMP_AT = 27  # int64
MAX_TIMESTAMP_AT = 35  # int64
PRODUCER_ID_AT = 43  # int64
PRODUCER_EPOCH_AT = 51  # int16
BASE_SEQUENCE_AT = 53  # int32
RECORDS_COUNT_AT = 57  # int32

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

_HEADER = Struct(">qiibIhiqqqhii")
_AFTER_CRC = Struct(">hiqqqhii")
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_SIZE = 16
_SNAPPY_LARGEST_RATIO = 22  # a copy of 64 bytes takes 3


@dataclass(frozen=True, slots=True)
class Record:
    """A record; in a decoded batch with its offset. Header values may be None."""

    value: bytes | None
    key: bytes | None = None
    timestamp_ms: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = -1


@dataclass(frozen=True, slots=True)
class BatchHeader:
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


@dataclass(frozen=True, slots=True)
class RecordBatch:
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
    """A batch as a producer sends it: base offset 0, offsets as the records come.

    Raises `EncodeError` when there are no records: brokers refuse an empty batch.
    """
    if not records:
        raise EncodeError("A record batch without records cannot be sent")
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


def read_batch_header(buffer: bytes, offset: int = 0) -> BatchHeader:
    """The header of the batch at `offset`, without looking at its records.

    Raises `MalformedFrame` when the batch is cut off, or of another format than 2.
    """
    reader = Reader(buffer)
    reader.offset = offset
    try:
        header = BatchHeader(*_HEADER.unpack(reader.take(BATCH_HEADER_SIZE)))
        reader.offset = offset + MAGIC_AT
        if header.magic != MAGIC:
            raise reader.malformed(f"magic {header.magic}, only {MAGIC} is known")
        reader.offset = offset + BATCH_LENGTH_AT
        if not BATCH_HEADER_SIZE <= header.size <= len(buffer) - offset:
            raise reader.malformed(f"batch length {header.batch_length}")
    except MalformedFrame as error:
        raise error.within("Record batch header") from None
    return header


def decode_batch(buffer: bytes, offset: int = 0) -> RecordBatch:
    """The batch at `offset`; the next one, if any, is `header.size` bytes further.

    Raises `MalformedFrame` when it is cut off, its CRC is wrong, or its records do not parse.
    """
    header = read_batch_header(buffer, offset)
    end = offset + header.size
    crc = crc32c(memoryview(buffer)[offset + ATTRIBUTES_AT : end])
    if crc != header.crc:
        raise MalformedFrame(f"Record batch: its CRC is {header.crc:08x}, its bytes give {crc:08x}")
    try:
        compression = Compression(header.attributes & COMPRESSION_MASK)
    except ValueError as error:
        raise MalformedFrame(f"Record batch attributes: {error}") from None
    start = offset + BATCH_HEADER_SIZE
    try:
        content = decompress(compression, buffer[start:end])
        return RecordBatch(header, compression, _read_records(content, header, start))
    except MalformedFrame as error:
        raise error.within("Record batch records") from None


def _read_records(content: bytes, header: BatchHeader, base: int) -> tuple[Record, ...]:
    """The records in `content`, which starts at byte `base` unless it was compressed."""
    reader = Reader(content, base)
    records: list[Record] = []
    try:
        if not 0 <= header.records_count <= len(content):
            raise reader.malformed(f"{header.records_count} records announced")
        for _ in range(header.records_count):
            records.append(_read_record(reader, header))  # noqa: PERF401 (counts what was read)
    except MalformedFrame as error:
        raise error.within(f"[{len(records)}]") from None
    if reader.remaining:
        raise reader.malformed(f"{reader.remaining} bytes left over")
    return tuple(records)


def _read_record(reader: Reader, header: BatchHeader) -> Record:
    size = reader.varint()
    end = reader.offset + size
    reader.take(1)  # attributes, unused
    timestamp = header.base_timestamp_ms + reader.varint(64)
    if header.attributes & LOG_APPEND_TIME:
        timestamp = header.max_timestamp_ms
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


def decompress(compression: Compression, content: bytes) -> bytes:
    """The records in a batch's compressed content. Raises `MalformedFrame`."""
    try:
        match compression:
            case Compression.NONE:
                return content
            case Compression.GZIP:
                return bytes(cramjam.gzip.decompress(content))
            case Compression.SNAPPY:
                return _from_snappy(content)
            case Compression.LZ4:
                return bytes(lz4.frame.decompress(content))
            case Compression.ZSTD:
                return bytes(cramjam.zstd.decompress(content))
    except (cramjam.DecompressionError, RuntimeError, EOFError, MemoryError) as error:
        raise MalformedFrame(f": not {compression.name.lower()}: {error}") from None


def _from_snappy(content: bytes) -> bytes:
    if not content.startswith(_XERIAL_MAGIC):
        return _from_raw_snappy(content)
    reader = Reader(content)
    reader.take(_XERIAL_HEADER_SIZE)
    blocks = []
    while reader.remaining:
        blocks.append(_from_raw_snappy(reader.take(reader.int32())))
    return b"".join(blocks)


def _from_raw_snappy(block: bytes) -> bytes:
    announced = cramjam.snappy.decompress_raw_len(block)
    if announced > _SNAPPY_LARGEST_RATIO * len(block):
        raise MalformedFrame(f": {announced} bytes announced by {len(block)} bytes of snappy")
    return bytes(cramjam.snappy.decompress_raw(block))
