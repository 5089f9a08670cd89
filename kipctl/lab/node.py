"""One node of a lab: its folder, its process, and the signals that it is sent."""

import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from kipctl import java_properties, process
from kipctl.errors import KipctlError, RefusedError, TimedOutError
from kipctl.lab import exporter, logs
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import Java
from kipctl.lab.locks import locked
from kipctl.lab.properties import (
    NodeSpec,
    Role,
    log4j_config,
    log_dirs,
    meta_properties,
    server_properties,
)
from kipctl.lab.security import OPEN, AccessControl
from kipctl.next_step import Command
from kipctl.process import Launch, Process
from kipctl.state import write_private

STOP_TIMEOUT_S = 60.0


class NodeState(StrEnum):
    """STARTING is a broker that runs but that the cluster does not list (yet).

    STOPPING was told to stop, and still runs: a broker hands its leaders over first.
    """

    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    STOPPED = "stopped"
    CRASHED = "crashed"


class NodeDiedError(KipctlError):
    """A node ended at its start; the message has the last error of its log."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node and the folder with everything that it needs. Its state is read when asked for."""

    spec: NodeSpec
    folder: Path

    @property
    def id(self) -> int:
        return self.spec.id

    @property
    def role(self) -> Role:
        return self.spec.role

    @property
    def rack(self) -> str | None:
        return self.spec.rack

    @property
    def port(self) -> int:
        return self.spec.port

    @property
    def storage(self) -> Path:
        """Of Kafka's log.dirs the first, with the metadata."""
        return self.log_dirs[0]

    @property
    def log_dirs(self) -> tuple[Path, ...]:
        return log_dirs(self.folder, self.spec.log_dirs)

    @property
    def log_path(self) -> Path:
        return self.folder / "server.log"

    @property
    def request_log_path(self) -> Path:
        """What `kafka.request.logger` writes; older lines are in request.log.1 and so on."""
        return self.folder / "request.log"

    @property
    def pid(self) -> int | None:
        """The process id while it runs or is paused."""
        recorded = self._recorded()
        return recorded.pid if recorded is not None and process.is_alive(recorded) else None

    @property
    def state(self) -> NodeState:
        """All but STARTING; CRASHED is one that ended without being told to."""
        recorded = self._recorded()
        if recorded is None:
            return NodeState.STOPPED
        # Looked at first: one that has ended since then need not have crashed.
        is_alive, is_paused = process.is_alive(recorded), process.is_paused(recorded)
        if recorded == process.read_record(self._stop_request_path):
            return NodeState.STOPPING if is_alive else NodeState.STOPPED
        if is_paused:
            return NodeState.PAUSED
        return NodeState.RUNNING if is_alive else NodeState.CRASHED

    def write_files(
        self,
        nodes: tuple[NodeSpec, ...],
        kafka_version: str,
        config: tuple[tuple[str, str], ...],
        request_log: bool = False,
        access: AccessControl = OPEN,
    ) -> None:
        """Make its folder, with server.properties and the configurations of logging and metrics."""
        self.folder.mkdir(parents=True)
        properties = server_properties(self.spec, nodes, self.folder, kafka_version, config, access)
        write_private(self._properties_path, java_properties.text(properties).encode("ascii"))
        self.write_logging(kafka_version, request_log)
        if self.spec.metrics_port is not None:
            self._exporter_config.write_text(exporter.CONFIG, encoding="utf-8")

    def write_logging(self, kafka_version: str, request_log: bool) -> None:
        """Configure its logging, in the format of that release."""
        name, text, _ = log4j_config(kafka_version, self.folder, request_log)
        (self.folder / name).write_text(text, encoding="utf-8")

    def format_storage(self, formatted: Path, cluster_id: str) -> None:
        """Make its storage, as Kafka's `storage format` does, from one formatted before.

        That one's files hold the metadata version to begin with, and no id: those are in
        meta.properties, which is written here.
        """
        shutil.copytree(formatted, self.storage)
        for folder in self.log_dirs:
            folder.mkdir(exist_ok=True)
            text = java_properties.text(meta_properties(cluster_id, self.id))
            (folder / "meta.properties").write_text(text, encoding="ascii")

    def command(
        self, java: Java, jars: KafkaJars, jvm_options: Sequence[str], program: Sequence[str]
    ) -> list[str]:
        """A Kafka program with this node's logging and server.properties."""
        _, _, logging = log4j_config(jars.version, self.folder)
        return [
            str(java.path),
            *jvm_options,
            "-Djava.awt.headless=true",
            f"-XX:ErrorFile={self.folder}/jvm-error.log",
            logging,
            "-cp",
            jars.classpath,
            *program,
            str(self._properties_path),
        ]

    def metrics_options(self, exporter_jar: Path | None) -> tuple[str, ...]:
        """The options of Java that let it serve its metrics, where it is to do that."""
        if exporter_jar is None or self.spec.metrics_port is None:
            return ()
        agent = exporter.agent_option(exporter_jar, self.spec.metrics_port, self._exporter_config)
        return (agent,)

    def launch(self, command: Sequence[str]) -> Launch:
        """Make its process and put that on record; it runs once the caller says `go`."""
        launch = Launch(command, self.folder, self._output_path)
        with locked(self.folder):
            process.write_record(self._process_path, launch.process)
        return launch

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """SIGTERM, and wait: a broker first hands over its leaders. Raises TimedOutError."""
        recorded = self._recorded()
        if recorded is None:
            return
        process.write_record(self._stop_request_path, recorded)
        if process.send_signal(recorded, signal.SIGTERM):
            process.send_signal(recorded, signal.SIGCONT)  # a paused process hears no SIGTERM
            self._wait_for_exit(recorded, timeout_s)
        self._forget(recorded)

    def wait_while_stopping(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Wait for the end of one that was told to stop, by whomever. Raises TimedOutError."""
        recorded = self._recorded()
        if recorded is not None and self.state is NodeState.STOPPING:
            self._wait_for_exit(recorded, timeout_s)

    def kill(self) -> None:
        """SIGKILL: it is gone at once, without handing anything over."""
        recorded = self._recorded()
        if recorded is None:
            return
        if process.send_signal(recorded, signal.SIGKILL):
            process.wait_for_exit(recorded, STOP_TIMEOUT_S)
        self._forget(recorded)

    def pause(self) -> None:
        """SIGSTOP: it stands still with its connections open. RefusedError if it does not run."""
        self._signal_running(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on after a pause. RefusedError if it does not run."""
        self._signal_running(signal.SIGCONT)

    def died_error(self) -> NodeDiedError:
        """What to say when it ended by itself."""
        text = "\n".join(
            line for path in (self._output_path, self.log_path) for line in logs.tail(path, 2000)
        )
        error = logs.last_error(text) or "it said nothing about it"
        return NodeDiedError(
            f"{self.spec.label} died at its start: {error[:300]}", f"Its log: {self.log_path}"
        )

    def _signal_running(self, number: signal.Signals) -> None:
        recorded = self._recorded()
        if recorded is None or not process.send_signal(recorded, number):
            raise RefusedError(
                f"{self.spec.label} does not run.", "Start it: " + Command("lab start", self.id)
            )
        process.wait_for_pause(recorded, number is signal.SIGSTOP, STOP_TIMEOUT_S)

    def _wait_for_exit(self, recorded: Process, timeout_s: float) -> None:
        if not process.wait_for_exit(recorded, timeout_s):
            raise TimedOutError(
                f"{self.spec.label} still runs {timeout_s:g} s after it was told to stop.",
                f"See {self.log_path}, or end it at once: " + Command("lab stop --kill", self.id),
            )

    def _forget(self, ended: Process) -> None:
        """Take the process off record, unless another kipctl has started the node anew by now."""
        if not self.folder.exists():  # its lab was taken down meanwhile
            return
        with locked(self.folder):
            if self._recorded() == ended:
                self._process_path.unlink()

    def _recorded(self) -> Process | None:
        return process.read_record(self._process_path)

    @property
    def _process_path(self) -> Path:
        return self.folder / "process"

    @property
    def _stop_request_path(self) -> Path:
        """Which process was told to stop; it says nothing of a later one."""
        return self.folder / "told-to-stop"

    @property
    def _output_path(self) -> Path:
        return self.folder / "output.log"

    @property
    def _exporter_config(self) -> Path:
        return self.folder / exporter.CONFIG_NAME

    @property
    def _properties_path(self) -> Path:
        return self.folder / "server.properties"
