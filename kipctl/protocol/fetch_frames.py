"""Fetch answers as they come off the wire, read in place: no record is copied.

The layout is that of `kipctl.protocol.fetch`, whose codec is the oracle of this module's tests.
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from kipctl.protocol.fetch import NO_PREFERRED_READ_REPLICA, FetchResponse
from kipctl.protocol.primitives import MalformedFrame, Reader
from kipctl.protocol.produce import NodeEndpoint

FIRST_TOPIC_ID_VERSION = 13
_DIVERGING_EPOCH, _CURRENT_LEADER, _NODE_ENDPOINTS = 0, 1, 0
_PARTITION_V4 = Struct(">ihqq")
_PARTITION_V5 = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_INT32 = Struct(">i")
_HEAD_V7 = Struct(">ihi")
_EPOCH_AND_OFFSET = Struct(">iq")
_TWO_INT32 = Struct(">ii")


class Fetched(NamedTuple):
    """What was read of one partition; see `kipctl.protocol.fetch.PartitionData`.

    `topic` is the topic's name, from version 13 on its id's 16 bytes. `leader` is (id, epoch) of a
    hint, `diverging` (epoch, end offset) of a log that was truncated; None where there is none.
    `records` are good as long as the frame is.
    """

    topic: str | bytes
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    preferred_read_replica: int
    records: memoryview
    leader: tuple[int, int] | None = None
    diverging: tuple[int, int] | None = None


class FetchAnswer(NamedTuple):
    """A whole answer; see `kipctl.protocol.fetch.FetchResponse`.

    `unknown_tags` are the response's tagged fields that its version does not name.
    """

    error_code: int
    session_id: int
    partitions: list[Fetched]
    node_endpoints: tuple[NodeEndpoint, ...]
    unknown_tags: tuple[tuple[int, bytes], ...] = ()
    throttle_ms: int = 0


def read_fetch(version: int, frame: memoryview) -> FetchAnswer:
    """The answer to a Fetch of that version; the frame begins with the correlation id.

    Raises MalformedFrame.
    """
    reader = Reader(frame)  # type: ignore[arg-type]  # it takes no bytes out but for texts
    try:
        return _Frame(reader, version).read()
    except StructError:
        raise MalformedFrame(f"FetchResponse v{version}: cut off") from None
    except MalformedFrame as error:
        raise error.within(f"FetchResponse v{version}") from None


class _Frame:
    def __init__(self, reader: Reader, version: int) -> None:
        self._reader = reader
        self._version = version
        self._flexible = version >= FetchResponse.api.flexible_since

    def read(self) -> FetchAnswer:
        reader, flexible = self._reader, self._flexible
        self._unpack(_INT32)  # the correlation id
        if flexible:
            reader.skip_tags()
        error = session = 0
        if self._version >= 7:
            throttle_ms, error, session = self._unpack(_HEAD_V7)
        else:
            (throttle_ms,) = self._unpack(_INT32)
        partitions: list[Fetched] = []
        for _ in reader.elements(self._length()):
            topic: str | bytes
            if self._version >= FIRST_TOPIC_ID_VERSION:
                topic = bytes(reader.take(16))
            else:
                topic = self._text()
            for _ in reader.elements(self._length()):
                partitions.append(self._partition(topic))  # noqa: PERF401
            if flexible:
                reader.skip_tags()
        endpoints, unknown = self._tags() if flexible else ((), ())
        if reader.remaining:
            raise reader.malformed(f"{reader.remaining} bytes left over")
        return FetchAnswer(error, session, partitions, endpoints, unknown, throttle_ms)

    def _partition(self, topic: str | bytes) -> Fetched:
        reader, version, flexible = self._reader, self._version, self._flexible
        log_start, preferred = -1, NO_PREFERRED_READ_REPLICA
        if version >= 5:
            index, error, high, stable, log_start = self._unpack(_PARTITION_V5)
        else:
            index, error, high, stable = self._unpack(_PARTITION_V4)
        aborted = []
        for _ in reader.elements(self._length(nullable=True)):
            aborted.append(self._unpack(_ABORTED))
            if flexible:
                reader.skip_tags()
        if version >= 11:
            (preferred,) = self._unpack(_INT32)
        records: memoryview = reader.take(self._length(nullable=True))  # type: ignore[assignment]
        leader = diverging = None
        if flexible:
            leader, diverging = self._partition_tags()
        return Fetched(
            topic,
            index,
            error,
            high,
            stable,
            log_start,
            tuple(aborted),  # type: ignore[arg-type]
            preferred,
            records,
            leader,
            diverging,
        )

    def _partition_tags(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        reader = self._reader
        leader: tuple[int, int] | None = None
        diverging: tuple[int, int] | None = None
        for _ in reader.tags():
            tag, size = reader.unsigned_varint(), reader.unsigned_varint()
            end = reader.offset + size
            if tag == _CURRENT_LEADER:
                leader = self._unpack(_TWO_INT32)  # type: ignore[assignment]
                reader.skip_tags()
            elif tag == _DIVERGING_EPOCH:
                diverging = self._unpack(_EPOCH_AND_OFFSET)  # type: ignore[assignment]
                reader.skip_tags()
            else:
                reader.take(size)
            self._must_be_at(end)
        return leader, diverging

    def _tags(self) -> tuple[tuple[NodeEndpoint, ...], tuple[tuple[int, bytes], ...]]:
        reader = self._reader
        endpoints: list[NodeEndpoint] = []
        unknown = []
        for _ in reader.tags():
            tag, size = reader.unsigned_varint(), reader.unsigned_varint()
            end = reader.offset + size
            if tag == _NODE_ENDPOINTS and self._version >= 16:
                for _ in reader.elements(self._length()):
                    (node,) = self._unpack(_INT32)
                    host = self._text()
                    (port,) = self._unpack(_INT32)
                    length = reader.unsigned_varint() - 1
                    rack = self._decoded(length) if length >= 0 else None
                    reader.skip_tags()
                    endpoints.append(NodeEndpoint(node, host, port, rack))
            else:
                unknown.append((tag, bytes(reader.take(size))))
            self._must_be_at(end)
        return tuple(endpoints), tuple(unknown)

    def _must_be_at(self, end: int) -> None:
        if self._reader.offset != end:
            raise self._reader.malformed("a tagged field of another size than announced")

    def _unpack(self, layout: Struct) -> tuple[int, ...]:
        reader = self._reader
        values = layout.unpack_from(reader.buffer, reader.offset)
        reader.offset += layout.size
        return values

    def _length(self, nullable: bool = False) -> int:
        """A count or a size; 0 for null."""
        if self._flexible:
            length = self._reader.unsigned_varint() - 1
        else:
            (length,) = self._unpack(_INT32)
        if length < 0 and not (nullable and length == -1):
            raise self._reader.malformed(f"length {length}")
        return max(length, 0)

    def _text(self) -> str:
        if self._flexible:
            size = self._reader.unsigned_varint() - 1
        else:
            reader = self._reader
            size = int.from_bytes(reader.take(2), "big", signed=True)
        return self._decoded(size)

    def _decoded(self, size: int) -> str:
        try:
            return bytes(self._reader.take(size)).decode()
        except UnicodeDecodeError:
            raise self._reader.malformed("not UTF-8") from None
