"""DescribeQuorum: leader, voters and observers of the metadata quorum (API 55, KIP-595)."""

from typing import Annotated
from uuid import UUID

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import (
    ZERO_UUID,
    Api,
    Field,
    Int16,
    Int32,
    Int64,
    Message,
    Request,
    Response,
    UInt16,
)


class ReplicaState(Message):
    """How far one voter or observer is; times are the leader's wall clock in ms, -1 unknown."""

    replica_id: Int32 = 0
    replica_directory_id: Annotated[UUID, Field("2+")] = ZERO_UUID
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Annotated[Int64, Field("1+", ignorable=True)] = -1
    last_caught_up_timestamp: Annotated[Int64, Field("1+", ignorable=True)] = -1


class QuorumPartition(Message):
    """The quorum of one partition; there is one, of the metadata log."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: Annotated[str | None, Field("2+", ignorable=True)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


class QuorumTopic(Message):
    """The topic of the answer, `__cluster_metadata`."""

    topic_name: str = ""
    partitions: tuple[QuorumPartition, ...] = ()


class QuorumListener(Message):
    """A listener of a controller, by name; brokers' own listeners are not among them."""

    name: Annotated[str, Field("2+")] = ""
    host: Annotated[str, Field("2+")] = ""
    port: Annotated[UInt16, Field("2+")] = 0


class QuorumNode(Message):
    node_id: Annotated[Int32, Field("2+")] = 0
    listeners: Annotated[tuple[QuorumListener, ...], Field("2+")] = ()


class DescribeQuorumResponse(Response):
    """`nodes` are the voters (KIP-853); their listeners are the controllers'."""

    error_code: Int16 = 0
    error_message: Annotated[str | None, Field("2+", ignorable=True)] = ""
    topics: tuple[QuorumTopic, ...] = ()
    nodes: Annotated[tuple[QuorumNode, ...], Field("2+")] = ()


class QuorumPartitionAsked(Message):
    partition_index: Int32 = 0


class QuorumTopicAsked(Message):
    topic_name: str = ""
    partitions: tuple[QuorumPartitionAsked, ...] = ()


class DescribeQuorumRequest(Request[DescribeQuorumResponse]):
    """Ask for `__cluster_metadata`, partition 0: a broker forwards it to the active controller."""

    api = Api(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), flexible_since=0)

    topics: tuple[QuorumTopicAsked, ...] = ()
