"""The probe's consumer on real brokers, while others write to them and something happens there."""

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable
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

Written = dict[int, list[tuple[int | None, bytes]]]
"""Offset and value of each acknowledged record, by partition.

The offset is None where a retry found the record written already: then the broker tells none.
"""


def make_topic(bootstrap_server: str, name: str, replicas: list[list[int]], **config: str) -> None:
    """A topic with these replicas, the first of each its leader; all in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 0})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    new = NewTopic(name, len(replicas), replica_assignment=replicas, config=settings)
    with Cluster(bootstrap_server) as cluster:
        await_no_topics(cluster, [name])  # a test before may have made and removed one
        admin.create_topics([new])[name].result()
        await_topic(cluster, name, len(replicas))


def write(
    bootstrap_server: str, topic: str, values: list[bytes], partition: int = 0, acks: int = -1
) -> None:
    """Write these in batches of at most 16 kB, and wait until all are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_server,
            "acks": acks,
            "batch.size": 16384,
            "log_level": 0,
        }
    )
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(60) == 0


def throttle_follower(bootstrap_server: str, topic: str, broker: int, rate: int) -> None:
    """Let the broker copy so many bytes of the topic per second; returns when it knows."""
    settings = [
        (ResourceType.TOPIC, topic, "follower.replication.throttled.replicas", "*"),
        (ResourceType.BROKER, str(broker), "follower.replication.throttled.rate", str(rate)),
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap_server, "log_level": 0})
    resources = []
    for kind, name, key, value in settings:
        resource = ConfigResource(kind, name)
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
        for changed in admin.incremental_alter_configs([resource]).values():
            changed.result()
        resources.append(DescribeConfigsResource(kind.value, name, (key,)))
    request = DescribeConfigsRequest(resources=tuple(resources))
    with Cluster(bootstrap_server) as cluster:
        while True:
            results = cluster.broker(broker).request(request).results
            if [c.value for result in results for c in result.configs] == ["*", str(rate)]:
                return


class Writer:
    """Writes numbered records to all partitions in turn, until it is told to stop.

    Idempotent, so that what is in the log is what it was told of; some batches are compressed.
    """

    def __init__(self, bootstrap_server: str, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._producers = [
            Producer(
                {
                    "bootstrap.servers": bootstrap_server,
                    "enable.idempotence": True,
                    "compression.type": codec,
                    "linger.ms": 5,
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
                    producer.produce(
                        self._topic, value, partition=partition, on_delivery=self._done
                    )
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0.001)
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


class Watch:
    """What a scenario waits for while the consumer runs: answers that come from now on."""

    def __init__(self, directory: Path, over: threading.Event) -> None:
        self._directory = directory
        self._over = over

    def until_read_from(self, *brokers: int) -> None:
        """Until records have come from each of these."""
        begun_us, seen = now_us(), set[int]()
        while not set(brokers) <= seen:
            assert not self._over.wait(0.1), "the consumer has ended"
            rows = read_rows(raw_path(self._directory, "reads"), len(_READ_COLUMNS))
            time_us, records, broker = (rows[:, _READ_COLUMNS.index(name)] for name in _WATCHED)
            seen = set(broker[(time_us >= begun_us) & (records > 0)].tolist())


def read_while(
    bootstrap_server: str,
    topic: str,
    partitions: int,
    directory: Path,
    act: Callable[[Watch], object],
    discovery: LeaderDiscovery = LeaderDiscovery.KIP951,
    **config: Any,
) -> tuple[ReadRan, Written]:
    """Read while records are written and something is done, until all that was written is read."""
    writer, over, failures = Writer(bootstrap_server, topic, partitions), threading.Event(), []
    received: list[Received] = []
    ends: dict[int, int] = {}
    written_all = threading.Event()

    def write_and_act() -> None:
        writing = threading.Thread(target=writer.run)
        writing.start()
        try:
            act(Watch(directory, over))
        except BaseException as failure:
            failures.append(failure)
        finally:
            writer.stopping.set()
            writing.join()
            written_all.set()

    def should_stop() -> bool:
        if not written_all.is_set():
            return False
        if not ends:
            with Cluster(bootstrap_server) as cluster:
                ends.update(offsets(cluster, topic, LATEST))
        return bool(failures) or (bool(received) and received[0].count >= sum(ends.values()))

    def on_records(now: Received) -> None:
        if not received:
            received.append(now)

    acting = threading.Thread(target=write_and_act)
    acting.start()
    settings = {"auto_offset_reset": "earliest", "retry_backoff_ms": 50} | config
    spec = ConsumeSpec(
        Access(bootstrap_server),
        topic,
        num_records=10**9,
        timeout_ms=60_000,
        discovery=discovery,
        config=ConsumerConfig(**settings),
    )
    try:
        ran = run_read(spec, directory, should_stop, on_records)
    finally:
        over.set()
        writer.stopping.set()
        acting.join()
    if failures:
        raise failures[0]
    return ran, writer.written()


def await_isr(
    bootstrap_server: str, topic: str, isr: set[int] | None = None, seen_by: int | None = None
) -> None:
    """Wait until these are in sync, or every replica, as one broker sees it, or each."""
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=topic),))
    with Cluster(bootstrap_server) as cluster:
        while True:
            cluster.metadata(())
            brokers = cluster.nodes if seen_by is None else [seen_by]
            answers = [cluster.broker(broker).request(asked) for broker in brokers]
            partitions = [p for a in answers for t in a.topics for p in t.partitions]
            if partitions and all(
                set(p.isr_nodes) == (isr or set(p.replica_nodes)) and p.leader_id >= 0
                for p in partitions
            ):
                return
            time.sleep(0.1)
