"""KIP-951's early draft: its hints are told from the adopted form, and from none."""

from dataclasses import replace
from uuid import UUID

import pytest

from kipctl.protocol.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kipctl.protocol.fetch_frames import read_fetch
from kipctl.protocol.leader_hints import (
    LeaderHint,
    drafted_in_fetch,
    drafted_in_produce,
    with_endpoints,
)
from kipctl.protocol.message import decode, encode
from kipctl.protocol.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

AT = NodeEndpoint(2, "host", 9092, "rack")
OTHER = NodeEndpoint(3, "other", 9093)
LEADER = LeaderIdAndEpoch(2, 9)


def drafted(leader=LEADER, endpoints=(OTHER, AT), version=9):
    """A Produce answer with the tags of version 10, read as of another version."""
    refused = PartitionProduceResponse(error_code=6, current_leader=leader)
    topics = (TopicProduceResponse(name="t", partition_responses=(refused,)),)
    encoded = encode(ProduceResponse(topics, node_endpoints=endpoints), 10)
    return decode(ProduceResponse, encoded, version)


def in_produce(response, version=9):
    (partition,) = response.responses[0].partition_responses
    return drafted_in_produce(version, partition.unknown_tags, response.unknown_tags)


def test_the_tags_of_version_10_on_version_9_are_a_draft_hint():
    assert in_produce(drafted()) == LeaderHint(2, 9, AT, is_draft=True)


def test_a_draft_may_name_a_leader_without_saying_where_it_listens():
    assert in_produce(drafted(endpoints=())) == LeaderHint(2, 9, None, is_draft=True)
    assert in_produce(drafted(endpoints=(OTHER,))) == LeaderHint(2, 9, None, is_draft=True)


def test_what_is_no_draft_hint_in_produce():
    assert in_produce(drafted(version=10), 10) is None  # the form that was adopted
    assert in_produce(drafted(leader=LeaderIdAndEpoch())) is None  # endpoints alone
    assert in_produce(drafted(leader=LeaderIdAndEpoch(-1, 9))) is None
    assert drafted_in_produce(9, ((1, b"\0\0\0\2\0\0\0\x09\0"),), ()) is None  # another tag


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\0\2", b"\0\0\0\2\0\0\0\x09", b"\0\0\0\2\0\0\0\x09\0more"]
)
def test_a_tag_that_holds_something_else_is_no_hint(content):
    assert drafted_in_produce(9, ((0, content),), ()) is None


@pytest.mark.parametrize("content", [b"", b"\x05", b"\xff\xff\xff\xff\x0f", b"\x02text", b"\x01x"])
def test_endpoints_that_are_something_else_name_nothing(content):
    leader = ((0, b"\0\0\0\2\0\0\0\x09\0"),)
    assert drafted_in_produce(9, leader, ((0, content),)) == LeaderHint(2, 9, None, is_draft=True)
    assert drafted_in_fetch(12, (2, 9), ((0, content),)) is None


def fetched(version, endpoints):
    """A Fetch answer with the tags of version 16, read as of another version, which they fit."""
    refused = PartitionData(error_code=6, current_leader=LEADER)
    topic = FetchableTopicResponse(topic_id=UUID(int=7), partitions=(refused,))
    response = FetchResponse(responses=(topic,), node_endpoints=endpoints)
    encoded = encode(response, 16)
    if version == 12:  # which has topics by name
        tags = decode(FetchResponse, encoded, 15).unknown_tags
        named = replace(topic, topic="t", topic_id=UUID(int=0))
        encoded = encode(FetchResponse(responses=(named,), unknown_tags=tags), 12)
    return read_fetch(version, memoryview(b"\0\0\0\1\0" + encoded))


@pytest.mark.parametrize("version", range(12, 19))
def test_only_fetch_12_to_15_can_be_drafts_and_only_with_endpoints(version):
    answer = fetched(version, (OTHER, AT))
    hint = drafted_in_fetch(version, answer.partitions[0].leader, answer.unknown_tags)
    assert hint == (LeaderHint(2, 9, AT, is_draft=True) if version < 16 else None)
    answer = fetched(version, ())
    assert answer.partitions[0].leader == (2, 9)  # so it is with any Kafka since 2.7 (KIP-595)
    assert drafted_in_fetch(version, answer.partitions[0].leader, answer.unknown_tags) is None


def test_endpoints_without_a_leader_are_no_hint_in_fetch():
    tags = fetched(15, (AT,)).unknown_tags
    assert drafted_in_fetch(15, None, tags) is None
    assert drafted_in_fetch(15, (-1, 4), tags) is None


def test_a_drafts_endpoints_can_be_changed_and_nothing_else_is():
    def moved(endpoint):
        return replace(endpoint, host=endpoint.host.upper(), port=endpoint.port + 1)

    draft = drafted(endpoints=(AT, OTHER))
    expected = drafted(endpoints=(moved(AT), moved(OTHER))).unknown_tags
    assert with_endpoints(draft.unknown_tags, moved) == expected
    assert with_endpoints(draft.unknown_tags, lambda endpoint: endpoint) == draft.unknown_tags
    others = ((0, b"something else"), (5, b"kept"))
    assert with_endpoints(others, moved) == others
