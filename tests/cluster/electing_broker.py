"""A cluster on one loopback port that holds elections: what it was asked to elect, and when."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from commands import Commands
from on_lab import Ran
from scripted_broker import HANG_UP, Asked, ScriptedBroker

from kipctl.changes.journal.journal import Journal, journal
from kipctl.cluster.snapshot import NO_LEADER, Broker, Partition, PartitionId, Snapshot
from kipctl.protocol.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kipctl.protocol.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def partition(
    topic: str, number: int, replicas: tuple[int, ...], leader: int, isr: tuple[int, ...] = ()
) -> Partition:
    return Partition(
        PartitionId(topic, number),
        replicas,
        isr or replicas,
        leader,
        leader_epoch=5,
        offline=tuple(r for r in replicas if r == NO_LEADER),
        internal=topic.startswith("__"),
    )


@dataclass
class ElectingCluster(Commands):
    """Brokers of these ids, all at one port, and what they show; those `stopped` are registered.

    `codes` answer the next elections as a whole (None hangs up); `refusals` are of partitions. Once
    it does not `elect`, it says so and leaves them as they are. The functions are called meanwhile.
    """

    partitions: dict[PartitionId, Partition]
    brokers: tuple[int, ...] = (1, 2, 3)
    stopped: tuple[int, ...] = ()
    codes: list[int | None] = field(default_factory=list)
    refusals: dict[PartitionId, int] = field(default_factory=dict)
    elects: bool = True
    before_election: Callable[[], None] = lambda: None
    after_election: Callable[[], None] = lambda: None
    before_metadata: Callable[[], None] = lambda: None
    elected: list[list[PartitionId]] = field(default_factory=list)
    port: int = 0
    state: Path = field(default_factory=lambda: Path(mkdtemp(prefix="kipctl-journal-")))
    metadata_asked: int = 0
    log_ends: dict[PartitionId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        finalize(self, rmtree, self.state)

    @property
    def kept(self) -> Journal:
        return journal("c", {"XDG_STATE_HOME": str(self.state)})

    @classmethod
    def of(cls, *partitions: Partition) -> "ElectingCluster":
        return cls({partition.id: partition for partition in partitions})

    def start(self) -> ScriptedBroker:
        broker = ScriptedBroker(self.answer)
        self.port = broker.port
        return broker

    @property
    def bootstrap_server(self) -> str:
        return f"127.0.0.1:{self.port}"

    def kipctl(self, *arguments: str, **more: Any) -> Ran:
        with self.start():
            return super().kipctl(*arguments, **more)

    def snapshot(self, only: Iterable[PartitionId] | None = None) -> Snapshot:
        all_of_it = Snapshot(
            "c",
            tuple(Broker(id, "127.0.0.1", self.port, None) for id in self.brokers),
            tuple(self.partitions.values()),
        )
        return all_of_it if only is None else all_of_it.only(only)

    def delete(self, topic: str) -> None:
        for partition in [partition for partition in self.partitions if partition.topic == topic]:
            del self.partitions[partition]

    def lead(self, partition: PartitionId, leader: int) -> None:
        old = self.partitions[partition]
        self.partitions[partition] = replace(old, leader=leader, leader_epoch=old.leader_epoch + 1)

    def answer(self, asked: Asked) -> Response | bytes | None:
        match asked.request:
            case MetadataRequest():
                return self._metadata(asked.request)
            case ElectLeadersRequest():
                return self._elect(asked.request)
            case ListOffsetsRequest():
                return self._log_ends(asked.request)
            case ListPartitionReassignmentsRequest():
                return ListPartitionReassignmentsResponse()
            case DescribeClusterRequest():
                return self._registered()
        return None

    def _registered(self) -> DescribeClusterResponse:
        return DescribeClusterResponse(
            brokers=tuple(
                DescribeClusterBroker(id, "127.0.0.1", self.port, is_fenced=id in self.stopped)
                for id in (*self.brokers, *self.stopped)
            )
        )

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        self.metadata_asked += 1
        self.before_metadata()
        there = {
            topic: tuple(group)
            for topic, group in groupby(self.partitions.values(), key=lambda p: p.id.topic)
        }
        names = list(there) if request.topics is None else [t.name or "" for t in request.topics]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return MetadataResponse(
            cluster_id="c",
            controller_id=1,
            brokers=tuple(
                MetadataResponseBroker(id, "127.0.0.1", self.port) for id in self.brokers
            ),
            topics=tuple(
                MetadataResponseTopic(
                    name=name,
                    error_code=0 if name in there else unknown,
                    is_internal=name.startswith("__"),
                    partitions=tuple(
                        MetadataResponsePartition(
                            partition_index=partition.id.partition,
                            leader_id=partition.leader,
                            leader_epoch=partition.leader_epoch,
                            replica_nodes=partition.replicas,
                            isr_nodes=partition.isr,
                            offline_replicas=partition.offline,
                        )
                        for partition in there.get(name, ())
                    ),
                )
                for name in names
            ),
        )

    def _elect(self, request: ElectLeadersRequest) -> ElectLeadersResponse | bytes:
        self.before_election()
        ids = [
            PartitionId(topic.topic, number)
            for topic in request.topic_partitions or ()
            for number in topic.partitions
        ]
        code = self.codes.pop(0) if self.codes else 0
        if code is None:
            return HANG_UP
        if code:
            return ElectLeadersResponse(error_code=code)
        self.elected.append(ids)
        outcomes = {partition: self._outcome(partition, request.election_type) for partition in ids}
        self.after_election()
        return ElectLeadersResponse(
            replica_election_results=tuple(
                ReplicaElectionResult(
                    topic, tuple(PartitionResult(part.partition, outcomes[part]) for part in group)
                )
                for topic, group in groupby(ids, key=lambda partition: partition.topic)
            )
        )

    def _outcome(self, partition: PartitionId, kind: int) -> int:
        if partition not in self.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        code = self.refusals.get(partition, 0)
        if self.elects and code in (0, ErrorCode.REQUEST_TIMED_OUT):
            now = self.partitions[partition]
            live = [replica for replica in now.replicas if replica in self.brokers]
            self.lead(partition, live[0] if kind == ElectionType.UNCLEAN else now.preferred_leader)
        return code

    def _log_ends(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    topic.name,
                    tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=partition.partition_index,
                            offset=self.log_ends.get(
                                PartitionId(topic.name, partition.partition_index), 0
                            ),
                        )
                        for partition in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )
