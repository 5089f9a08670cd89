"""The payloads of batches: encoded once, as many as batch.size admits, readable by anyone."""

import random
from pathlib import Path

import pytest

from kipctl.errors import UsageError
from kipctl.probe.produce.payloads import file_values, random_values, variants
from kipctl.protocol.compression import Compression
from kipctl.protocol.produce_frames import batch_header
from kipctl.protocol.records import decode_batch


@pytest.mark.parametrize(
    ("record_size", "batch_size", "capacity"),
    [
        # Java admits a record while the batch does not exceed batch.size, and always a first one.
        (1000, 16384, 16),
        (1000, 61 + 16 * 1009, 16),
        (1000, 61 + 16 * 1009 - 1, 15),
        (100, 16384, 148),
        (10, 16384, 910),
        (16384, 16384, 1),
        (100_000, 16384, 1),
        (1000, 0, 1),
    ],
)
def test_a_batch_holds_what_batch_size_admits(
    record_size: int, batch_size: int, capacity: int
) -> None:
    for variant in variants([b"v" * record_size], batch_size, Compression.NONE, random.Random(1)):
        assert variant.capacity == capacity
        full = 61 + len(variant.section(capacity).content)
        assert full <= batch_size or capacity == 1
        if capacity > 1:
            assert full + len(variant.encoded) // capacity + 2 > batch_size


@pytest.mark.parametrize("compression", list(Compression))
def test_the_section_of_any_number_of_records_reads_back_as_the_first_of_the_full_one(
    compression: Compression,
) -> None:
    choose = random.Random(3)
    pool = [choose.randbytes(choose.randint(0, 400)) for _ in range(50)]
    for variant in variants(pool, 4096, compression, choose)[:2]:
        values: list[bytes] = []
        for records in range(1, variant.capacity + 1):
            section = variant.section(records)
            header = batch_header(compression, records, 1234, -1, -1, -1, section.content)
            batch = decode_batch(header + section.content)
            read = [record.value for record in batch.records]
            assert batch.compression is compression
            assert len(read) == section.records == records
            assert read[:-1] == values
            assert section.value_bytes == sum(map(len, read))
            assert {record.timestamp_ms for record in batch.records} == {1234}
            assert set(read) <= set(pool)
            values = read
            assert variant.section(records) is section  # made once


def test_compressed_sections_are_smaller() -> None:
    for compression in set(Compression) - {Compression.NONE}:
        variant = variants([b"A" * 1000], 16384, compression, random.Random(1))[0]
        assert len(variant.section(16).content) < 1000
        assert variant.section(16).value_bytes == 16_000


def test_random_values_are_capital_letters_of_the_size_and_the_same_for_the_same_seed() -> None:
    values = random_values(100, random.Random(5), 16384)
    assert {len(value) for value in values} == {100}
    assert set(b"".join(values)) == set(range(65, 91))
    assert len(set(values)) == len(values)
    assert values == random_values(100, random.Random(5), 16384)


@pytest.mark.parametrize(
    ("text", "delimiter", "values"),
    [
        ("one\ntwo\n", "\n", [b"one", b"two"]),
        ("one\ntwo", "\n", [b"one", b"two"]),
        ("one;two;;", ";", [b"one", b"two", b""]),
        # What is not the delimiter is payload, line ends too.
        ("a\r\nb|c", "|", [b"a\r\nb", b"c"]),
        ("a<br>b", "<br>", [b"a", b"b"]),
        ("grüße", "\n", ["grüße".encode()]),
    ],
)
def test_a_payload_file_is_split_at_its_delimiter(
    tmp_path: Path, text: str, delimiter: str, values: list[bytes]
) -> None:
    path = tmp_path / "payloads"
    path.write_bytes(text.encode())
    assert file_values(path, delimiter) == values


def test_a_payload_file_that_is_of_no_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "payloads"
    with pytest.raises(UsageError, match="cannot be read"):
        file_values(path, "\n")
    path.write_bytes(b"")
    with pytest.raises(UsageError, match="is empty"):
        file_values(path, "\n")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        file_values(path, "\n")
    path.write_bytes(b"one")
    with pytest.raises(UsageError, match="delimiter"):
        file_values(path, "")
