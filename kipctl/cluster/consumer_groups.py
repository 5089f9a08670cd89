"""Consumer groups as their coordinators know them: who reads which partitions, in which rack.

Members of classic groups say their rack since version 3 of their subscription (KIP-881; Java 3.5),
those of the new protocol in what the coordinator has of them (KIP-848).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kipctl.cluster.snapshot import PartitionId
from kipctl.documents.replica_selection import GroupsNotShown
from kipctl.errors import KipctlError, RefusedError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import error_text
from kipctl.protocol.group_descriptions import (
    ConsumerGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupMember,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kipctl.protocol.primitives import MalformedFrame, Reader
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster

_CONSUMERS = _NEW = "consumer"
"""A group's protocol type; and its type, where it is of the new protocol."""
_DEADLINE_S = 10.0
_FIRST_WITH_RACK = 3


@dataclass(frozen=True, slots=True)
class Member:
    """A consumer at work; `rack` is None where it names none, or cannot say (`says_rack`)."""

    group: str
    client_id: str
    host: str
    rack: str | None
    partitions: frozenset[PartitionId]
    says_rack: bool = True


@dataclass(frozen=True, slots=True)
class Readers:
    """The members of all groups that could be asked for, and which groups could not."""

    members: tuple[Member, ...]
    missing: tuple[GroupsNotShown, ...]


def consumers(cluster: Cluster) -> Readers:
    """Ask every broker for the groups that it coordinates. What it refuses is in the result."""
    answers = ask_each(cluster, sorted(cluster.nodes), readers_at, _DEADLINE_S)
    readers = [
        Readers((), (GroupsNotShown(broker=broker, group=None, why=answer.what),))
        if isinstance(answer, KipctlError)
        else answer
        for broker, answer in answers.items()
    ]
    return Readers(
        tuple(member for each in readers for member in each.members),
        tuple(group for each in readers for group in each.missing),
    )


def readers_at(broker: int, connection: BrokerConnection) -> Readers:
    """Of the groups that this broker coordinates. Raises KipctlError where it lists none."""
    listed = connection.request(ListGroupsRequest())
    if listed.error_code:
        raise RefusedError(f"Broker {broker} lists no groups: {error_text(listed.error_code)}.")
    groups = [group for group in listed.groups if group.protocol_type == _CONSUMERS]
    new = tuple(group.group_id for group in groups if group.group_type.lower() == _NEW)
    classic = tuple(group.group_id for group in groups if group.group_type.lower() != _NEW)
    described: list[DescribedGroup | ConsumerGroup] = []
    missing: list[GroupsNotShown] = []
    if classic:
        described += connection.request(DescribeGroupsRequest(groups=classic)).groups
    if new and ApiKey.CONSUMER_GROUP_DESCRIBE in connection.api_versions:
        described += connection.request(ConsumerGroupDescribeRequest(group_ids=new)).groups
    else:
        why = "no ConsumerGroupDescribe there"
        missing += (GroupsNotShown(broker=broker, group=group, why=why) for group in new)
    members: list[Member] = []
    for group in described:
        if group.error_code:
            why = error_text(group.error_code)
            missing.append(GroupsNotShown(broker=broker, group=group.group_id, why=why))
        elif isinstance(group, DescribedGroup):
            members += (classic_member(group.group_id, member) for member in group.members)
        else:
            members += (_member(group.group_id, member) for member in group.members)
    return Readers(tuple(members), tuple(missing))


def _member(group: str, member: ConsumerGroupMember) -> Member:
    partitions = frozenset(
        PartitionId(topic.topic_name, number)
        for topic in member.assignment.topic_partitions
        for number in topic.partitions
    )
    return Member(group, member.client_id, member.client_host, member.rack_id or None, partitions)


def classic_member(group: str, member: DescribedMember) -> Member:
    """What a member of a classic group told: its subscription and assignment are bytes of the
    consumers' own protocol (`ConsumerProtocolSubscription`). What is not of that says nothing."""
    try:
        version, rack = _subscription(member.member_metadata)
        partitions = frozenset(_assignment(member.member_assignment))
    except MalformedFrame:
        version, rack, partitions = 0, None, frozenset()
    says = version >= _FIRST_WITH_RACK
    return Member(group, member.client_id, member.client_host, rack or None, partitions, says)


def _subscription(metadata: bytes) -> tuple[int, str | None]:
    """Its version, and the rack in it."""
    reader = Reader(metadata)
    version = reader.int16()
    if version < _FIRST_WITH_RACK:
        return version, None
    for _ in range(_count(reader)):
        _text(reader)
    _skip_bytes(reader)
    list(_partitions(reader))  # owned
    reader.int32()  # of the generation
    return version, _text(reader)


def _assignment(assignment: bytes) -> Iterable[PartitionId]:
    if not assignment:
        return ()
    reader = Reader(assignment)
    reader.int16()
    return tuple(_partitions(reader))


def _partitions(reader: Reader) -> Iterator[PartitionId]:
    for _ in range(_count(reader)):
        topic = _text(reader) or ""
        for _ in range(_count(reader)):
            yield PartitionId(topic, reader.int32())


def _count(reader: Reader) -> int:
    """Of an array, each of whose items has bytes of its own."""
    count = reader.int32()
    if count > reader.remaining:
        raise reader.malformed(f"{count} items in {reader.remaining} bytes")
    return max(0, count)


def _text(reader: Reader) -> str | None:
    size = reader.int16()
    return None if size < 0 else reader.text(size)


def _skip_bytes(reader: Reader) -> None:
    size = reader.int32()
    if size > 0:
        reader.take(size)
