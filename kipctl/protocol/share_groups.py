"""ShareFetch and ShareAcknowledge: a member of a share group reads (APIs 78 and 79, KIP-932).

Both answers may hint at the leader.
"""

from typing import Annotated
from uuid import UUID

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import (
    ZERO_UUID,
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
from kipctl.protocol.produce import NodeEndpoint


class ShareLeader(Message):
    """The leader that the answering broker knows; always there, id 0 and epoch 0 without error."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Message):
    """Records that the member has now, and how often they were handed out; both ends included."""

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class SharePartitionData(Message):
    """What was read of one partition, and what became of its acknowledgements."""

    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: ShareLeader = ShareLeader()
    records: bytes = b""
    acquired_records: tuple[AcquiredRecords, ...] = ()


class ShareFetchableTopicResponse(Message):
    topic_id: UUID = ZERO_UUID
    partitions: tuple[SharePartitionData, ...] = ()


class ShareFetchResponse(Response):
    """`node_endpoints` names all leaders of partitions answered with NOT_LEADER_OR_FOLLOWER."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: tuple[ShareFetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


class AcknowledgementBatch(Message):
    """Records from the first to the last offset, and what they come back as.

    One of `acknowledge_types` for each record, or one for all: 0 gap, 1 accept, 2 release,
    3 reject, 4 renew.
    """

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: tuple[Int8, ...] = ()


class ShareFetchPartition(Message):
    partition_index: Int32 = 0
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


class ShareFetchTopic(Message):
    topic_id: UUID = ZERO_UUID
    partitions: tuple[ShareFetchPartition, ...] = ()


class ShareForgottenTopic(Message):
    topic_id: UUID = ZERO_UUID
    partitions: tuple[Int32, ...] = ()


class ShareFetchRequest(Request[ShareFetchResponse]):
    """`share_session_epoch` 0 opens a share session, -1 closes it; else it counts requests."""

    api = Api(ApiKey.SHARE_FETCH, versions=(1, 2), flexible_since=0)

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 0x7FFFFFFF
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Annotated[Int8, Field("2+", ignorable=True)] = 0
    is_renew_ack: Annotated[bool, Field("2+")] = False
    topics: tuple[ShareFetchTopic, ...] = ()
    forgotten_topics_data: tuple[ShareForgottenTopic, ...] = ()


class AcknowledgedPartition(Message):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    current_leader: ShareLeader = ShareLeader()


class ShareAcknowledgeTopicResponse(Message):
    topic_id: UUID = ZERO_UUID
    partitions: tuple[AcknowledgedPartition, ...] = ()


class ShareAcknowledgeResponse(Response):
    """`node_endpoints` names all leaders of partitions answered with NOT_LEADER_OR_FOLLOWER."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, Field("2+", ignorable=True)] = 0
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


class AcknowledgePartition(Message):
    partition_index: Int32 = 0
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


class AcknowledgeTopic(Message):
    topic_id: UUID = ZERO_UUID
    partitions: tuple[AcknowledgePartition, ...] = ()


class ShareAcknowledgeRequest(Request[ShareAcknowledgeResponse]):
    """`share_session_epoch` counts the requests of the share session; -1 closes it."""

    api = Api(ApiKey.SHARE_ACKNOWLEDGE, versions=(1, 2), flexible_since=0)

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Annotated[bool, Field("2+")] = False
    topics: tuple[AcknowledgeTopic, ...] = ()
