"""The Java that runs the lab's nodes."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kipctl.errors import UsageError

NEEDED_VERSION = 17
_INSTALL = (
    f"Install Java {NEEDED_VERSION} or newer (Debian and Ubuntu: openjdk-17-jre-headless),"
    " or set JAVA_HOME."
)


@dataclass(frozen=True, slots=True)
class Java:
    """A `java` program and the full version that it states, such as 17.0.15+6-Debian."""

    path: Path
    version: str


def find_java() -> Java:
    """The `java` of JAVA_HOME, else of PATH. Raises UsageError for none, or an old one."""
    home = os.environ.get("JAVA_HOME")
    executable = shutil.which(str(Path(home, "bin", "java")) if home else "java")
    if executable is None:
        where = f"JAVA_HOME ({home}) has no bin/java" if home else "There is no java on the PATH"
        raise UsageError(f"{where}; the lab runs Kafka, which needs it.", _INSTALL)
    path = Path(executable).resolve()
    version = _stated_version(path)
    major = re.match(r"(?:1\.)?(\d+)", version)
    if major is None or int(major[1]) < NEEDED_VERSION:
        raise UsageError(
            f"{path} is Java {version}; Kafka's brokers need {NEEDED_VERSION}.", _INSTALL
        )
    return Java(path, version)


def _stated_version(java: Path) -> str:
    """From the `release` file beside it, which saves starting a JVM; else from the JVM itself."""
    try:
        release = (java.parent.parent / "release").read_text(encoding="utf-8")
    except OSError:
        release = ""
    for key in ("JAVA_RUNTIME_VERSION", "JAVA_VERSION"):
        if stated := re.search(rf'^{key}="([^"]+)"', release, re.MULTILINE):
            return stated[1]
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{java} does not run: {error}.", _INSTALL) from error
    stated = re.search(r'version "([^"]+)"', run.stderr)
    return stated[1] if stated else "of an unknown version"
