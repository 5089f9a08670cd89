"""Record batches against kafka-python, in both directions and every compression."""

import random
import struct
import warnings
from types import SimpleNamespace

import lz4.frame
import pyarrow
import pytest
import record_batches as layout
from crc32c import crc32c
from record_batches import Record, decode_batch, decompress, encode_batch, read_batch_header

from kipctl.protocol.compression import Compression, compress
from kipctl.protocol.primitives import EncodeError, MalformedFrame
from kipctl.protocol.records import BATCH_HEADER_SIZE, CRC_AT, TRANSACTIONAL, encode_record

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

NOW = 1_760_000_000_000

RECORDS = (
    Record(b"value", b"key", NOW),
    Record(None, b"tombstone", NOW + 5),
    Record(b"", None, NOW - 70_000),
    Record(random.Random(1).randbytes(40_000), b"", NOW + 1, (("name", b"content"),)),
    Record(b"x" * 70_000, None, NOW, (("ä", None), ("", b""), ("name", b"again"))),
)

each_compression = pytest.mark.parametrize("compression", Compression, ids=lambda c: c.name)


class Zstd:
    def compress(self, payload):
        sink = pyarrow.BufferOutputStream()
        with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(payload)
        return sink.getvalue().to_pybytes()

    def stream_reader(self, source, read_across_frames):
        return pyarrow.CompressedInputStream(pyarrow.PythonFile(source, mode="r"), "zstd")


def snappy_decompress(block):
    size = shift = 0
    for byte in block:  # it begins with its decompressed size, as a varint
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return pyarrow.decompress(block, size, "snappy", asbytes=True)


@pytest.fixture(autouse=True)
def codecs_of_kafka_python(monkeypatch):
    """kafka-python wants two more packages for snappy and zstd; pyarrow has both."""
    snappy = SimpleNamespace(
        compress=lambda block: pyarrow.compress(block, "snappy", asbytes=True),
        decompress=snappy_decompress,
    )
    zstd = SimpleNamespace(ZstdCompressor=Zstd, ZstdDecompressor=Zstd)
    monkeypatch.setattr(kafka.codec, "snappy", snappy)
    monkeypatch.setattr(kafka.codec, "zstd", zstd)


def of_kafka_python(compression, producer=(-1, -1, -1), transactional=False):
    builder = DefaultRecordBatchBuilder(2, compression, transactional, *producer, 1 << 20)
    for offset, record in enumerate(RECORDS):
        assert builder.append(
            offset, record.timestamp_ms, record.key, record.value, list(record.headers)
        )
    return bytes(builder.build())


def fields(record):
    return (
        record.offset,
        record.timestamp,
        record.key,
        record.value,
        tuple(record.headers),
    )


def ours(record):
    return (record.offset, record.timestamp_ms, record.key, record.value, record.headers)


@each_compression
def test_kafka_python_reads_what_is_written(compression):
    batch = DefaultRecordBatch(encode_batch(RECORDS, compression, 4711, 3, 99))
    assert batch.validate_crc()
    assert batch.compression_type == compression
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4711, 3, 99)
    assert (batch.first_timestamp, batch.max_timestamp) == (NOW, NOW + 5)
    assert batch.last_offset_delta == len(RECORDS) - 1
    assert [fields(record) for record in batch] == [
        (offset, *ours(record)[1:]) for offset, record in enumerate(RECORDS)
    ]


@each_compression
def test_what_kafka_python_writes_is_read(compression):
    batch = decode_batch(of_kafka_python(compression, (4711, 3, 99), transactional=True))
    header = batch.header
    assert batch.compression is compression
    assert header.attributes == compression | TRANSACTIONAL
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, 99)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW, NOW + 5)
    assert [ours(record) for record in batch.records] == [
        (offset, *ours(record)[1:]) for offset, record in enumerate(RECORDS)
    ]


def test_an_uncompressed_batch_is_the_same_bytes_as_kafka_python_makes():
    theirs = bytearray(of_kafka_python(0))
    # It leaves the partition leader epoch, which is not under the CRC, at 0.
    struct.pack_into(">i", theirs, layout.PARTITION_LEADER_EPOCH_AT, -1)
    assert encode_batch(RECORDS) == bytes(theirs)


def test_several_batches_stand_one_behind_the_other():
    buffer = encode_batch(RECORDS[:1]) + encode_batch(RECORDS[1:], Compression.LZ4)
    first = decode_batch(buffer)
    second = decode_batch(buffer, first.header.size)
    assert [r.value for r in first.records + second.records] == [r.value for r in RECORDS]
    assert first.header.size + second.header.size == len(buffer)


def test_the_positions_are_those_of_the_fields():
    batch = bytearray(encode_batch(RECORDS))
    for at, code, value in [
        (layout.BASE_OFFSET_AT, "q", 1 << 40),
        (layout.PARTITION_LEADER_EPOCH_AT, "i", 12),
        (layout.ATTRIBUTES_AT, "h", layout.LOG_APPEND_TIME),
        (layout.LAST_OFFSET_DELTA_AT, "i", 77),
        (layout.BASE_TIMESTAMP_AT, "q", 123),
        (layout.MAX_TIMESTAMP_AT, "q", 456),
        (layout.PRODUCER_ID_AT, "q", 789),
        (layout.PRODUCER_EPOCH_AT, "h", 21),
        (layout.BASE_SEQUENCE_AT, "i", 1011),
    ]:
        struct.pack_into(">" + code, batch, at, value)
    struct.pack_into(">I", batch, CRC_AT, crc32c(batch[layout.ATTRIBUTES_AT :]))
    decoded = decode_batch(bytes(batch))
    header = decoded.header
    assert header.base_offset == 1 << 40
    assert header.partition_leader_epoch == 12
    assert header.last_offset_delta == 77
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (123, 456)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (789, 21, 1011)
    assert header.batch_length == len(batch) - 12
    assert header.records_count == len(RECORDS)
    assert decoded.records[1].offset == (1 << 40) + 1
    assert {record.timestamp_ms for record in decoded.records} == {456}, "log append time"


def test_a_batch_needs_a_record():
    with pytest.raises(EncodeError, match="without records"):
        encode_batch([])


@each_compression
def test_every_cut_batch_is_malformed(compression):
    batch = encode_batch(RECORDS[:3], compression)
    for size in range(len(batch)):
        with pytest.raises(MalformedFrame):
            decode_batch(batch[:size])


@each_compression
def test_every_flipped_bit_is_noticed(compression):
    batch = encode_batch(RECORDS[:2], compression)
    for bit in range(8 * layout.BATCH_LENGTH_AT, 8 * len(batch)):
        if layout.PARTITION_LEADER_EPOCH_AT <= bit // 8 < layout.MAGIC_AT:
            continue  # the broker sets it, so the CRC leaves it out
        broken = bytearray(batch)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(MalformedFrame):
            decode_batch(bytes(broken))


def with_content(content, count=1, attributes=0):
    """A batch around any content, with the right length and CRC."""
    batch = bytearray(encode_batch([Record(b"")])[:BATCH_HEADER_SIZE] + content)
    struct.pack_into(">i", batch, layout.BATCH_LENGTH_AT, len(batch) - 12)
    struct.pack_into(">h", batch, layout.ATTRIBUTES_AT, attributes)
    struct.pack_into(">i", batch, layout.RECORDS_COUNT_AT, count)
    struct.pack_into(">I", batch, CRC_AT, crc32c(batch[layout.ATTRIBUTES_AT :]))
    return bytes(batch)


GOOD = encode_record(0, 0, b"k", b"v")


@pytest.mark.parametrize(
    ("batch", "problem"),
    [
        (with_content(GOOD)[:40], r"header: 61 bytes announced, 40 left \(byte 0\)"),
        (with_content(GOOD)[:-1], r"header: batch length 58 \(byte 8\)"),
        (with_content(GOOD).replace(b"\x02", b"\x01", 1), r"header: magic 1, .* \(byte 16\)"),
        (with_content(GOOD)[:-1] + b"x", "its CRC is"),
        (with_content(GOOD, attributes=5), "attributes: 5 is not a valid Compression"),
        (with_content(GOOD, count=2), r"records\[1\]: varint cut off \(byte 70\)"),
        (with_content(GOOD, count=-1), "records.*-1 records announced"),
        (with_content(GOOD, count=1 << 30), "records.*1073741824 records announced"),
        (with_content(GOOD + b"x"), r"records: 1 bytes left over \(byte 70\)"),
        (with_content(b"\x12" + GOOD[1:]), r"records\[0\]: 9 bytes announced, 8 read"),
        (with_content(b"\xff" * 9), r"records\[0\]: varint of more than 32 bits"),
        (with_content(GOOD[:4] + b"\xfe\xff\xff\xff\x0f"), r"records\[0\]: 2147483647 bytes"),
        (with_content(GOOD[:4] + b"\x03k\x02v\x00"), r"records\[0\]: -2 bytes announced"),
        (with_content(GOOD[:-1] + b"\x02\x02\xff\x01"), r"records\[0\]: not UTF-8 \(byte 71\)"),
        (with_content(b"junk", attributes=1), "records: not gzip"),
        (with_content(b"junk", attributes=2), "records: .*snappy"),
        (with_content(b"\xff\xff\xff\xff\x0f", attributes=2), "4294967295 bytes announced"),
        (with_content(b"\x82SNAPPY\0\0\0", attributes=2), "records: 16 bytes announced"),
        (with_content(b"\x82SNAPPY\0" + bytes(8) + b"\xff" * 4, attributes=2), "-1 bytes"),
        (with_content(b"junk", attributes=3), "records: not lz4"),
        (with_content(b"junk", attributes=4), "records: not zstd"),
    ],
    ids=range(21),
)
def test_what_is_wrong_and_where(batch, problem):
    with pytest.raises(MalformedFrame, match=problem):
        decode_batch(batch)


@pytest.mark.parametrize("compression", list(Compression)[1:], ids=lambda c: c.name)
def test_broken_compressed_content_is_no_other_error_than_malformed(compression):
    choose = random.Random(compression)
    content = compress(compression, RECORDS[3].value[:3000] + bytes(3000))
    refused = 0
    for _ in range(2000):
        broken = bytearray(content)
        for _ in range(choose.randint(1, 4)):
            broken[choose.randrange(len(broken))] = choose.randrange(256)
        try:
            decompress(compression, bytes(broken[: choose.randrange(len(broken))]))
        except MalformedFrame:
            refused += 1
    assert refused > 1000


def test_lz4_blocks_are_independent_as_brokers_demand():
    content = compress(Compression.LZ4, bytes(200_000))
    frame = lz4.frame.get_frame_info(content)
    assert (frame["block_linked"], frame["block_size"]) == (False, 64 * 1024)


def test_snappy_without_the_xerial_frame_is_read():
    raw = pyarrow.compress(b"abc" * 1000, "snappy", asbytes=True)
    assert decompress(Compression.SNAPPY, raw) == b"abc" * 1000


def test_a_batch_can_be_counted_without_decompression():
    header = read_batch_header(encode_batch(RECORDS, Compression.ZSTD))
    assert header.records_count == len(RECORDS)
