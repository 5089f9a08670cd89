"""ListGroups, DescribeGroups and ConsumerGroupDescribe: who reads what (APIs 16, 15 and 69)."""

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
    Message,
    Request,
    Response,
)

NO_OPERATIONS = -(1 << 31)


class ListedGroup(Message):
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, Field("4+", ignorable=True)] = ""
    group_type: Annotated[str, Field("5+", ignorable=True)] = ""


class ListGroupsResponse(Response):
    """The groups that this broker coordinates."""

    throttle_time_ms: Annotated[Int32, Field("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()


class ListGroupsRequest(Request[ListGroupsResponse]):
    api = Api(ApiKey.LIST_GROUPS, versions=(0, 5), flexible_since=3)

    states_filter: Annotated[tuple[str, ...], Field("4+")] = ()
    types_filter: Annotated[tuple[str, ...], Field("5+")] = ()


class DescribedMember(Message):
    """`member_metadata` and `member_assignment` are of the group's protocol type."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, Field("4+", ignorable=True)] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(Message):
    error_code: Int16 = 0
    error_message: Annotated[str | None, Field("6+", ignorable=True)] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: Annotated[Int32, Field("3+")] = NO_OPERATIONS


class DescribeGroupsResponse(Response):
    throttle_time_ms: Annotated[Int32, Field("1+", ignorable=True)] = 0
    groups: tuple[DescribedGroup, ...] = ()


class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    """Of classic groups."""

    api = Api(ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible_since=5)

    groups: tuple[str, ...] = ()
    include_authorized_operations: Annotated[bool, Field("3+")] = False


class AssignedTopic(Message):
    topic_id: UUID = ZERO_UUID
    topic_name: str = ""
    partitions: tuple[Int32, ...] = ()


class Assignment(Message):
    topic_partitions: tuple[AssignedTopic, ...] = ()


class ConsumerGroupMember(Message):
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: Int32 = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Annotated[Int8, Field("1+", ignorable=True)] = -1


class ConsumerGroup(Message):
    error_code: Int16 = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: str = ""
    members: tuple[ConsumerGroupMember, ...] = ()
    authorized_operations: Int32 = NO_OPERATIONS


class ConsumerGroupDescribeResponse(Response):
    throttle_time_ms: Int32 = 0
    groups: tuple[ConsumerGroup, ...] = ()


class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    """Of groups of the new protocol (KIP-848)."""

    api = Api(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible_since=0)

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False
