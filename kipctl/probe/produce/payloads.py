"""Record payloads, encoded once: the record sections of batches, ready to be sent."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from kipctl.errors import UsageError
from kipctl.protocol.compression import Compression, compress
from kipctl.protocol.records import BATCH_HEADER_SIZE, encode_record

_VARIANTS = 8
_MAX_RECORDS = 100_000


@dataclass(frozen=True, slots=True)
class Section:
    """The records of a batch as they go on the wire (compressed if so configured)."""

    records: int
    content: memoryview
    value_bytes: int


@dataclass(slots=True)
class Variant:
    """A full batch's records; its first n records are the section of a batch of n."""

    encoded: bytes
    ends: list[int]
    """Byte offset in `encoded` after each record."""
    value_ends: list[int]
    capacity: int
    """How many records `batch.size` admits; at least 1."""
    compression: Compression
    _sections: dict[int, Section] = field(default_factory=dict)

    def section(self, records: int) -> Section:
        """The section of the first `records` records; compressed once, then kept."""
        known = self._sections.get(records)
        if known is None:
            content = self.encoded[: self.ends[records - 1]]
            if self.compression is not Compression.NONE:
                content = compress(self.compression, content)
            known = Section(records, memoryview(content), self.value_ends[records - 1])
            self._sections[records] = known
        return known


def _variant(values: Sequence[bytes], batch_size: int, compression: Compression) -> Variant:
    records: list[bytes] = []
    size = BATCH_HEADER_SIZE
    for number, value in enumerate(values):
        record = encode_record(number, 0, None, value)
        size += len(record)
        if records and size > batch_size:
            break
        records.append(record)
    return Variant(
        b"".join(records),
        list(accumulate(map(len, records))),
        list(accumulate(len(value) for value in values[: len(records)])),
        len(records),
        compression,
    )


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
