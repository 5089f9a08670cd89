"""Apache Kafka's jars: of a released version, fetched once, or of an installed one."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kipctl.errors import UsageError
from kipctl.lab.ivy import Download, Module, cache_folder, fetched
from kipctl.lab.java import Java
from kipctl.lab.properties import is_kafka_4


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """One version of Kafka. `folder` is where things made from these jars may be kept."""

    version: str
    paths: tuple[Path, ...]
    folder: Path

    @property
    def classpath(self) -> str:
        return ":".join(map(str, self.paths))


def installed_jars(kafka_home: Path) -> KafkaJars:
    """The jars of an installed Kafka. Raises UsageError when DIR/libs does not hold one."""
    libs = kafka_home.expanduser().resolve() / "libs"
    paths = tuple(sorted(libs.glob("*.jar")))
    clients = [m[1] for p in paths if (m := re.fullmatch(r"kafka-clients-(\d[^-]*)\.jar", p.name))]
    if len(clients) != 1:
        raise UsageError(
            f"{libs} does not hold one Kafka: {len(clients)} kafka-clients jars are in it.",
            "Point --kafka-home at an unpacked Kafka, with its bin and libs folders.",
        )
    stamps = ((path, stat.st_size, stat.st_mtime_ns) for path in paths if (stat := path.stat()))
    key = hashlib.sha256(repr([(str(path), *stamp) for path, *stamp in stamps]).encode())
    return KafkaJars(clients[0], paths, cache_folder() / f"home-{key.hexdigest()[:16]}")


def fetched_jars(version: str, java: Java, progress: Callable[[str], None]) -> KafkaJars:
    """The broker of a released Kafka, its tools without Kafka Connect, and a logger for its SLF4J.

    A broker whose tools are not to be had comes without them. Raises what `ivy.fetched` raises.
    """
    try:
        return _fetched(version, ("kafka_2.13", "kafka-tools"), java, progress)
    except UsageError:
        return _fetched(version, ("kafka_2.13",), java, progress)


def _fetched(
    version: str, names: tuple[str, ...], java: Java, progress: Callable[[str], None]
) -> KafkaJars:
    kafka = "org.apache.kafka"
    logger = (
        Module("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
        if is_kafka_4(version)
        else Module("org.slf4j", "slf4j-reload4j", "1.7.36")
    )
    download = Download(
        title=f"Kafka {version}",
        folder=version,
        size_mb=45,
        modules=(
            *(Module(kafka, name, version) for name in names),
            logger,
        ),
        otherwise="use an installed Kafka: --kafka-home DIR",
        choose="Give a released one with --kafka-version, or an installed one with "
        "--kafka-home DIR.",
        excluded=(kafka, "connect-.*"),
    )
    folder, paths = fetched(download, java, progress)
    return KafkaJars(version, paths, folder)
