"""Produce: leaders append, others refuse and name the leader.

A broker that leads no more and has not heard of it holds what is to be on all replicas (acks=all)
until it hears, and acknowledges the rest, which is lost.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING

from kipctl.conform.cluster.apis.hints import NO_HINT, Hints, refused
from kipctl.conform.cluster.call import Attempt, Exchange
from kipctl.conform.cluster.control import Refusal
from kipctl.conform.cluster.log import batch_headers
from kipctl.conform.cluster.state import Broker, Place
from kipctl.protocol.message import Response
from kipctl.protocol.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from kipctl.conform.cluster.apis import Answering
    from kipctl.conform.cluster.cluster import Cluster

_HINTS_SINCE = 10
_DRAFT_SINCE = 9
_IDS_SINCE = 13
_LOST = 1 << 40
"""The offset of what is in no log."""


def produce(cluster: "Cluster", broker: Broker, call: Exchange) -> "Answering":
    """An answer in the order of the request; none for acks=0."""
    told = call.version >= (_DRAFT_SINCE if cluster.has_draft_hints else _HINTS_SINCE)
    asked = [
        (topic, cluster.names.get(topic.topic_id, "") if call.version >= _IDS_SINCE else topic.name)
        for topic in call.request.topic_data
    ]
    places = {(name, data.index) for topic, name in asked for data in topic.partition_data}
    if call.request.acks == -1:
        yield from _purgatory(cluster, broker, places)
    hints, topics = Hints(told), []
    for topic, name in asked:
        partitions = []
        for data in topic.partition_data:
            attempt = call.attempt((name, data.index), topic.topic_id)
            _take(attempt, data.records or b"")
            refusal = yield from cluster.scripted(attempt)
            if not isinstance(refusal, Refusal):
                refusal = refused(cluster, broker, attempt)
            partitions.append(_append(cluster, broker, attempt, refusal, hints))
        answered = tuple(cluster.order(partitions))
        topics.append(TopicProduceResponse(topic.name, topic.topic_id, answered))
    return _answer(call, topics, hints)


def _purgatory(
    cluster: "Cluster", broker: Broker, places: set[Place]
) -> Generator[None, None, None]:
    """Until it leads, or knows that it does not; what came first goes first, as into a log."""
    before = [waiting for waiting in broker.purgatory if waiting & places]
    if not before and not any(cluster.is_deposed(broker, place) for place in places):
        return
    broker.purgatory.append(places)
    try:
        while any(waiting is other for waiting in broker.purgatory for other in before) or any(
            cluster.is_deposed(broker, place) for place in places
        ):
            yield
    finally:  # also when its connection ends
        broker.purgatory = [waiting for waiting in broker.purgatory if waiting is not places]


def _answer(call: Exchange, topics: list[TopicProduceResponse], hints: Hints) -> Response | None:
    if call.request.acks == 0:
        return None
    return ProduceResponse(tuple(topics), hints.throttle_ms, hints.endpoints)


def _take(attempt: Attempt, content: bytes) -> None:
    attempt.content = content
    try:
        headers = [header for header, _ in batch_headers(content)]
    except ValueError as error:
        attempt.call.unknown = f"records of {attempt.place[0]}-{attempt.place[1]}: {error}"
        return
    attempt.records = sum(header.records for header in headers)
    if headers and headers[0].producer_id >= 0:
        attempt.sequence = headers[0].sequence
        attempt.producer = headers[0].producer_id, headers[0].producer_epoch


def _append(
    cluster: "Cluster", broker: Broker, attempt: Attempt, refusal: Refusal | None, hints: Hints
) -> PartitionProduceResponse:
    hint = NO_HINT
    if refusal:
        hint, base = hints.of(attempt, refusal), refusal.offset
    elif cluster.is_deposed(broker, attempt.place):
        attempt.error, base = 0, _LOST
    else:
        attempt.error, base = cluster.append(attempt)
    error, attempt.offset = attempt.error or 0, base
    return PartitionProduceResponse(attempt.partition, error, base, current_leader=hint)
