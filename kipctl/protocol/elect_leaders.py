"""ElectLeaders: make preferred, or out-of-sync, replicas the leaders (API 43, KIP-183, KIP-460)."""

from enum import IntEnum
from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int8, Int16, Int32, Message, Request, Response


class ElectionType(IntEnum):
    """Version 0 knows PREFERRED only."""

    PREFERRED = 0
    UNCLEAN = 1


class PartitionResult(Message):
    """What came of one partition; error 84 is that no election was needed."""

    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = ""


class ReplicaElectionResult(Message):
    topic: str = ""
    partition_result: tuple[PartitionResult, ...] = ()


class ElectLeadersResponse(Response):
    """The controller has elected; brokers hear of it after that."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, Field("1+")] = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()


class TopicPartitions(Message):
    topic: str = ""
    partitions: tuple[Int32, ...] = ()


class ElectLeadersRequest(Request[ElectLeadersResponse]):
    """`topic_partitions` None asks for all, and gets only those that an election was held for."""

    api = Api(ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_since=2)

    election_type: Annotated[Int8, Field("1+")] = ElectionType.PREFERRED
    topic_partitions: tuple[TopicPartitions, ...] | None = ()
    timeout_ms: Int32 = 60000
