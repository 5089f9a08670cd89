"""Record batches against kafka-python, in both directions and every compression.

What reads them is of these tests; where it refuses a batch, so would a broker.
"""

import random
import struct
import warnings
from types import SimpleNamespace

import lz4.frame
import pyarrow
import pytest
from looped import looped
from record_batches import BATCH_LENGTH_AT, Record, decode_batch, encode_batch

from kipctl.protocol.compression import Compression, compress
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.records import MAGIC_AT, PARTITION_LEADER_EPOCH_AT, TRANSACTIONAL

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

each_compression = looped("compression", Compression)


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


NUMBERED = [record._replace(offset=offset) for offset, record in enumerate(RECORDS)]


@each_compression
def test_kafka_python_reads_what_is_written(compression):
    batch = DefaultRecordBatch(encode_batch(RECORDS, compression, 4711, 3, 99))
    assert batch.validate_crc()
    assert batch.compression_type == compression
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4711, 3, 99)
    assert (batch.first_timestamp, batch.max_timestamp) == (NOW, NOW + 5)
    assert batch.last_offset_delta == len(RECORDS) - 1
    assert [
        Record(record.value, record.key, record.timestamp, tuple(record.headers), record.offset)
        for record in batch
    ] == NUMBERED


@each_compression
def test_what_kafka_python_writes_is_read(compression):
    batch = decode_batch(of_kafka_python(compression, (4711, 3, 99), transactional=True))
    header = batch.header
    assert batch.compression is compression
    assert header.attributes == compression | TRANSACTIONAL
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, 99)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (NOW, NOW + 5)
    assert [*batch.records] == NUMBERED


def test_an_uncompressed_batch_is_the_same_bytes_as_kafka_python_makes():
    theirs = bytearray(of_kafka_python(0))
    # It leaves the partition leader epoch, which is not under the CRC, at 0.
    struct.pack_into(">i", theirs, PARTITION_LEADER_EPOCH_AT, -1)
    assert encode_batch(RECORDS) == bytes(theirs)


def test_several_batches_stand_one_behind_the_other():
    buffer = encode_batch(RECORDS[:1]) + encode_batch(RECORDS[1:], Compression.LZ4)
    first = decode_batch(buffer)
    second = decode_batch(buffer, first.header.size)
    assert [r.value for r in first.records + second.records] == [r.value for r in RECORDS]
    assert first.header.size + second.header.size == len(buffer)


@each_compression
def test_every_cut_batch_is_malformed(compression):
    batch = encode_batch(RECORDS[:3], compression)
    for size in range(len(batch)):
        with pytest.raises(MalformedFrame):
            decode_batch(batch[:size])


@each_compression
def test_every_flipped_bit_is_noticed(compression):
    batch = encode_batch(RECORDS[:2], compression)
    for bit in range(8 * BATCH_LENGTH_AT, 8 * len(batch)):
        if PARTITION_LEADER_EPOCH_AT <= bit // 8 < MAGIC_AT:
            continue  # the broker sets it, so the CRC leaves it out
        broken = bytearray(batch)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(MalformedFrame):
            decode_batch(bytes(broken))


def test_lz4_blocks_are_independent_as_brokers_demand():
    content = compress(Compression.LZ4, bytes(200_000))
    frame = lz4.frame.get_frame_info(content)
    assert (frame["block_linked"], frame["block_size"]) == (False, 64 * 1024)
