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
    OffsetCommitTopic,
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
from kipctl.protocol.message import ZERO_UUID, Response

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
    group, topics = cluster.groups.setdefault(call.request.group_id, Group()), []
    for topic in call.request.topics:
        name, error = _named(broker, topic)
        if not error:
            for p in topic.partitions:
                group.offsets[name, p.partition_index] = p.committed_offset
        told = tuple(CommittedPartition(p.partition_index, error) for p in topic.partitions)
        topics.append(CommittedTopic(topic.name, topic.topic_id, told))
    return OffsetCommitResponse(topics=tuple(topics))


def offset_fetch(cluster: "Cluster", broker: Broker, call: Exchange) -> Response:
    """What was committed; -1 for nothing."""
    asked = call.request
    if call.version < 8:
        return OffsetFetchResponse(topics=_offsets(cluster, broker, asked.group_id, asked.topics))
    return OffsetFetchResponse(
        groups=tuple(
            FetchedGroup(group.group_id, _offsets(cluster, broker, group.group_id, group.topics))
            for group in asked.groups
        )
    )


def _offsets(
    cluster: "Cluster", broker: Broker, group: str, topics: tuple[OffsetFetchTopic, ...] | None
) -> tuple[FetchedTopic, ...]:
    known = cluster.groups.get(group, Group()).offsets
    if topics is None:
        topics = tuple(
            OffsetFetchTopic(
                name,
                broker.topics.get(name) or ZERO_UUID,
                tuple(index for topic_name, index in known if topic_name == name),
            )
            for name in sorted({name for name, _ in known})
        )
    fetched = []
    for topic in topics:
        name, error = _named(broker, topic)
        told = tuple(
            FetchedPartition(index, known.get((name, index), -1), error_code=error)
            for index in topic.partition_indexes
        )
        fetched.append(FetchedTopic(topic.name, topic.topic_id, told))
    return tuple(fetched)


def _named(broker: Broker, topic: OffsetCommitTopic | OffsetFetchTopic) -> tuple[str, int]:
    """By its name or, from version 10 on, by its id; an error for an id that is of no topic."""
    if topic.topic_id == ZERO_UUID:
        return topic.name, ErrorCode.NONE
    name = next((name for name, id in broker.topics.items() if id == topic.topic_id), None)
    return (name, ErrorCode.NONE) if name else ("", ErrorCode.UNKNOWN_TOPIC_ID)


def _error(cluster: "Cluster", broker: Broker, call: Exchange) -> int:
    if broker.id != COORDINATOR:
        return ErrorCode.NOT_COORDINATOR
    group = cluster.groups.get(call.request.group_id)
    if group is None or group.member != call.request.member_id:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.generation != call.request.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE
