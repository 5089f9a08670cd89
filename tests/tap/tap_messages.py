"""Requests and answers as tests of the tap send them, and their frames."""

import struct
from uuid import UUID

from record_batches import Record, encode_batch

from kipctl.protocol.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kipctl.protocol.message import ZERO_UUID, Response, encode
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

PRODUCE, FETCH, METADATA, API_VERSIONS = 0, 1, 3, 18
NOT_LEADER = 6
TOPIC = "t"
HOST = "127.0.0.1"
PORTS = {1: 9001, 2: 9002, 3: 9003, 4: 9004}
"""Of brokers that are nowhere."""


def framed(content: bytes) -> bytes:
    """With its length before it."""
    return struct.pack(">i", len(content)) + content


def request_frame(api_key: int, version: int, body: bytes, correlation_id: int = 7) -> bytes:
    """Of client `c`; a body of whatever bytes, which begins with the tags of the head, if any."""
    return framed(struct.pack(">hhih", api_key, version, correlation_id, 1) + b"c" + body)


def answer_frame(body: Response, version: int, correlation_id: int, tags: bytes = b"\0") -> bytes:
    """The frame of an answer, with these tagged fields in its head if it can have some."""
    api = body.api
    flexible = version >= api.flexible_since and api.key != API_VERSIONS
    head = struct.pack(">i", correlation_id) + (tags if flexible else b"")
    return framed(head + encode(body, version))


def records(count: int, value: bytes = b"v", **batch) -> bytes:
    """A batch of so many records; `batch` is what `encode_batch` takes."""
    return encode_batch([Record(value=value) for _ in range(count)], **batch)


def produce(*batches: tuple[int, bytes], acks: int = 1) -> ProduceRequest:
    """A request with a batch for each (partition, batch)."""
    data = tuple(PartitionProduceData(index=index, records=batch) for index, batch in batches)
    topic = TopicProduceData(name=TOPIC, partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=(topic,))


def produced(*answers: tuple[int, int], hint: tuple[int, int] | None = None) -> ProduceResponse:
    """An answer with (partition, error) for each; `hint` is (leader, epoch) of those in error."""
    partitions = tuple(
        PartitionProduceResponse(
            index=index,
            error_code=error,
            base_offset=-1 if error else 100,
            current_leader=LeaderIdAndEpoch(*hint) if error and hint else LeaderIdAndEpoch(),
        )
        for index, error in answers
    )
    return ProduceResponse(
        responses=(TopicProduceResponse(name=TOPIC, partition_responses=partitions),),
        node_endpoints=(NodeEndpoint(hint[0], HOST, PORTS[hint[0]]),) if hint else (),
    )


def ask_metadata(*topics: str) -> MetadataRequest:
    """For these topics; without any, for all."""
    return MetadataRequest(topics=tuple(map(named, topics)) or None)


def named(topic: str) -> MetadataRequestTopic:
    return MetadataRequestTopic(name=topic)


def metadata(
    *leaders: tuple[int, int], topic_id: UUID = ZERO_UUID, ports: dict[int, int] = PORTS
) -> MetadataResponse:
    """Partitions from 0 up with (leader, epoch) each, and brokers at these ports."""
    partitions = tuple(
        MetadataResponsePartition(0, index, leader, epoch, (leader,), (leader,))
        for index, (leader, epoch) in enumerate(leaders)
    )
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node, HOST, port, f"rack-{node}") for node, port in ports.items()
        ),
        cluster_id="cluster",
        topics=(MetadataResponseTopic(0, TOPIC, topic_id, partitions=partitions),),
    )


DONE, REFUSED = produced((0, 0)), produced((0, NOT_LEADER))
HINTED = produced((0, NOT_LEADER), hint=(2, 1))


def batch(number: int = 0, producer: int = -1) -> ProduceRequest:
    """A request with a batch of a record, which differs by its number, for partition 0."""
    record = Record(value=b"%d" % number, timestamp_ms=number + 1)
    return produce((0, encode_batch([record], producer_id=producer)))


def fetch(
    session: int = 0,
    epoch: int = 0,
    partition: int = 0,
    offset: int = 0,
    topic_id: UUID = ZERO_UUID,
) -> FetchRequest:
    """A request for the partition."""
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1)
    name = "" if topic_id.int else TOPIC
    return FetchRequest(
        session_id=session,
        session_epoch=epoch,
        topics=(FetchTopic(topic=name, topic_id=topic_id, partitions=(asked,)),),
    )


def fetched(
    error: int = 0,
    session: int = 0,
    whole: int = 0,
    preferred: int = -1,
    partition: int = 0,
    topic_id: UUID = ZERO_UUID,
) -> FetchResponse:
    """An answer for the partition; `whole` is an error of all of it."""
    answered = PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=0,
        preferred_read_replica=preferred,
        records=b"",
    )
    name = "" if topic_id.int else TOPIC
    topics = (FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=(answered,)),)
    return FetchResponse(error_code=whole, session_id=session, responses=() if whole else topics)
