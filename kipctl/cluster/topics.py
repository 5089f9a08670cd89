"""Topics for measuring: made, looked at, and removed."""

import time
from collections.abc import Sequence
from uuid import UUID

from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.cluster.topic_sets import create_topics, delete_topics
from kipctl.errors import RefusedError, TimedOutError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster
from kipctl.transport.rights import refusal

EARLIEST = -2
LATEST = -1
_TIMEOUT_S = 30.0
_POLL_S = 0.05


def create_topic(access: Access, name: str, partitions: int, replication_factor: int) -> None:
    """Create a topic. Raises RefusedError."""
    create_topics(access, [name], partitions, replication_factor)


def delete_topic(access: Access, name: str) -> None:
    """Delete a topic and its data; one that is gone already is no error. Raises RefusedError."""
    delete_topics(access, [name])


def topic_id(cluster: Cluster, name: str) -> UUID | None:
    """The topic's id as one broker shows it, None if there is none; all zero before Kafka 2.8."""
    topics = cluster.metadata(None).topics
    return next((topic.topic_id for topic in topics if topic.name == name), None)


def await_topic(cluster: Cluster, name: str, partitions: int) -> Snapshot:
    """Wait until every broker shows the topic with a leader and all live replicas in sync.

    And until the leaders lead: a broker shows a new topic a moment before. Raises TimedOutError.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while not (_known_everywhere(cluster, name, partitions) and _is_led(cluster, name)):
        if time.monotonic() > deadline:
            raise TimedOutError(
                f"Topic {name!r} is not in sync on all brokers after {_TIMEOUT_S:.0f} s.",
                "Look: kipctl inspect leaders",
            )
        time.sleep(_POLL_S)
    return take_snapshot(cluster, [name])


def await_no_topic(cluster: Cluster, name: str) -> None:
    """Wait until no broker shows the topic. Raises TimedOutError."""
    deadline = time.monotonic() + _TIMEOUT_S
    while any(_partitions(cluster, broker, name) for broker in cluster.nodes):
        if time.monotonic() > deadline:
            raise TimedOutError(f"Topic {name!r} is still shown by a broker.", "Try again.")
        time.sleep(_POLL_S)


def _known_everywhere(cluster: Cluster, name: str, partitions: int) -> bool:
    return all(
        len(found := _partitions(cluster, broker, name)) == partitions
        and all(leader >= 0 and in_sync for leader, in_sync in found)
        for broker in cluster.nodes
    )


def _is_led(cluster: Cluster, name: str) -> bool:
    """Whether the leaders answer as such."""
    try:
        offsets(cluster, name, LATEST)
    except RefusedError:
        return False
    return True


def _partitions(cluster: Cluster, broker: int, name: str) -> list[tuple[int, bool]]:
    """(leader, all live replicas in sync) of each partition, as one broker sees the topic."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False
    )
    topics = cluster.broker(broker).request(request).topics
    return [
        (p.leader_id, set(p.replica_nodes) - set(p.offline_replicas) <= set(p.isr_nodes))
        for topic in topics
        for p in topic.partitions
    ]


def offsets(cluster: Cluster, topic: str, timestamp: int) -> dict[int, int]:
    """Each partition's offset at a timestamp in milliseconds, or EARLIEST or LATEST.

    Asked of the leaders. Raises RefusedError.
    """
    snapshot = take_snapshot(cluster, [topic])
    by_leader: dict[int, list[int]] = {}
    for partition in snapshot.partitions:
        by_leader.setdefault(partition.leader, []).append(partition.id.partition)
    found: dict[int, int] = {}
    for leader, indexes in by_leader.items():
        answer = cluster.broker(leader).request(_list_offsets(topic, indexes, timestamp))
        for partition_answer in answer.topics[0].partitions:
            if partition_answer.error_code:
                raise refusal(
                    f"Offsets of {topic}:{partition_answer.partition_index}",
                    partition_answer.error_code,
                    ApiKey.LIST_OFFSETS,
                    cluster.access,
                    topic,
                )
            found[partition_answer.partition_index] = partition_answer.offset
    return found


def _list_offsets(topic: str, indexes: Sequence[int], timestamp: int) -> ListOffsetsRequest:
    partitions = tuple(
        ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes
    )
    return ListOffsetsRequest(
        replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=partitions),)
    )


def records_held(cluster: Cluster, topic: str) -> int:
    """How many records the topic's log holds now (an upper bound for compacted topics)."""
    earliest = offsets(cluster, topic, EARLIEST)
    latest = offsets(cluster, topic, LATEST)
    return sum(latest.values()) - sum(earliest.values())
