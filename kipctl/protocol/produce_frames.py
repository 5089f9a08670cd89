"""Produce requests and responses at full speed: what `produce` says, laid out by hand.

A batch's records are encoded once and sent many times; per batch only its header is packed (base
timestamp, producer id, sequence, CRC) and handed to `sendmsg` beside the records, nothing is
copied. A response in which every partition succeeded is read with fixed strides; any other is left
to `kipctl.protocol.produce`, which knows every field.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from kipctl.protocol.api import ApiKey
from kipctl.protocol.primitives import write_unsigned_varint

FIRST_FLEXIBLE_VERSION = 9
FIRST_TOPIC_ID_VERSION = 13

_INT32 = Struct(">i")

Buffer = bytes | memoryview


@lru_cache(maxsize=4096)
def _unsigned_varint(value: int) -> bytes:
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


class PartitionRecords(NamedTuple):
    """One partition's part of a request: its batch as header and records."""

    partition: int
    header: bytes
    content: memoryview


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as Produce names it: by name, and by id from version 13 on."""

    name: str
    id: UUID


class ProduceEncoder:
    """Makes the Produce requests of one connection: version, client id, acks and timeout are fixed.

    `acks` is -1, 0 or 1; `timeout_ms` is the broker's, for acks=all. Versions 3 to 13.
    """

    def __init__(self, version: int, client_id: str, acks: int, timeout_ms: int) -> None:
        self.version = version
        self._flexible = version >= FIRST_FLEXIBLE_VERSION
        client = client_id.encode()
        self._api = Struct(">hh").pack(ApiKey.PRODUCE, version)
        self._after_correlation = (
            Struct(">h").pack(len(client))
            + client
            + (b"\x00\x00" if self._flexible else b"\xff\xff")  # header tags, transactional id null
            + Struct(">hi").pack(acks, timeout_ms)
        )
        self._after_records = b"\x00" if self._flexible else b""

    def encode(
        self,
        correlation_id: int,
        topics: Sequence[tuple[Topic, Sequence[PartitionRecords]]],
    ) -> tuple[list[Buffer], int]:
        """The request, with its length prefix, as buffers for `sendmsg`, and its size in bytes."""
        out: list[Buffer] = [b""]
        head = self._api + _INT32.pack(correlation_id) + self._after_correlation
        pending = head + self._count(len(topics))
        size = 0
        after = self._after_records
        flexible = self._flexible
        pack_int = _INT32.pack
        for topic, partitions in topics:
            pending += self._topic(topic) + self._count(len(partitions))
            for partition, header, content in partitions:
                length = len(header) + len(content)
                prefix = (
                    pending
                    + pack_int(partition)
                    + (_unsigned_varint(length + 1) if flexible else pack_int(length))
                    + header
                )
                out.append(prefix)
                out.append(content)
                size += len(prefix) + len(content)
                pending = after
            pending += after  # the topic's own tags
        pending += after
        out.append(pending)
        size += len(pending)
        out[0] = pack_int(size)
        return out, size + 4

    def _count(self, items: int) -> bytes:
        return _unsigned_varint(items + 1) if self._flexible else _INT32.pack(items)

    def _topic(self, topic: Topic) -> bytes:
        if self.version >= FIRST_TOPIC_ID_VERSION:
            return topic.id.bytes
        name = topic.name.encode()
        if self._flexible:
            return _unsigned_varint(len(name) + 1) + name
        return Struct(">h").pack(len(name)) + name


_SUCCESS = {
    3: (Struct(">ihqq"), ()),
    5: (Struct(">ihqqq"), ()),
    8: (Struct(">ihqqqih"), (0, -1)),
    9: (Struct(">ihqqq3s"), (b"\x01\x00\x00",)),
}
"""From a version on: a partition without error, and the constants that it ends with (no record
errors, no message, no tags)."""


def read_success(version: int, frame: Buffer) -> list[tuple[int, int]] | None:
    """(partition, base offset) of a response for one topic, without error anywhere.

    Returns None for any other response: several topics, an error, a hint, a tag, a throttle time, a
    cut frame. The frame begins with the correlation id.
    """
    flexible = version >= FIRST_FLEXIBLE_VERSION
    layout, ending = _SUCCESS[max(first for first in _SUCCESS if first <= version)]
    if flexible:
        # correlation id, header tags (0), topics + 1 (2), then the topic
        if len(frame) < 7 or frame[4] != 0 or frame[5] != 2:
            return None
        at = 22 if version >= FIRST_TOPIC_ID_VERSION else 6 + frame[6]
        if (version < FIRST_TOPIC_ID_VERSION and frame[6] >= 0x80) or at >= len(frame):
            return None
        count = frame[at]
        at += 1
        if count >= 0x80:
            if at >= len(frame) or frame[at] >= 0x80:
                return None
            count = (count & 0x7F) | frame[at] << 7
            at += 1
        count -= 1
        trailer = 6  # topic tags, throttle time, tags
    else:
        if len(frame) < 10 or frame[4:8] != b"\x00\x00\x00\x01":
            return None
        at = 10 + int.from_bytes(frame[8:10], "big") + 4
        count = int.from_bytes(frame[at - 4 : at], "big")
        trailer = 4
    end = at + count * layout.size
    if end + trailer != len(frame) or any(frame[end:]):
        return None
    result = []
    for fields in layout.iter_unpack(frame[at:end]):
        if fields[1] or fields[5:] != ending:
            return None
        result.append((fields[0], fields[2]))
    return result
