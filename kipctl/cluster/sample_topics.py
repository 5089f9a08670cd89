"""Topics to try things with: made as asked for (`orders:6:2`), with records in each partition.

Whoever follows a page on a lab finds a topic there that has something to move and to copy.
"""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kipctl.cluster.snapshot import Partition
from kipctl.cluster.topics import await_topic, create_topics
from kipctl.errors import UsageError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import only
from kipctl.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kipctl.protocol.records import batch_header, encode_record
from kipctl.transport.access import Access
from kipctl.transport.acl_errors import refusal
from kipctl.transport.request import Cluster

RECORDS = 100
"""Of each partition."""
_MOST_PARTITIONS = 10_000
_LAST_VERSION_WITH_NAMES = 12
_ALL_IN_SYNC = -1
_TIMEOUT_MS = 30_000


class SampleTopic(NamedTuple):
    """A topic as it is asked for; `replication_factor` 0 is 3, or all brokers if they are fewer."""

    name: str
    partitions: int = 3
    replication_factor: int = 0


def parse_sample_topic(text: str) -> SampleTopic:
    """`NAME[:PARTITIONS[:REPLICAS]]`. Raises UsageError."""
    name, *counts = text.split(":")
    are_counts = all(count.isascii() and count.isdigit() and int(count) > 0 for count in counts)
    topic = SampleTopic(name, *map(int, counts)) if are_counts and len(counts) < 3 else None
    if topic is None or not name or topic.partitions > _MOST_PARTITIONS:
        raise UsageError(
            f"{text!r} is no NAME:PARTITIONS:REPLICAS.", "As in orders:6:2, or orders alone."
        )
    return topic


def make_sample_topics(access: Access, topics: Iterable[SampleTopic]) -> None:
    """Make the topics, and write `RECORDS` records to each partition: always on the same brokers,
    so that what a page shows of them is what its reader sees. Raises KipctlError."""
    with Cluster(access) as cluster:
        racks = {broker.rack for broker in cluster.nodes.values()}
        for topic in topics:
            factor = topic.replication_factor or min(3, len(cluster.nodes))
            replicas = in_turn(sorted(cluster.nodes), len(racks), topic.partitions, factor)
            create_topics(access, [topic.name], topic.partitions, factor, replicas=replicas)
            for partition in await_topic(cluster, topic.name, topic.partitions).partitions:
                _fill(cluster, partition)


def in_turn(brokers: Sequence[int], racks: int, partitions: int, factor: int) -> list[list[int]]:
    """The brokers of each partition: the first one's successor begins the next. Empty where the
    controller is to choose: there are too few, or racks do not take turns evenly."""
    if factor > len(brokers) or len(brokers) % max(racks, 1):
        return []
    around = [*brokers, *brokers]
    return [around[at : at + factor] for n in range(partitions) for at in [n % len(brokers)]]


def _fill(cluster: Cluster, partition: Partition) -> None:
    topic, index = partition.id
    content = b"".join(
        encode_record(number, 0, None, f"{partition.id} {number}".encode())
        for number in range(RECORDS)
    )
    now_ms = round(time.time() * 1000)
    batch = batch_header(0, RECORDS, now_ms, -1, -1, -1, memoryview(content)) + content
    request = ProduceRequest(
        acks=_ALL_IN_SYNC,
        timeout_ms=_TIMEOUT_MS,
        topic_data=(
            TopicProduceData(
                name=topic, partition_data=(PartitionProduceData(index=index, records=batch),)
            ),
        ),
    )
    leader = cluster.broker(partition.leader)
    version = min(leader.api_versions[ApiKey.PRODUCE][1], _LAST_VERSION_WITH_NAMES)
    answer = only(only(leader.request(request, version).responses).partition_responses)
    if answer.error_code:
        raise refusal(
            f"Records for {partition.id}",
            answer.error_code,
            ApiKey.PRODUCE,
            cluster.access,
            topic,
            answer.error_message,
        )
