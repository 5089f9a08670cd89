"""The payloads of batches: encoded once, as many as batch.size admits, readable by anyone."""

import random
from pathlib import Path

import pytest
from record_batches import decode_batch

from kipctl.errors import UsageError
from kipctl.probe.produce.payloads import counts_made, file_values, random_values, variants
from kipctl.protocol.compression import Compression
from kipctl.protocol.records import batch_header


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
        full = 61 + len(variant.section(capacity))
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
            header = batch_header(compression, records, 1234, -1, -1, -1, section)
            batch = decode_batch(header + section)
            read = [record.value or b"" for record in batch.records]
            assert batch.compression is compression
            assert len(read) == records == variant.within(records)
            assert read[:-1] == values
            assert variant.value_ends[records - 1] == sum(map(len, read))
            assert {record.timestamp_ms for record in batch.records} == {1234}
            assert set(read) <= set(pool)
            values = read


def test_without_compression_every_section_is_the_same_bytes() -> None:
    for variant in variants([b"v" * 1000], 1_000_000, Compression.NONE, random.Random(1)):
        assert {variant.section(n).obj for n in (1, 500, 990)} == {variant.encoded.obj}


def test_compressed_sections_are_smaller() -> None:
    for compression in set(Compression) - {Compression.NONE}:
        variant = variants([b"A" * 1000], 16384, compression, random.Random(1))[0]
        assert len(variant.section(16)) < 1000
        assert variant.value_ends[15] == 16_000


@pytest.mark.parametrize(
    ("capacity", "steps", "counts"),
    [
        (1, 1, [1]),
        (1, 9, [1]),
        (5, 9, [1, 2, 3, 4, 5]),
        # As powers of two where a full batch is as large as all that may be compressed.
        (20, 1, [1, 2, 4, 8, 16, 20]),
        (20, 0, [1, 2, 4, 8, 16, 20]),
        (20, 4, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 20]),
    ],
)
def test_compressed_sections_are_made_of_these_numbers_of_records(
    capacity: int, steps: int, counts: list[int]
) -> None:
    assert counts_made(capacity, steps) == counts


@pytest.mark.parametrize(("capacity", "steps"), [(148, 512), (2600, 32), (10_000, 8), (99_000, 1)])
def test_what_is_compressed_before_a_run_is_bounded(capacity: int, steps: int) -> None:
    assert sum(counts_made(capacity, steps)) < 1.1 * (steps + 1.5) * capacity


def test_a_number_of_records_without_a_section_is_cut_to_one_that_has_one() -> None:
    batch_size = 8 << 20  # half of this, times 8 variants, is all that is compressed
    variant = variants([b"v" * 100_000], batch_size, Compression.LZ4, random.Random(1))[0]
    assert [variant.within(n) for n in (1, 2, 3, 63, 64, 83)] == [1, 2, 2, 32, 64, 83]
    assert variant.capacity == 83


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
