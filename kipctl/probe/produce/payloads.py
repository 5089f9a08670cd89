"""Record payloads, encoded once: the record sections of batches, ready to be sent."""

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from kipctl.errors import UsageError
from kipctl.protocol.compression import Compression, compress
from kipctl.protocol.records import BATCH_HEADER_SIZE, encode_record

_VARIANTS = 8
_MAX_RECORDS = 100_000
_COMPRESSED_BYTES = 32 << 20
"""About so much is compressed before a run, of all variants together; at least twice the full
batches. It takes up to 2 s with gzip."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A full batch's records; its first n records are the section of a batch of n."""

    encoded: memoryview
    ends: Sequence[int]
    """Byte offset in `encoded` after each record."""
    value_ends: Sequence[int]
    capacity: int
    """How many records `batch.size` admits; at least 1."""
    compression: Compression = Compression.NONE
    counts: Sequence[int] = ()
    """Where there is compression: the numbers of records that sections are made of, 1 to all."""
    compressed: Sequence[memoryview] = ()
    """Their sections."""

    def within(self, records: int) -> int:
        """The most records of which there is a section, if it is to have `records` at most."""
        counts = self.counts
        return counts[bisect_right(counts, records) - 1] if counts else records

    def section(self, records: int) -> memoryview:
        """The first `records` records as they go on the wire: see `within`. Nothing is copied."""
        if self.counts:
            return self.compressed[bisect_right(self.counts, records) - 1]
        return self.encoded[: self.ends[records - 1]]


def _variant(values: Sequence[bytes], batch_size: int, compression: Compression) -> Variant:
    records: list[bytes] = []
    size = BATCH_HEADER_SIZE
    for number, value in enumerate(values):
        record = encode_record(number, 0, None, value)
        size += len(record)
        if records and size > batch_size:
            break
        records.append(record)
    encoded = b"".join(records)
    ends = list(accumulate(map(len, records)))
    value_ends = list(accumulate(len(value) for value in values[: len(records)]))
    counts: list[int] = []
    if compression is not Compression.NONE:
        counts = counts_made(len(records), _COMPRESSED_BYTES // _VARIANTS // len(encoded))
    sections = [memoryview(compress(compression, encoded[: ends[n - 1]])) for n in counts]
    return Variant(
        memoryview(encoded), ends, value_ends, len(records), compression, counts, sections
    )


def counts_made(capacity: int, steps: int) -> list[int]:
    """The numbers of records of which compressed sections are made: 1 to `capacity`.

    Each number up to twice `steps`, from there on by steps of one `steps`-th (at least: of all).
    Together they are about `steps` + 1 times as long as a full batch.
    """
    counts, steps = [1], max(steps, 1)
    while counts[-1] < capacity:
        counts.append(min(counts[-1] + max(counts[-1] // steps, 1), capacity))
    return counts


def variants(
    pool: Sequence[bytes], batch_size: int, compression: Compression, choose: random.Random
) -> list[Variant]:
    """Batches of values drawn at random from the pool, as long as `batch_size` admits."""
    shortest = max(1, min(map(len, pool)))
    count = min(max(batch_size // shortest + 1, 1), _MAX_RECORDS)
    return [
        _variant(choose.choices(pool, k=count), batch_size, compression) for _ in range(_VARIANTS)
    ]


def random_values(size: int, choose: random.Random, batch_size: int) -> list[bytes]:
    """Values of `size` random capital letters, as Kafka's perf tool makes them."""
    count = max(16, min(1000, 4 * batch_size // max(size, 1)))
    letters = bytes(range(65, 91))
    return [bytes(choose.choices(letters, k=size)) for _ in range(count)]


def file_values(path: Path, delimiter: str) -> list[bytes]:
    """The payloads of a file (UTF-8), split at the delimiter; the end of the file adds none.

    Raises UsageError when it cannot be read, holds nothing, or the delimiter is empty.
    """
    if not delimiter:
        raise UsageError("The payload delimiter is empty.", "Give what separates the values.")
    try:
        text = path.read_bytes().decode()  # line ends as they are
    except (OSError, UnicodeDecodeError) as wrong:
        raise UsageError(f"The payload file {path} cannot be read: {wrong}.") from wrong
    values = [part.encode() for part in text.removesuffix(delimiter).split(delimiter)]
    if not text:
        raise UsageError(f"The payload file {path} is empty.")
    return values
