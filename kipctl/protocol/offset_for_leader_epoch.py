"""OffsetForLeaderEpoch: where an epoch ends in the leader's log (API 23, KIP-320)."""

from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.list_offsets import DEBUGGING_REPLICA_ID
from kipctl.protocol.message import Api, Field, Int16, Int32, Int64, Message, Request, Response


class EpochEndOffset(Message):
    """The largest epoch up to the one asked for, and its end offset; -1 where there is none."""

    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, Field("1+", ignorable=True)] = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Message):
    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


class OffsetForLeaderEpochResponse(Response):
    """Only leaders answer; followers say NOT_LEADER_OR_FOLLOWER."""

    throttle_time_ms: Annotated[Int32, Field("2+", ignorable=True)] = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()


class OffsetForLeaderPartition(Message):
    partition: Int32 = 0
    current_leader_epoch: Annotated[Int32, Field("2+", ignorable=True)] = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Message):
    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    """`replica_id` -1 is a consumer, which sees no offset beyond the high watermark."""

    api = Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), flexible_since=4)

    replica_id: Annotated[Int32, Field("3+", ignorable=True)] = DEBUGGING_REPLICA_ID
    topics: tuple[OffsetForLeaderTopic, ...] = ()
