"""Endpoints of a draft's hints are the tap's too: a client that reads them stays with it."""

from uuid import UUID

import pytest
from one_connection import HOST, PORTS, TAP_PORTS, produced

from kipctl.protocol.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kipctl.protocol.leader_hints import LeaderHint, drafted_in_fetch, drafted_in_produce
from kipctl.protocol.message import decode, encode
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint, ProduceRequest, ProduceResponse
from kipctl.tap.rewrite import read_answer

NOT_LEADER = 6
PRODUCE, FETCH = 0, 1
AT_TAP = LeaderHint(2, 1, NodeEndpoint(2, "tap", PORTS[2] + TAP_PORTS), is_draft=True)


def test_in_answers_to_produce_9(wire) -> None:
    peer = wire.connect(1)
    peer.ask(ProduceRequest(acks=1), 9)
    hinted = encode(produced((0, NOT_LEADER), hint=(2, 1)), 10)
    seen = read_answer(PRODUCE, 9, peer.answer(decode(ProduceResponse, hinted, 9)))
    (partition,) = seen.responses[0].partition_responses
    assert drafted_in_produce(9, partition.unknown_tags, seen.unknown_tags) == AT_TAP


@pytest.mark.parametrize("version", [13, 14, 15])
def test_in_answers_to_fetch_13_to_15(wire, version: int) -> None:
    peer = wire.connect(1)
    topic_id = UUID(int=9)
    topic = FetchTopic(topic_id=topic_id, partitions=(FetchPartition(),))
    peer.ask(FetchRequest(topics=(topic,)), version)
    refused = PartitionData(error_code=NOT_LEADER, current_leader=LeaderIdAndEpoch(2, 1))
    answer = FetchResponse(
        responses=(FetchableTopicResponse(topic_id=topic_id, partitions=(refused,)),),
        node_endpoints=(NodeEndpoint(2, HOST, PORTS[2]),),
    )
    drafted = decode(FetchResponse, encode(answer, 16), version)
    seen = read_answer(FETCH, version, peer.answer(drafted))
    assert drafted_in_fetch(version, (2, 1), seen.unknown_tags) == AT_TAP
    assert seen.responses == drafted.responses
