"""What makes a lab start fast: storage formatted once, and an archive of loaded classes."""

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kipctl.errors import RefusedError
from kipctl.lab import logs, ports
from kipctl.lab.jars import KafkaJars, fetched_jars, installed_jars
from kipctl.lab.java import Java
from kipctl.lab.locks import locked
from kipctl.lab.node import Node
from kipctl.lab.properties import LabSpec, NodeSpec, Role, kafka_uuid, refuse_without_kraft
from kipctl.lab.ready import wait_until_ready

# Serial collection suits heaps of this size: G1 takes a processor for its own threads, and puts
# each produce request above half a megabyte into regions of its own.
_HEAP = ("-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-Xss512k", "-XX:-UsePerfData")
_SMALL_HEAP = ("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:-UsePerfData")
_C1_ONLY = "-XX:TieredStopAtLevel=1"


@dataclass(frozen=True, slots=True)
class Seed:
    """`formatted` is a storage folder without ids; `archive` may be missing on an unusual Java."""

    formatted: Path
    archive: Path

    def jvm_options(self, role: Role, c1_only: bool = False) -> tuple[str, ...]:
        options = _SMALL_HEAP if role is Role.CONTROLLER else _HEAP
        # A controller is not what is measured: quick to start counts for more than full speed.
        if c1_only or role is Role.CONTROLLER:
            options = (*options, _C1_ONLY)
        if self.archive.exists():
            return (*options, "-Xshare:auto", f"-XX:SharedArchiveFile={self.archive}")
        return options


@dataclass(frozen=True, slots=True)
class Release:
    """A Kafka that nodes can be started with: its jars, and what makes them start fast."""

    jars: KafkaJars
    seed: Seed

    @classmethod
    def of(cls, spec: LabSpec, java: Java, progress: Callable[[str], None]) -> "Release":
        """The Kafka that a lab is to have, fetched and prepared if need be.

        Raises what `fetched_jars`, `installed_jars` and `seed_of` raise.
        """
        if spec.kafka_home is not None:
            jars = installed_jars(spec.kafka_home)
            refuse_without_kraft(jars.version)
        else:
            jars = fetched_jars(spec.kafka_version, java, progress)
        return cls(jars, seed_of(java, jars, progress))

    @property
    def record(self) -> dict[str, Any]:
        """As JSON takes it, with paths as text."""
        return {
            "kafka_version": self.jars.version,
            "jars": {"paths": [str(p) for p in self.jars.paths], "folder": str(self.jars.folder)},
            "seed": {"formatted": str(self.seed.formatted), "archive": str(self.seed.archive)},
        }

    @classmethod
    def recorded(cls, record: Mapping[str, Any]) -> "Release":
        """Raises KeyError or TypeError for what is no such record."""
        jars, seed = record["jars"], record["seed"]
        return cls(
            KafkaJars(
                record["kafka_version"], tuple(map(Path, jars["paths"])), Path(jars["folder"])
            ),
            Seed(**{key: Path(value) for key, value in seed.items()}),
        )


def seed_of(java: Java, jars: KafkaJars, progress: Callable[[str], None]) -> Seed:
    """The seed for these jars on this Java, from the cache, or made by running a node once.

    Raises NodeDiedError or RefusedError when Kafka does not format or start.
    """
    stated = f"{java.path} {java.version}"
    key = hashlib.sha256(stated.encode()).hexdigest()[:16]
    seed = Seed(jars.folder / "formatted", jars.folder / f"classes-{key}.jsa")
    with locked(jars.folder, lambda: progress("Waiting for another kipctl that prepares Kafka.")):
        if not (jars.folder / f"seeded-{key}").exists():
            progress(f"Preparing Kafka {jars.version} for quick starts, once.")
            _make(seed, java, jars)
            (jars.folder / f"seeded-{key}").write_text(stated + "\n", encoding="utf-8")
    return seed


def _make(seed: Seed, java: Java, jars: KafkaJars) -> None:
    """Format a node that is broker and controller, run it until it is ready, and stop it.

    Java writes the archive when it ends; a Java that cannot is no error, only slower.
    """
    folder = jars.folder / "seed"
    spec = NodeSpec(1, Role.BOTH, None, ports.first_of_free_ports(2))
    node = Node(spec, folder / "node")
    if folder.exists():  # cut off, perhaps with the node running
        node.kill()
        shutil.rmtree(folder)
    node.write_files((spec,), jars.version, ())
    formatted, archive = folder / "formatted", folder / "classes.jsa"
    _format(node, java, jars, seed.jvm_options(Role.CONTROLLER))
    shutil.copytree(node.storage, formatted, ignore=shutil.ignore_patterns("meta.properties"))
    options = (*_HEAP, f"-XX:ArchiveClassesAtExit={archive}")
    try:
        node.launch(node.command(java, jars, options, ("kafka.Kafka",))).go()
        wait_until_ready([node], timeout_s=120)
        node.stop()
    finally:
        node.kill()
    shutil.rmtree(seed.formatted, ignore_errors=True)
    formatted.rename(seed.formatted)
    if archive.exists():
        archive.replace(seed.archive)
    shutil.rmtree(folder)


def _format(node: Node, java: Java, jars: KafkaJars, jvm_options: tuple[str, ...]) -> None:
    program = ("kafka.tools.StorageTool", "format", "--cluster-id", kafka_uuid(), "--config")
    run = subprocess.run(
        node.command(java, jars, jvm_options, program),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=node.folder,
    )
    if run.returncode != 0 or not (node.storage / "meta.properties").exists():
        said = logs.last_error(run.stdout + run.stderr) or (run.stderr or run.stdout).strip()[-300:]
        raise RefusedError(f"Kafka {jars.version} could not format its storage: {said}")
