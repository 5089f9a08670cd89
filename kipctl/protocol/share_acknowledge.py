"""ShareAcknowledge: acknowledge records of a share group; it may hint too (API 79, KIP-932)."""

from typing import Annotated
from uuid import UUID

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import ZERO_UUID, Api, Field, Int16, Int32, Message, Request, Response
from kipctl.protocol.produce import NodeEndpoint
from kipctl.protocol.share_fetch import AcknowledgementBatch, ShareLeader


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
