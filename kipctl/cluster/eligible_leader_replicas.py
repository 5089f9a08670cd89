"""Eligible leader replicas (KIP-966): out of sync, and yet with every acknowledged record."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import KipctlError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    TopicRequest,
)
from kipctl.transport.request import Cluster


@dataclass(frozen=True, slots=True)
class EligibleReplicas:
    """A partition's eligible leader replicas; `last_known` are set when none of them is left."""

    replicas: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()


def ask_eligible_replicas(
    cluster: Cluster, topics: Collection[str]
) -> dict[PartitionId, EligibleReplicas]:
    """Those of the topics' partitions that have any, asked of one broker with as many requests as
    it takes (2,000 partitions each).

    Empty where brokers do not know the request (before Kafka 4.0); when a broker fails, what was
    reported until then.
    """
    eligible: dict[PartitionId, EligibleReplicas] = {}
    cursor: Cursor | None = None
    asked = tuple(map(TopicRequest, sorted(topics)))
    try:
        connection = cluster.any_broker()
        if ApiKey.DESCRIBE_TOPIC_PARTITIONS not in connection.api_versions:
            return eligible
        while True:
            answer = connection.request(DescribeTopicPartitionsRequest(asked, cursor=cursor))
            for topic in answer.topics:
                eligible |= _reported(topic.name or "", topic.partitions)
            if answer.next_cursor is None or answer.next_cursor == cursor:
                return eligible
            cursor = answer.next_cursor
    except KipctlError:
        return eligible


def _reported(
    topic: str, partitions: Collection[DescribeTopicPartitionsResponsePartition]
) -> Mapping[PartitionId, EligibleReplicas]:
    return {
        PartitionId(topic, partition.partition_index): EligibleReplicas(
            partition.eligible_leader_replicas or (), partition.last_known_elr or ()
        )
        for partition in partitions
        if partition.eligible_leader_replicas or partition.last_known_elr
    }
