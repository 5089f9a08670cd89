"""Record batches of format 2 (magic 2): a header of 61 bytes, then records, compressed or not.

Source: Kafka's DefaultRecordBatch and DefaultRecord. Timestamps are in milliseconds.
"""

from collections.abc import Sequence
from struct import Struct

from crc32c import crc32c

from kipctl.protocol.primitives import write_varint

PARTITION_LEADER_EPOCH_AT = 12  # int32, set by the broker; the batch's length counts from here
MAGIC_AT = 16  # int8
CRC_AT = 17  # uint32, CRC32C of all that follows it
ATTRIBUTES_AT = 21  # int16
BATCH_HEADER_SIZE = 61

MAGIC = 2
TRANSACTIONAL = 0x10
CONTROL = 0x20
NO_LEADER_EPOCH = -1

_UP_TO_CRC = Struct(">qiibI")  # base offset, batch length, partition leader epoch, magic, CRC
_AFTER_CRC = Struct(">hiqqqhii")  # attributes .. record count: what the CRC covers first


def batch_header(
    attributes: int,
    records: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    content: memoryview,
) -> bytes:
    """The header of a batch whose record section is `content`.

    Base and max timestamp are the same. CRC32C covers everything from the attributes on.
    """
    body = _AFTER_CRC.pack(
        attributes,
        records - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        records,
    )
    length = BATCH_HEADER_SIZE - PARTITION_LEADER_EPOCH_AT + len(content)
    crc = crc32c(content, crc32c(body))
    return _UP_TO_CRC.pack(0, length, NO_LEADER_EPOCH, MAGIC, crc) + body


def one_record_batch(value: bytes) -> bytes:
    """A whole batch of one record without key, of no idempotent producer."""
    content = memoryview(encode_record(0, 0, None, value))
    return batch_header(0, 1, 0, -1, -1, -1, content) + content


def encode_record(
    offset_delta: int,
    timestamp_delta_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    """One record as it stands in a batch, its length included."""
    body = bytearray(1)  # attributes, unused
    write_varint(body, timestamp_delta_ms)
    write_varint(body, offset_delta)
    _write_bytes(body, key)
    _write_bytes(body, value)
    write_varint(body, len(headers))
    for name, content in headers:
        _write_bytes(body, name.encode())
        _write_bytes(body, content)
    record = bytearray()
    write_varint(record, len(body))
    return bytes(record + body)


def _write_bytes(out: bytearray, content: bytes | None) -> None:
    write_varint(out, -1 if content is None else len(content))
    out += content or b""
