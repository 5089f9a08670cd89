"""A cluster on loopback that reassigns and elects as Kafka does, and stumbles as a test says.

An order of replicas is taken at once; a move of data stays in progress until `finish`. All brokers
have one address.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID, uuid5

from commands import Commands
from scripted_broker import HANG_UP, Asked, ScriptedBroker

from kipctl.changes.journal.entry import Entry
from kipctl.changes.journal.journal import Journal, journal
from kipctl.changes.plans.kafka_json import reassignment_document
from kipctl.cluster.snapshot import PartitionId
from kipctl.protocol.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kipctl.protocol.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    ResourceType,
)
from kipctl.protocol.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kipctl.protocol.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
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
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

VERSIONS = {
    3: (0, 12),
    18: (0, 4),
    32: (1, 4),
    34: (1, 2),
    35: (1, 4),
    43: (0, 2),
    44: (0, 1),
    45: (0, 1),
    46: (0, 0),
}
_IDS = UUID(int=7)
_OWN = {
    ResourceType.TOPIC: ConfigSource.TOPIC,
    ResourceType.BROKER: ConfigSource.BROKER,
    ResourceType.BROKER_LOGGER: ConfigSource.BROKER,
}

Replicas = tuple[int, ...]


@dataclass
class Held:
    """A partition: who holds and leads it, and the target that it is on its way to."""

    replicas: Replicas
    leader: int
    epoch: int = 0
    target: Replicas | None = None
    isr: Replicas | None = None

    @property
    def all_replicas(self) -> Replicas:
        extra = [b for b in self.replicas if b not in (self.target or self.replicas)]
        return (*(self.target or self.replicas), *extra)


@dataclass
class Reassigning(Commands):
    """`refused` are partitions whose reassignment is refused, `unelected` those that stay with
    their leader; `stumbles` has for an API (by its request) what happens before it is answered: an
    error code, HANG_UP, or None for nothing. `changes` are called before each Alter is worked on.
    So many answers to Metadata, `late_looks`, show partitions as they are in `shown_before`.
    """

    partitions: dict[PartitionId, Held]
    brokers: Replicas = (1, 2, 3, 4)
    cluster_id: str = "fake"
    refused: set[PartitionId] = field(default_factory=set)
    unelected: set[PartitionId] = field(default_factory=set)
    stumbles: dict[type, list[int | bytes | None]] = field(default_factory=dict)
    changes: list[Callable[[], None]] = field(default_factory=list)
    altered: list[dict[PartitionId, Replicas | None]] = field(default_factory=list)
    elected: list[set[PartitionId]] = field(default_factory=list)
    incarnations: dict[str, int] = field(default_factory=dict)
    min_insync: dict[str, str] = field(default_factory=dict)
    moves_at_once: bool = True
    arriving: set[PartitionId] = field(default_factory=set)
    """Of what is submitted, those that move at once where not all do."""
    late_looks: int = 0
    shown_before: dict[PartitionId, Held] = field(default_factory=dict)
    looks: int = 0
    """So often what is being reassigned is listed before it has arrived; 0: until `finish`."""
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    late_configs: int = 0
    """So many answers show, after each change of configs, what was set before it."""
    configs_before: list[dict[tuple[int, str], dict[str, str]]] = field(default_factory=list)
    bytes_each: int = 1000
    usable_bytes: int = 10**12
    log_dirs: tuple[str, ...] = ("/data",)
    located: dict[PartitionId, str] = field(default_factory=dict)
    """In which of them a partition is, if not in the first; and to which it is on its way."""
    futures: dict[PartitionId, str] = field(default_factory=dict)
    disk_looks: int = 1
    """So often a partition is seen on its way to a directory before it is there; 0: for good."""
    disks_asked: list[dict[PartitionId, str]] = field(default_factory=list)
    swapped_late: set[PartitionId] = field(default_factory=set)
    """Those that take their place just before the next request for a directory is worked on."""
    port: int = 0
    unreached: bool = False
    """Whether brokers are listed where nobody can reach them, as behind one port-forward."""
    state: Path = Path()
    broker: ScriptedBroker | None = None
    _looked: int = 0
    _disks_looked: int = 0

    def plan_file(self, target: Mapping[PartitionId, Replicas]) -> str:
        path = self.state / "plan.json"
        path.write_text(json.dumps(reassignment_document(target)))
        return str(path)

    @property
    def bootstrap_server(self) -> str:
        return f"127.0.0.1:{self.port}"

    def at(self, broker: int) -> tuple[str, int]:
        """Where the cluster lists a broker: all are this one."""
        return ("127.0.0.1", broker) if self.unreached else ("127.0.0.1", self.port)

    @property
    def kept(self) -> Journal:
        return journal("fake", {"XDG_STATE_HOME": str(self.state)})

    def entries(self) -> list[Entry]:
        """Of the journal, the newest first."""
        return list(self.kept.entries())

    def states(self) -> list[str]:
        return [str(entry.state) for entry in self.entries()]

    def finish(self, only: Collection[PartitionId] | None = None) -> None:
        """What is being moved has arrived: all of it, or these partitions."""
        for partition, held in self.partitions.items():
            if held.target and (only is None or partition in only):
                held.replicas, held.target = held.target, None
                if held.leader not in held.replicas:
                    held.leader, held.epoch = held.replicas[0], held.epoch + 1

    def replicas(self) -> dict[PartitionId, Replicas]:
        return {p: held.replicas for p, held in self.partitions.items()}

    def leaders(self) -> dict[PartitionId, int]:
        return {p: held.leader for p, held in self.partitions.items()}

    def answer(self, asked: Asked) -> Response | bytes | None:
        stumbles = self.stumbles.get(type(asked.request), [])
        stumble = stumbles.pop(0) if stumbles else None
        if stumble == HANG_UP:
            return HANG_UP
        code = stumble if isinstance(stumble, int) else 0
        match asked.request:
            case MetadataRequest():
                return self._metadata(asked.request)
            case ListPartitionReassignmentsRequest():
                return ListPartitionReassignmentsResponse(
                    error_code=code, topics=self._ongoing(asked.request)
                )
            case AlterPartitionReassignmentsRequest() if code:
                return AlterPartitionReassignmentsResponse(error_code=code)
            case AlterPartitionReassignmentsRequest():
                return self._alter(asked.request)
            case ElectLeadersRequest():
                return self._elect(asked.request, code)
            case DescribeConfigsRequest():
                return self._configs(asked.request)
            case DescribeLogDirsRequest() if code:
                return DescribeLogDirsResponse(error_code=code)
            case DescribeLogDirsRequest():
                return self._log_dirs()
            case AlterReplicaLogDirsRequest():
                return self._alter_log_dirs(asked.request, code)
            case IncrementalAlterConfigsRequest():
                return self._alter_configs(asked.request)
        return None

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        known: dict[str, list[PartitionId]] = {}
        for partition_id in sorted(self.partitions):
            known.setdefault(partition_id.topic, []).append(partition_id)
        names = list(known) if request.topics is None else [t.name or "" for t in request.topics]
        answer = MetadataResponse(
            cluster_id=self.cluster_id,
            controller_id=1,
            brokers=tuple(MetadataResponseBroker(b, *self.at(b)) for b in self.brokers),
            topics=tuple(
                MetadataResponseTopic(
                    error_code=0 if name in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    name=name,
                    is_internal=name.startswith("__"),
                    topic_id=uuid5(_IDS, f"{name}/{self.incarnations.get(name, 0)}"),
                    partitions=tuple(map(self._shown, known.get(name, ()))),
                )
                for name in names
            ),
        )
        self.late_looks -= self.late_looks > 0
        return answer

    def _shown(self, partition_id: PartitionId) -> MetadataResponsePartition:
        held = self.partitions[partition_id]
        if self.late_looks:
            held = self.shown_before.get(partition_id, held)
        # One that is being added is listed, and not in sync.
        alive = tuple(b for b in held.all_replicas if b in self.brokers and b in held.replicas)
        return MetadataResponsePartition(
            partition_index=partition_id.partition,
            leader_id=held.leader,
            leader_epoch=held.epoch,
            replica_nodes=held.all_replicas,
            isr_nodes=held.isr or alive,
        )

    def _ongoing(
        self, request: ListPartitionReassignmentsRequest
    ) -> tuple[OngoingTopicReassignment, ...]:
        if self.looks and any(held.target for held in self.partitions.values()):
            self._looked += 1
            if self._looked > self.looks:
                self._looked = 0
                self.finish()
        asked = request.topics and {
            PartitionId(t.name, n) for t in request.topics for n in t.partition_indexes
        }
        return tuple(
            OngoingTopicReassignment(
                p.topic,
                (
                    OngoingPartitionReassignment(
                        p.partition,
                        held.all_replicas,
                        tuple(b for b in held.target if b not in held.replicas),
                        tuple(b for b in held.replicas if b not in held.target),
                    ),
                ),
            )
            for p, held in self.partitions.items()
            if held.target and (asked is None or p in asked)
        )

    def _alter(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        if self.changes:
            self.changes.pop(0)()
        wanted = {
            PartitionId(t.name, p.partition_index): p.replicas
            for t in request.topics
            for p in t.partitions
        }
        self.altered.append(wanted)
        codes = {p: self._take(p, replicas) for p, replicas in wanted.items()}
        if self.moves_at_once or self.arriving:
            self.finish(self.arriving or None)
        return AlterPartitionReassignmentsResponse(
            responses=tuple(
                ReassignableTopicResponse(
                    p.topic, (ReassignablePartitionResponse(p.partition, code, None),)
                )
                for p, code in codes.items()
            )
        )

    def _take(self, partition_id: PartitionId, replicas: Replicas | None) -> int:
        held = self.partitions.get(partition_id)
        if held is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition_id in self.refused:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if replicas is None:
            if held.target is None:
                return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            # Kafka brings the set back, not its order.
            back = tuple(b for b in held.all_replicas if b in held.replicas)
            held.replicas, held.target = back, None
        elif set(replicas) == set(held.replicas):
            held.replicas, held.target = replicas, None
        else:
            held.target = replicas
        return 0

    def _elect(self, request: ElectLeadersRequest, code: int) -> ElectLeadersResponse:
        if code:
            return ElectLeadersResponse(error_code=code)
        asked = [
            PartitionId(t.topic, n) for t in request.topic_partitions or () for n in t.partitions
        ]
        self.elected.append(set(asked))
        return ElectLeadersResponse(
            replica_election_results=tuple(
                ReplicaElectionResult(p.topic, (PartitionResult(p.partition, self._elect_one(p)),))
                for p in asked
            )
        )

    def _elect_one(self, partition_id: PartitionId) -> int:
        held = self.partitions.get(partition_id)
        if held is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition_id in self.unelected:
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        if held.leader == held.replicas[0]:
            return ErrorCode.ELECTION_NOT_NEEDED
        held.leader, held.epoch = held.replicas[0], held.epoch + 1
        return 0

    def _alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        self.configs_before = [deepcopy(self.configs)] * self.late_configs
        for resource in request.resources:
            own = self.configs.setdefault((resource.resource_type, resource.resource_name), {})
            for config in resource.configs:
                if config.config_operation == ConfigOperation.DELETE:
                    own.pop(config.name, None)
                else:
                    own[config.name] = config.value or ""
        return IncrementalAlterConfigsResponse(
            responses=tuple(
                AlterConfigsResourceResponse(
                    resource_type=resource.resource_type, resource_name=resource.resource_name
                )
                for resource in request.resources
            )
        )

    def _log_dirs(self) -> DescribeLogDirsResponse:
        """As if every broker held every partition: all of them have one address."""
        held = [(p, self.located.get(p, self.log_dirs[0]), False) for p in self.partitions]
        held += [(p, to, True) for p, to in self.futures.items()]
        answer = DescribeLogDirsResponse(
            results=tuple(
                DescribeLogDirsResult(
                    log_dir=log_dir,
                    topics=tuple(
                        DescribeLogDirsTopic(
                            p.topic,
                            (DescribeLogDirsPartition(p.partition, self.bytes_each, 0, is_future),),
                        )
                        for p, where, is_future in held
                        if where == log_dir
                    ),
                    total_bytes=2 * self.usable_bytes,
                    usable_bytes=self.usable_bytes,
                )
                for log_dir in self.log_dirs
            )
        )
        self._disks_looked += bool(self.futures)
        if self.disk_looks and self._disks_looked >= self.disk_looks:
            self.located |= self.futures
            self.futures, self._disks_looked = {}, 0
        return answer

    def _alter_log_dirs(
        self, request: AlterReplicaLogDirsRequest, code: int
    ) -> AlterReplicaLogDirsResponse:
        wanted = {
            PartitionId(topic.name, number): directory.path
            for directory in request.dirs
            for topic in directory.topics
            for number in topic.partitions
        }
        self.disks_asked.append(wanted)
        late, self.swapped_late = self.swapped_late & self.futures.keys(), set()
        self.located |= {p: self.futures.pop(p) for p in late}
        for p, to in wanted.items():
            self.futures.pop(p, None)
            if not code and p not in self.refused and self.located.get(p, self.log_dirs[0]) != to:
                self.futures[p] = to
        return AlterReplicaLogDirsResponse(
            results=tuple(
                AlterReplicaLogDirTopicResult(
                    p.topic,
                    (
                        AlterReplicaLogDirPartitionResult(
                            p.partition, code or ErrorCode.KAFKA_STORAGE_ERROR * (p in self.refused)
                        ),
                    ),
                )
                for p in wanted
            )
        )

    def _configs(self, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        shown = self.configs_before.pop() if self.configs_before else self.configs
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=(
                        DescribeConfigsResourceResult(
                            name="min.insync.replicas",
                            value=self.min_insync.get(resource.resource_name, "1"),
                        ),
                        *_set(shown, resource.resource_type, resource.resource_name),
                    ),
                )
                for resource in request.resources
            )
        )


def _set(
    configs: dict[tuple[int, str], dict[str, str]], kind: int, name: str
) -> Iterator[DescribeConfigsResourceResult]:
    """What is set of its own, or for all brokers: there the name is ""."""
    own = configs.get((kind, name), {})
    of_all = configs.get((kind, ""), {}) if kind == ResourceType.BROKER else {}
    for config in {**of_all, **own}:
        synonyms = [
            DescribeConfigsSynonym(config, values[config], source)
            for values, source in ((own, _OWN[kind]), (of_all, ConfigSource.ALL_BROKERS))
            if config in values
        ]
        yield DescribeConfigsResourceResult(
            name=config,
            value=synonyms[0].value,
            config_source=synonyms[0].source,
            synonyms=tuple(synonyms),
        )


@contextmanager
def reassigning(
    replicas: Mapping[PartitionId, Replicas],
) -> Iterator[tuple[Reassigning, ScriptedBroker]]:
    """A cluster of these partitions, each led by its first replica."""
    cluster = Reassigning({p: Held(ids, ids[0]) for p, ids in replicas.items()})
    with running(cluster) as broker:
        yield cluster, broker


@contextmanager
def running(cluster: Reassigning) -> Iterator[ScriptedBroker]:
    with TemporaryDirectory() as folder, ScriptedBroker(cluster.answer, VERSIONS) as broker:
        cluster.state, cluster.port, cluster.broker = Path(folder), broker.port, broker
        yield broker
