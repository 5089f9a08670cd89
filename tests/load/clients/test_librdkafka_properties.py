"""Java's properties in librdkafka's words: by table, and librdkafka takes them."""

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer

from kipctl.errors import UsageError
from kipctl.load.clients.librdkafka_properties import consumer_properties, producer_properties
from kipctl.load.clients.librdkafka_work import latency_ms
from kipctl.transport.access import Access

QUIET = {"bootstrap.servers": "b:1", "log_level": "3"}


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        ({}, {}),
        (
            {"acks": "all", "linger.ms": "0", "retry.backoff.ms": "1"},
            {"acks": "all", "linger.ms": "0", "retry.backoff.ms": "1"},
        ),
        ({"max.request.size": "10485760"}, {"message.max.bytes": "10485760"}),
        ({"buffer.memory": "33554432"}, {"queue.buffering.max.kbytes": "32768"}),
        ({"buffer.memory": "1"}, {"queue.buffering.max.kbytes": "1"}),
        ({"send.buffer.bytes": "1000"}, {"socket.send.buffer.bytes": "1000"}),
        ({"value.serializer": "org.x.Y", "client.id": "me"}, {"client.id": "me"}),
        ({"delivery.timeout.ms": "5000"}, {"delivery.timeout.ms": "5000"}),
        ({"sticky.partitioning.linger.ms": "0"}, {"sticky.partitioning.linger.ms": "0"}),
    ],
)
def test_a_producer(java: dict[str, str], librdkafka: dict[str, str]) -> None:
    given = producer_properties(java, Access("b:1"))
    assert given == QUIET | librdkafka
    Producer({**given, "log_level": 0})


@pytest.mark.parametrize(
    ("java", "librdkafka"),
    [
        ({}, {}),
        ({"auto.offset.reset": "latest"}, {"auto.offset.reset": "latest"}),
        ({"fetch.max.wait.ms": "9"}, {"fetch.wait.max.ms": "9"}),
        ({"request.timeout.ms": "3000"}, {"socket.timeout.ms": "3000"}),
        ({"client.rack": "r", "isolation.level": "read_committed"}, None),
        (
            {
                "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor,"
                "org.apache.kafka.clients.consumer.RoundRobinAssignor"
            },
            {"partition.assignment.strategy": "range,roundrobin"},
        ),
        ({"fetch.max.bytes": "99999488"}, {"fetch.max.bytes": "99999488"}),
        (
            {"fetch.max.bytes": "200000000"},
            {"fetch.max.bytes": "200000000", "receive.message.max.bytes": "200000512"},
        ),
    ],
)
def test_a_consumer(java: dict[str, str], librdkafka: dict[str, str] | None) -> None:
    given = consumer_properties(java, "g", Access("b:1"))
    expected = java if librdkafka is None else librdkafka
    assert given == QUIET | {"group.id": "g", "auto.offset.reset": "earliest"} | expected
    Consumer({**given, "log_level": 0}).close()


@pytest.mark.parametrize("name", ["max.block.ms", "metadata.max.idle.ms", "sasl.jaas.config"])
def test_what_librdkafka_has_nothing_for_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"librdkafka has nothing that is {name}"):
        producer_properties({name: "1"}, Access("b:1"))


def test_latencies_have_the_ranks_of_javas_tool() -> None:
    from array import array

    latencies_us = array("q", range(1000, 1001_000, 1000))
    np.random.default_rng(1).shuffle(np.frombuffer(latencies_us, dtype=np.int64))
    assert latency_ms(latencies_us) == {
        "avg": 500.5,
        "max": 1000.0,
        "p50": 501.0,
        "p95": 951.0,
        "p99": 991.0,
        "p99.9": 1000.0,
    }
    assert latency_ms(array("q")) == {}
