"""Spark's classes as an archive that a JVM maps instead of loading them one by one (JEP 350).

A small question takes 24,000 classes (-Xlog:class+load). The first session of a machine leaves an
archive of those that it used, as its JVM ends; later sessions begin with it. A JVM takes an archive
only with the very Java and jars that made it, and does without it otherwise.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kipctl.pipeline.launch import cache_folder, ended_in_time, java_program, spark_home

_KEPT = 3
"""Archives, the one used last first: each Spark and Java has its own, of 180 MB."""
_TIMEOUT_S = 120.0
"""For a JVM to write an archive: 12 s on a quiet machine."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one Java and one Spark: there, to be recorded, or empty if Java makes none."""

    path: Path

    @property
    def is_missing(self) -> bool:
        """Whether a JVM that runs now is to record one."""
        return not self.path.exists()

    @property
    def _recorded(self) -> Path:
        return self.path.with_suffix(f".{os.getpid()}") / self.path.name

    @contextmanager
    def recording(self) -> Iterator[None]:
        """While inside, there is a folder to record to: a JVM that ends later leaves nothing."""
        with suppress(OSError):  # a full disk: then the JVM has nowhere to write to
            self._recorded.parent.mkdir(exist_ok=True)
        try:
            yield
        finally:
            shutil.rmtree(self._recorded.parent, ignore_errors=True)

    def options(self) -> list[str]:
        """What the JVM is told: to map the archive, or to record one when it ends."""
        quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        if self.is_missing:
            return [*quiet, f"-XX:ArchiveClassesAtExit={self._recorded}"]
        try:
            if not self.path.stat().st_size:
                return []
            os.utime(self.path)
        except OSError:  # another session has just made room
            return []
        return [*quiet, f"-XX:SharedArchiveFile={self.path}"]

    def keep(self, jvm: "subprocess.Popen[bytes]") -> None:
        """End the JVM that records, by closing its input, and keep what it leaves."""
        assert jvm.stdin is not None
        jvm.stdin.close()
        if ended_in_time(jvm, _TIMEOUT_S):
            if self._recorded.exists():
                self._recorded.replace(self.path)
            else:
                self.path.touch()
        others = sorted(self.path.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
        for path in others[:-_KEPT]:
            path.unlink(missing_ok=True)


def class_archive(environment: Mapping[str, str]) -> ClassArchive | None:
    """The archive of the Java and the Spark that a session starts; None where none can be kept.

    It is kept in $XDG_CACHE_HOME/kipctl/spark, or ~/.cache/kipctl/spark.
    """
    folder, jars = cache_folder(environment), spark_home(environment) / "jars"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        java = java_program(environment).resolve(strict=True)
        made_of = [(str(path), path.stat().st_mtime_ns) for path in (java, jars)]
    except OSError:
        return None
    if " " in str(folder) or not os.access(folder, os.W_OK):  # Spark splits options at spaces
        return None
    return ClassArchive(folder / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}.jsa")
