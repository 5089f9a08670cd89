"""Eligible leader replicas as a broker tells of them, answer by answer."""

import pytest
from scripted_broker import HANG_UP, Asked, ScriptedBroker

from kipctl.cluster.eligible_leader_replicas import EligibleReplicas, ask_eligible_replicas
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kipctl.protocol.message import Response
from kipctl.transport.request import Cluster

A, B = PartitionId("a", 0), PartitionId("b", 0)


def shown(
    topic: str, next_cursor: Cursor | None, eligible: tuple[int, ...] | None
) -> DescribeTopicPartitionsResponse:
    """Partition 0 of the topic, and partition 1, of which nothing is eligible."""
    partitions = (
        DescribeTopicPartitionsResponsePartition(eligible_leader_replicas=eligible),
        DescribeTopicPartitionsResponsePartition(partition_index=1),
        DescribeTopicPartitionsResponsePartition(partition_index=2, last_known_elr=(3,)),
    )
    return DescribeTopicPartitionsResponse(
        topics=(DescribeTopicPartitionsResponseTopic(name=topic, partitions=partitions),),
        next_cursor=next_cursor,
    )


NEXT = Cursor("b", 0)
LAST = EligibleReplicas((), (3,))
OF_A = {A: EligibleReplicas((2, 3)), PartitionId("a", 2): LAST}


@pytest.mark.parametrize(
    ("answers", "eligible", "asked_from"),
    [
        ([shown("a", None, (2, 3))], OF_A, [None]),
        (
            [shown("a", NEXT, (2, 3)), shown("b", None, (1,))],
            OF_A | {B: EligibleReplicas((1,)), PartitionId("b", 2): LAST},
            [None, NEXT],
        ),
        # What was told until a broker fails is not lost.
        ([shown("a", NEXT, (2, 3)), HANG_UP], OF_A, [None, NEXT]),
        # One that always goes on from the same place is not asked for ever.
        ([shown("a", NEXT, (2, 3))] * 2, OF_A, [None, NEXT]),
    ],
)
def test_they_are_asked_for_until_there_are_no_more(
    answers: list[Response | bytes],
    eligible: dict[PartitionId, EligibleReplicas],
    asked_from: list[Cursor | None],
) -> None:
    in_turn = iter(answers)

    def answer(asked: Asked) -> Response | bytes | None:
        is_asked = isinstance(asked.request, DescribeTopicPartitionsRequest)
        return next(in_turn) if is_asked else None

    with ScriptedBroker(answer, {75: (0, 0)}) as broker, Cluster(broker.address) as cluster:
        assert ask_eligible_replicas(cluster, ["b", "a"]) == eligible
        assert broker.requests() == [
            DescribeTopicPartitionsRequest((TopicRequest("a"), TopicRequest("b")), cursor=cursor)
            for cursor in asked_from
        ]


def test_before_kafka_4_nothing_is_asked() -> None:
    with ScriptedBroker() as broker, Cluster(broker.address) as cluster:
        assert ask_eligible_replicas(cluster, ["a"]) == {}
        assert broker.requests() == []
