"""Apache Kafka's jars: fetched once by the Ivy that PySpark brings, checked, and kept."""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kipctl.errors import KipctlError, RefusedError, UnreachableError, UsageError
from kipctl.lab.java import Java
from kipctl.lab.properties import is_kafka_4

_SUMS = "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class KafkaJars:
    """One version of Kafka. `folder` is where things made from these jars may be kept."""

    version: str
    paths: tuple[Path, ...]
    folder: Path

    @property
    def classpath(self) -> str:
        return ":".join(map(str, self.paths))


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/kipctl/kafka, or ~/.cache/kipctl/kafka."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kipctl" / "kafka"


@contextmanager
def locked(folder: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[int]:
    """Be alone with a folder, among all kipctl processes; `waiting` is called if that takes time.

    The kernel lets go of the lock when its holder ends, however it ends, and with it every child
    that the file descriptor, which is yielded, was passed on to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


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
    """The jars of a released Kafka, from the cache, or fetched into it.

    Raises UnreachableError when no repository can be reached, UsageError when there is no such
    version, RefusedError when the cache is damaged.
    """
    folder = cache_folder() / version
    waiting = "Waiting for another kipctl that fetches Kafka."
    with locked(cache_folder(), lambda: progress(waiting)) as lock:
        if not (folder / _SUMS).exists():
            _fetch(version, folder, java, lock, progress)
    return KafkaJars(version, _verified(folder), folder)


def _verified(folder: Path) -> tuple[Path, ...]:
    """Each jar has the SHA-256 that was written down when it was fetched."""
    paths = []
    for line in (folder / _SUMS).read_text(encoding="utf-8").splitlines():
        expected, _, name = line.partition("  ")
        path = folder / "jars" / name
        try:
            with path.open("rb") as jar:
                actual = hashlib.file_digest(jar, "sha256").hexdigest()
        except OSError:
            actual = "missing"
        if actual != expected:
            raise RefusedError(
                f"{path} is not what was fetched (SHA-256 {actual[:12]}, not {expected[:12]}).",
                f"Remove {folder} and repeat: Kafka is then fetched anew.",
            )
        paths.append(path)
    return tuple(paths)


def _fetch(
    version: str, folder: Path, java: Java, lock: int, progress: Callable[[str], None]
) -> None:
    """Resolve into a folder beside it, and move that into place when it is whole.

    Ivy checks each file against the SHA-1 that its repository states. What it has already is kept
    between attempts, so one that was cut off goes on where it was. Ivy holds the lock too: should
    kipctl be killed, nobody else writes there before Ivy has ended.
    """
    partial = folder.with_name(f"{version}.partial")
    shutil.rmtree(partial / "jars", ignore_errors=True)
    (partial / "jars").mkdir(parents=True)
    (partial / "ivy.xml").write_text(_ivy_module(version), encoding="utf-8")
    command = [str(java.path), "-jar", str(_ivy_jar()), "-ivy", str(partial / "ivy.xml")]
    command += ["-cache", str(partial / "ivy")]
    command += ["-retrieve", f"{partial}/jars/[artifact]-[revision](-[classifier]).[ext]"]
    progress(f"Fetching Kafka {version}: about 45 MB, once.")
    said: deque[str] = deque(maxlen=400)
    found = fetched = 0
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        pass_fds=[lock],
    ) as ivy:
        assert ivy.stdout is not None
        try:
            for line in filter(str.strip, ivy.stdout):
                said.append(line.strip())
                if line.startswith("\tfound "):
                    found += 1
                    if found % 10 == 0:
                        progress(f"Fetching Kafka {version}: found {found} modules.")
                elif "[SUCCESSFUL ]" in line:
                    fetched += 1
                    if fetched % 10 == 0:
                        progress(f"Fetching Kafka {version}: {fetched} of {found} jars.")
        except BaseException:
            ivy.kill()
            raise
    jars = sorted((partial / "jars").glob("*.jar"))
    if ivy.returncode != 0 or not jars:
        raise _fetch_error(version, list(said))
    sums = []
    for jar in jars:
        with jar.open("rb") as content:
            sums.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {jar.name}\n")
    shutil.rmtree(partial / "ivy", ignore_errors=True)
    (partial / _SUMS).write_text("".join(sums), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    places = (pyspark.submodule_search_locations or ()) if pyspark else ()
    jars = [jar for place in places for jar in Path(place, "jars").glob("ivy-*.jar")]
    if not jars:
        raise UsageError(
            "PySpark, whose Ivy fetches Kafka, is not installed whole: there is no ivy-*.jar.",
            "Install it (pip install pyspark), or use an installed Kafka: --kafka-home DIR.",
        )
    return jars[0]


def _ivy_module(version: str) -> str:
    """What to resolve: the broker, its tools without Kafka Connect, and a logger for SLF4J 1.7."""
    logger = (
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
        if is_kafka_4(version)
        else ("org.slf4j", "slf4j-reload4j", "1.7.36")
    )
    kafka = "org.apache.kafka"
    modules = [(kafka, "kafka_2.13", version), (kafka, "kafka-tools", version), logger]
    dependencies = "".join(
        f'<dependency org="{organisation}" name="{name}" rev="{revision}" conf="lab->default"/>'
        for organisation, name, revision in modules
    )
    return (
        '<ivy-module version="2.0"><info organisation="kipctl" module="lab"/>'
        '<configurations><conf name="lab"/></configurations>'
        f"<dependencies>{dependencies}"
        f'<exclude org="{kafka}" module="connect-.*" matcher="regexp"/></dependencies></ivy-module>'
    )


def _fetch_error(version: str, said: list[str]) -> KipctlError:
    """What went wrong, from the last lines of Ivy's long answer."""
    text = "\n".join(said)
    if trouble := re.search(r"\b\w+Exception: .*|Host .+ not found.*", text):
        return UnreachableError(
            f"Kafka {version} could not be fetched: {trouble[0].strip(' )')[:150]}.",
            "Check the network (a proxy for Java is set in JAVA_TOOL_OPTIONS), or use an installed "
            "Kafka: --kafka-home DIR.",
        )
    if "kafka_2.13" in text and "not found" in text:
        return UsageError(
            f"There is no Kafka {version} to fetch.",
            "Give a released one with --kafka-version, or an installed one with --kafka-home DIR.",
        )
    last = said[-1] if said else "it said nothing"
    return UnreachableError(
        f"Kafka {version} could not be fetched; Ivy's last words: {last[:150]}",
        "Try again, or use an installed Kafka: --kafka-home DIR.",
    )
