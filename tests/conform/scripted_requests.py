"""Requests to the scripted cluster by itself, without connections."""

from typing import Any

import pytest

from kipctl.conform.cluster import Cluster, Exchange
from kipctl.conform.cluster.apis import REQUESTS, VERSIONS
from kipctl.conform.cluster.call import read_call
from kipctl.protocol.api import encode_request
from kipctl.protocol.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PLACE = "t", 0


class Clock:
    us = 0

    def __call__(self) -> int:
        return self.us


def asked(cluster: Cluster, request: Any, version: int, broker: int = 1) -> Any:
    """The answer, for which nobody waits."""
    answering = cluster.answer(call(request, version, broker))
    with pytest.raises(StopIteration) as over:
        next(answering)
    return over.value.value


def call(request: Any, version: int, broker: int = 1) -> Exchange:
    frame = encode_request(request, version, 7, "me")[4:]
    return read_call(frame, 0, broker, 0, REQUESTS, dict(VERSIONS))


def sent(content: bytes, acks: int = -1) -> ProduceRequest:
    topic = TopicProduceData("t", partition_data=(PartitionProduceData(0, content),))
    return ProduceRequest(acks=acks, topic_data=(topic,))


def produced(
    cluster: Cluster, content: bytes, broker: int = 1, version: int = 10, acks: int = -1
) -> Any:
    answer: ProduceResponse = asked(cluster, sent(content, acks), version, broker)
    return answer, answer.responses[0].partition_responses[0]
