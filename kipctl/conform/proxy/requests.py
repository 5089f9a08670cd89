"""What kipctl's client asks through a proxy.

Partition p of the topic is led by broker 1 + p; it is asked of the bootstrap server, broker 1.
"""

from uuid import UUID

from kipctl.conform.cluster.state import topic_id
from kipctl.conform.proxy.upstream import TOPIC
from kipctl.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from kipctl.protocol.find_coordinator import FindCoordinatorRequest
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic
from kipctl.protocol.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kipctl.protocol.records import one_record_batch

ELSEWHERE = (1, 3)
"""Led by brokers 2, and by 4 that no Metadata shows."""
EVERYWHERE = (0, *ELSEWHERE)
_TOPIC_ID: UUID = topic_id(1)
_KEYS_SINCE = 4
_MOST_BYTES = 1 << 20


def metadata() -> MetadataRequest:
    """Of the topic, which is not to be made."""
    topic = MetadataRequestTopic(name=TOPIC)
    return MetadataRequest(topics=(topic,), allow_auto_topic_creation=False)


def produce(partitions: tuple[int, ...] = EVERYWHERE, acks: int = 1) -> ProduceRequest:
    """A record each."""
    data = tuple(PartitionProduceData(p, one_record_batch(b"%d" % p)) for p in partitions)
    topic = TopicProduceData(TOPIC, _TOPIC_ID, data)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=(topic,))


def fetch(partitions: tuple[int, ...] = EVERYWHERE) -> FetchRequest:
    """What there is from the beginning on, at once."""
    data = tuple(FetchPartition(p, partition_max_bytes=_MOST_BYTES) for p in partitions)
    return FetchRequest(topics=(FetchTopic(TOPIC, _TOPIC_ID, data),), rack_id="a")


def find_coordinator(version: int | None, key: str = "conform") -> FindCoordinatorRequest:
    """Of a group; the version says how it is asked for."""
    if (version or 0) < _KEYS_SINCE:
        return FindCoordinatorRequest(key)
    return FindCoordinatorRequest(coordinator_keys=(key,))
