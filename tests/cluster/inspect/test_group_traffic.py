"""Who reads what, in which rack, from what coordinators tell; and what of it crosses racks."""

import struct
from typing import Any

import pytest

from kipctl.cluster.consumer_groups import (
    Member,
    Readers,
    classic_member,
    readers_at,
)
from kipctl.cluster.inspect.group_traffic import group_traffic
from kipctl.cluster.inspect.replica_selection import (
    RACK_AWARE,
    Choice,
    PartitionFacts,
    Reason,
    Replica,
)
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.api import ApiKey
from kipctl.protocol.group_descriptions import (
    ConsumerGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsResponse,
)

P, Q = PartitionId("t", 0), PartitionId("t", 1)
RACKS = ("a", "b")


def text(said: str | None) -> bytes:
    return struct.pack(">h", -1) if said is None else struct.pack(">h", len(said)) + said.encode()


def topics(*named: tuple[str, tuple[int, ...]]) -> bytes:
    out = struct.pack(">i", len(named))
    for topic, numbers in named:
        out += text(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return out


def subscription(version: int, rack: str | None) -> bytes:
    """As `ConsumerProtocolSubscription` is written."""
    out = struct.pack(">hi", version, 1) + text("t") + struct.pack(">i", 2) + b"me"
    if version >= 1:
        out += topics(("t", (0, 1)))
    if version >= 2:
        out += struct.pack(">i", 7)
    return out + (text(rack) if version >= 3 else b"")


ASSIGNED = struct.pack(">h", 0) + topics(("t", (0, 1))) + struct.pack(">i", -1)


@pytest.mark.parametrize(
    ("metadata", "assignment", "rack", "partitions", "says_rack"),
    [
        (subscription(3, "a"), ASSIGNED, "a", {P, Q}, True),
        (subscription(3, None), ASSIGNED, None, {P, Q}, True),
        (subscription(3, ""), ASSIGNED, None, {P, Q}, True),
        (subscription(2, "a"), ASSIGNED, None, {P, Q}, False),
        (subscription(0, "a"), b"", None, set(), False),
        (subscription(3, "a")[:-1], ASSIGNED, None, set(), False),
        (subscription(3, "a"), struct.pack(">hi", 0, 1 << 30), None, set(), False),
        (b"", b"", None, set(), False),
    ],
    ids=["rack", "none", "empty", "before KIP-881", "joining", "cut off", "forged", "nothing"],
)
def test_what_a_member_of_a_classic_group_tells(
    metadata: bytes,
    assignment: bytes,
    rack: str | None,
    partitions: set[PartitionId],
    says_rack: bool,
) -> None:
    told = DescribedMember("m", None, "app", "/h", metadata, assignment)
    assert classic_member("g", told) == Member(
        "g", "app", "/h", rack, frozenset(partitions), says_rack
    )


def choice(id: PartitionId, rack: str, leader_rack: str, served_in: str | None) -> Choice:
    return Choice(
        id=id,
        rack=rack,
        leader=1,
        leader_rack=leader_rack,
        reads_from=None if served_in is None else "ab".index(served_in) + 1,
        reads_from_rack=served_in,
        closest=served_in == rack,
        reason=Reason.FOLLOWER_IN_RACK,
        detail="",
        expected=(),
    )


# Both leaders are in a; of Q nothing is in b.
CHOICES = [
    choice(P, "a", "a", "a"),
    choice(P, "b", "a", "b"),
    choice(Q, "a", "a", "a"),
    choice(Q, "b", "a", "a"),
]
FACTS = [
    PartitionFacts(P, 1, RACK_AWARE, 0, (Replica(1, "a", True), Replica(2, "b", True))),
    PartitionFacts(Q, 1, RACK_AWARE, 0, (Replica(1, "a", True),)),
]
RATES = {P: 4.0, Q: 2.0}


def member(group: str, rack: str | None, *partitions: PartitionId, client: str = "app") -> Member:
    return Member(group, client, "/h", rack, frozenset(partitions))


@pytest.mark.parametrize(
    ("rack", "is_known", "now", "closest"),
    [
        ("a", True, 0, 0),
        ("b", True, 2, 2),  # Q has no replica there
        (None, False, 3, 1),  # in a 0 and 0, in b 6 and 2
        ("bb", False, 3, 1),
    ],
)
def test_bytes_across_racks_now_and_from_the_closest(
    rack: str | None, is_known: bool, now: float, closest: float
) -> None:
    (row,) = group_traffic([member("g", rack, P, Q)], FACTS, CHOICES, RATES, RACKS)
    assert (row.rack, row.is_known, row.now, row.closest) == (rack, is_known, now, closest)
    assert row.saved == now - closest
    (unmeasured,) = group_traffic([member("g", rack, P, Q)], FACTS, CHOICES, {P: 4.0}, RACKS)
    assert (unmeasured.now, unmeasured.closest, unmeasured.saved) == (None, None, None)


def test_members_alike_are_one_row_mistyped_racks_first_then_what_saves_most() -> None:
    others = PartitionId("other", 0)
    rows = group_traffic(
        [
            member("cheap", None, Q),
            member("dear", None, P, client="x"),
            member("dear", None, Q, client="y"),
            member("right", "a", P),
            member("typo", "bb", Q),
            member("elsewhere", None, others),
            member("idle", None),
        ],
        FACTS,
        CHOICES,
        RATES,
        RACKS,
    )
    assert [(row.group, row.members, row.partitions) for row in rows] == [
        ("typo", 1, 1),
        ("dear", 2, 2),
        ("cheap", 1, 1),
        ("right", 1, 1),
    ]
    assert rows[1].client_ids == ("x", "y")


def test_where_nobody_says_who_serves_nothing_is_said() -> None:
    silent = [*CHOICES[:3], choice(Q, "b", "a", None)]
    (row,) = group_traffic([member("g", "b", Q)], FACTS, silent, RATES, RACKS)
    assert (row.now, row.closest, row.saved) == (None, 2, None)


def test_without_a_selector_the_closest_is_where_replicas_are() -> None:
    to_leaders = [choice(id, rack, "a", "a") for id in (P, Q) for rack in RACKS]
    (row,) = group_traffic([member("g", "b", P, Q)], FACTS, to_leaders, RATES, RACKS)
    assert (row.now, row.closest) == (6, 2)


def test_the_mean_is_of_all_racks_whichever_are_shown() -> None:
    for rack in RACKS:
        shown = [each for each in CHOICES if each.rack == rack]
        (typo,) = group_traffic([member("g", "bb", P, Q)], FACTS, shown, RATES, RACKS)
        assert (typo.now, typo.closest) == (3, 1)


def test_how_clients_read_now_that_cannot_tell_their_rack_is_not_known() -> None:
    old = Member("g", "app", "/h", None, frozenset({P, Q}), says_rack=False)
    (row,) = group_traffic([old], FACTS, CHOICES, RATES, RACKS)
    assert (row.now, row.closest, row.saved) == (None, 1, None)


class Coordinator:
    """A broker's connection, with the groups that it lists and describes."""

    def __init__(self, *groups: DescribedGroup | ConsumerGroup, offers: set[ApiKey]) -> None:
        self.groups = groups
        self.api_versions = dict.fromkeys(offers, (0, 1))

    def request(self, request: Any) -> Any:
        classic = tuple(group for group in self.groups if isinstance(group, DescribedGroup))
        new = tuple(group for group in self.groups if isinstance(group, ConsumerGroup))
        if isinstance(request, DescribeGroupsRequest):
            return DescribeGroupsResponse(groups=classic)
        if isinstance(request, ConsumerGroupDescribeRequest):
            return ConsumerGroupDescribeResponse(groups=new)
        return ListGroupsResponse(
            groups=(
                *(ListedGroup(group.group_id, "consumer", "", "Classic") for group in classic),
                *(ListedGroup(group.group_id, "consumer", "", "Consumer") for group in new),
            )
        )


def test_groups_that_their_coordinator_does_not_describe_are_named() -> None:
    told = DescribedMember("m", None, "app", "/h", subscription(3, "a"), ASSIGNED)
    groups = (
        DescribedGroup(group_id="shop", members=(told,)),
        DescribedGroup(group_id="loading", error_code=14),
        ConsumerGroup(group_id="secret", error_code=29),
        ConsumerGroup(group_id="refused", error_code=30),
    )
    everything: Any = Coordinator(*groups, offers={ApiKey.CONSUMER_GROUP_DESCRIBE})
    readers = readers_at(3, everything)
    assert [reader.group for reader in readers.members] == ["shop"]
    assert {group["broker"] for group in readers.missing} == {3}
    assert [(group["group"], group["why"].partition(" ")[0]) for group in readers.missing] == [
        ("loading", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("secret", "TOPIC_AUTHORIZATION_FAILED"),
        ("refused", "GROUP_AUTHORIZATION_FAILED"),
    ]
    old: Any = Coordinator(groups[2], offers=set())
    assert readers_at(3, old) == Readers(
        (), ({"broker": 3, "group": "secret", "why": "no ConsumerGroupDescribe there"},)
    )
