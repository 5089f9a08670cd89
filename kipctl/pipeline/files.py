"""Folders and files on any file system that Spark reads: local, HDFS, object stores."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from kipctl.pipeline.jvm import located_on, text_of


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

    def make(self) -> None:
        """Make the folder, and those above it."""
        self._system.mkdirs(self._path)

    def text(self, name: str) -> str:
        return text_of(self._spark, f"{self._folder}/{name}")

    def matching(self) -> list[str]:
        """The paths that the folder's wildcards stand for."""
        found = self._system.globStatus(self._path)
        return [status.getPath().toString() for status in found or ()]


def located(path: str) -> str:
    """The path as Spark must be told it: one that exists on this machine is meant here."""
    here = Path(path)
    # Not as_uri: Hadoop takes %20 for itself, and names what it finds itself this way.
    return f"file:{here.resolve()}" if here.exists() else path


def literally(path: str) -> str:
    """A path in which no character stands for others, where Spark would expand wildcards."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)
