"""Other clients under test, on real brokers: what they do, say, and leave behind."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from on_lab import topics_on

from kipctl.errors import KipctlError, RefusedError, UnreachableError, UsageError
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import find_java
from kipctl.load.clients.client import Client, ConsumerLoad, ProducerLoad
from kipctl.load.clients.java import JavaClient
from kipctl.load.clients.librdkafka import Librdkafka
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access

pytestmark = pytest.mark.kafka
CLIENTS = ("java-3.6.0", "java-4.3.1", "librdkafka")
NEWEST = pytest.mark.parametrize("client", CLIENTS[1:], indirect=True)
"""One of each driver: what versions of Java's tools print is in test_java_output.py."""
PARTITIONS = 3
Made = Callable[[str], Client]


@pytest.fixture
def made(fetched_kafka: Callable[[str], KafkaJars], monkeypatch: pytest.MonkeyPatch) -> Made:
    """The client of a name. JVMs live for seconds: they compile plainly."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

    def make(name: str) -> Client:
        if name == "librdkafka":
            return Librdkafka()
        version = name.removeprefix("java-")
        return JavaClient(version, find_java().path, fetched_kafka(version).paths)

    return make


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, made: Made) -> Client:
    return made(request.param)


@pytest.fixture
def admin(lab: Lab) -> AdminClient:
    return AdminClient({"bootstrap.servers": lab.bootstrap_server})


@pytest.fixture
def topic(lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    with topics_on(lab) as make:
        yield make(name, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])


@pytest.fixture
def in_log(lab: Lab, topic: str) -> Iterator[Callable[[], int]]:
    """How many records the topic holds, markers of transactions included."""
    consumer = Consumer({"bootstrap.servers": lab.bootstrap_server, "group.id": "count"})
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    yield lambda: sum(consumer.get_watermark_offsets(at, timeout=60)[1] for at in partitions)
    consumer.close()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


def children() -> set[int]:
    """Processes that this one has started and that live, by their ids."""
    pids = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z" and is_client(stat.parent):
            pids.add(int(stat.parent.name))
    return pids


def is_client(process: Path) -> bool:
    try:
        command = (process / "cmdline").read_bytes()
    except OSError:
        return False
    return b"Performance" in command or b"spawn_main" in command


def soon(seconds: float) -> int:
    return now_us() + round(seconds * 1e6)


def test_what_a_producer_says_is_what_a_consumer_reads(
    lab: Lab, client: Client, topic: str, in_log: Callable[[], int]
) -> None:
    """In transactions, whose markers come after the commit's answer."""
    load = ProducerLoad(
        topic=topic,
        num_records=600,
        throughput=600,
        record_size=100,
        properties={"transactional.id": topic},
        transaction_ms=200,
    )
    before_us = now_us()
    with client.producer(load, lab.access) as running:
        assert before_us <= running.start_us <= now_us()
        done = running.outcome()
    assert (done.records, done.failed, done.error, done.stopped) == (600, 0, "", False)
    assert done.seconds >= 0.9
    ranks = [done.latency_ms[name] for name in ("p50", "p95", "p99", "p99.9", "max")]
    assert ranks == sorted(ranks)
    assert 0 < done.latency_ms["avg"] <= done.latency_ms["max"]
    assert done.cpu_s > 0
    assert done.version == client.version
    committed = ConsumerLoad(
        topic=topic,
        num_records=600,
        group=topic,
        properties={"isolation.level": "read_committed"},
        timeout_s=60,
    )
    with client.consumer(committed, lab.access) as consumer:
        read = consumer.outcome()
    assert (read.records, read.error, read.stopped) == (600, "", False)
    assert read.bytes == pytest.approx(60_000, abs=100)
    assert in_log() > 600


def test_a_consumer_says_if_there_is_too_little(lab: Lab, made: Made, topic: str) -> None:
    load = ProducerLoad(topic=topic, num_records=700, throughput=0, record_size=100)
    with Librdkafka().producer(load, lab.access) as producer:
        assert producer.outcome().records == 700
    with ExitStack() as all_at_once:
        waiting = [
            all_at_once.enter_context(made(name).consumer(too_little, lab.access))
            for name in CLIENTS
            for too_little in [
                ConsumerLoad(topic=topic, num_records=701, group=f"{topic}-{name}", timeout_s=30)
            ]
        ]
        for running in waiting:
            read = running.outcome()
            assert read.records == 700
            assert read.error


def test_one_that_is_stopped_ends_and_says_so(
    lab: Lab, client: Client, topic: str, in_log: Callable[[], int]
) -> None:
    load = ProducerLoad(topic=topic, num_records=1_000_000, throughput=200, record_size=100)
    with client.producer(load, lab.access) as running:
        while not in_log():
            assert not running.is_done_by(soon(0.05))
        running.stop()
        assert running.is_done_by(soon(60))
        assert running.outcome().stopped
    forever = ConsumerLoad(topic=topic, num_records=1_000_000, group=topic, timeout_s=600)
    with client.consumer(forever, lab.access) as reading:
        assert not reading.is_done_by(soon(0.5))
        reading.stop()
        assert reading.outcome().stopped


@NEWEST
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


@NEWEST
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
    lab: Lab, client: Client, topic: str, admin: AdminClient, in_log: Callable[[], int]
) -> None:
    """Some records are taken; then the topic's limit is lowered, long before the last is due.

    A batch of several records Java would split and send again, until its time is up.
    """
    load = ProducerLoad(
        topic=topic,
        num_records=900,
        throughput=75,
        record_size=1000,
        properties={"acks": "1", "batch.size": "1"},
    )
    with client.producer(load, lab.access) as running:
        while in_log() < 20:
            assert not running.is_done_by(soon(0.05))
        lowered = ConfigEntry(
            "max.message.bytes", "500", incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[lowered])
        admin.incremental_alter_configs([resource])[resource].result()
        done = running.outcome()
    assert done.failed > 0
    assert done.records + done.failed == 900
    while (there := in_log()) < done.records:
        pass  # with acks=1 an answer may be before the high watermark
    assert there == done.records
    assert done.error
