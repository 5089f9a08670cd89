"""A producer that comes to many topics: what it asks for, and who waits, on real sockets."""

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fake_broker import FakeCluster, HangUp

from kipctl.errors import TimedOutError
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.probe.produce import many_topics
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.many_topics import ManyTopicsProducer, Segment
from kipctl.probe.produce.payloads import random_values, variants
from kipctl.probe.produce.run import ProduceOutcome
from kipctl.probe.tracing import Tracing
from kipctl.protocol.address import Address
from kipctl.protocol.compression import Compression
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.clock import now_us
from kipctl.trace.codes import MetadataCause
from kipctl.transport.access import Access
from kipctl.transport.sockets import SystemSockets

KIP526, LEGACY, PRELOAD = TopicPolicy
START, NEW, CHANGE, MAX_AGE, BACK, RETRY = MetadataCause
TOPICS = [Topic(f"topic-{i}", UUID(int=i + 1)) for i in range(6)]
NAMES = [topic.name for topic in TOPICS]
RATE = 2000


class ManyTopics(FakeCluster):
    """Two brokers and six topics of one partition; keeps what Metadata was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.led_by = dict.fromkeys(NAMES, (1, 5))
        self.asked: list[tuple[str, ...]] = []
        self.refusals: list[int] = []
        self.hang_ups = 0
        self.written: list[str] = []

    def answer(self, broker: int, connection: int, version: int, request: Any) -> Response | None:
        match request:
            case MetadataRequest(topics=topics):
                return self._shown([topic.name for topic in topics or ()])
            case ProduceRequest(topic_data=topics):
                return self._taken(broker, topics)
        return super().answer(broker, connection, version, request)

    def _shown(self, names: list[str]) -> MetadataResponse:
        self.asked.append(tuple(names))
        if names and self.hang_ups:
            self.hang_ups -= 1
            raise HangUp
        error = self.refusals.pop(0) if names and self.refusals else 0
        ids = {topic.name: topic.id for topic in TOPICS}
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(id, "127.0.0.1", b.port) for id, b in self.brokers.items()
            ),
            topics=tuple(
                MetadataResponseTopic(
                    error,
                    name,
                    ids[name],
                    partitions=()
                    if error
                    else (
                        MetadataResponsePartition(
                            leader_id=self.led_by[name][0], leader_epoch=self.led_by[name][1]
                        ),
                    ),
                )
                for name in names
            ),
        )

    def _taken(self, broker: int, topics: Any) -> ProduceResponse:
        names = {topic.id: topic.name for topic in TOPICS}
        results = []
        for topic in topics:
            name = names[topic.topic_id]
            leader, epoch = self.led_by[name]
            if leader == broker:
                self.written.append(name)
                answer = PartitionProduceResponse(base_offset=0)
            else:
                answer = PartitionProduceResponse(
                    error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    current_leader=LeaderIdAndEpoch(leader, epoch),
                )
            results.append(
                TopicProduceResponse(topic_id=topic.topic_id, partition_responses=(answer,))
            )
        nodes = tuple(NodeEndpoint(id, "127.0.0.1", b.port) for id, b in self.brokers.items())
        return ProduceResponse(tuple(results), node_endpoints=nodes)


@contextmanager
def producing(
    cluster: ManyTopics, directory: Path, policy: TopicPolicy = KIP526, **settings: int
) -> Iterator[ManyTopicsProducer]:
    """A producer that has asked who the brokers are."""
    config = ProducerConfig(
        acks=1,
        enable_idempotence=False,
        **{"retry_backoff_ms": 20, "reconnect_backoff_ms": 5} | settings,
    )
    choose = random.Random(0)
    payload = variants(random_values(10, choose, 16384), 16384, Compression.NONE, choose)
    with (
        closing(Tracing(directory, ProduceOutcome.datasets)) as tracing,
        closing(
            ManyTopicsProducer(
                config,
                policy,
                TOPICS,
                1,
                payload,
                tracing,
                (-1, -1),
                SystemSockets(now_us, Access("")),
                (),
            )
        ) as producer,
    ):
        producer.bootstrap(Address("127.0.0.1", cluster.brokers[1].port))
        yield producer


def every_topic_once(*positions: int) -> Segment:
    topics = positions or tuple(range(len(TOPICS)))
    return Segment(topics, len(topics), RATE)


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        (KIP526, [(name,) for name in NAMES]),
        (LEGACY, [tuple(NAMES[: n + 1]) for n in range(len(NAMES))]),
    ],
)
def test_each_new_topic_is_asked_for_alone_or_with_all_that_are_known(
    policy: TopicPolicy, asked: list[tuple[str, ...]], tmp_path: Path
) -> None:
    with ManyTopics() as cluster, producing(cluster, tmp_path, policy) as producer:
        sent = producer.send([every_topic_once()])
        assert cluster.asked == [(), *asked]
        assert [(call.cause, call.topics) for call in sent.calls] == [(NEW, t) for t in asked]
        # One thread sends: each record waited, and was written in its turn.
        assert len(sent.waits_us) == len(NAMES)
        assert (sent.records, sent.failed, cluster.written) == (6, 0, NAMES)
        assert len(sent.latencies_us) == 6
        again = producer.send([every_topic_once()])
        assert (again.calls, again.waits_us) == ([], [])
        assert cluster.written == NAMES * 2


def test_topics_given_beforehand_are_asked_for_at_once_and_no_record_waits(
    tmp_path: Path,
) -> None:
    with ManyTopics() as cluster, producing(cluster, tmp_path, PRELOAD) as producer:
        assert cluster.asked == [tuple(NAMES)]
        sent = producer.send([every_topic_once()])
        assert (sent.calls, sent.waits_us, sent.failed) == ([], [], 0)
        assert cluster.written == NAMES


def test_the_first_request_asks_for_no_topic(tmp_path: Path) -> None:
    with ManyTopics() as cluster, producing(cluster, tmp_path):
        assert cluster.asked == [()]


@pytest.mark.parametrize("policy", list(TopicPolicy))
def test_a_leader_that_moved_makes_it_ask_for_all_topics_in_use(
    policy: TopicPolicy, tmp_path: Path
) -> None:
    with ManyTopics() as cluster, producing(cluster, tmp_path, policy) as producer:
        producer.send([every_topic_once()])
        cluster.led_by[NAMES[2]] = (2, 6)
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
    policy: TopicPolicy, back: list[tuple[str, ...]], tmp_path: Path
) -> None:
    with ManyTopics() as cluster, producing(cluster, tmp_path, policy) as producer:
        producer.send([every_topic_once()])
        producer.set_metadata_ages(500, 1000)
        calls: list[Any] = []
        while not calls or calls[-1].topics == tuple(NAMES):
            # All but the first two are used, the first two are idle.
            calls += producer.send([Segment((2, 3, 4, 5), 50, 1000)]).calls
        producer.set_metadata_ages(60_000, 60_000)
        assert {call.cause for call in calls} == {MAX_AGE}
        # The answer drops them, so the request before still asked for them.
        assert len(calls) > 1
        assert calls[-1].topics == tuple(NAMES[2:])
        returned = producer.send([every_topic_once(0, 1)])
        assert [(call.cause, call.topics) for call in returned.calls] == [(BACK, t) for t in back]
        assert len(returned.waits_us) == 2


def test_an_error_for_a_new_topic_is_followed_by_a_request_for_all(tmp_path: Path) -> None:
    with ManyTopics() as cluster, producing(cluster, tmp_path) as producer:
        producer.send([every_topic_once(0, 1)])
        cluster.refusals = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        sent = producer.send([every_topic_once(2)])
        assert [(call.cause, call.topics) for call in sent.calls] == [
            (NEW, (NAMES[2],)),
            (RETRY, tuple(NAMES[:3])),
        ]
        # It waited for both, and the backoff between them.
        assert len(sent.waits_us) == 1
        assert sent.waits_us[0] >= 16_000  # with its jitter (KIP-580)
        assert cluster.written[-1] == NAMES[2]


def test_a_lost_connection_is_followed_by_a_request_for_all(tmp_path: Path) -> None:
    with ManyTopics() as cluster, producing(cluster, tmp_path) as producer:
        producer.send([every_topic_once(0, 1)])
        cluster.hang_ups = 1
        sent = producer.send([every_topic_once(2)])
        assert sent.failed == 0
        causes = [(call.cause, call.topics, bool(call.received_us)) for call in sent.calls]
        assert causes == [(NEW, (NAMES[2],), False), (RETRY, tuple(NAMES[:3]), True)]


def test_a_topic_that_does_not_come_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many_topics, "MAX_BLOCK_US", 200_000)
    with ManyTopics() as cluster, producing(cluster, tmp_path) as producer:
        cluster.refusals = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 1000
        with pytest.raises(TimedOutError, match="Topic topic-0 is not in Metadata"):
            producer.send([every_topic_once()])
        assert cluster.written == []
