"""ListOffsets: the offset at a timestamp, or at one end of a replica's log (API 2)."""

from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import (
    Api,
    Field,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Request,
    Response,
)

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
"""The newest record by its timestamp, since version 7 (KIP-734)."""
CONSUMER_REPLICA_ID = -1
DEBUGGING_REPLICA_ID = -2
"""Asks any replica, and for its log end instead of the high watermark."""
READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class ListOffsetsPartitionResponse(Message):
    """An offset and the timestamp of its record; -1 where there is none."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Annotated[Int64, Field("1+")] = -1
    offset: Annotated[Int64, Field("1+")] = -1
    leader_epoch: Annotated[Int32, Field("4+")] = -1


class ListOffsetsTopicResponse(Message):
    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


class ListOffsetsResponse(Response):
    throttle_time_ms: Annotated[Int32, Field("2+", ignorable=True)] = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


class ListOffsetsPartition(Message):
    """A partition to ask for: `timestamp` in ms, or `LATEST_TIMESTAMP`, `EARLIEST_TIMESTAMP`."""

    partition_index: Int32 = 0
    current_leader_epoch: Annotated[Int32, Field("4+", ignorable=True)] = -1
    timestamp: Int64 = 0


class ListOffsetsTopic(Message):
    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


class ListOffsetsRequest(Request[ListOffsetsResponse]):
    """With `READ_COMMITTED` the latest offset is the last stable one, else the high watermark."""

    api = Api(ApiKey.LIST_OFFSETS, versions=(1, 11), flexible_since=6)

    replica_id: Int32 = 0
    isolation_level: Annotated[Int8, Field("2+")] = 0
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: Annotated[Int32, Field("10+", ignorable=True)] = 0
