"""What is read of controllers from the answer that describes their quorum: by table."""

from dataclasses import replace

import pytest
from metadata_answers import metadata_of
from scripted_broker import HANG_UP, VERSIONS, Answers, Asked, ScriptedBroker

from kipctl.cluster.snapshot import Broker
from kipctl.errors import RefusedError
from kipctl.protocol.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumListener,
    QuorumNode,
    QuorumPartition,
    QuorumTopic,
    ReplicaState,
)
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse
from kipctl.protocol.primitives import MalformedFrame
from kipctl.roll.quorum import Voter, broker_behind, quorum_of, quorum_problem
from kipctl.transport.request import Cluster

NOW = 1_700_000_000_000


def described(
    *times: tuple[int, int, int], leader: int = 101, error: int = 0, nodes: bool = True
) -> DescribeQuorumResponse:
    """Voters as (id, last fetch, last caught up)."""
    voters = tuple(
        ReplicaState(
            replica_id=voter, last_fetch_timestamp=fetched, last_caught_up_timestamp=caught_up
        )
        for voter, fetched, caught_up in times
    )
    partition = QuorumPartition(
        leader_id=leader, leader_epoch=7, error_code=error, current_voters=voters
    )
    listed = tuple(
        QuorumNode(node_id=voter, listeners=(QuorumListener("CONTROLLER", f"c{voter}", 9093),))
        for voter, _, _ in times
    )
    topic = QuorumTopic(topic_name="__cluster_metadata", partitions=(partition,))
    return DescribeQuorumResponse(topics=(topic,), nodes=listed if nodes else ())


def test_times_are_told_by_the_active_controllers_clock() -> None:
    quorum = quorum_of(described((101, NOW, NOW), (102, NOW - 300, NOW - 700), (103, -1, -1)))
    assert (quorum.active, quorum.epoch) == (101, 7)
    assert quorum.voters == (
        Voter(101, "c101", 9093, 0, 0),
        Voter(102, "c102", 9093, 300, 700),
        Voter(103, "c103", 9093, None, None),
    )


def test_before_kafka_3_9_nobody_tells_where_they_listen() -> None:
    [voter] = quorum_of(described((101, NOW, NOW), nodes=False)).voters
    assert (voter.host, voter.port) == ("", 0)


@pytest.mark.parametrize(
    ("answer", "unmet"),
    [
        (described((101, NOW, NOW), (102, NOW, NOW - 2000)), ""),
        (described((101, NOW, NOW), (102, NOW, NOW - 2500)), "controller 102 is not caught up, "),
        (described((101, NOW, NOW), (102, -1, -1)), "controller 102 is not caught up"),
        (described((101, NOW, NOW), (102, -1, -1), (103, -1, -1)), "(and 1 more)"),
        (described((101, -1, -1), (102, -1, -1)), "Kafka shows it since 3.3"),
        (described((101, NOW, NOW), leader=-1), "no leader"),
        (described((101, NOW, NOW), leader=104), "no leader"),
    ],
)
def test_what_keeps_controllers_from_being_restarted(
    answer: DescribeQuorumResponse, unmet: str
) -> None:
    said = quorum_problem(quorum_of(answer))
    assert unmet in said
    assert bool(said) == bool(unmet)


def test_a_quorum_that_is_not_described_is_refused() -> None:
    with pytest.raises(RefusedError, match="does not describe its quorum"):
        quorum_of(described((101, NOW, NOW), error=6))
    response = described((101, NOW, NOW))
    with pytest.raises(MalformedFrame, match="2 answers where it was asked about one thing"):
        quorum_of(replace(response, topics=response.topics * 2))
    with pytest.raises(RefusedError, match="does not describe its quorum"):
        quorum_of(DescribeQuorumResponse())


ACTIVE = described((101, NOW, NOW))


@pytest.mark.parametrize(
    ("answer", "behind"),
    [
        (ACTIVE, ""),
        (described((101, NOW, NOW), leader=102), "broker 2 knows another active controller"),
        (HANG_UP, "broker 2 does not reach the active controller"),
    ],
)
def test_which_broker_does_not_know_the_active_controller(
    answer: DescribeQuorumResponse | bytes, behind: str
) -> None:
    """Each is asked by itself: the second answers so."""

    def metadata(asked: Asked) -> MetadataResponse | None:
        ports = {1: first.port, 2: second.port}
        is_asked = isinstance(asked.request, MetadataRequest)
        return metadata_of((1, 5), ports=ports) if is_asked else None

    def answering(this: DescribeQuorumResponse | bytes) -> Answers:
        return lambda asked: (
            this if isinstance(asked.request, DescribeQuorumRequest) else metadata(asked)
        )

    versions = VERSIONS | {55: (0, 2)}
    with (
        ScriptedBroker(answering(ACTIVE), versions) as first,
        ScriptedBroker(answering(answer), versions) as second,
        Cluster(first.address) as cluster,
    ):
        brokers = [Broker(1, "", 0, None), Broker(2, "", 0, None)]
        assert broker_behind(cluster, brokers, quorum_of(ACTIVE)) == behind
