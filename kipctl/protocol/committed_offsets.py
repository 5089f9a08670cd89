"""OffsetCommit and OffsetFetch: how far a group has read (APIs 8 and 9)."""

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
)


class CommittedPartition(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class CommittedTopic(Message):
    name: Annotated[str, Field("0-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, Field("10+", ignorable=True)] = ZERO_UUID
    partitions: tuple[CommittedPartition, ...] = ()


class OffsetCommitResponse(Response):
    throttle_time_ms: Annotated[Int32, Field("3+", ignorable=True)] = 0
    topics: tuple[CommittedTopic, ...] = ()


class OffsetCommitPartition(Message):
    """`committed_offset` is where to read on."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Field("6+", ignorable=True)] = -1
    committed_metadata: str | None = ""


class OffsetCommitTopic(Message):
    name: Annotated[str, Field("0-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, Field("10+", ignorable=True)] = ZERO_UUID
    partitions: tuple[OffsetCommitPartition, ...] = ()


class OffsetCommitRequest(Request[OffsetCommitResponse]):
    """Topics by name up to version 9, by id from 10."""

    api = Api(ApiKey.OFFSET_COMMIT, versions=(2, 10), flexible_since=8)

    group_id: str = ""
    generation_id_or_member_epoch: Annotated[Int32, Field("1+", ignorable=True)] = -1
    member_id: Annotated[str, Field("1+", ignorable=True)] = ""
    group_instance_id: Annotated[str | None, Field("7+")] = None
    retention_time_ms: Annotated[Int64, Field("2-4", ignorable=True)] = -1
    topics: tuple[OffsetCommitTopic, ...] = ()


class FetchedPartition(Message):
    """`committed_offset` is -1 where none was committed."""

    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Annotated[Int32, Field("5+", ignorable=True)] = -1
    metadata: str | None = ""
    error_code: Int16 = 0


class FetchedTopic(Message):
    name: Annotated[str, Field("0-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, Field("10+", ignorable=True)] = ZERO_UUID
    partitions: tuple[FetchedPartition, ...] = ()


class FetchedGroup(Message):
    group_id: str = ""
    topics: tuple[FetchedTopic, ...] = ()
    error_code: Int16 = 0


class OffsetFetchResponse(Response):
    """One group up to version 7; from 8, one for each that was asked for."""

    throttle_time_ms: Annotated[Int32, Field("3+", ignorable=True)] = 0
    topics: Annotated[tuple[FetchedTopic, ...], Field("0-7")] = ()
    error_code: Annotated[Int16, Field("2-7", ignorable=True)] = 0
    groups: Annotated[tuple[FetchedGroup, ...], Field("8+")] = ()


class OffsetFetchTopic(Message):
    name: Annotated[str, Field("0-9", ignorable=True)] = ""
    topic_id: Annotated[UUID, Field("10+", ignorable=True)] = ZERO_UUID
    partition_indexes: tuple[Int32, ...] = ()


class OffsetFetchGroup(Message):
    group_id: str = ""
    member_id: Annotated[str | None, Field("9+", ignorable=True)] = None
    member_epoch: Annotated[Int32, Field("9+", ignorable=True)] = -1
    topics: tuple[OffsetFetchTopic, ...] | None = ()


class OffsetFetchRequest(Request[OffsetFetchResponse]):
    """`topics` None asks for all. Topics by name up to version 9, by id from
    10."""

    api = Api(ApiKey.OFFSET_FETCH, versions=(1, 10), flexible_since=6)

    group_id: Annotated[str, Field("0-7")] = ""
    topics: Annotated[tuple[OffsetFetchTopic, ...] | None, Field("0-7", nullable="2-7")] = ()
    groups: Annotated[tuple[OffsetFetchGroup, ...], Field("8+")] = ()
    require_stable: Annotated[bool, Field("7+")] = False
