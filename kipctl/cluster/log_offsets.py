"""ListOffsets: where the logs of partitions begin and end, as a broker reports them."""

from collections.abc import Iterable

from kipctl.cluster.snapshot import PartitionId, by_topic
from kipctl.protocol.list_offsets import (
    CONSUMER_REPLICA_ID,
    READ_UNCOMMITTED,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)


def offsets_request(
    partitions: Iterable[PartitionId],
    timestamp: int,
    replica_id: int = CONSUMER_REPLICA_ID,
    isolation_level: int = READ_UNCOMMITTED,
) -> ListOffsetsRequest:
    """For the offset at a timestamp, milliseconds or one of Kafka's special ones."""
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(
                    ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(partitions).items()
        ),
    )


def reported_offsets(answer: ListOffsetsResponse) -> dict[PartitionId, int]:
    """The offsets of the partitions for which the broker had no error."""
    return {
        PartitionId(topic.name, partition.partition_index): partition.offset
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code
    }


def refused_offsets(answer: ListOffsetsResponse) -> dict[PartitionId, int]:
    """Kafka's codes of why the broker told no offset of the others."""
    return {
        PartitionId(topic.name, partition.partition_index): partition.error_code
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code
    }


def reported_epochs(answer: ListOffsetsResponse) -> dict[PartitionId, int]:
    """The leader epochs of the records found, of the partitions where there is one."""
    return {
        PartitionId(topic.name, partition.partition_index): partition.leader_epoch
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code and partition.leader_epoch >= 0
    }
