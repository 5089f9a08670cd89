"""When a topic that was just made can be measured."""

from uuid import UUID

import pytest
from metadata_answers import metadata_of
from scripted_broker import Asked, ScriptedBroker

from kipctl.cluster import topics as topics_module
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.cluster.topics import LATEST, await_topic, await_topics, create_topics, offsets
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
)
from kipctl.protocol.topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
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
        return metadata_of((1, 0), replicas=(1,), ports={1: broker.port})

    with ScriptedBroker(answers) as broker, Cluster(broker.address) as cluster:
        snapshot = await_topic(cluster, "t", 1)
    assert not_yet == []
    assert [partition.leader for partition in snapshot.partitions] == [1]


OLD, NEW = UUID(int=1), UUID(int=2)


@pytest.mark.parametrize(
    "views",
    [
        # A rotation is under way: one broker has not heard of it, then has, in the old epoch.
        [(OLD, 1, 5), (OLD, 2, 6), (OLD, 2, 5), (OLD, 2, 6), (OLD, 2, 6), (OLD, 2, 6)],
        # The topic has been made anew, and one broker still shows the old one.
        [(NEW, 1, 0), (OLD, 1, 0), (NEW, 1, 0), (NEW, 1, 0)],
    ],
)
def test_a_topic_is_settled_when_all_brokers_show_the_same_leaders(
    views: list[tuple[UUID, int, int]],
) -> None:
    shown: list[tuple[UUID, int, int]] = []

    def answers(asked: Asked) -> Response | None:
        if isinstance(asked.request, ApiVersionsRequest):
            return None
        if isinstance(asked.request, ListOffsetsRequest):
            partition = ListOffsetsPartitionResponse(0, ErrorCode.NONE, offset=0)
            return ListOffsetsResponse(topics=(ListOffsetsTopicResponse("t", (partition,)),))
        topics = asked.request.topics if isinstance(asked.request, MetadataRequest) else ()
        if topics:
            shown.append(views[min(len(shown), len(views) - 1)])
        topic_id, leader, epoch = shown[-1] if shown else views[0]
        ports = dict.fromkeys((1, 2), broker.port)
        return metadata_of((leader, epoch), replicas=(1, 2), ports=ports, topic_id=topic_id)

    with ScriptedBroker(answers) as broker, Cluster(broker.address) as cluster:
        await_topics(cluster, ["t"])
    assert shown == views


@pytest.mark.parametrize(
    ("errors", "refused"),
    [
        ([], None),
        ([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE], None),
        ([ErrorCode.TOPIC_AUTHORIZATION_FAILED], "Offsets of t:0"),
        ([ErrorCode.OFFSET_NOT_AVAILABLE] * 1000, "Offsets of t:0.*OFFSET_NOT_AVAILABLE"),
    ],
    ids=["at once", "its leader has just been moved", "no right", "for ever"],
)
def test_offsets_are_those_of_the_leader_also_of_one_that_is_new(
    errors: list[ErrorCode], refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(topics_module.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(topics_module, "_POLL_S", 0.0)
    left = list(errors)

    def offsets_at(
        cluster: object, broker: int, partitions: list[PartitionId], timestamp: int
    ) -> ListOffsetsResponse:
        error = left.pop(0) if left else ErrorCode.NONE
        partition = ListOffsetsPartitionResponse(0, error, offset=7)
        return ListOffsetsResponse(topics=(ListOffsetsTopicResponse("t", (partition,)),))

    led = Partition(PartitionId("t", 0), (1,), (1,), leader=1, leader_epoch=0)
    monkeypatch.setattr(topics_module, "_offsets_at", offsets_at)
    monkeypatch.setattr(topics_module, "take_snapshot", lambda *_: Snapshot("c", (), (led,)))
    cluster = Cluster("b:1")
    if refused is None:
        assert offsets(cluster, "t", LATEST) == {0: 7}
        assert left == []
    else:
        with pytest.raises(RefusedError, match=refused):
            offsets(cluster, "t", LATEST)


def test_a_topic_that_the_client_may_not_see_is_not_waited_for() -> None:
    """Who may Create a topic need not be shown it."""

    def answers(asked: Asked) -> Response | None:
        if isinstance(asked.request, ApiVersionsRequest):
            return None
        hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return metadata_of(ports={1: broker.port}, error=hidden)

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
