"""What the consumer asks brokers, as messages."""

from collections.abc import Iterable, Mapping

from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.fetch_session import FetchPosition, SessionRequest
from kipctl.probe.consume.positions import Partition, TopicIdPartition
from kipctl.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kipctl.protocol.list_offsets import (
    CONSUMER_REPLICA_ID,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kipctl.protocol.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kipctl.protocol.produce_frames import Topic

_READ_COMMITTED = 1


def fetch_request(
    config: ConsumerConfig, asked: SessionRequest[Partition | TopicIdPartition]
) -> FetchRequest:
    """A Fetch that says to the session what is new."""
    topics: dict[Topic, list[FetchPartition]] = {}
    for place, (offset, epoch) in asked.send.items():
        topics.setdefault(place.topic, []).append(
            FetchPartition(
                partition=place.index,
                current_leader_epoch=epoch,
                fetch_offset=offset,
                partition_max_bytes=config.max_partition_fetch_bytes,
            )
        )
    forgotten: dict[Topic, list[int]] = {}
    for place in asked.forget:
        forgotten.setdefault(place.topic, []).append(place.index)
    return FetchRequest(
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=config.fetch_max_bytes,
        isolation_level=_READ_COMMITTED if config.reads_committed else 0,
        session_id=asked.session_id,
        session_epoch=asked.session_epoch,
        topics=tuple(
            FetchTopic(topic=topic.name, topic_id=topic.id, partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
        forgotten_topics_data=tuple(
            ForgottenTopic(topic=topic.name, topic_id=topic.id, partitions=tuple(indexes))
            for topic, indexes in forgotten.items()
        ),
        rack_id=config.client_rack,
    )


def list_offsets_request(
    config: ConsumerConfig,
    wanted: Mapping[Partition, FetchPosition],
    timestamp: int,
    replica_id: int,
) -> ListOffsetsRequest:
    """Asks for one end of each partition's log; offsets in `wanted` are of no matter."""
    partitions = tuple(
        ListOffsetsPartition(
            partition_index=partition.index,
            current_leader_epoch=want.leader_epoch,
            timestamp=timestamp,
        )
        for partition, want in wanted.items()
    )
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=(
            _READ_COMMITTED if config.reads_committed and replica_id == CONSUMER_REPLICA_ID else 0
        ),
        topics=(ListOffsetsTopic(name=_topic_of(wanted), partitions=partitions),),
        timeout_ms=config.request_timeout_ms,
    )


def leader_epoch_request(wanted: Mapping[Partition, FetchPosition]) -> OffsetForLeaderEpochRequest:
    """Asks where the leader's log has the end of the epoch that each partition was read in."""
    partitions = tuple(
        OffsetForLeaderPartition(
            partition=partition.index,
            current_leader_epoch=want.leader_epoch,
            leader_epoch=partition.epoch,
        )
        for partition, want in wanted.items()
    )
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=(OffsetForLeaderTopic(topic=_topic_of(wanted), partitions=partitions),),
    )


def _topic_of(partitions: Iterable[Partition]) -> str:
    """The name of the one topic that a consumer reads."""
    return next(iter(partitions)).topic.name
