"""What Produce requests and answers say of each partition, read in place: no record is touched."""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from kipctl.client_behaviour.episode import HintFault
from kipctl.protocol.leader_hints import LeaderHint, hint_in_produce
from kipctl.protocol.primitives import MalformedFrame, Reader
from kipctl.protocol.produce import PartitionProduceResponse, ProduceResponse
from kipctl.protocol.produce_frames import FIRST_FLEXIBLE_VERSION, FIRST_TOPIC_ID_VERSION

_INT32 = Struct(">i")
_INT16 = Struct(">h")
# Of a record batch's header: magic, CRC, create time, producer, its epoch, sequence, records.
_BATCH = Struct(">16xbI6xq8xqhii")
_MAGIC = 2
_FIRST_TRANSACTIONAL_VERSION = 3
_FIRST_WITH_LOG_START = 5


class SentBatch(NamedTuple):
    """A batch in a Produce request; `topic` is a name, from version 13 on an id's 16 bytes.

    Timestamps are its records', in milliseconds of the client's wall clock. `producer_id` is -1
    without idempotence. `bytes` are those of its records, as they are sent.
    """

    topic: str | bytes
    partition: int
    crc: int
    base_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: int
    bytes: int

    @property
    def in_sequence(self) -> tuple[int, int, int]:
        """Where an idempotent producer's batch belongs."""
        return self.producer_id, self.producer_epoch, self.base_sequence


class Produced(NamedTuple):
    """A Produce request. `acks` 0 is one that gets no answer."""

    acks: int
    batches: list[SentBatch]


def read_produce(frame: bytes, version: int) -> Produced:
    """A Produce request of version 3 or newer; the frame begins with its length.

    Raises MalformedFrame.
    """
    try:
        return _read_produce(frame, version)
    except (StructError, IndexError, UnicodeDecodeError):
        raise MalformedFrame(f"ProduceRequest v{version}: cut off, or no such request") from None
    except MalformedFrame as error:
        raise error.within(f"ProduceRequest v{version}") from None


def read_acks(frame: bytes, version: int) -> int:
    """`acks` of a Produce request: with 0 it gets no answer. Raises MalformedFrame."""
    try:
        at = 14 + max(0, _INT16.unpack_from(frame, 12)[0])
        if version >= FIRST_FLEXIBLE_VERSION:
            size, at = _varint(frame, _after_tags(frame, at))  # of the transactional id
            at += size - 1 if size else 0
        elif version >= _FIRST_TRANSACTIONAL_VERSION:
            at += 2 + max(0, _INT16.unpack_from(frame, at)[0])
        acks: int = _INT16.unpack_from(frame, at)[0]
    except (StructError, IndexError):
        raise MalformedFrame(f"ProduceRequest v{version}: cut off") from None
    except MalformedFrame as error:
        raise error.within(f"ProduceRequest v{version}") from None
    return acks


def _read_produce(frame: bytes, version: int) -> Produced:
    """Every request of every producer comes by here: what is nearly always there is tried first."""
    if version < FIRST_FLEXIBLE_VERSION:
        return _read_old_produce(frame)
    by_id = version >= FIRST_TOPIC_ID_VERSION
    at = _after_tags(frame, 14 + max(0, _INT16.unpack_from(frame, 12)[0]))
    size, at = _varint(frame, at)  # of the transactional id, and one more
    at += size - 1 if size else 0
    (acks,) = _INT16.unpack_from(frame, at)
    topics, at = _varint(frame, at + 6)
    batches: list[SentBatch] = []
    for _ in range(topics - 1):
        topic: str | bytes
        if by_id:
            topic = frame[at : at + 16]
            at += 16
        else:
            size, at = _varint(frame, at)
            topic = frame[at : at + size - 1].decode()
            at += size - 1
        partitions, at = _varint(frame, at)
        for _ in range(partitions - 1):
            (partition,) = _INT32.unpack_from(frame, at)
            size, at = _varint(frame, at + 4)
            _add_batch(batches, topic, partition, frame, at, size - 1)
            at = _after_tags(frame, at + (size - 1 if size else 0))
        at = _after_tags(frame, at)
    return Produced(acks, batches)


def _read_old_produce(frame: bytes) -> Produced:
    reader = Reader(frame)
    reader.offset = 14 + max(0, _INT16.unpack_from(frame, 12)[0])
    reader.take(max(reader.int16(), 0))  # the transactional id
    acks = reader.int16()
    reader.take(4)
    batches: list[SentBatch] = []
    for _ in range(reader.int32()):
        topic = reader.text(reader.int16())
        for _ in range(reader.int32()):
            partition, size = reader.int32(), reader.int32()
            _add_batch(batches, topic, partition, frame, reader.offset, size)
            reader.take(max(size, 0))
    return Produced(acks, batches)


def _add_batch(
    batches: list[SentBatch],
    topic: str | bytes,
    partition: int,
    frame: bytes,
    at: int,
    size: int,
) -> None:
    """Add the batch there, unless it is of an older format."""
    if size < _BATCH.size:
        return
    magic, crc, created, producer, epoch, sequence, records = _BATCH.unpack_from(frame, at)
    if magic == _MAGIC:
        size -= _BATCH.size
        batches.append(
            SentBatch(topic, partition, crc, created, producer, epoch, sequence, records, size)
        )


def _varint(frame: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint, and where it ends. Raises IndexError, MalformedFrame."""
    byte = frame[at]
    if byte < 0x80:
        return byte, at + 1
    reader = Reader(frame)
    reader.offset = at
    return reader.unsigned_varint(), reader.offset


def _after_tags(frame: bytes, at: int) -> int:
    """Where a section of tagged fields ends. Raises IndexError, MalformedFrame."""
    if frame[at] == 0:
        return at + 1
    reader = Reader(frame)
    reader.offset = at
    reader.skip_tags()
    return reader.offset


class Refusal(NamedTuple):
    """What an answer says of a partition that it has an error for, with the hint if there is one.

    `address` is the hinted leader's host:port, None where the answer does not give it. `is_draft`:
    in the form of KIP-951's earlier draft, which clients do not read.
    """

    error: int
    base_offset: int
    hint_leader: int = -1
    hint_epoch: int = -1
    address: str | None = None
    is_draft: bool = False
    fault: HintFault | None = None
    """Why the hint is of no use to the client that gets it."""
    is_news: bool = True
    """It names another leader than the client was shown."""

    @property
    def has_hint(self) -> bool:
        """It names a leader, so that clients read it."""
        return self.hint_leader >= 0 and self.hint_epoch >= 0 and not self.is_draft

    @classmethod
    def hinting(cls, error: int, base_offset: int, hint: LeaderHint) -> "Refusal":
        """One with this hint."""
        fields = hint.leader_id, hint.leader_epoch, hint.address, hint.is_draft
        return cls(error, base_offset, *fields)


class Answered(NamedTuple):
    """What an answer says of one partition; `refusal` is None where it has no error."""

    topic: str | bytes
    partition: int
    base_offset: int
    refusal: Refusal | None


def answered(answer: ProduceResponse, version: int) -> list[Answered]:
    """What the answer to a Produce of that version says of each partition."""
    return [
        Answered(
            topic.topic_id.bytes if version >= FIRST_TOPIC_ID_VERSION else topic.name,
            partition.index,
            partition.base_offset,
            _refusal(partition, answer, version) if partition.error_code else None,
        )
        for topic in answer.responses
        for partition in topic.partition_responses
    ]


def _refusal(partition: PartitionProduceResponse, answer: ProduceResponse, version: int) -> Refusal:
    hint = hint_in_produce(partition, answer, version)
    # Brokers say where the log began as they appended (ReplicaManager.buildProducePartitionStatus),
    # and -1 when they did not; others refuse with offset 0 (kfake).
    is_appended = version < _FIRST_WITH_LOG_START or partition.log_start_offset >= 0
    base_offset = partition.base_offset if is_appended else -1
    return Refusal.hinting(partition.error_code, base_offset, hint)
