"""Folders and files on any file system that Spark reads: local, HDFS, object stores."""

import os
import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kipctl.errors import UsageError
from kipctl.pipeline.connect import files_below, is_connect
from kipctl.pipeline.jvm import located_on, text_of, write_text

_SYSTEM = re.compile(r"^[A-Za-z][\w+.-]*:(//[^/]*)?")
"""The part of a URI that says which file system it is."""


class Files:
    """A folder, or what wildcards stand for."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = located(folder)
        self._system, self._path = located_on(spark, self._folder)

    def exists(self, name: str = "") -> bool:
        if not name:
            return bool(self._system.exists(self._path))
        return bool(self._system.exists(located_on(self._spark, f"{self._folder}/{name}")[1]))

    def names(self) -> list[str]:
        """What is in the folder."""
        return [status.getPath().getName() for status in self._system.listStatus(self._path)]

    @property
    def uri(self) -> str:
        """The folder as Spark names it, with a scheme, and % for what a URI must not have."""
        return str(self._system.makeQualified(self._path).toUri().toString())

    def written_before(self, us: int) -> list[str]:
        """What is in the folder, and was last changed before then (since the epoch)."""
        return [
            status.getPath().getName()
            for status in self._system.listStatus(self._path)
            if 1000 * status.getModificationTime() < us
        ]

    def make(self) -> bool:
        """Make the folder, and those above it; false if that was refused."""
        return bool(self._system.mkdirs(self._path))

    def remove(self) -> None:
        """Remove the folder with all that is in it."""
        self._system.delete(self._path, True)

    def remove_at_exit(self) -> None:
        """Have the JVM remove it when it ends, unless it is killed."""
        self._system.deleteOnExit(self._path)

    def remove_from(self, name: str) -> None:
        """Remove what is in the folder by this name."""
        self._system.delete(located_on(self._spark, f"{self._folder}/{name}")[1], True)

    def write_new(self, name: str, content: str) -> bool:
        """Write a file that nobody sees before it is whole; false if one of this name is there."""
        if self.exists(name):
            return False
        temporary = f"_{uuid.uuid4()}"
        unseen, seen = (f"{self._folder}/{file}" for file in (temporary, name))
        write_text(self._spark, unseen, content)
        try:
            here = unquoted(self.uri)
            if not is_uri(here):  # a local rename writes over what is there; a link does not
                os.link(f"{here}/{temporary}", f"{here}/{name}")
                return True
            return bool(
                self._system.rename(
                    located_on(self._spark, unseen)[1], located_on(self._spark, seen)[1]
                )
            )
        except FileExistsError:
            return False
        finally:
            self.remove_from(temporary)

    def text(self, name: str) -> str:
        return text_of(self._spark, f"{self._folder}/{name}")

    def matching(self) -> list[str]:
        """The paths that the folder's wildcards stand for."""
        statuses = self._system.globStatus(self._path)
        return [status.getPath().toString() for status in statuses or ()]


class ListedFiles(Files):
    """The same of a Spark Connect server, which lists what files there are, and reads and writes
    tables: a folder is there while it holds a file, and is made by what is written into it."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        self._spark = spark
        self._folder = located(folder)

    def exists(self, name: str = "") -> bool:
        return bool(files_below(self._spark, literally(f"{self._folder}/{name}".rstrip("/"))))

    def names(self) -> list[str]:
        start = len(self.uri) + 1
        below = files_below(self._spark, literally(self._folder))
        return sorted({unquote(file[start:].partition("/")[0]) for file in below})

    @property
    def uri(self) -> str:
        """Raises UsageError when there is no file in it."""
        for file in files_below(self._spark, literally(self._folder)):
            if folder := folder_in(file, self._folder):
                return folder
        raise UsageError(f"There is no file in {self._folder}.")

    def make(self) -> bool:
        return True

    def remove(self) -> None:
        raise NotImplementedError

    def remove_at_exit(self) -> None:
        raise NotImplementedError

    def text(self, name: str) -> str:
        lines = self._spark.read.text(literally(f"{self._folder}/{name}"), wholetext=True).collect()
        return str(lines[0][0]) if lines else ""

    def matching(self) -> list[str]:
        """The files that lie there."""
        return [unquote(file) for file in files_below(self._spark, self._folder)]


def folder_in(file: str, folder: str) -> str | None:
    """The part of a file's URI that is the folder's; None of a file elsewhere. Spark quotes other
    characters than Python does: the folders on the way are counted."""
    match = _SYSTEM.match(file)
    start = match.end() if match else 0
    path = f"/{_SYSTEM.sub('', folder).strip('/')}/"
    at = unquote(file[start:]).find(path)
    if at < 0:
        return None
    depth = unquote(file[start:])[: at + len(path)].count("/")
    return file[:start] + "/".join(file[start:].split("/")[:depth])


def folder_at(spark: SparkSession, folder: str) -> Files:
    """A folder, or what wildcards stand for, where the session's Spark sees it."""
    return ListedFiles(spark, folder) if is_connect(spark) else Files(spark, folder)


def made_new(spark: SparkSession, folder: str, option: str, next_step: str) -> Files:
    """Make the folder, and those above it. Raises UsageError, naming the option that asked for it,
    when it holds something or cannot be made."""
    what = f"{option} {folder.removeprefix('file:')}"
    try:
        files = folder_at(spark, folder)
        if files.exists() and files.names():
            raise UsageError(f"{what}: it is there already.", next_step)
        # Hadoop says no more than that where this machine's file system refuses.
        why_not = "" if files.make() else ": it may not be written to there"
    except Py4JError as refused:
        cause = getattr(refused, "java_exception", None)
        why_not = f": {cause.getMessage() if cause else refused}"
    if why_not:
        raise UsageError(f"{what} cannot be made{why_not}.", next_step)
    return files


def is_uri(path: str) -> bool:
    """Whether it names its file system; others are this machine's."""
    return bool(re.match(r"[A-Za-z][\w+.-]*:/", path))


def located(path: str) -> str:
    """The path as Spark must be told it: one that exists on this machine is meant here."""
    here = Path(path)
    # Not as_uri: Hadoop takes %20 for itself, and names what it finds itself this way.
    return f"file:{here.resolve()}" if here.exists() else path


def placed(folder: str) -> str:
    """The folder as Spark must be told it, which may have another file system by default."""
    return folder if is_uri(folder) else f"file:{Path(folder).resolve()}"


def literally(path: str) -> str:
    """A path in which no character stands for others, where Spark would expand wildcards."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def each_once(roots: Sequence[str]) -> list[str]:
    """Files and folders that hold what these do, and no file twice, whatever links lead to it.

    A local folder in which there are links gives way to what is in it, but for what Spark passes
    over; other roots are kept unless they lie in another one. Raises OSError for a folder that
    cannot be read.
    """
    seen: set[Path] = set()
    places = []
    for root in sorted(set(roots)):
        if root.startswith("file:/"):
            path = Path("/", root.removeprefix("file:").lstrip("/"))
            places += [f"file:{place}" for place in _without_links(path, seen)]
        else:
            places.append(root.rstrip("/"))
    every = set(places)
    return sorted(place for place in every if not any(above in every for above in _above(place)))


def _without_links(path: Path, seen: set[Path]) -> list[Path]:
    """The path, or in place of a folder that holds links or what was `seen`, what else is in it."""
    real = Path(os.path.realpath(path))  # resolve() fails where links go round in a circle
    if real in seen or not real.exists():
        return []
    seen.add(real)
    if not real.is_dir():
        # By its name Spark knows how a file is packed, and passes it over.
        return [path if real.suffix != path.suffix or is_hidden(real.name) else real]
    inside = [child for child in sorted(real.iterdir()) if not is_hidden(child.name)]
    by_child = [_without_links(child, seen) for child in inside]
    if by_child == [[child] for child in inside]:
        return [real]
    return [place for places in by_child for place in places]


def is_hidden(name: str) -> bool:
    """Whether Spark passes over a file or folder of this name."""
    return name.startswith(("_", "."))


def _above(place: str) -> list[str]:
    """The folders that a path lies in."""
    names = place.split("/")
    return ["/".join(names[:length]) for length in range(1, len(names))]


def unquoted(file: str) -> str:
    """A file as a person names it: Spark gives URIs, and of this machine's files `file:/PATH`."""
    if not file.startswith("file:/"):
        return file
    return "/" + unquote(file.removeprefix("file:")).lstrip("/")
