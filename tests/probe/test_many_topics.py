"""A producer that comes to many topics: what it asks for, and who waits."""

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fake_kafka import SimulatedCluster
from fake_run import meeting

from kipctl.conform.cluster import HungUpError
from kipctl.errors import TimedOutError
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.many_topics import ManyTopicsProducer, Segment
from kipctl.probe.produce.payloads import random_values, variants
from kipctl.probe.produce.run import ProduceOutcome
from kipctl.probe.tracing import Tracing
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.protocol.compression import Compression
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.codes import MetadataCause

KIP526, LEGACY, PRELOAD = TopicPolicy
NEW, CHANGE, MAX_AGE = MetadataCause.NEW_TOPIC, MetadataCause.LEADER_CHANGE, MetadataCause.MAX_AGE
BACK, RETRY = MetadataCause.IDLE_EVICTION, MetadataCause.ERROR_RETRY
NAMES = [f"topic-{i}" for i in range(6)]
RATE = 2000


@contextmanager
def producing(policy: TopicPolicy = KIP526) -> Iterator[tuple[SimulatedCluster, Any]]:
    """Two brokers, six topics, and a producer that has asked who the brokers are."""
    cluster = SimulatedCluster(topics=NAMES)
    config = ProducerConfig(
        acks=1, enable_idempotence=False, retry_backoff_ms=20, reconnect_backoff_ms=5
    )
    choose = random.Random(0)
    payload = variants(random_values(10, choose, 1000), 1000, Compression.NONE, choose)
    with (
        TemporaryDirectory() as directory,
        meeting(cluster),
        closing(Tracing(Path(directory), ProduceOutcome.datasets)) as tracing,
        closing(
            ManyTopicsProducer(
                config,
                policy,
                [Topic(name, cluster.topics[name]) for name in NAMES],
                1,
                payload,
                tracing,
                (-1, -1),
                cluster.sockets(),
                (),
            )
        ) as producer,
    ):
        producer.bootstrap(Address("127.0.0.1", cluster.brokers[1].port))
        yield cluster, producer


def every_topic_once(*positions: int) -> Segment:
    topics = positions or tuple(range(len(NAMES)))
    return Segment(topics, len(topics), RATE)


def topics_asked(cluster: SimulatedCluster) -> list[tuple[str, ...]]:
    calls = cluster.calls(ApiKey.METADATA)
    return [tuple(topic.name for topic in call.request.topics or ()) for call in calls]


def written(cluster: SimulatedCluster) -> list[str]:
    return [produced.place[0] for produced in cluster.produced]


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        (KIP526, [(name,) for name in NAMES]),
        (LEGACY, [tuple(NAMES[: n + 1]) for n in range(len(NAMES))]),
    ],
)
def test_each_new_topic_is_asked_for_alone_or_with_all_that_are_known(
    policy: TopicPolicy, asked: list[tuple[str, ...]]
) -> None:
    with producing(policy) as (cluster, producer):
        assert topics_asked(cluster) == [()]
        sent = producer.send([every_topic_once()])
        assert topics_asked(cluster) == [(), *asked]
        assert [(call.cause, call.topics) for call in sent.calls] == [(NEW, t) for t in asked]
        # One thread sends: each record waited, and was written in its turn.
        assert len(sent.waits_us) == len(NAMES)
        assert (sent.records, sent.failed, written(cluster)) == (6, 0, NAMES)
        assert len(sent.latencies_us) == 6
        again = producer.send([every_topic_once()])
        assert (again.calls, again.waits_us) == ([], [])
        assert written(cluster) == NAMES * 2


def test_topics_given_beforehand_are_asked_for_at_once_and_no_record_waits() -> None:
    with producing(PRELOAD) as (cluster, producer):
        assert topics_asked(cluster) == [tuple(NAMES)]
        sent = producer.send([every_topic_once()])
        assert (sent.calls, sent.waits_us, sent.failed) == ([], [], 0)
        assert written(cluster) == NAMES


@pytest.mark.parametrize("policy", list(TopicPolicy))
def test_a_leader_that_moved_makes_it_ask_for_all_topics_in_use(policy: TopicPolicy) -> None:
    with producing(policy) as (cluster, producer):
        producer.send([every_topic_once()])
        cluster.elect(0, 2, NAMES[2])
        sent = producer.send([every_topic_once(2)])
        assert sent.failed == 0
        assert [(call.cause, call.topics) for call in sent.calls] == [(CHANGE, tuple(NAMES))]


@pytest.mark.parametrize(
    ("policy", "back"),
    [
        (KIP526, [(NAMES[0],), (NAMES[1],)]),
        (LEGACY, [(*NAMES[2:], NAMES[0]), (*NAMES[2:], NAMES[0], NAMES[1])]),
        (PRELOAD, [(NAMES[0],), (NAMES[1],)]),
    ],
)
def test_a_topic_that_was_idle_is_dropped_and_asked_for_when_it_comes_back(
    policy: TopicPolicy, back: list[tuple[str, ...]]
) -> None:
    with producing(policy) as (_, producer):
        producer.send([every_topic_once()])
        producer.set_metadata_ages(500, 1000)
        # All but the first two are used, the first two are idle.
        calls = producer.send([Segment((2, 3, 4, 5), 170, 100)]).calls
        producer.set_metadata_ages(60_000, 60_000)
        assert {call.cause for call in calls} == {MAX_AGE}
        # The answer drops them, so the request before still asked for them.
        assert [call.topics for call in calls] == [*[tuple(NAMES)] * 2, tuple(NAMES[2:])]
        returned = producer.send([every_topic_once(0, 1)])
        assert [(call.cause, call.topics) for call in returned.calls] == [(BACK, t) for t in back]
        assert len(returned.waits_us) == 2


def test_an_error_for_a_new_topic_is_followed_by_a_request_for_all() -> None:
    errors = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    with producing() as (cluster, producer):
        producer.send([every_topic_once(0, 1)])
        cluster.on_metadata = lambda _: setattr(cluster, "topic_error", errors and errors.pop())
        sent = producer.send([every_topic_once(2)])
        assert [(call.cause, call.topics) for call in sent.calls] == [
            (NEW, (NAMES[2],)),
            (RETRY, tuple(NAMES[:3])),
        ]
        # It waited for both, and the backoff between them.
        assert len(sent.waits_us) == 1
        assert sent.waits_us[0] >= 16_000  # with its jitter (KIP-580)
        assert written(cluster)[-1] == NAMES[2]


def test_a_lost_connection_is_followed_by_a_request_for_all() -> None:
    def hang_up_once(broker: int) -> None:
        cluster.on_metadata = lambda broker: None
        raise HungUpError

    with producing() as (cluster, producer):
        producer.send([every_topic_once(0, 1)])
        cluster.on_metadata = hang_up_once
        sent = producer.send([every_topic_once(2)])
        assert sent.failed == 0
        causes = [(call.cause, call.topics, bool(call.received_us)) for call in sent.calls]
        assert causes == [(NEW, (NAMES[2],), False), (RETRY, tuple(NAMES[:3]), True)]


def test_a_topic_that_does_not_come_ends_the_run() -> None:
    with producing() as (cluster, producer):
        cluster.topic_error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        began_us = cluster.world.now_us
        with pytest.raises(TimedOutError, match="Topic topic-0 is not in Metadata after 60 s"):
            producer.send([every_topic_once()])
        assert 60_000_000 < cluster.world.now_us - began_us < 60_200_000
        assert written(cluster) == []
