"""Fetch answers as they come off the wire, read in place: no record is copied.

The layout is that of `kipctl.protocol.fetch`, whose codec is the oracle of this module's tests.
"""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from kipctl.protocol import values
from kipctl.protocol.fetch import NO_PREFERRED_READ_REPLICA, FetchResponse
from kipctl.protocol.primitives import INT32, MalformedFrame, Reader
from kipctl.protocol.produce import NodeEndpoint

FIRST_TOPIC_ID_VERSION = 13
_DIVERGING_EPOCH, _CURRENT_LEADER, _NODE_ENDPOINTS = 0, 1, 0
_PARTITION_V4 = Struct(">ihqq")
_PARTITION_V5 = Struct(">ihqqq")
_ABORTED = Struct(">qq")
_HEAD_V7 = Struct(">hi")
_EPOCH_AND_OFFSET = Struct(">iq")
_TWO_INT32 = Struct(">ii")


_READERS = {
    flexible: (
        *(values.length_prefix(INT32, flexible, nullable).read for nullable in (False, True)),
        *(values.string(flexible, nullable).read for nullable in (False, True)),
    )
    for flexible in (False, True)
}
"""Of lengths and texts: those that may not be null, and those that may."""


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
    try:
        return _Frame(frame, version).read()
    except StructError:
        raise MalformedFrame(f"FetchResponse v{version}: cut off") from None
    except MalformedFrame as error:
        raise error.within(f"FetchResponse v{version}") from None


class _Frame(Reader):
    def __init__(self, frame: memoryview, version: int) -> None:
        super().__init__(frame)  # type: ignore[arg-type]  # it takes no bytes out but for texts
        self._version = version
        self._flexible = flexible = version >= FetchResponse.api.flexible_since
        self._length, self._nullable_length, self._text, self._nullable_text = _READERS[flexible]

    def read(self) -> FetchAnswer:
        version = self._version
        self.take(4)  # the correlation id
        self._skip_tags()
        throttle_ms = self.int32()
        error, session = self._unpack(_HEAD_V7) if version >= 7 else (0, 0)
        partitions: list[Fetched] = []
        for _ in self.elements(self._length(self)):
            topic = bytes(self.take(16)) if version >= FIRST_TOPIC_ID_VERSION else self._text(self)
            for _ in self.elements(self._length(self)):
                partitions.append(self._partition(topic))  # noqa: PERF401
            self._skip_tags()
        endpoints, unknown = self._tags() if self._flexible else ((), ())
        if self.remaining:
            raise self.malformed(f"{self.remaining} bytes left over")
        return FetchAnswer(error, session, partitions, endpoints, unknown, throttle_ms)

    def _partition(self, topic: str | bytes) -> Fetched:
        version = self._version
        log_start, preferred = -1, NO_PREFERRED_READ_REPLICA
        if version >= 5:
            index, error, high, stable, log_start = self._unpack(_PARTITION_V5)
        else:
            index, error, high, stable = self._unpack(_PARTITION_V4)
        aborted = []
        for _ in self.elements(self._nullable_length(self)):
            aborted.append(self._unpack(_ABORTED))
            self._skip_tags()
        if version >= 11:
            (preferred,) = self._unpack(INT32)
        records: memoryview = self.take(max(self._nullable_length(self), 0))  # type: ignore[assignment]
        leader, diverging = self._partition_tags() if self._flexible else (None, None)
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
        leader: tuple[int, int] | None = None
        diverging: tuple[int, int] | None = None
        for _ in self.tags():
            tag, size = self.unsigned_varint(), self.unsigned_varint()
            end = self.offset + size
            if tag == _CURRENT_LEADER:
                leader = self._unpack(_TWO_INT32)  # type: ignore[assignment]
                self.skip_tags()
            elif tag == _DIVERGING_EPOCH:
                diverging = self._unpack(_EPOCH_AND_OFFSET)  # type: ignore[assignment]
                self.skip_tags()
            else:
                self.take(size)
            self._must_be_at(end)
        return leader, diverging

    def _tags(self) -> tuple[tuple[NodeEndpoint, ...], tuple[tuple[int, bytes], ...]]:
        endpoints: list[NodeEndpoint] = []
        unknown = []
        for _ in self.tags():
            tag, size = self.unsigned_varint(), self.unsigned_varint()
            end = self.offset + size
            if tag == _NODE_ENDPOINTS and self._version >= 16:
                for _ in self.elements(self._length(self)):
                    node, host, port = self.int32(), self._text(self), self.int32()
                    endpoints.append(NodeEndpoint(node, host, port, self._nullable_text(self)))
                    self.skip_tags()
            else:
                unknown.append((tag, bytes(self.take(size))))
            self._must_be_at(end)
        return tuple(endpoints), tuple(unknown)

    def _must_be_at(self, end: int) -> None:
        if self.offset != end:
            raise self.malformed("a tagged field of another size than announced")

    def _unpack(self, layout: Struct) -> tuple[int, ...]:
        fields = layout.unpack_from(self.buffer, self.offset)
        self.offset += layout.size
        return fields

    def _skip_tags(self) -> None:
        if self._flexible:
            self.skip_tags()
