"""Metadata answers read in place: who leads each partition; who else holds it is stepped over.

The layout is that of `kipctl.protocol.metadata`, whose codec is the oracle of this module's tests.
How long a partition is depends only on how many replicas it names, so there are few strides in an
answer: one more where some broker is down.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from kipctl.protocol import values
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker
from kipctl.protocol.primitives import INT32, MalformedFrame, Reader

_ZERO_ID = bytes(16)
_MOST_STRIDES = 16
_MOST_REPLICAS = 0x7E  # by stride: the varint of one more has two bytes


class PartitionMetadata(NamedTuple):
    """See `kipctl.protocol.metadata.MetadataResponsePartition`."""

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int = -1


class TopicMetadata(NamedTuple):
    """A topic; `name` is "" for null, `topic_id` its id's 16 bytes, all zero before version 10."""

    error_code: int
    name: str
    topic_id: bytes
    partitions: Sequence[PartitionMetadata]


class MetadataAnswer(NamedTuple):
    """A whole answer but for its replicas; see `kipctl.protocol.metadata.MetadataResponse`.

    Numbers that a version does not have are 0.
    """

    error_code: int
    throttle_time_ms: int
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None
    topics: list[TopicMetadata]


def read_metadata(version: int, frame: bytes | memoryview) -> MetadataAnswer:
    """The answer to a Metadata request of that version; the frame begins with the correlation id.

    Raises MalformedFrame, and ValueError when there is no such version.
    """
    first, last = MetadataResponse.api.versions
    if not first <= version <= last:
        raise ValueError(f"MetadataResponse has versions {first} to {last}, not {version}")
    read = MetadataFrame(frame, version)
    topics = [read.topic() for _ in range(read.topics)]
    return MetadataAnswer(read.end(), read.throttle_time_ms, read.brokers, read.cluster_id, topics)


class _Stride(NamedTuple):
    """The layout of partitions without tags that name so many replicas.

    `unpack_from` gives `head` fields, and then what announces the replicas: `counts`.
    """

    unpack_from: Callable[[bytes, int], tuple[Any, ...]]
    size: int
    head: int
    counts: tuple[int, ...]


@lru_cache(maxsize=256)
def _stride(head: str, flexible: bool, replicas: tuple[int, ...]) -> _Stride:
    """The stride of partitions whose arrays of replicas have these lengths."""
    count, tags = ("B", "B") if flexible else ("i", "")
    arrays = "".join(f"{count}{n * INT32.size}x" for n in replicas)
    layout = Struct(f">{head}{arrays}{tags}")
    counts = (*(n + 1 for n in replicas), 0) if flexible else replicas
    return _Stride(layout.unpack_from, layout.size, len(head), counts)


class MetadataFrame(Reader):
    """An answer read step by step: its head at once, then so many `topics`, then its `end`.

    All raise MalformedFrame.
    """

    def __init__(self, frame: bytes | memoryview, version: int) -> None:
        super().__init__(bytes(frame))
        self.version = version
        self.places: list[tuple[int, int]] = []
        """Where host and port of each broker begin and end."""
        self._flexible = flexible = version >= MetadataResponse.api.flexible_since
        self._length = values.length_prefix(INT32, flexible, nullable=False).read
        self._text = values.string(flexible, nullable=False).read
        self._nullable_text = values.string(flexible, nullable=True).read
        self._head = "hiii" if version >= 7 else "hii"  # error, index, leader, leader epoch
        self._strides: list[_Stride] = []
        self.int32()  # the correlation id
        self._skip_tags()
        self.throttle_time_ms = self.int32() if version >= 3 else 0
        self.brokers = [self._broker() for _ in self.elements(self._length(self))]
        self.cluster_id = self._nullable_text(self) if version >= 2 else None
        if version >= 1:
            self.take(4)  # the controller
        self.topics = len(self.elements(self._length(self)))

    def malformed(self, problem: str) -> MalformedFrame:
        return super().malformed(problem).within(f"MetadataResponse v{self.version}")

    def end(self) -> int:
        """The error of the whole answer; nothing is left over."""
        if 8 <= self.version <= 10:
            self.take(4)  # the cluster's authorized operations
        error_code = self.int16() if self.version >= 13 else 0
        self._skip_tags()
        if self.remaining:
            raise self.malformed(f"{self.remaining} bytes left over")
        return error_code

    def _broker(self) -> MetadataResponseBroker:
        node_id, begin = self.int32(), self.offset
        host, port = self._text(self), self.int32()
        self.places.append((begin, self.offset))
        rack = self._nullable_text(self) if self.version >= 1 else None
        self._skip_tags()
        return MetadataResponseBroker(node_id, host, port, rack)

    def named_next(self) -> str:
        """The name of the topic that comes next, which is not stepped past; "" for null."""
        at = self.offset
        self.take(2)  # the error
        name = self._name()
        self.offset = at
        return name

    def steps_past(self, topic: bytes) -> bool:
        """Whether the topic that comes next is just these bytes; then it is stepped past."""
        is_next = self.buffer.startswith(topic, self.offset)
        self.offset += len(topic) if is_next else 0
        return is_next

    def topic(self) -> TopicMetadata:
        """The topic that comes next."""
        version = self.version
        error_code, name = self.int16(), self._name()
        topic_id = self.take(16) if version >= 10 else _ZERO_ID
        if version >= 1:
            self.take(1)  # whether it is internal
        partitions = self._partitions()
        if version >= 8:
            self.take(4)  # its authorized operations
        self._skip_tags()
        return TopicMetadata(error_code, name, topic_id, partitions)

    def _name(self) -> str:
        return (self._nullable_text if self.version >= 12 else self._text)(self) or ""

    def _partitions(self) -> list[PartitionMetadata]:
        partitions: list[PartitionMetadata] = []
        buffer, end, strides = self.buffer, len(self.buffer), self._strides
        count, at = self._length(self), self.offset
        for _ in self.elements(count):
            for unpack_from, size, head, counts in strides:
                if at + size <= end and (fields := unpack_from(buffer, at))[head:] == counts:
                    partitions.append(PartitionMetadata(*fields[:head]))
                    at += size
                    break
            else:
                self.offset = at
                partitions.append(self._partition())
                at = self.offset
        self.offset = at
        return partitions

    def _partition(self) -> PartitionMetadata:
        """A partition of another stride than those before it, which is kept in mind."""
        head = Struct(">" + self._head)
        fields = head.unpack(self.take(head.size))
        replicas = tuple(self._skip_replicas() for _ in range(3 if self.version >= 5 else 2))
        self._skip_tags()
        if len(self._strides) < _MOST_STRIDES and max(replicas) <= _MOST_REPLICAS:
            stride = _stride(self._head, self._flexible, replicas)
            if stride not in self._strides:  # a partition with tags has none of its own
                self._strides.append(stride)
        return PartitionMetadata(*fields)

    def _skip_replicas(self) -> int:
        count = self._length(self)
        self.take(count * INT32.size)
        return count

    def _skip_tags(self) -> None:
        if self._flexible:
            self.skip_tags()
