"""Spark's classes as an archive that a JVM maps instead of loading them one by one (JEP 350).

A small question takes 24,000 classes (-Xlog:class+load). The first session of a machine has an
archive of those that it used written at its end, which takes 12 s on a quiet machine; later
sessions begin with it. A JVM takes an archive only with the very Java and jars that made it, and
does without it otherwise.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kipctl.pipeline.launch import cache_folder, java_program, spark_home

_KEPT = 3
"""Archives, the one used last first: each Spark and Java has its own, of 180 MB."""
_ABANDONED_S = 3600.0


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of one Java and one Spark: there, to be recorded, or empty if Java makes none."""

    path: Path

    @property
    def is_missing(self) -> bool:
        """Whether a JVM that runs now is to record one."""
        return not self.path.exists()

    def options(self) -> list[str]:
        """What the JVM is told: to map the archive, or to remember what one is made of."""
        quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        if self.is_missing:
            # Not ArchiveClassesAtExit: a JVM that is interrupted would write for seconds first.
            return [*quiet, "-XX:+RecordDynamicDumpInfo"]
        try:
            if not self.path.stat().st_size:
                return []
            os.utime(self.path)
        except OSError:  # another session has just made room
            return []
        return [*quiet, f"-XX:SharedArchiveFile={self.path}"]

    def keep(self, write: Callable[[Path], object]) -> None:
        """Have the archive written, by the JVM that records it, and keep it, whole or not at all.
        An archive that cannot be written to the disk is none."""
        beside = self.path.parent
        with (
            suppress(OSError),  # another session may make room, too
            TemporaryDirectory(dir=beside, ignore_cleanup_errors=True) as folder,
        ):
            written = Path(folder) / self.path.name
            write(written)
            if written.exists():
                written.replace(self.path)
            else:
                self.path.touch()
            others = sorted(beside.glob("*.jsa"), key=lambda path: path.stat().st_mtime)
            for path in others[:-_KEPT]:
                path.unlink(missing_ok=True)
            for path in beside.glob("tmp*"):  # of a session that was killed
                if path.stat().st_mtime < time.time() - _ABANDONED_S:
                    shutil.rmtree(path, ignore_errors=True)


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
