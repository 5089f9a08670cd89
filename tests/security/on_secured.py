"""kipctl as its users run it on a secured lab, and a search for what it may tell nobody."""

import io
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from kipctl import java_properties
from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.topics import await_no_topics, await_topic
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import Role
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic
from kipctl.security.jaas import jaas_options
from kipctl.transport.access import Access, access_of
from kipctl.transport.request import Cluster

_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Way:
    """A lab, and the file with which a client of it connects."""

    lab: Lab
    file: Path

    @property
    def access(self) -> Access:
        return access_of(self.lab.bootstrap_server, java_properties.read(self.file))

    @property
    def options(self) -> tuple[str, ...]:
        """Of a command."""
        servers = ("--bootstrap-server", self.lab.bootstrap_server)
        return (*servers, "--command-config", str(self.file))


def broker_ids(lab: Lab) -> set[int]:
    return {node.id for node in lab.nodes if node.role is Role.BROKER}


@contextmanager
def topic_of(lab: Lab, name: str, partitions: int) -> Iterator[str]:
    """A topic on all brokers, which they all know; removed afterwards."""
    admin = AdminClient({**lab.access.librdkafka(), "log_level": 0})
    brokers = len(broker_ids(lab))
    with Cluster(lab.access) as cluster:
        await_no_topics(cluster, [name])  # a test before may have made and removed one
        admin.create_topics([NewTopic(name, partitions, brokers)])[name].result()
        await_topic(cluster, name, partitions)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result()


def ran(*words: str, state: Path) -> tuple[int, str, str]:
    """A command's status, and what it wrote to stdout and to stderr."""
    out, err = io.StringIO(), io.StringIO()
    environment = Environment(io.StringIO(), out, err, {"XDG_STATE_HOME": str(state)})
    return run([*words], environment), out.getvalue(), err.getvalue()


@contextmanager
def granted(lab: Lab, user: str, prefix: str, *operations: AclOperation) -> Iterator[None]:
    """Let the user do this on topics whose names begin so, as long as the block lasts.

    A broker learns of it a moment after the controller has it: so each is asked until it knows.
    """
    admin = AdminClient({**lab.access.librdkafka(), "log_level": 0})
    kind = (ResourceType.TOPIC, prefix, ResourcePatternType.PREFIXED, f"User:{user}", "*")
    allow = AclPermissionType.ALLOW
    bindings = [AclBinding(*kind, operation, allow) for operation in operations]
    wanted = sum(1 << operation.value for operation in operations)
    access = Way(lab, lab.client_files[f"{user}-plain"]).access

    def await_on_brokers(holds: bool) -> None:
        with Cluster(access) as cluster:
            while any(
                (_operations(cluster, broker, f"{prefix}-x") & wanted == wanted) != holds
                for broker in cluster.nodes
            ):
                time.sleep(_EVERY_S / 10)

    for made in admin.create_acls(bindings).values():
        made.result()
    await_on_brokers(True)
    try:
        yield
    finally:
        filters = [AclBindingFilter(*kind, operation, allow) for operation in operations]
        for removed in admin.delete_acls(filters).values():
            removed.result()
        await_on_brokers(False)


def _operations(cluster: Cluster, broker: int, topic: str) -> int:
    """Bits of what the client may do with the topic, as this broker knows; 0 if it is hidden."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    (shown,) = cluster.broker(broker).request(request).topics
    return max(0, shown.topic_authorized_operations)


def passwords(lab: Lab) -> set[bytes]:
    """All that are in the files for clients: of users and of stores."""
    secrets = set()
    for file in lab.client_files.values():
        properties = java_properties.read(file)
        secrets |= {text for name, text in properties.items() if name.endswith(".password")}
        if password := jaas_options(properties.get("sasl.jaas.config", "")).get("password"):
            secrets.add(password)
    return {password.encode() for password in secrets}


def files_with(secrets: set[bytes], folder: Path) -> list[Path]:
    """Those in the folder that hold one of the secrets, in their bytes or in a table's cells.

    Spark's JVM may still be removing its own folders meanwhile.
    """
    paths = []
    for inside, _, names in os.walk(folder):
        for path in (Path(inside, name) for name in names):
            with suppress(FileNotFoundError):
                if path.is_file() and any(secret in _content(path) for secret in secrets):
                    paths.append(path)
    return paths


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".parquet":  # compressed
        content += str(pq.read_table(path).to_pydict()).encode()
    return content


def processes_with(secrets: set[bytes]) -> set[str]:
    """The programs that tell one now, in their words or their environment."""
    programs = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or is somebody else's
            words = (process / "cmdline").read_bytes()
            told = words + (process / "environ").read_bytes()
            if any(secret in told for secret in secrets):
                programs.add(words.split(b"\0", 1)[0].decode(errors="replace"))
    return programs


@contextmanager
def processes_watched(secrets: set[bytes]) -> Iterator[set[str]]:
    """Meanwhile, every process of this machine: those whose words or environment tell a secret."""
    telling: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_EVERY_S):
            telling.update(processes_with(secrets))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield telling
    finally:
        over.set()
        watching.join()


@dataclass(frozen=True, slots=True)
class Program:
    """`kipctl` in processes of its own, whose state, temporary files and output are in a folder."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        places = {"XDG_STATE_HOME": "state", "TMPDIR": "temporary", "SPARK_LOCAL_DIRS": "spark"}
        made = {name: self.folder / place for name, place in places.items()}
        for place in made.values():
            place.mkdir(exist_ok=True)
        return os.environ | {name: str(place) for name, place in made.items()}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "kipctl", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str) -> str:
        """What it prints on stdout; it has to succeed."""
        with self.start(*words) as process:
            out, err = process.communicate()
        self.keep(out + err)
        assert process.returncode == 0, err
        return out

    def in_this_process(self, *words: str) -> str:
        """The same, where a process of its own would show nothing more."""
        status, out, err = ran(*words, state=self.folder / "state")
        self.keep(out + err)
        assert status == 0, err
        return out

    def keep(self, said: str) -> None:
        """What was printed is searched as well."""
        with (self.folder / "output").open("a") as output:
            output.write(said)
