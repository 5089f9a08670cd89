"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: classic consumer groups (APIs 11 to 14)."""

from typing import Annotated

from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Api, Field, Int16, Int32, Message, Request, Response


class JoinGroupMember(Message):
    """A member as its leader is told of it; `metadata` is what the member said."""

    member_id: str = ""
    group_instance_id: Annotated[str | None, Field("5+", ignorable=True)] = None
    metadata: bytes = b""


class JoinGroupResponse(Response):
    """`members` are told to the group's `leader` alone."""

    throttle_time_ms: Annotated[Int32, Field("2+", ignorable=True)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, Field("7+", ignorable=True)] = None
    protocol_name: Annotated[str | None, Field(nullable="7+")] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, Field("9+")] = False
    member_id: str = ""
    members: tuple[JoinGroupMember, ...] = ()


class JoinGroupProtocol(Message):
    name: str = ""
    metadata: bytes = b""


class JoinGroupRequest(Request[JoinGroupResponse]):
    """Asked first with an empty member id, for which one is given (KIP-394)."""

    api = Api(ApiKey.JOIN_GROUP, versions=(2, 9), flexible_since=6)

    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, Field("1+", ignorable=True)] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Field("5+")] = None
    protocol_type: str = ""
    protocols: tuple[JoinGroupProtocol, ...] = ()
    reason: Annotated[str | None, Field("8+", ignorable=True)] = None


class SyncGroupResponse(Response):
    throttle_time_ms: Annotated[Int32, Field("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, Field("5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, Field("5+", ignorable=True)] = None
    assignment: bytes = b""


class SyncGroupAssignment(Message):
    member_id: str = ""
    assignment: bytes = b""


class SyncGroupRequest(Request[SyncGroupResponse]):
    """`assignments` are of the group's leader, for all members."""

    api = Api(ApiKey.SYNC_GROUP, versions=(0, 5), flexible_since=4)

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Field("3+")] = None
    protocol_type: Annotated[str | None, Field("5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, Field("5+", ignorable=True)] = None
    assignments: tuple[SyncGroupAssignment, ...] = ()


class HeartbeatResponse(Response):
    throttle_time_ms: Annotated[Int32, Field("1+", ignorable=True)] = 0
    error_code: Int16 = 0


class HeartbeatRequest(Request[HeartbeatResponse]):
    api = Api(ApiKey.HEARTBEAT, versions=(0, 4), flexible_since=4)

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, Field("3+")] = None


class LeftMember(Message):
    member_id: str = ""
    group_instance_id: str | None = None
    error_code: Int16 = 0


class LeaveGroupResponse(Response):
    throttle_time_ms: Annotated[Int32, Field("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    members: Annotated[tuple[LeftMember, ...], Field("3+")] = ()


class LeavingMember(Message):
    member_id: str = ""
    group_instance_id: str | None = None
    reason: Annotated[str | None, Field("5+", ignorable=True)] = None


class LeaveGroupRequest(Request[LeaveGroupResponse]):
    """One member up to version 2, several from 3 on."""

    api = Api(ApiKey.LEAVE_GROUP, versions=(0, 5), flexible_since=4)

    group_id: str = ""
    member_id: Annotated[str, Field("0-2")] = ""
    members: Annotated[tuple[LeavingMember, ...], Field("3+")] = ()
