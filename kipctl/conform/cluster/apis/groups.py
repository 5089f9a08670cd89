"""Groups of one member: whoever joins leads, and gets what it assigns itself.

Broker 1 coordinates all groups. Offsets are kept for as long as the cluster is there.
"""

from typing import TYPE_CHECKING

from kipctl.conform.cluster.call import Exchange
from kipctl.conform.cluster.state import Broker, Group
from kipctl.protocol.committed_offsets import (
    CommittedPartition,
    CommittedTopic,
    FetchedGroup,
    FetchedPartition,
    FetchedTopic,
    OffsetCommitResponse,
    OffsetFetchResponse,
    OffsetFetchTopic,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.find_coordinator import Coordinator, FindCoordinatorResponse
from kipctl.protocol.groups import (
    HeartbeatResponse,
    JoinGroupMember,
    JoinGroupResponse,
    LeaveGroupResponse,
    LeftMember,
    SyncGroupResponse,
)
from kipctl.protocol.message import Response

if TYPE_CHECKING:
    from kipctl.conform.cluster.cluster import Cluster

COORDINATOR = 1


def find_coordinator(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """The same for every group and transaction."""
    node = broker.nodes[COORDINATOR]
    if call.version < 4:
        return FindCoordinatorResponse(node_id=node.id, host=node.host, port=node.port)
    return FindCoordinatorResponse(
        coordinators=tuple(
            Coordinator(key, node.id, node.host, node.port) for key in call.request.coordinator_keys
        )
    )


def join_group(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """It leads at once; who has no member id yet is told one first, from version 4 on."""
    asked = call.request
    if broker.id != COORDINATOR:
        return JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)
    group = cluster.groups.setdefault(asked.group_id, Group())
    if not asked.member_id:
        member = f"{call.client_id}-{cluster.new_producer_id()}"
        if call.version >= 4 and asked.group_instance_id is None:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member)
    else:
        member = asked.member_id
    group.member, group.generation = member, group.generation + 1
    protocol = asked.protocols[0]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=asked.protocol_type,
        protocol_name=protocol.name,
        leader=member,
        member_id=member,
        members=(JoinGroupMember(member, asked.group_instance_id, protocol.metadata),),
    )


def sync_group(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """What it has assigned to itself."""
    asked = call.request
    error = _error(cluster, broker, call)
    own = (a.assignment for a in asked.assignments if a.member_id == asked.member_id)
    return SyncGroupResponse(
        error_code=error,
        protocol_type=asked.protocol_type,
        protocol_name=asked.protocol_name,
        assignment=b"" if error else next(own, b""),
    )


def heartbeat(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """Good for the member that joined last."""
    return HeartbeatResponse(error_code=_error(cluster, broker, call))


def leave_group(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """The group is empty then."""
    asked = call.request
    if group := cluster.groups.get(asked.group_id):
        group.member = ""
    if call.version < 3:
        return LeaveGroupResponse()
    return LeaveGroupResponse(
        members=tuple(LeftMember(m.member_id, m.group_instance_id) for m in asked.members)
    )


def offset_commit(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """Kept."""
    group = cluster.groups.setdefault(call.request.group_id, Group())
    for topic in call.request.topics:
        for p in topic.partitions:
            group.offsets[topic.name, p.partition_index] = p.committed_offset
    return OffsetCommitResponse(
        topics=tuple(
            CommittedTopic(
                topic.name,
                partitions=tuple(CommittedPartition(p.partition_index) for p in topic.partitions),
            )
            for topic in call.request.topics
        )
    )


def offset_fetch(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """What was committed; -1 for nothing."""
    asked = call.request
    if call.version < 8:
        return OffsetFetchResponse(topics=_offsets(cluster, asked.group_id, asked.topics))
    return OffsetFetchResponse(
        groups=tuple(
            FetchedGroup(group.group_id, _offsets(cluster, group.group_id, group.topics))
            for group in asked.groups
        )
    )


def _offsets(
    cluster: "Cluster", group: str, topics: tuple[OffsetFetchTopic, ...] | None
) -> tuple[FetchedTopic, ...]:
    known = cluster.groups.get(group, Group()).offsets
    if topics is None:
        names = sorted({name for name, _ in known})
        topics = tuple(
            OffsetFetchTopic(
                name, partition_indexes=tuple(index for of, index in known if of == name)
            )
            for name in names
        )
    return tuple(
        FetchedTopic(
            topic.name,
            partitions=tuple(
                FetchedPartition(index, known.get((topic.name, index), -1))
                for index in topic.partition_indexes
            ),
        )
        for topic in topics
    )


def _error(cluster: "Cluster", broker: Broker, call: Exchange) -> int:
    if broker.id != COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    group = cluster.groups.get(call.request.group_id)
    if group is None or group.member != call.request.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.generation != call.request.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE
