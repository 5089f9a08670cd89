"""DescribeTopicPartitions: partitions, with their eligible leader replicas (API 75, KIP-966)."""

from uuid import UUID

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import ZERO_UUID, Api, Int16, Int32, Message, Request, Response


class Cursor(Message):
    """The first partition of the next answer."""

    topic_name: str = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsResponsePartition(Message):
    """A partition. A replica that left the ISR when it was too small may be an eligible leader.

    The last known ones are those that there were when no eligible leader was left.
    """

    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    eligible_leader_replicas: tuple[Int32, ...] | None = None
    last_known_elr: tuple[Int32, ...] | None = None
    offline_replicas: tuple[Int32, ...] = ()


class DescribeTopicPartitionsResponseTopic(Message):
    error_code: Int16 = 0
    name: str | None = ""
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = -(2**31)


class DescribeTopicPartitionsResponse(Response):
    """`next_cursor` is where the next request goes on; None at the end."""

    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: Cursor | None = None


class TopicRequest(Message):
    name: str = ""


class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse]):
    """An answer has so many partitions at most, 2,000 unless the broker allows more."""

    api = Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), flexible_since=0)

    topics: tuple[TopicRequest, ...] = ()
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None
