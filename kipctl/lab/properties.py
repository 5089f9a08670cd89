"""What a lab is asked to be, and the files each of its nodes is started with."""

import base64
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kipctl.errors import UsageError

DEFAULT_KAFKA_VERSION = "4.3.1"
HOST = "127.0.0.1"
FIRST_CONTROLLER_ID = 101

SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS = 3000, 250
"""How long the controller takes a silent broker for alive, and how often a broker is heard of.

It refuses a broker that starts again for as long (DUPLICATE_BROKER_REGISTRATION). A lab is more
often restarted than its crashes are measured; a busy machine stays below 3 s.
"""
KAFKAS_SESSION = (
    ("broker.session.timeout.ms", "9000"),
    ("broker.heartbeat.interval.ms", "2000"),
)
"""Kafka's own, as `config`: what a crash costs clients is measured with them."""

# These say where a node lives in its lab; another value would cut it off from the rest.
_OWN_KEYS = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "broker.id",
        "process.roles",
    }
)


class Role(StrEnum):
    """What a node does. `BOTH` is for the one throwaway node that a class archive is made with."""

    BROKER = "broker"
    CONTROLLER = "controller"
    BOTH = "broker,controller"


def suits_c1(nodes: int) -> bool:
    """Whether so many nodes leave no core for Java's second compiler, which works for minutes.

    What is measured of such a lab would be that compiler, above all.
    """
    return (os.cpu_count() or 1) < nodes


@dataclass(frozen=True, slots=True)
class LabSpec:
    """A lab as it was asked for. Raises UsageError for what cannot be built.

    Broker i (from 1) is in rack `rack-<1 + (i - 1) mod racks>`; with `racks` 0 it has none.
    `port` is the first of the consecutive ports used; None takes free ones. `request_log` lets
    every node log each request from its start. With `metrics` every broker serves its metrics over
    HTTP, on a port of its own. With `c1_only` brokers run without Java's second compiler: they
    are as fast after seconds as they will be, and at full speed slower than others.
    """

    name: str = "default"
    brokers: int = 3
    controllers: int = 1
    racks: int = 3
    kafka_version: str = DEFAULT_KAFKA_VERSION
    kafka_home: Path | None = None
    config: tuple[tuple[str, str], ...] = ()
    port: int | None = None
    request_log: bool = False
    metrics: bool = False
    c1_only: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", self.name):
            raise UsageError(
                f"{self.name!r} is no name for a lab.",
                "Use up to 63 letters, digits, '.', '_' or '-', the first a letter or digit.",
            )
        if not 1 <= self.brokers < FIRST_CONTROLLER_ID:
            raise UsageError(
                f"A lab has 1 to {FIRST_CONTROLLER_ID - 1} brokers, not {self.brokers}."
            )
        if not 1 <= self.controllers <= 9:
            raise UsageError(f"A lab has 1 to 9 controllers, not {self.controllers}.")
        if self.racks < 0:
            raise UsageError(f"A lab cannot have {self.racks} racks.", "Use 0 for no racks.")
        if not re.fullmatch(r"\d+\.\d+\.\d+(-[A-Za-z0-9.]+)?", self.kafka_version):
            raise UsageError(
                f"{self.kafka_version!r} is no Kafka version.",
                f"Write it as {DEFAULT_KAFKA_VERSION}.",
            )
        if self.port is not None and not 1 <= self.port <= 65536 - self.ports:
            raise UsageError(
                f"From port {self.port} on there is no room for {self.ports} ports.",
                f"Give one from 1 to {65536 - self.ports}.",
            )
        for key, _ in self.config:
            if key in _OWN_KEYS:
                raise UsageError(
                    f"--config {key} cannot be set: the lab decides it for each node.",
                    "Choose with --brokers, --controllers, --racks and --port instead.",
                )

    @property
    def ports(self) -> int:
        """How many it takes: one for each node, and one for each broker's metrics."""
        return self.brokers * (2 if self.metrics else 1) + self.controllers


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node's place in the lab; `metrics_port` is None where none are served."""

    id: int
    role: Role
    rack: str | None
    port: int
    metrics_port: int | None = None

    @property
    def label(self) -> str:
        return f"{self.role.value}-{self.id}"

    @property
    def ports(self) -> tuple[int, ...]:
        """All that it listens on."""
        return (self.port,) if self.metrics_port is None else (self.port, self.metrics_port)

    @property
    def metrics_url(self) -> str | None:
        """Where its metrics are, in Prometheus' text format."""
        return None if self.metrics_port is None else f"http://{HOST}:{self.metrics_port}/metrics"


def node_specs(spec: LabSpec, first_port: int) -> tuple[NodeSpec, ...]:
    """Brokers 1, 2, ... and then controllers 101, 102, ..., on consecutive ports.

    The ports of the brokers' metrics come after those of the nodes.
    """
    first_of_metrics = first_port + spec.brokers + spec.controllers
    brokers = tuple(
        NodeSpec(
            id=number + 1,
            role=Role.BROKER,
            rack=f"rack-{number % spec.racks + 1}" if spec.racks else None,
            port=first_port + number,
            metrics_port=first_of_metrics + number if spec.metrics else None,
        )
        for number in range(spec.brokers)
    )
    controllers = tuple(
        NodeSpec(
            FIRST_CONTROLLER_ID + number, Role.CONTROLLER, None, first_port + spec.brokers + number
        )
        for number in range(spec.controllers)
    )
    return brokers + controllers


def is_kafka_4(kafka_version: str) -> bool:
    """Kafka 4.0 brought log4j 2 and the share coordinator."""
    return int(kafka_version.split(".", 1)[0]) >= 4


def server_properties(
    node: NodeSpec,
    nodes: tuple[NodeSpec, ...],
    folder: Path,
    kafka_version: str,
    config: tuple[tuple[str, str], ...] = (),
) -> dict[str, str]:
    """The node's server.properties; its records go to `folder`/data, `config` has the last word.

    Kafka's defaults, except for what makes the lab small, quick to start and to restart, and of
    several racks.
    """
    brokers = sum(other.role is not Role.CONTROLLER for other in nodes)
    replicas = str(min(3, brokers))
    in_sync = str(min(2, brokers))
    voters = ",".join(
        f"{n.id}@{HOST}:{_controller_port(n)}" for n in nodes if n.role is not Role.BROKER
    )
    client_listener = f"PLAINTEXT://{HOST}:{node.port}"
    controller_listener = f"CONTROLLER://{HOST}:{_controller_port(node)}"
    properties = {
        "node.id": str(node.id),
        "process.roles": node.role.value,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": {
            Role.BROKER: client_listener,
            Role.CONTROLLER: controller_listener,
            Role.BOTH: f"{client_listener},{controller_listener}",
        }[node.role],
        "log.dirs": str(folder / "data"),
        # Topics are made on purpose: a mistyped name is an error, not a new topic.
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        # A broker that starts again is let in once the session of the one before it has ended.
        "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        "broker.heartbeat.interval.ms": str(HEARTBEAT_INTERVAL_MS),
        # A bounded disk: at most 32 MiB and a segment per partition, checked every 2 s.
        "log.segment.bytes": str(16 << 20),
        "log.retention.bytes": str(32 << 20),
        "log.retention.check.interval.ms": "2000",
        "log.initial.task.delay.ms": "2000",
        "log.segment.delete.delay.ms": "1000",
        "log.index.size.max.bytes": str(1 << 20),
        "metadata.log.segment.bytes": str(16 << 20),
        "metadata.max.retention.bytes": str(32 << 20),
        # The default of 128 MiB does not fit the heap.
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
    }
    if node.role is not Role.CONTROLLER:
        properties["advertised.listeners"] = client_listener
        properties["replica.selector.class"] = (
            "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        )
    if node.rack is not None:
        properties["broker.rack"] = node.rack
    if is_kafka_4(kafka_version):
        properties["share.coordinator.state.topic.num.partitions"] = "4"
        properties["share.coordinator.state.topic.replication.factor"] = replicas
        properties["share.coordinator.state.topic.min.isr"] = in_sync
    return properties | dict(config)


def _controller_port(node: NodeSpec) -> int:
    return node.port + 1 if node.role is Role.BOTH else node.port


def meta_properties(cluster_id: str, node_id: int) -> dict[str, str]:
    """What Kafka's `storage format` writes into meta.properties (MetaProperties, version 1)."""
    return {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": kafka_uuid(),
    }


def kafka_uuid() -> str:
    """A random id as Kafka writes them: base64 of 16 bytes, 22 characters, no leading dash."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[:22]).startswith("-"):
        pass
    return text


def properties_text(properties: Mapping[str, str]) -> str:
    """A Java properties file (java.util.Properties.load), one `key=value` line each."""
    return "".join(
        f"{_escaped(key, ' =:#!')}={_escaped(value, '')}\n" for key, value in properties.items()
    )


def _escaped(text: str, special: str) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    for character in special:
        text = text.replace(character, "\\" + character)
    if text.startswith(" "):
        text = "\\" + text
    return "".join(c if " " <= c <= "~" else _unicode_escape(c) for c in text)


def _unicode_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def log4j_config(
    kafka_version: str, folder: Path, request_log: bool = False
) -> tuple[str, str, str]:
    """File name, text and JVM option of the logging configuration.

    server.log holds what the node does and is rolled at 10 MB, with one old file. request.log holds
    what `kafka.request.logger` writes at DEBUG: each request, about 2 kB a line. With `request_log`
    it does so from the start, and there is room for four files of 64 MB; without, once its level is
    changed, and it is rolled as server.log is.
    """
    chosen = {
        "folder": folder,
        "level": "DEBUG" if request_log else "WARN",
        "size": "64MB" if request_log else "10MB",
        "old_files": 3 if request_log else 1,
    }
    if is_kafka_4(kafka_version):
        path = folder / "log4j2.properties"
        return path.name, _LOG4J_2.format(**chosen), f"-Dlog4j2.configurationFile={path}"
    path = folder / "log4j.properties"
    return path.name, _LOG4J_1.format(**chosen), f"-Dlog4j.configuration=file:{path}"


_LOG4J_2 = """\
status = error
appender.server.type = RollingFile
appender.server.name = server
appender.server.fileName = {folder}/server.log
appender.server.filePattern = {folder}/server.log.%i
appender.server.layout.type = PatternLayout
appender.server.layout.pattern = [%d] %p %m (%c)%n
appender.server.policy.type = SizeBasedTriggeringPolicy
appender.server.policy.size = 10MB
appender.server.strategy.type = DefaultRolloverStrategy
appender.server.strategy.max = 1
appender.request.type = RollingFile
appender.request.name = request
appender.request.fileName = {folder}/request.log
appender.request.filePattern = {folder}/request.log.%i
appender.request.layout.type = PatternLayout
appender.request.layout.pattern = [%d] %p %m (%c)%n
appender.request.policy.type = SizeBasedTriggeringPolicy
appender.request.policy.size = {size}
appender.request.strategy.type = DefaultRolloverStrategy
appender.request.strategy.max = {old_files}
rootLogger.level = info
rootLogger.appenderRef.server.ref = server
logger.request.name = kafka.request.logger
logger.request.level = {level}
logger.request.additivity = false
logger.request.appenderRef.request.ref = request
"""

_LOG4J_1 = """\
log4j.rootLogger=INFO, server
log4j.appender.server=org.apache.log4j.RollingFileAppender
log4j.appender.server.File={folder}/server.log
log4j.appender.server.MaxFileSize=10MB
log4j.appender.server.MaxBackupIndex=1
log4j.appender.server.layout=org.apache.log4j.PatternLayout
log4j.appender.server.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.request=org.apache.log4j.RollingFileAppender
log4j.appender.request.File={folder}/request.log
log4j.appender.request.MaxFileSize={size}
log4j.appender.request.MaxBackupIndex={old_files}
log4j.appender.request.layout=org.apache.log4j.PatternLayout
log4j.appender.request.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.kafka.request.logger={level}, request
log4j.additivity.kafka.request.logger=false
"""
