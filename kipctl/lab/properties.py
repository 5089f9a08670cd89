"""What a lab is asked to be, and the files each of its nodes is started with."""

import base64
import os
import re
import uuid
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kipctl.counts import counted
from kipctl.errors import UsageError
from kipctl.lab.security import (
    CERTIFIED_HOSTS,
    OPEN,
    AccessControl,
    Security,
    authorizer_properties,
    listener_properties,
)
from kipctl.protocol.address import host_port

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
        "inter.broker.listener.name",
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
    are as fast after seconds as they will be, and at full speed slower than others. `security`
    is that of the listener for clients; with `acl` they may do what they were granted, no more.
    With `kerberos` it has a KDC, and that listener takes GSSAPI.
    `host` is where that listener is, and under which name it is made known. Each broker has so many
    `log_dirs`. A lab `of_a_run` is
    for the process that makes it, and gone with it.
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
    security: Security = Security.PLAINTEXT
    acl: bool = False
    kerberos: bool = False
    host: str = HOST
    log_dirs: int = 1
    of_a_run: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", self.name):
            raise UsageError(
                f"{self.name!r} is no name for a lab.",
                "Use up to 63 letters, digits, '.', '_' or '-', the first a letter or digit.",
            )
        if not 1 <= self.brokers < FIRST_CONTROLLER_ID:
            raise UsageError(
                f"A lab has 1 to {counted(FIRST_CONTROLLER_ID - 1, 'broker')}, not {self.brokers}."
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
        if self.kafka_home is None:
            refuse_without_kraft(self.kafka_version)
        if not 1 <= self.log_dirs <= 9:
            raise UsageError(f"A broker has 1 to 9 log directories, not {self.log_dirs}.")
        if self.log_dirs > 1 and _before(self.kafka_version, (3, 7)):
            raise UsageError(
                f"In Kafka {self.kafka_version} a broker has one log directory in KRaft.",
                "Take 3.7 or newer.",
            )
        if self.port is not None and not 1 <= self.port <= 65536 - self.ports:
            raise UsageError(
                f"From port {self.port} on there is no room for {self.ports} ports.",
                f"Give one from 1 to {65536 - self.ports}.",
            )
        if self.acl and not self.security.is_secured:
            raise UsageError(
                "ACLs are for users, and on a plaintext listener everybody is ANONYMOUS.",
                "Choose with --security: ssl, sasl_plaintext or sasl_ssl.",
            )
        if self.kerberos and not self.security.has_sasl:
            raise UsageError(
                "Kerberos is for a listener with SASL.",
                "Choose with --security: sasl_plaintext or sasl_ssl.",
            )
        if self.host not in CERTIFIED_HOSTS:
            raise UsageError(
                f"A lab is for this machine alone, and not at {self.host!r}.",
                f"Choose one of {', '.join(CERTIFIED_HOSTS)}.",
            )
        for key, _ in self.config:
            if key in _OWN_KEYS:
                raise UsageError(
                    f"--config {key} cannot be set: the lab decides it for each node.",
                    "Choose with --brokers, --controllers, --racks, --port and --security instead.",
                )

    @property
    def ports(self) -> int:
        """How many it takes: one for each node, more for each broker that listens on more, and
        last that of a KDC."""
        of_brokers = self.brokers * (1 + self.has_internal + self.metrics)
        return of_brokers + self.controllers + self.kerberos

    @property
    def has_internal(self) -> bool:
        """Whether brokers have a plaintext listener at HOST beside the one for clients."""
        return self.security.is_secured or self.host != HOST


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node's place in the lab.

    `port` is for clients, at `host`, or a controller's. `metrics_port` is None where none are
    served, `internal_port` where clients have no listener of their own: then `port` is plaintext.
    """

    id: int
    role: Role
    rack: str | None
    port: int
    metrics_port: int | None = None
    internal_port: int | None = None
    host: str = HOST
    log_dirs: int = 1

    @property
    def label(self) -> str:
        return f"{self.role.value}-{self.id}"

    @property
    def ports(self) -> tuple[int, ...]:
        """All that it listens on."""
        optional = (self.internal_port, self.metrics_port)
        return (self.port, *(port for port in optional if port is not None))

    @property
    def plaintext_port(self) -> int:
        """Where it answers whoever asks, at HOST."""
        return self.port if self.internal_port is None else self.internal_port

    @property
    def metrics_url(self) -> str | None:
        """Where its metrics are, in Prometheus' text format."""
        return None if self.metrics_port is None else f"http://{HOST}:{self.metrics_port}/metrics"


def node_specs(spec: LabSpec, first_port: int) -> tuple[NodeSpec, ...]:
    """Brokers 1, 2, ... and then controllers 101, 102, ..., on consecutive ports.

    After them come the ports of the brokers' INTERNAL listeners, and those of their metrics.
    """
    first_of_internal = first_port + spec.brokers + spec.controllers
    first_of_metrics = first_of_internal + (spec.brokers if spec.has_internal else 0)
    brokers = tuple(
        NodeSpec(
            id=number + 1,
            role=Role.BROKER,
            rack=f"rack-{number % spec.racks + 1}" if spec.racks else None,
            port=first_port + number,
            metrics_port=first_of_metrics + number if spec.metrics else None,
            internal_port=first_of_internal + number if spec.has_internal else None,
            host=spec.host,
            log_dirs=spec.log_dirs,
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


def _before(kafka_version: str, release: tuple[int, int]) -> bool:
    return tuple(int(part) for part in kafka_version.split(".")[:2]) < release


def refuse_without_kraft(kafka_version: str) -> None:
    """Raise UsageError for a release that makes no cluster without ZooKeeper."""
    if _before(kafka_version, (2, 8)):
        why = "has no KRaft, and a lab no ZooKeeper"
    elif kafka_version == "2.8.2":
        why = "has a KRaft whose brokers cannot read the controller's records"
    else:
        return
    raise UsageError(
        f"Kafka {kafka_version} {why}.",
        "Take 3.2 or newer; in KRaft 3.0 elects nobody when asked, and 2.8.1 reassigns nothing.",
    )


def is_kafka_4(kafka_version: str) -> bool:
    """Kafka 4.0 brought log4j 2 and the share coordinator."""
    return int(kafka_version.split(".", 1)[0]) >= 4


def server_properties(
    node: NodeSpec,
    nodes: tuple[NodeSpec, ...],
    folder: Path,
    kafka_version: str,
    config: tuple[tuple[str, str], ...] = (),
    access: AccessControl = OPEN,
) -> dict[str, str]:
    """The node's server.properties; its records go to `folder`/data, `config` has the last word.

    Kafka's defaults, except for what makes the lab small, quick to start and to restart, of
    several racks, and secured as `access` says.
    """
    brokers = sum(other.role is not Role.CONTROLLER for other in nodes)
    replicas = str(min(3, brokers))
    in_sync = str(min(2, brokers))
    voters = ",".join(
        f"{n.id}@{HOST}:{_controller_port(n)}" for n in nodes if n.role is not Role.BROKER
    )
    has_internal = node.internal_port is not None
    plaintext_name = "INTERNAL" if has_internal else "PLAINTEXT"
    protocols = {plaintext_name: "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    broker_listeners = f"{plaintext_name}://{HOST}:{node.plaintext_port}"
    if has_internal:
        protocols["CLIENTS"] = access.security.protocol
        broker_listeners = f"CLIENTS://{host_port(node.host, node.port)},{broker_listeners}"
    controller_listener = f"CONTROLLER://{HOST}:{_controller_port(node)}"
    properties = {
        "node.id": str(node.id),
        "process.roles": node.role.value,
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
        "listeners": {
            Role.BROKER: broker_listeners,
            Role.CONTROLLER: controller_listener,
            Role.BOTH: f"{broker_listeners},{controller_listener}",
        }[node.role],
        "log.dirs": ",".join(map(str, log_dirs(folder, node.log_dirs))),
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
        properties["advertised.listeners"] = broker_listeners
        properties["inter.broker.listener.name"] = plaintext_name
        properties |= listener_properties(access, folder)
        properties["replica.selector.class"] = (
            "org.apache.kafka.common.replica.RackAwareReplicaSelector"
        )
    if node.rack is not None:
        properties["broker.rack"] = node.rack
    if is_kafka_4(kafka_version):
        properties["share.coordinator.state.topic.num.partitions"] = "4"
        properties["share.coordinator.state.topic.replication.factor"] = replicas
        properties["share.coordinator.state.topic.min.isr"] = in_sync
    return properties | authorizer_properties(access) | dict(config)


def _controller_port(node: NodeSpec) -> int:
    return node.port + 1 if node.role is Role.BOTH else node.port


def log_dirs(folder: Path, count: int) -> tuple[Path, ...]:
    """The log directories of the node in this folder; the first has the metadata too."""
    return (folder / "data", *(folder / f"data-{number}" for number in range(2, count + 1)))


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


def log4j_config(
    kafka_version: str, folder: Path, request_log: bool = False
) -> tuple[str, str, str]:
    """File name, text and JVM option of the logging configuration.

    server.log holds what the node does and is rolled at 10 MB, with one old file. request.log holds
    what `kafka.request.logger` writes at DEBUG: each request, about 2 kB a line. With `request_log`
    it does so from the start, and there is room for four files of 64 MB; without, once its level is
    changed, and it is rolled as server.log is.
    """
    logs: dict[str, tuple[str, int]] = {"server": ("10MB", 1), "request": ("10MB", 1)}
    if request_log:
        logs["request"] = ("64MB", 3)
    name, option, appender, loggers = _LOG4J_2 if is_kafka_4(kafka_version) else _LOG4J_1
    appenders = (
        appender.format(name=log, file=folder / f"{log}.log", size=size, old_files=old_files)
        for log, (size, old_files) in logs.items()
    )
    text = "".join(appenders) + loggers.format(level="DEBUG" if request_log else "WARN")
    return name, text, f"{option}{folder / name}"


_LOG4J_2 = (
    "log4j2.properties",
    "-Dlog4j2.configurationFile=",
    """\
appender.{name}.type = RollingFile
appender.{name}.name = {name}
appender.{name}.fileName = {file}
appender.{name}.filePattern = {file}.%i
appender.{name}.layout.type = PatternLayout
appender.{name}.layout.pattern = [%d] %p %m (%c)%n
appender.{name}.policy.type = SizeBasedTriggeringPolicy
appender.{name}.policy.size = {size}
appender.{name}.strategy.type = DefaultRolloverStrategy
appender.{name}.strategy.max = {old_files}
""",
    """\
status = error
rootLogger.level = info
rootLogger.appenderRef.server.ref = server
logger.request.name = kafka.request.logger
logger.request.level = {level}
logger.request.additivity = false
logger.request.appenderRef.request.ref = request
""",
)
_LOG4J_1 = (
    "log4j.properties",
    "-Dlog4j.configuration=file:",
    """\
log4j.appender.{name}=org.apache.log4j.RollingFileAppender
log4j.appender.{name}.File={file}
log4j.appender.{name}.MaxFileSize={size}
log4j.appender.{name}.MaxBackupIndex={old_files}
log4j.appender.{name}.layout=org.apache.log4j.PatternLayout
log4j.appender.{name}.layout.ConversionPattern=[%d] %p %m (%c)%n
""",
    """\
log4j.rootLogger=INFO, server
log4j.logger.kafka.request.logger={level}, request
log4j.additivity.kafka.request.logger=false
""",
)
"""Of a file of logging: its name, Java's option, an appender, and the loggers."""
