"""A large cluster on loopback: a port for each broker, sizes of its own, copying that takes time.

What a move adds grows from nothing to the partition's size in `copy_s` seconds, and arrives then.
It answers fast enough for a hundred thousand partitions: what it shows is encoded once for each
state that it is in.
"""

import random
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid5

from reassigning import _IDS, VERSIONS, Held, Reassigning, Replicas
from scripted_broker import Asked, ScriptedBroker

from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kipctl.protocol.elect_leaders import ElectLeadersRequest
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.incremental_alter_configs import IncrementalAlterConfigsRequest
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from kipctl.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

RACKS = ("a", "b", "c")
CONTROLLER = 0x7A7A7A7A
"""Stands for whichever broker an answer is to name."""
MOST_RECORDS = 10_000
"""In one operation of the controller (Kafka's `QuorumController.MAX_RECORDS_PER_BATCH`)."""
MOST_BYTES = 104_857_600
"""Of one request (`socket.request.max.bytes`)."""


def sizes_asked(request: object) -> tuple[str, int]:
    """Which kind of request it is, and how many partitions or resources are in it."""
    name = type(request).__name__.removesuffix("Request")
    match request:
        case AlterPartitionReassignmentsRequest():
            return name, sum(len(topic.partitions) for topic in request.topics)
        case ElectLeadersRequest():
            return name, sum(len(topic.partitions) for topic in request.topic_partitions or ())
        case IncrementalAlterConfigsRequest():
            return name, sum(len(resource.configs) for resource in request.resources)
        case MetadataRequest() | ListPartitionReassignmentsRequest() | DescribeLogDirsRequest():
            return name, len(request.topics or ())
        case _:
            return name, 0


@dataclass
class ManyBrokers(Reassigning):
    """`sizes` are bytes by partition. `counts` has, by kind of request, how many came; `largest`
    the most partitions (or topics, where only these are named) in one of them."""

    sizes: Mapping[PartitionId, int] = field(default_factory=dict)
    copy_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    largest: dict[str, int] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)
    moves_at_once: bool = False
    clock: Callable[[], float] = time.monotonic
    _since: dict[PartitionId, float] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _shown_topics: dict[str, MetadataResponseTopic] = field(default_factory=dict)
    _frames: dict[tuple[object, ...], bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_topic: dict[str, list[PartitionId]] = defaultdict(list)
        self._on_broker: dict[int, set[PartitionId]] = defaultdict(set)
        for partition in sorted(self.partitions):
            self._by_topic[partition.topic].append(partition)
            for broker in self.partitions[partition].replicas:
                self._on_broker[broker].add(partition)

    def answer_as(self, broker: int, asked: Asked) -> Response | bytes | None:
        """What this broker answers."""
        with self._lock:
            kind, size = sizes_asked(asked.request)
            self.counts[kind] += 1
            self.largest[kind] = max(size, self.largest.get(kind, 0))
            self._arrive()
            match asked.request:
                case DescribeLogDirsRequest():
                    return self._dirs_of(broker, asked.request)
                case MetadataRequest():
                    return self._cached(asked)
            return self.answer(asked)

    def _arrive(self) -> None:
        """What has been copied is where it was to go."""
        until = self.clock() - self.copy_s
        for partition in [partition for partition, since in self._since.items() if since <= until]:
            held = self.partitions[partition]
            del self._since[partition]
            if held.target:
                for broker in set(held.replicas) - set(held.target):
                    self._on_broker[broker].discard(partition)
                held.replicas, held.target = held.target, None
                if held.leader not in held.replicas:
                    held.leader, held.epoch = held.replicas[0], held.epoch + 1
            self._changed(partition)

    def _changed(self, partition: PartitionId) -> None:
        self._shown_topics.pop(partition.topic, None)
        self._frames.clear()

    def _take(self, partition_id: PartitionId, replicas: Replicas | None) -> int:
        code = super()._take(partition_id, replicas)
        held = self.partitions[partition_id]
        if held.target:
            self._since[partition_id] = self.clock()
            for broker in held.target:
                self._on_broker[broker].add(partition_id)
        self._changed(partition_id)
        return code

    def _elect_one(self, partition_id: PartitionId) -> int:
        self._changed(partition_id)
        return super()._elect_one(partition_id)

    def _cached(self, asked: Asked) -> bytes:
        """In KRaft each answer names another broker as the controller."""
        key = (asked.version, asked.request.topics)
        if key not in self._frames:
            self._frames[key] = asked.answer(self._metadata(asked.request))
        before, after = self._frames[key].split(struct.pack(">i", CONTROLLER))
        head = before[:4] + struct.pack(">i", asked.correlation_id) + before[8:]
        return head + struct.pack(">i", random.choice(self.brokers)) + after

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        wanted = (
            list(self._by_topic)
            if request.topics is None
            else [topic.name or "" for topic in request.topics]
        )
        return MetadataResponse(
            cluster_id="large",
            controller_id=CONTROLLER,
            brokers=tuple(
                MetadataResponseBroker(b, "127.0.0.1", self.ports[b], RACKS[b % len(RACKS)])
                for b in self.brokers
            ),
            topics=tuple(map(self._topic, wanted)),
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self._shown_topics:
            known = self._by_topic.get(name, ())
            self._shown_topics[name] = MetadataResponseTopic(
                error_code=0 if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                name=name,
                topic_id=uuid5(_IDS, name),
                partitions=tuple(map(self._shown, known)),
            )
        return self._shown_topics[name]

    def _ongoing(
        self, request: ListPartitionReassignmentsRequest
    ) -> tuple[OngoingTopicReassignment, ...]:
        asked = request.topics and {
            PartitionId(t.name, n) for t in request.topics for n in t.partition_indexes
        }
        ongoing: dict[str, list[OngoingPartitionReassignment]] = defaultdict(list)
        for partition in self._since:
            held = self.partitions[partition]
            if held.target and (asked is None or partition in asked):
                ongoing[partition.topic].append(
                    OngoingPartitionReassignment(
                        partition.partition,
                        held.all_replicas,
                        tuple(b for b in held.target if b not in held.replicas),
                        tuple(b for b in held.replicas if b not in held.target),
                    )
                )
        return tuple(OngoingTopicReassignment(t, tuple(p)) for t, p in ongoing.items())

    def _dirs_of(self, broker: int, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
        held = self._on_broker[broker]
        if request.topics is not None:
            held = held & {PartitionId(t.topic, n) for t in request.topics for n in t.partitions}
        topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
        for partition in held:
            size = round(self.sizes[partition] * self._share_copied(partition, broker))
            log = DescribeLogDirsPartition(partition.partition, size, 0, False)
            topics[partition.topic].append(log)
        return DescribeLogDirsResponse(
            results=(
                DescribeLogDirsResult(
                    log_dir="/data",
                    topics=tuple(DescribeLogDirsTopic(t, tuple(p)) for t, p in topics.items()),
                    total_bytes=2 * self.usable_bytes,
                    usable_bytes=self.usable_bytes,
                ),
            )
        )

    def _share_copied(self, partition: PartitionId, broker: int) -> float:
        if broker in self.partitions[partition].replicas or partition not in self._since:
            return 1.0
        passed_s = self.clock() - self._since[partition]
        return min(1.0, passed_s / self.copy_s) if self.copy_s else 1.0


def uneven(
    partitions: int, brokers: int, per_topic: int = 20
) -> tuple[dict[PartitionId, Held], dict[PartitionId, int]]:
    """Three replicas a partition, a rack each (broker n is in rack n modulo 3), and sizes in bytes.

    Brokers with low ids lead more; every third partition is led by its second replica.
    """
    racks = [[b for b in range(1, brokers + 1) if b % len(RACKS) == rack] for rack in range(3)]
    held, sizes = {}, {}
    for number in range(partitions):
        partition = PartitionId(f"topic-{number // per_topic:05}", number % per_topic)
        places = (number * 7, number * 11 + number // 13, number * 3 + number // 7)
        ids = tuple(rack[p % len(rack)] for rack, p in zip(racks, places, strict=True))
        replicas = tuple(sorted(ids)) if number % 2 else (*ids[1:], ids[0])
        held[partition] = Held(replicas, replicas[number % 3 == 0])
        sizes[partition] = 1_000_000 * (1 + number % 50)
    return held, sizes


@contextmanager
def many_brokers(cluster: ManyBrokers) -> Iterator[ScriptedBroker]:
    """A port for each broker; yields one of them."""
    with ExitStack() as running:
        cluster.state = Path(running.enter_context(TemporaryDirectory()))
        started = {
            b: running.enter_context(ScriptedBroker(partial(cluster.answer_as, b), VERSIONS))
            for b in cluster.brokers
        }
        cluster.ports = {b: broker.port for b, broker in started.items()}
        cluster.port = min(cluster.ports.items())[1]
        yield started[min(started)]
