"""What Produce requests and answers say of each partition, read in place: no record is touched."""

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from kipctl.protocol.draft_hints import drafted_in_produce
from kipctl.protocol.primitives import MalformedFrame, Reader
from kipctl.protocol.produce import PartitionProduceResponse, ProduceResponse
from kipctl.protocol.produce_frames import FIRST_FLEXIBLE_VERSION, FIRST_TOPIC_ID_VERSION
from kipctl.tap.frames import body_at

_INT32 = Struct(">i")
_INT16 = Struct(">h")
_BATCH = Struct(">qiibIhiqqqhii")  # the header of a record batch, format 2
_MAGIC = 2


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
    base_sequence: int
    records: int
    bytes: int


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
    except (StructError, IndexError):
        raise MalformedFrame(f"ProduceRequest v{version}: cut off") from None
    except MalformedFrame as error:
        raise error.within(f"ProduceRequest v{version}") from None


def _read_produce(frame: bytes, version: int) -> Produced:
    flexible = version >= FIRST_FLEXIBLE_VERSION
    by_id = version >= FIRST_TOPIC_ID_VERSION
    reader = Reader(frame)
    reader.offset = body_at(frame, flexible)
    size = reader.unsigned_varint() - 1 if flexible else reader.int16()
    reader.take(max(size, 0))
    acks = reader.int16()
    reader.offset += 4  # the timeout
    batches: list[SentBatch] = []
    varint = reader.unsigned_varint
    for _ in range(varint() - 1 if flexible else reader.int32()):
        topic: str | bytes
        if by_id:
            topic = reader.take(16)
        else:
            topic = reader.text(varint() - 1 if flexible else reader.int16())
        for _ in range(varint() - 1 if flexible else reader.int32()):
            at = reader.offset
            (partition,) = _INT32.unpack_from(frame, at)
            reader.offset = at + 4
            size = varint() - 1 if flexible else reader.int32()
            at = reader.offset
            if size >= _BATCH.size:
                fields = _BATCH.unpack_from(frame, at)
                if fields[3] == _MAGIC:
                    batches.append(
                        SentBatch(
                            topic,
                            partition,
                            fields[4],
                            fields[7],
                            fields[9],
                            fields[11],
                            fields[12],
                            size - _BATCH.size,
                        )
                    )
            reader.take(max(size, 0))
            if flexible:
                reader.skip_tags()
        if flexible:
            reader.skip_tags()
    return Produced(acks, batches)


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
    error, offset = partition.error_code, partition.base_offset
    if draft := drafted_in_produce(version, partition.unknown_tags, answer.unknown_tags):
        at = draft.endpoint
        address = f"{at.host}:{at.port}" if at else None
        return Refusal(error, offset, draft.leader_id, draft.leader_epoch, address, True)
    leader, epoch = partition.current_leader.leader_id, partition.current_leader.leader_epoch
    endpoints = (f"{at.host}:{at.port}" for at in answer.node_endpoints if at.node_id == leader)
    return Refusal(error, offset, leader, epoch, next(endpoints, None))
