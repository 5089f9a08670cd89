"""A whole lab: made, found again, watched, acted on node by node, and taken down."""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path

import msgspec

from kipctl import java_properties, process
from kipctl.counts import counted
from kipctl.errors import RefusedError, UsageError, no_such
from kipctl.lab import ports
from kipctl.lab.exporter import fetched_exporter
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import Java, find_java
from kipctl.lab.kdc import Kdc, require_kdc
from kipctl.lab.locks import locked
from kipctl.lab.node import Node, NodeDiedError, NodeState
from kipctl.lab.properties import (
    HOST,
    LabSpec,
    NodeSpec,
    Role,
    kafka_uuid,
    node_specs,
)
from kipctl.lab.ready import NodeStatus, node_statuses, wait_until_ready
from kipctl.lab.security import CLIENTS_FOLDER, AccessControl, Security
from kipctl.lab.seed import Release
from kipctl.next_step import Command
from kipctl.protocol.address import host_port
from kipctl.security.kerberos import name_of
from kipctl.state import state_folder
from kipctl.transport.access import Access, access_of
from kipctl.typed_json import plain_json

READY_TIMEOUT_S = 120.0


class LabState(StrEnum):
    """STOPPED was stopped on purpose; LEFT_BEHIND by a crash, or by a start that was cut off."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    LEFT_BEHIND = "left behind"


def labs_folder() -> Path:
    """$XDG_STATE_HOME/kipctl/labs, or ~/.local/state/kipctl/labs."""
    return state_folder() / "labs"


class Lab:
    """A Kafka cluster on this machine. Everything about it is in its folder; this only reads it."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError or ValueError when the folder does not hold a lab."""
        record = plain_json((folder / "lab.json").read_text(encoding="utf-8"))
        try:
            self.folder = folder
            self.name = folder.name
            self._release = Release.recorded(record)
            self.cluster_id: str = record["cluster_id"]
            self.request_log: bool = record.get("request_log", False)
            self._c1_only: bool = record.get("c1_only", False)
            self.security = Security(record.get("security", Security.PLAINTEXT))
            self.acl: bool = record.get("acl", False)
            owner = msgspec.convert(record.get("owner"), tuple[int, str] | None)
            self.owner = process.Process(*owner) if owner else None
            """The process whose run it was made for; None of a lab that is there to be used."""
            exporter = record.get("exporter")
            self._exporter = None if exporter is None else Path(exporter)
            kdc_port = record.get("kdc_port")
            self.kdc = None if kdc_port is None else Kdc(folder, kdc_port)
            self.java = Java(Path(record["java"]["path"]), record["java"]["version"])
            self.nodes = tuple(
                Node(spec, folder / spec.label)
                for spec in (NodeSpec(**n | {"role": Role(n["role"])}) for n in record["nodes"])
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{folder}/lab.json is not a lab's: {error}") from error

    @classmethod
    def up(cls, spec: LabSpec, progress: Callable[[str], None]) -> "Lab":
        """Fetch Kafka if need be, start every node at once, and return when all are ready.

        Raises RefusedError when a lab of this name is there already, NodeDiedError when a node
        dies at its start (its log is then kept), and what `Release.of` and `find_java` raise.
        """
        java = find_java()
        if spec.kerberos:
            require_kdc()
        release = Release.of(spec, java, progress)
        exporter = fetched_exporter(java, progress) if spec.metrics else None
        with locked(labs_folder()):
            _remove_leftover(labs_folder() / spec.name, progress)
            lab = cls._create(spec, java, release, exporter)
        try:
            size = counted(spec.brokers, "broker"), counted(spec.controllers, "controller")
            progress(f"Starting Kafka {release.jars.version}: {' and '.join(size)}.")
            kerberos_host = name_of(spec.host) if spec.kerberos else ""
            access = AccessControl.new(spec.security, spec.acl, kerberos_host)
            nodes = tuple(node.spec for node in lab.nodes)
            for node in lab.nodes:
                node.write_files(nodes, release.jars.version, spec.config, spec.request_log, access)
                node.format_storage(release.seed.formatted, lab.cluster_id)
            if access.security.is_secured:
                lab._write_security_files(access)
            lab._launch(lab.nodes)
            lab.wait_ready()
            if access.security.is_secured:
                lab._register_users(access)
            (lab.folder / "starting").rename(lab.folder / "ready")
        except NodeDiedError:
            for node in lab.nodes:
                node.kill()
                for folder in node.log_dirs:
                    shutil.rmtree(folder, ignore_errors=True)
            (lab.folder / "starting").unlink()
            raise
        except BaseException:
            lab.down()
            raise
        return lab

    @classmethod
    def load(cls, name: str) -> "Lab":
        """The lab of that name, in whatever state. Raises UsageError when there is none."""
        try:
            return cls(labs_folder() / name)
        except (OSError, ValueError):
            raise no_such_lab(name) from None

    @classmethod
    def _create(cls, spec: LabSpec, java: Java, release: Release, exporter: Path | None) -> "Lab":
        """Choose ports and put the lab on record: from then on it is known, and can be removed."""
        taken = {port: lab.name for lab in labs() for port in lab.ports}
        first = spec.port
        if first is None:
            first = ports.first_of_free_ports(spec.ports, frozenset(taken))
        for port in range(first, first + spec.ports):
            if port in taken or not ports.is_free(port):
                holder = f"lab {taken[port]!r}" if port in taken else "another program"
                raise RefusedError(
                    f"Port {port} belongs to {holder}.", "Choose another --port, or leave it out."
                )
        me = process.current_process()
        record = {
            **release.record,
            "cluster_id": kafka_uuid(),
            "java": asdict(java),
            "request_log": spec.request_log,
            "c1_only": spec.c1_only,
            "security": spec.security,
            "acl": spec.acl,
            "owner": [me.pid, me.started] if spec.of_a_run else None,
            "exporter": exporter,
            "kdc_port": first + spec.ports - 1 if spec.kerberos else None,
            "nodes": [asdict(node) for node in node_specs(spec, first)],
        }
        folder = labs_folder() / spec.name
        folder.mkdir(mode=0o700)  # a request log may show salted passwords
        process.write_record(folder / "starting", me)
        (folder / "lab.json").write_text(json.dumps(record, default=str, indent=1), "utf-8")
        return cls(folder)

    @property
    def jars(self) -> KafkaJars:
        """Of the Kafka that it was made with."""
        return self._release.jars

    @property
    def kafka_version(self) -> str:
        """What it was made with; its metadata.version stays that of this release."""
        return self.jars.version

    def kafka_version_of(self, node_id: int) -> str:
        """What this node is started with."""
        return self._release_of(self.node(node_id)).jars.version

    @property
    def bootstrap_server(self) -> str:
        """host:port of every broker, separated by commas."""
        return ",".join(host_port(node.spec.host, node.port) for node in self._brokers)

    @property
    def ports(self) -> list[int]:
        """All that it listens on."""
        of_kdc = [] if self.kdc is None else [self.kdc.port]
        return [port for node in self.nodes for port in node.spec.ports] + of_kdc

    @property
    def client_files(self) -> dict[str, Path]:
        """By name, what to give clients as --command-config; nothing for a plaintext lab."""
        return {path.stem: path for path in sorted(self._clients_folder.glob("*.properties"))}

    @property
    def client_properties(self) -> Path | None:
        """The file with which a client may do everything; None for a plaintext lab."""
        name = self.security.default_client
        return None if name is None else self._clients_folder / f"{name}.properties"

    @property
    def properties(self) -> dict[str, str]:
        """Those of Java's clients that the lab is reached with; nothing for a plaintext one."""
        file = self.client_properties
        return java_properties.read(file) if file else {}

    @property
    def access(self) -> Access:
        """How it is reached."""
        return access_of(self.bootstrap_server, self.properties)

    @property
    def metrics_urls(self) -> tuple[str, ...]:
        """Where each broker serves its metrics; nothing when the lab was not started so."""
        return tuple(url for node in self.nodes if (url := node.spec.metrics_url) is not None)

    @property
    def is_orphan(self) -> bool:
        """Whether the run that it was made for is gone, and could not take it down."""
        return self.owner is not None and not process.is_alive(self.owner)

    @property
    def state(self) -> LabState:
        if not (self.folder / "ready").exists():
            starter = process.read_record(self.folder / "starting")
            alive = starter is not None and process.is_alive(starter)
            return LabState.STARTING if alive else LabState.LEFT_BEHIND
        states = {node.state for node in self.nodes}
        if states & {NodeState.RUNNING, NodeState.PAUSED}:
            return LabState.RUNNING
        return LabState.LEFT_BEHIND if NodeState.CRASHED in states else LabState.STOPPED

    def node(self, node_id: int) -> Node:
        """Raises UsageError when the lab has no such node."""
        if node := next((node for node in self.nodes if node.id == node_id), None):
            return node
        ids = ", ".join(str(node.id) for node in self.nodes)
        raise UsageError(f"Lab {self.name!r} has no node {node_id}.", f"Its nodes are {ids}.")

    def status(self) -> tuple[NodeStatus, ...]:
        """Every node as it is now; leaders are counted while a broker answers."""
        return node_statuses(self.nodes)

    def start(self, *node_ids: int) -> None:
        """Start these nodes, at once, and wait until they are ready. One that runs stays as it is.

        One that is stopping is waited for, and started then. Raises RefusedError for a lab that a
        crash left half made, and TimedOutError.
        """
        if not (self.folder / "ready").exists():
            raise RefusedError(
                f"Lab {self.name!r} never became ready.", "Make it anew: " + Command("lab up")
            )
        chosen = [self.node(node_id) for node_id in node_ids]
        for node in chosen:
            node.wait_while_stopping()
        with locked(self.folder):  # another kipctl may have waited for the same
            stopped = [node for node in chosen if node.pid is None]
            running = [node for node in self.nodes if node.state is NodeState.RUNNING]
            self._launch(stopped)
        wait_until_ready([*running, *stopped], READY_TIMEOUT_S)

    def stop(self, node_id: int) -> None:
        """SIGTERM, and wait for its end: a broker first hands its leaders over."""
        self.node(node_id).stop()
        self._stop_unused_kdc()

    def kill(self, node_id: int) -> None:
        """SIGKILL: as when a machine fails."""
        self.node(node_id).kill()
        self._stop_unused_kdc()

    def restart(self, node_id: int, release: Release | None = None) -> None:
        """Stop, start, and wait until it is ready; from now on with that release, if one is given.

        Which release can follow which, with what the other nodes run, Kafka decides.
        """
        self.stop(node_id)
        if release is not None:
            node = self.node(node_id)
            node.write_logging(release.jars.version, self.request_log)
            _release_path(node).write_text(json.dumps(release.record), encoding="utf-8")
        self.start(node_id)

    def release(self, kafka_version: str, progress: Callable[[str], None]) -> Release:
        """A released Kafka for nodes of this lab, fetched if need be. Raises as `up` does."""
        return Release.of(LabSpec(kafka_version=kafka_version), self.java, progress)

    def pause(self, node_id: int) -> None:
        """SIGSTOP: as when a machine hangs, its connections open."""
        self.node(node_id).pause()

    def resume(self, node_id: int) -> None:
        """SIGCONT: the end of a pause."""
        self.node(node_id).resume()

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until every node is ready that was not stopped or paused: see `wait_until_ready`."""
        off = (NodeState.STOPPING, NodeState.STOPPED, NodeState.PAUSED)
        wait_until_ready([node for node in self.nodes if node.state not in off], timeout_s)

    def down(self) -> None:
        """End every node at once and remove everything of the lab."""
        for node in self.nodes:
            node.kill()
        if self.kdc:
            self.kdc.kill()
        shutil.rmtree(self.folder)

    def _stop_unused_kdc(self) -> None:
        if self.kdc and all(node.pid is None for node in self.nodes):
            self.kdc.kill()

    @property
    def _clients_folder(self) -> Path:
        return self.folder / CLIENTS_FOLDER

    @property
    def _brokers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.role is Role.BROKER)

    def _write_security_files(self, access: AccessControl) -> None:
        # Only a secured lab waits for the import of `cryptography`.
        from kipctl.lab.certificates import Authority
        from kipctl.lab.client_files import write_broker_keystore, write_client_files

        authority = Authority()
        write_client_files(self._clients_folder, access, authority)
        if self.kdc:
            self.kdc.create(access)
        if access.security.has_tls:
            for node in self._brokers:
                write_broker_keystore(node.folder, node.spec.label, authority)

    def _register_users(self, access: AccessControl) -> None:
        """Register the users, and wait until each broker knows them."""
        from kipctl.lab.users import register_users, wait_until_known

        internal = ",".join(f"{HOST}:{node.spec.plaintext_port}" for node in self._brokers)
        register_users(internal, access)
        ids, folder = [node.id for node in self._brokers], self._clients_folder
        wait_until_known(self.bootstrap_server, access, folder, ids, READY_TIMEOUT_S)

    def _release_of(self, node: Node) -> Release:
        try:
            return Release.recorded(plain_json(_release_path(node).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return self._release

    def _launch(self, nodes: Iterable[Node]) -> None:
        if self.kdc:
            self.kdc.start()
        launches = []
        for node in nodes:
            release = self._release_of(node)
            options = (
                *release.seed.jvm_options(node.role, self._c1_only),
                *node.metrics_options(self._exporter),
                *(self.kdc.jvm_options if self.kdc else ()),
            )
            launches.append(
                node.launch(node.command(self.java, release.jars, options, ("kafka.Kafka",)))
            )
        for launch in launches:
            launch.go()


def _release_path(node: Node) -> Path:
    """There once the node was restarted with another release than its lab's."""
    return node.folder / "release.json"


def labs() -> list[Lab]:
    """Every lab of this user that has a record, by name, in whatever state."""
    return [lab for lab in map(_recorded, sorted(labs_folder().glob("*/"))) if lab]


def _recorded(folder: Path) -> Lab | None:
    """The lab of that folder; None where a start was cut off before there was one."""
    try:
        return Lab(folder)
    except (OSError, ValueError):
        return None


def no_such_lab(name: str) -> UsageError:
    """That there is none of this name, with those that there are."""
    names = [lab.name for lab in labs()]
    return UsageError(
        no_such("lab", name, names),
        f"Say which: --name {names[0]}"
        if names
        else "Start one: " + Command("lab up", name=name if name != LabSpec().name else None),
    )


def running_labs() -> list[Lab]:
    """The labs that run, those of runs too."""
    return [lab for lab in labs() if lab.state is LabState.RUNNING]


def unfinished_labs() -> list[str]:
    """Names of folders that a start made and did not come to write its record into."""
    known = {lab.name for lab in labs()}
    return sorted({folder.name for folder in labs_folder().glob("*/")} - known)


def take_down(name: str) -> bool:
    """Take down a lab in whatever state, or what a crash left of one. False: there is none."""
    with locked(labs_folder()):
        folder = labs_folder() / name
        if not name or folder.parent != labs_folder() or not folder.is_dir():
            return False
        _remove(folder)
    return True


def _remove(folder: Path) -> None:
    if lab := _recorded(folder):
        lab.down()
    else:
        shutil.rmtree(folder)


def _remove_leftover(folder: Path, progress: Callable[[str], None]) -> None:
    """Remove what a crash left of a lab; refuse when it is none of that."""
    if not folder.exists():
        return
    lab = _recorded(folder)
    if lab and lab.state is not LabState.LEFT_BEHIND:
        raise RefusedError(
            f"Lab {lab.name!r} is there already ({lab.state.value}), at {lab.bootstrap_server}.",
            "Use it, take it down ("
            + Command("lab down", name=lab.name)
            + "), or choose another --name.",
        )
    progress(
        f"Removing lab {lab.name!r}, which a crash left behind."
        if lab
        else f"Removing what a start that was cut off left in {folder}."
    )
    _remove(folder)
