"""Finding Java, and fetching Kafka once: against a stand-in for Java that plays Ivy's part."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kipctl.errors import RefusedError, UnreachableError, UsageError
from kipctl.lab import ivy
from kipctl.lab.exporter import fetched_exporter
from kipctl.lab.jars import fetched_jars, installed_jars
from kipctl.lab.java import Java, find_java
from kipctl.lab.properties import DEFAULT_KAFKA_VERSION

# Writes down that it ran, then does what `script` says with $jars, the folder to fill.
STAND_IN = """#!/bin/sh
while [ $# -gt 0 ]; do
  [ "$1" = -retrieve ] && jars=$(dirname "$2")
  shift
done
echo ran >> {runs}
{script}
"""
JARS = ["kafka-clients-4.3.1.jar", "other-1.0.jar"]
DELIVER = 'echo one > "$jars/kafka-clients-4.3.1.jar"; echo two > "$jars/other-1.0.jar"'
REFUSED = "Server access error at url x (java.net.ConnectException: Refused)"
FOUND = "for i in 0 1 2 3 4 5 6 7 8 9; do printf '\\tfound a#b;1 in public\\n'; done; "


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one; no download's sums are pinned."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ivy, "_PINNED", tmp_path / "pinned")
    return tmp_path / "cache" / "kipctl" / "kafka"


def java_that(tmp_path: Path, script: str) -> Java:
    path = tmp_path / "java"
    path.write_text(STAND_IN.format(runs=tmp_path / "runs", script=script))
    path.chmod(0o755)
    return Java(path, "17.0.15")


def kafka(java: Java, tell: Callable[[str], None] = lambda text: None) -> list[str]:
    return [path.name for path in fetched_jars("4.3.1", java, tell).paths]


def exporter(java: Java, tell: Callable[[str], None]) -> list[str]:
    return [fetched_exporter(java, tell).name]


class Fetched(NamedTuple):
    """What is fetched, as what, into which folder, and what to do where it cannot be."""

    fetch: Callable[[Java, Callable[[str], None]], list[str]]
    name: str
    jars: list[str]
    folder: str
    module: str
    megabytes: int
    instead: str


AGENT = "jmx_prometheus_javaagent"
KAFKA = Fetched(
    *(kafka, "Kafka 4.3.1", JARS, "4.3.1"),
    *("org.apache.kafka#kafka_2.13;4.3.1", 45, "--kafka-home"),
)
EXPORTER = Fetched(
    *(exporter, "JMX exporter 1.0.1", [f"{AGENT}-1.0.1.jar"], f"{AGENT}-1.0.1"),
    *(f"io.prometheus.jmx#{AGENT};1.0.1", 3, "eave out --metrics"),
)


@pytest.mark.parametrize("it", [KAFKA, EXPORTER], ids=lambda it: it.name)
def test_what_is_fetched_is_fetched_once_and_kept_apart(
    it: Fetched, tmp_path: Path, cache: Path
) -> None:
    java = java_that(tmp_path, FOUND + "; ".join(f'echo jar > "$jars/{jar}"' for jar in it.jars))
    told: list[str] = []
    assert it.fetch(java, told.append) == it.fetch(java, told.append) == it.jars
    assert told == [
        f"Fetching {it.name}: about {it.megabytes} MB, once."
        " As it comes: kipctl knows no checksums of its jars.",
        f"Fetching {it.name}: found 10 modules.",
    ]
    assert (tmp_path / "runs").read_text() == "ran\n"
    assert [path.name for path in cache.iterdir()] == [it.folder]


@pytest.mark.parametrize("it", [KAFKA, EXPORTER], ids=lambda it: it.name)
def test_why_it_could_not_be_fetched(it: Fetched, tmp_path: Path, cache: Path) -> None:
    for said, error, why in (
        (REFUSED, UnreachableError, "{} could not be fetched: ConnectException: Refused."),
        (f":: {it.module}: not found", UsageError, "There is no {} to fetch."),
    ):
        with pytest.raises(error) as failed:
            it.fetch(java_that(tmp_path, f"echo '{said}'; exit 1"), print)
        assert failed.value.what == why.format(it.name)
        assert it.instead in failed.value.next_step


def test_a_jar_that_was_changed_or_lost_is_refused(tmp_path: Path, cache: Path) -> None:
    java = java_that(tmp_path, DELIVER)
    kafka(java)
    jar = cache / "4.3.1" / "jars" / "other-1.0.jar"
    jar.write_text("TWO\n")
    with pytest.raises(RefusedError, match=r"other-1\.0\.jar is not what was fetched"):
        kafka(java)
    jar.unlink()
    with pytest.raises(RefusedError, match=r"other-1\.0\.jar is not what was fetched"):
        kafka(java)


def test_a_jar_that_is_not_the_pinned_one_is_refused_and_so_is_one_that_was_kept(
    tmp_path: Path, cache: Path
) -> None:
    java = java_that(tmp_path, DELIVER)
    kafka(java)
    pinned = tmp_path / "pinned" / "4.3.1"
    pinned.parent.mkdir()
    right = (cache / "4.3.1" / "SHA256SUMS").read_text()
    for wrong in (
        right.replace(right[:4], "0000", 1),
        right + f"{'0' * 64}  lost-1.0.jar\n",
    ):
        pinned.write_text(wrong)
        for _ in "kept", "fetched":
            with pytest.raises(RefusedError, match=r"is not what kipctl was tested with"):
                kafka(java)
            shutil.rmtree(cache / "4.3.1", ignore_errors=True)
    pinned.write_text(right)
    assert kafka(java) == JARS


def test_what_labs_run_by_default_is_pinned_and_of_what_is_not_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java = java_that(tmp_path, DELIVER)
    told: list[str] = []
    for fetch in (
        lambda: fetched_jars(DEFAULT_KAFKA_VERSION, java, told.append),
        lambda: fetched_exporter(java, told.append),
    ):
        with pytest.raises(RefusedError, match="is not what kipctl was tested with"):
            fetch()
    assert [text for text in told if text.endswith(" MB, once.")] == told[:2] == told
    fetched_jars("4.3.0", java, told.append)
    assert told[-1].endswith("As it comes: kipctl knows no checksums of its jars.")


def test_a_fetch_that_fails_leaves_nothing_that_counts_as_fetched(
    tmp_path: Path, cache: Path
) -> None:
    failing = java_that(tmp_path, DELIVER + "; echo broken pipe; exit 1")
    with pytest.raises(UnreachableError, match="Ivy's last words: broken pipe"):
        kafka(failing)
    assert kafka(java_that(tmp_path, DELIVER)) == JARS


def test_a_second_kipctl_waits_for_what_the_first_fetches_even_when_that_was_killed(
    tmp_path: Path, cache: Path
) -> None:
    """The first is killed while Ivy runs; Ivy goes on writing, so the second must wait for it."""
    os.mkfifo(tmp_path / "begun")
    os.mkfifo(tmp_path / "go-on")
    at_first = (
        f'echo > "{tmp_path}/begun"; read -r go < "{tmp_path}/go-on"; touch "{tmp_path}/again"'
    )
    slow = java_that(tmp_path, f'[ -e "{tmp_path}/again" ] || {{ {at_first}; }}; {DELIVER}')
    program = (
        "from pathlib import Path; from kipctl.lab.jars import fetched_jars\n"
        "from kipctl.lab.java import Java\n"
        f"fetched_jars('4.3.1', Java(Path({str(slow.path)!r}), '17'), lambda text: None)"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as first:
        (tmp_path / "begun").read_text()
        first.send_signal(signal.SIGKILL)
    told: list[str] = []

    def let_ivy_end(text: str) -> None:
        told.append(text)
        if text.startswith("Waiting"):
            (tmp_path / "go-on").write_text("go\n")

    jars = fetched_jars("4.3.1", slow, let_ivy_end)
    assert told[0] == "Waiting for another kipctl that fetches Kafka."
    assert [path.name for path in jars.paths] == JARS


def test_jars_of_an_installed_kafka(tmp_path: Path, cache: Path) -> None:
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    with pytest.raises(UsageError, match="does not hold one Kafka"):
        installed_jars(tmp_path / "kafka")
    for name in ("kafka-clients-3.9.0.jar", "kafka_2.13-3.9.0.jar", "README"):
        (libs / name).touch()
    jars = installed_jars(tmp_path / "kafka")
    assert jars.version == "3.9.0"
    assert jars.classpath == f"{libs}/kafka-clients-3.9.0.jar:{libs}/kafka_2.13-3.9.0.jar"
    assert jars.folder.parent == cache
    (libs / "kafka-clients-4.0.0.jar").touch()
    with pytest.raises(UsageError, match="2 kafka-clients jars"):
        installed_jars(tmp_path / "kafka")


def java_home(tmp_path: Path, release: str) -> Path:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" x' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    if release:
        (home / "release").write_text(release)
    return home


@pytest.mark.parametrize(
    ("release", "version"),
    [
        ('IMPLEMENTOR="x"\nJAVA_VERSION="17.0.15"\n', "17.0.15"),
        ('JAVA_RUNTIME_VERSION="25+36-LTS"\nJAVA_VERSION="25"\n', "25+36-LTS"),
        ("", "21.0.2"),
    ],
)
def test_java_of_java_home_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, version: str
) -> None:
    home = java_home(tmp_path, release)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() == Java(home / "bin" / "java", version)


def test_java_of_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(java_home(tmp_path, "") / "bin"))
    assert find_java().version == "21.0.2"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16"])
def test_an_old_java_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path, f'JAVA_VERSION="{version}"\n')))
    with pytest.raises(UsageError, match=f"is Java {version}; Kafka's brokers need 17"):
        find_java()


def test_without_java_the_user_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="no java on the PATH") as missing:
        find_java()
    assert "openjdk-17-jre-headless" in missing.value.next_step
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="has no bin/java"):
        find_java()


# What Ivy takes before Central, where nobody tells it otherwise.
_PLANTED = """<ivy-module version="2.0">
<info organisation="io.prometheus.jmx" module="jmx_prometheus_javaagent" revision="1.0.1"/>
<publications><artifact/></publications></ivy-module>"""


@pytest.mark.kafka  # it needs Java
def test_a_jar_that_was_put_where_ivy_looks_first_is_not_taken(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chain in ("local", "shared"):
        of_module = tmp_path / ".ivy2" / chain / "io.prometheus.jmx" / AGENT / "1.0.1"
        for folder, name, content in (
            ("ivys", "ivy.xml", _PLANTED),
            ("jars", f"{AGENT}.jar", "planted"),
        ):
            (of_module / folder).mkdir(parents=True)
            (of_module / folder / name).write_text(content)
    nowhere = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.home={tmp_path} {nowhere}")
    with pytest.raises(UnreachableError, match=r"JMX exporter 1\.0\.1 could not be fetched"):
        fetched_exporter(find_java(), print)
