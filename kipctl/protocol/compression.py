"""Compression of a batch's records, in the forms that Java's producer writes.

gzip and zstd are plain streams. lz4 is the frame format with independent blocks of 64 KiB: brokers
refuse dependent ones (Lz4BlockInputStream). snappy is raw blocks of 32 KiB in the frame of the
xerial library.
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct

import cramjam
import lz4.frame

from kipctl.protocol.primitives import INT32

_XERIAL_HEADER = b"\x82SNAPPY\x00" + Struct(">ii").pack(1, 1)  # version, compatible version
_XERIAL_BLOCK = 32 * 1024


class Compression(IntEnum):
    """The compression type as numbered in a batch's attributes; names as in `compression.type`."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(compression: Compression, records: bytes) -> bytes:
    """The compressed form of a batch's records."""
    match compression:
        case Compression.NONE:
            return records
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(records))
        case Compression.SNAPPY:
            return b"".join(_xerial_blocks(records))
        case Compression.LZ4:
            return bytes(
                lz4.frame.compress(
                    records,
                    block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                    block_linked=False,
                    store_size=False,
                )
            )
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(records))


def _xerial_blocks(records: bytes) -> Iterator[bytes]:
    yield _XERIAL_HEADER
    for start in range(0, len(records), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(records[start : start + _XERIAL_BLOCK]))
        yield INT32.pack(len(block))
        yield block
