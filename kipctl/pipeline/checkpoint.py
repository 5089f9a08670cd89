"""Intermediate results that are computed once and kept: where a plan is cut off, and for how long.

On this machine they are kept by its JVM. On a cluster they are either files that all machines see,
or blocks of its executors with all that it takes to compute a lost one again: a local checkpoint
has forgotten that, and ends the analysis when one executor is lost.
"""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from kipctl.pipeline.connect import is_connect, kept_there, runs_here
from kipctl.pipeline.files import is_uri, made_new, unquoted
from kipctl.pipeline.jvm import of_kept_rows
from kipctl.pipeline.partitions import coalesced

_SCRATCH_SETTING = "spark.kipctl.scratch"


@dataclass(slots=True)
class Scratch:
    """A folder below --scratch, by its URI; empty while none is there."""

    uri: str = ""


@contextmanager
def scratch_removed() -> Iterator[Scratch]:
    """For the time in which a JVM has a folder below --scratch, and ends.

    What a JVM has left that was interrupted or killed is removed if it is on this machine; else the
    exception has a note that names it.
    """
    scratch = Scratch()
    try:
        yield scratch
    except BaseException as ended:
        if scratch.uri and not _removed_here(scratch.uri):
            ended.add_note(f"Intermediate results may be left, to be removed: {scratch.uri}")
        raise


def _removed_here(uri: str) -> bool:
    folder = unquoted(uri)
    if not is_uri(folder):
        shutil.rmtree(folder, ignore_errors=True)
    return not is_uri(folder) and not Path(folder).exists()


@contextmanager
def intermediate_results(
    session: SparkSession, below: str | None, scratch: Scratch
) -> Iterator[None]:
    """While inside, results are kept in a folder of their own `below` that one, then removed.

    Without one the executors keep them. Raises UsageError when the folder cannot be made.
    """
    if below is None:
        yield
        return
    next_step = "Name a folder that all of Spark's machines see, as hdfs://HOST/tmp."
    own = f"{below.rstrip('/')}/kipctl-{uuid.uuid4()}"
    folder = made_new(session, own, "--scratch", next_step)
    folder.remove_at_exit()
    scratch.uri = folder.uri
    session.conf.set(_SCRATCH_SETTING, own)
    try:
        yield
    finally:
        session.conf.unset(_SCRATCH_SETTING)
        folder.remove()
        scratch.uri = ""


def checkpointed(frame: DataFrame) -> DataFrame:
    """The frame, computed now and kept until the session ends.

    Its plan begins at its rows, since Spark goes through all of a plan again for each step that is
    added to it, and computes it again for each action on it. What executors lose of it is computed
    again.
    """
    session = frame.sparkSession
    if scratch := session.conf.get(_SCRATCH_SETTING, None):
        path = f"{scratch}/{uuid.uuid4()}"
        frame.write.parquet(path)
        return session.read.schema(frame.schema).parquet(path)
    if is_connect(session):
        return kept_there(frame)
    if runs_here(session):
        return coalesced(frame.localCheckpoint())
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    kept.count()
    return of_kept_rows(kept)
