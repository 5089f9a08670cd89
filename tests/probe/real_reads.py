"""The probe's consumer on real brokers, while others write to them and something happens there."""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from fake_reads import ReadRan, Received, run_read

from kipctl.cluster.topics import LATEST, await_no_topics, await_topic, offsets
from kipctl.lab.cluster import Lab
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeSpec
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic
from kipctl.trace.clock import now_us
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import read_rows
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

_READ_COLUMNS = COLUMNS["reads"]
_WATCHED = ("time_us", "records", "broker")

TOPIC = "reads"
ON_ALL = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]

Written = dict[int, list[tuple[int | None, bytes]]]
"""Offset and value of each acknowledged record, by partition.

The offset is None where a retry found the record written already: then the broker tells none.
"""


def make_topic(bootstrap_server: str, replicas: list[list[int]], **config: str) -> None:
    """The topic with these replicas, the first of each its leader; all in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 0})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    new = NewTopic(TOPIC, len(replicas), replica_assignment=replicas, config=settings)
    with Cluster(bootstrap_server) as cluster:
        await_no_topics(cluster, [TOPIC])  # a test before may have made and removed one
        admin.create_topics([new])[TOPIC].result()
        await_topic(cluster, TOPIC, len(replicas))


def write(bootstrap_server: str, values: list[bytes], partition: int = 0, acks: int = -1) -> None:
    """Write these in batches of at most 16 kB, and wait until all are acknowledged."""
    producer = Producer(
        {"bootstrap.servers": bootstrap_server, "acks": acks, "batch.size": 16384, "log_level": 0}
    )
    for value in values:
        producer.produce(TOPIC, value, partition=partition)
    assert producer.flush(60) == 0


@contextmanager
def throttled_follower(bootstrap_server: str, topic: str, broker: int, rate: int) -> Iterator[None]:
    """The broker copies so many bytes of the topic per second, and knows it."""
    key = "follower.replication.throttled.rate"
    of_topic = ("follower.replication.throttled.replicas", "*")
    _configure(bootstrap_server, ResourceType.TOPIC, topic, *of_topic)
    _configure(bootstrap_server, ResourceType.BROKER, str(broker), key, str(rate))
    request = DescribeConfigsRequest(
        resources=(
            DescribeConfigsResource(ResourceType.TOPIC.value, topic, of_topic[:1]),
            DescribeConfigsResource(ResourceType.BROKER.value, str(broker), (key,)),
        )
    )
    with Cluster(bootstrap_server) as cluster:
        known: list[str | None] = []
        while known != ["*", str(rate)]:
            results = cluster.broker(broker).request(request).results
            known = [config.value for result in results for config in result.configs]
    yield
    _configure(bootstrap_server, ResourceType.BROKER, str(broker), key, None)


def _configure(server: str, kind: ResourceType, name: str, key: str, value: str | None) -> None:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    resource = ConfigResource(kind, name)
    resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=operation))
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    admin.incremental_alter_configs([resource])[resource].result()


class Writer:
    """Writes numbered records to all partitions in turn, some 100 a second, until it is told to
    stop.

    Idempotent, so that what is in the log is what it was told of; some batches are compressed.
    """

    def __init__(self, bootstrap_server: str, partitions: int) -> None:
        self._partitions = partitions
        self._producers = [
            Producer(
                {
                    "bootstrap.servers": bootstrap_server,
                    "enable.idempotence": True,
                    "compression.type": codec,
                    "linger.ms": 50,
                    "delivery.timeout.ms": 120_000,
                    "log_level": 0,
                }
            )
            for codec in ("none", "lz4", "zstd")
        ]
        self._delivered: Written = defaultdict(list)
        self._failures: list[object] = []
        self.count = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        for number in itertools.count():
            if self.stopping.is_set():
                break
            producer = self._producers[number % 3]
            value = b"%d " % number + b"x" * (number * 7919 % 900)
            partition = number % self._partitions
            while True:
                try:
                    producer.produce(TOPIC, value, partition=partition, on_delivery=self._done)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
            self.stopping.wait(0.01)
        for producer in self._producers:
            assert producer.flush(120) == 0

    def _done(self, error: object, message: Message) -> None:
        if error:
            self._failures.append(error)
            return
        partition = message.partition()
        self._delivered[partition].append((message.offset(), message.value()))
        self.count += 1

    def written(self) -> Written:
        assert not self._failures, self._failures
        return self._delivered


@dataclass
class Reader:
    """A consumer that reads while something happens: what it is to do, and what it has come to."""

    directory: Path
    discovery: LeaderDiscovery = LeaderDiscovery.KIP951
    config: dict[str, Any] = field(default_factory=dict)
    received: Received = field(default_factory=Received)
    over: threading.Event = field(default_factory=threading.Event)

    def until_read_from(self, *brokers: int) -> None:
        """Wait until records have come from each of these, from now on."""
        begun_us, seen = now_us(), set[int]()
        while not set(brokers) <= seen:
            assert not self.over.wait(0.1), "the consumer has ended"
            rows = read_rows(raw_path(self.directory, "reads"), len(_READ_COLUMNS))
            time_us, records, broker = (rows[:, _READ_COLUMNS.index(name)] for name in _WATCHED)
            seen = set(broker[(time_us >= begun_us) & (records > 0)].tolist())

    def read(self, server: str, should_stop: Callable[[int], bool]) -> ReadRan:
        """`should_stop` is asked with how many records have come."""

        def on_records(received: Received) -> None:
            self.received = received

        settings = {"auto_offset_reset": "earliest", "retry_backoff_ms": 50, **self.config}
        spec = ConsumeSpec(
            Access(server),
            TOPIC,
            num_records=10**9,
            timeout_ms=60_000,
            discovery=self.discovery,
            config=ConsumerConfig(**settings),
        )
        self.directory.mkdir(exist_ok=True)
        try:
            return run_read(
                spec, self.directory, lambda: should_stop(self.received.count), on_records
            )
        finally:
            self.over.set()


def read_while(
    server: str, partitions: int, act: Callable[[], object], *readers: Reader
) -> tuple[list[ReadRan], Written]:
    """Read while records are written and something is done, until all that was written is read."""
    writer, ends = Writer(server, partitions), dict[int, int]()

    def should_stop(read: int) -> bool:
        failed = acting.done() and acting.exception()
        return bool(failed) or (bool(ends) and read >= sum(ends.values()))

    with ThreadPoolExecutor(len(readers) + 2) as threads:
        acting = threads.submit(act)
        writing = threads.submit(writer.run)
        reading = [threads.submit(reader.read, server, should_stop) for reader in readers]
        wait([acting])
        writer.stopping.set()
        writing.result()
        with Cluster(server) as cluster:
            ends.update(offsets(cluster, TOPIC, LATEST))
        ran = [each.result() for each in reading]
        acting.result()
        return ran, writer.written()


def read(
    lab: Lab, directory: Path, num_records: int, offset: int = -1, **config: object
) -> ReadRan:
    """Read so many records, from the start of the log on or from that offset."""
    directory.mkdir(exist_ok=True)
    settings = {"auto_offset_reset": "earliest", **config}
    spec = ConsumeSpec(
        lab.access, TOPIC, num_records, 30_000, offset=offset, config=ConsumerConfig(**settings)
    )
    return run_read(spec, directory)


def assert_read_once_and_in_order(lab: Lab, ran: ReadRan, written: Written) -> None:
    """Every offset of the log once and in order, and every value that was acknowledged.

    The log may hold a value twice: to a new leader that has not seen the producer yet, a retry of
    an idempotent producer is no duplicate.
    """
    assert sum(map(len, written.values())) > 100
    assert ran.received.by_partition.keys() == written.keys()
    with Cluster(lab.bootstrap_server) as cluster:
        ends = offsets(cluster, TOPIC, LATEST)
    for partition, records in written.items():
        received = dict(ran.received.by_partition[partition])
        assert ran.received.offsets(partition) == list(range(ends[partition]))
        assert set(received.values()) == {value for _, value in records}
        assert all(offset is None or received[offset] == value for offset, value in records)
    assert ran.outcome.errors == {}


def await_isr(server: str, isr: set[int] | None = None, seen_by: int | None = None) -> None:
    """Wait until these are in sync, or every replica, as one broker sees it, or each."""
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),))
    with Cluster(server) as cluster:
        while True:
            brokers = _alive(cluster) if seen_by is None else [seen_by]
            answers = [cluster.broker(broker).request(asked) for broker in brokers]
            partitions = [p for a in answers for t in a.topics for p in t.partitions]
            if partitions and all(
                set(p.isr_nodes) == (isr or set(p.replica_nodes)) and p.leader_id >= 0
                for p in partitions
            ):
                return
            time.sleep(0.1)


def await_brokers(server: str, *brokers: int) -> None:
    """Wait until each of these knows that all of them are there."""
    with Cluster(server) as cluster:
        while not set(brokers) <= _alive(cluster):
            time.sleep(0.1)
        for broker in brokers:
            while not set(brokers) <= {
                node.node_id for node in cluster.broker(broker).request(MetadataRequest()).brokers
            }:
                time.sleep(0.1)


def _alive(cluster: Cluster) -> set[int]:
    cluster.metadata(())
    return {*cluster.nodes}
