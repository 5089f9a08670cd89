"""When a topic that was just made can be measured."""

import pytest
from scripted_broker import Asked, ScriptedBroker

from kipctl.cluster.topics import await_topic, await_topics, create_topics
from kipctl.errors import RefusedError
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kipctl.transport.request import Cluster


def test_a_topic_is_there_when_its_leader_leads() -> None:
    """A broker shows a new topic before it has become a leader of it."""
    not_yet = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE]

    def answers(asked: Asked) -> Response | None:
        if isinstance(asked.request, ApiVersionsRequest):
            return None
        if isinstance(asked.request, ListOffsetsRequest):
            error = not_yet.pop(0) if not_yet else ErrorCode.NONE
            partition = ListOffsetsPartitionResponse(0, error, offset=0)
            return ListOffsetsResponse(topics=(ListOffsetsTopicResponse("t", (partition,)),))
        shown = MetadataResponsePartition(leader_id=1, replica_nodes=(1,), isr_nodes=(1,))
        return MetadataResponse(
            brokers=(MetadataResponseBroker(1, "127.0.0.1", broker.port),),
            topics=(MetadataResponseTopic(name="t", partitions=(shown,)),),
        )

    with ScriptedBroker(answers) as broker, Cluster(broker.address) as cluster:
        found = await_topic(cluster, "t", 1)
    assert not_yet == []
    assert [partition.leader for partition in found.partitions] == [1]


def test_a_topic_is_settled_when_all_brokers_show_the_same_leaders() -> None:
    """A rotation that was under way: one broker has not heard of it, then has, in the old epoch."""
    views = [(1, 5), (2, 6), (2, 5), (2, 6), (2, 6), (2, 6)]
    shown: list[tuple[int, int]] = []

    def answers(asked: Asked) -> Response | None:
        if isinstance(asked.request, ApiVersionsRequest):
            return None
        if isinstance(asked.request, ListOffsetsRequest):
            partition = ListOffsetsPartitionResponse(0, ErrorCode.NONE, offset=0)
            return ListOffsetsResponse(topics=(ListOffsetsTopicResponse("t", (partition,)),))
        topics = asked.request.topics if isinstance(asked.request, MetadataRequest) else ()
        if topics:
            shown.append(views[min(len(shown), len(views) - 1)])
        leader, epoch = shown[-1] if shown else views[0]
        partition_seen = MetadataResponsePartition(
            leader_id=leader, leader_epoch=epoch, replica_nodes=(1, 2), isr_nodes=(1, 2)
        )
        return MetadataResponse(
            brokers=tuple(MetadataResponseBroker(n, "127.0.0.1", broker.port) for n in (1, 2)),
            topics=(MetadataResponseTopic(name="t", partitions=(partition_seen,)),),
        )

    with ScriptedBroker(answers) as broker, Cluster(broker.address) as cluster:
        await_topics(cluster, ["t"])
    assert shown == views


def test_a_topic_that_the_client_may_not_see_is_not_waited_for() -> None:
    """Who may Create a topic need not be shown it."""

    def answers(asked: Asked) -> Response | None:
        if isinstance(asked.request, ApiVersionsRequest):
            return None
        hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponse(
            brokers=(MetadataResponseBroker(1, "127.0.0.1", broker.port),),
            topics=tuple(
                MetadataResponseTopic(name=topic.name, error_code=hidden)
                for topic in asked.request.topics
            ),
        )

    with ScriptedBroker(answers) as broker, Cluster(broker.address) as cluster:
        with pytest.raises(RefusedError, match="no right to Describe on Topic t ") as refused:
            await_topic(cluster, "t", 1)
        assert refused.value.next_step.endswith("--operation Describe --topic t")


def test_of_topics_that_are_refused_the_others_may_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def ask_controller(cluster: Cluster, request: CreateTopicsRequest) -> CreateTopicsResponse:
        names = [topic.name for topic in request.topics]
        asked.append(names)
        denied = ErrorCode.POLICY_VIOLATION
        return CreateTopicsResponse(
            topics=tuple(
                CreatableTopicResult(name, error_code=denied if name == "t3" else 0)
                for name in names
            )
        )

    monkeypatch.setattr(Cluster, "ask_controller", ask_controller)
    may_exist: set[str] = set()
    with pytest.raises(RefusedError, match="Topic 't3' cannot be made"):
        create_topics("b:1", ["t1", "t2", "t3", "t4", "t5"], 1000, 1, may_exist)
    assert asked == [["t1", "t2"], ["t3", "t4"]]
    assert may_exist == {"t1", "t2", "t4"}
