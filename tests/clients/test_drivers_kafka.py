"""Other clients under test, on real brokers: what they do, say, and leave behind."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kipctl.clients.java import JavaClient
from kipctl.clients.librdkafka import Librdkafka
from kipctl.clients.load import Client, ConsumerLoad, ProducerLoad
from kipctl.errors import KipctlError, RefusedError, UnreachableError, UsageError
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import find_java
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access

pytestmark = pytest.mark.kafka
NEWEST = "4.3.1"
CLIENTS = ("java-3.6.0", f"java-{NEWEST}", "librdkafka")
PARTITIONS = 3


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, fetched_kafka: Callable[[str], KafkaJars]) -> Client:
    if request.param == "librdkafka":
        return Librdkafka()
    version = request.param.removeprefix("java-")
    return JavaClient(version, find_java().path, fetched_kafka(version).paths)


@pytest.fixture
def topic(lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server})
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result()
    yield name
    admin.delete_topics([name])[name].result()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


def children() -> set[int]:
    """Processes that this one has started and that live, by their ids."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z" and is_client(stat.parent):
            found.add(int(stat.parent.name))
    return found


def is_client(process: Path) -> bool:
    try:
        command = (process / "cmdline").read_bytes()
    except OSError:
        return False
    return b"Performance" in command or b"spawn_main" in command


def in_log(lab: Lab, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": lab.bootstrap_server, "group.id": "count"})
    ends = [
        consumer.get_watermark_offsets(TopicPartition(topic, partition))[1]
        for partition in range(PARTITIONS)
    ]
    consumer.close()
    return sum(ends)


def soon(seconds: float) -> int:
    return now_us() + round(seconds * 1e6)


def test_what_a_producer_says_is_what_is_in_the_log(lab: Lab, client: Client, topic: str) -> None:
    load = ProducerLoad(
        topic=topic, num_records=1500, throughput=1000, record_size=100, properties={"acks": "1"}
    )
    before_us = now_us()
    with client.producer(load, lab.access) as running:
        assert before_us <= running.start_us <= now_us()
        done = running.outcome()
    assert (done.records, done.failed, done.error, done.stopped) == (1500, 0, "", False)
    while (there := in_log(lab, topic)) < 1500:  # of acks=1 the followers may not have all yet
        pass
    assert there == 1500
    assert done.seconds >= 1.4
    ranks = [done.latency_ms[name] for name in ("p50", "p95", "p99", "p99.9", "max")]
    assert ranks == sorted(ranks)
    assert 0 < done.latency_ms["avg"] <= done.latency_ms["max"]
    assert done.cpu_s > 0
    assert done.version == client.version


def test_a_consumer_reads_what_there_is_and_says_if_that_is_too_little(
    lab: Lab, client: Client, topic: str
) -> None:
    load = ProducerLoad(topic=topic, num_records=700, throughput=0, record_size=100)
    with Librdkafka().producer(load, lab.access) as producer:
        assert producer.outcome().records == 700
    enough = ConsumerLoad(topic=topic, num_records=700, group=topic, timeout_s=20)
    with client.consumer(enough, lab.access) as running:
        read = running.outcome()
    assert (read.records, read.error, read.stopped) == (700, "", False)
    assert read.bytes == pytest.approx(70_000, abs=100)
    too_little = ConsumerLoad(topic=topic, num_records=701, group=topic + "2", timeout_s=10)
    with client.consumer(too_little, lab.access) as running:
        read = running.outcome()
    assert read.records == 700
    assert read.error


def test_transactions_are_committed(lab: Lab, client: Client, topic: str) -> None:
    load = ProducerLoad(
        topic=topic,
        num_records=800,
        throughput=800,
        record_size=100,
        properties={"transactional.id": topic},
        transaction_ms=200,
    )
    with client.producer(load, lab.access) as producer:
        assert producer.outcome().records == 800
    committed = ConsumerLoad(
        topic=topic,
        num_records=800,
        group=topic,
        properties={"isolation.level": "read_committed"},
        timeout_s=20,
    )
    with client.consumer(committed, lab.access) as consumer:
        assert consumer.outcome().records == 800
    assert in_log(lab, topic) > 800  # with the markers, which come after the commit's answer


def test_one_that_is_stopped_ends_and_says_so(lab: Lab, client: Client, topic: str) -> None:
    load = ProducerLoad(topic=topic, num_records=1_000_000, throughput=1000, record_size=100)
    with client.producer(load, lab.access) as running:
        assert not running.is_done_by(soon(1))
        running.stop()
        assert running.is_done_by(soon(30))
        assert running.outcome().stopped
    forever = ConsumerLoad(topic=topic, num_records=1_000_000, group=topic, timeout_s=600)
    with client.consumer(forever, lab.access) as reading:
        assert not reading.is_done_by(soon(1))
        reading.stop()
        assert reading.outcome().stopped


def test_an_exception_leaves_no_process(lab: Lab, client: Client, topic: str) -> None:
    load = ProducerLoad(topic=topic, num_records=1_000_000, throughput=1000, record_size=100)

    def interrupted() -> None:
        with client.producer(load, lab.access) as running:
            assert not running.is_done_by(soon(0.1))
            assert children()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not children()


def fails(client: Client, server: str, load: ProducerLoad) -> Callable[[], object]:
    def attempt() -> object:
        with client.producer(load, Access(server)) as running:
            return running.outcome()

    return attempt


def test_failures_are_told_in_the_clients_words(lab: Lab, client: Client, topic: str) -> None:
    def load(**properties: str) -> ProducerLoad:
        named = {name.replace("_", "."): text for name, text in properties.items()}
        return ProducerLoad(
            topic=topic, num_records=50, throughput=0, record_size=2000, properties=named
        )

    here, nowhere = lab.bootstrap_server, "127.0.0.1:1"
    cases: list[tuple[str, ProducerLoad, type[KipctlError], str]] = [
        (here, load(acks="foo"), UsageError, "[Ii]nvalid value"),
        (here, load(max_request_size="1000"), RefusedError, "(larger than|too large)"),
        (nowhere, load(), UnreachableError, "127.0.0.1:1"),
    ]
    for server, given, error, words in cases:
        with pytest.raises(error, match=words) as raised:
            fails(client, server, given)()
        assert str(raised.value).count("\n") <= 2


def test_a_topic_that_brokers_refuse_part_of_is_counted(
    lab: Lab, client: Client, topic: str
) -> None:
    """Some records are taken; then the topic's limit is lowered.

    Java splits a batch that is too large and sends it again, until its time is up.
    """
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server})
    load = ProducerLoad(
        topic=topic,
        num_records=6000,
        throughput=500,
        record_size=1000,
        properties={"acks": "1", "request.timeout.ms": "5000", "delivery.timeout.ms": "6000"},
    )
    with client.producer(load, lab.access) as running:
        while in_log(lab, topic) < 300:
            assert not running.is_done_by(soon(0.05))
        lowered = ConfigEntry(
            "max.message.bytes", "500", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[lowered])
        admin.incremental_alter_configs([resource])[resource].result()
        done = running.outcome()
    assert done.failed > 0
    assert done.records + done.failed == 6000
    while (there := in_log(lab, topic)) < done.records:
        pass  # with acks=1 an answer may be before the high watermark
    assert there == done.records
    assert done.error
