"""Intermediate results that are computed once and kept: where a plan is cut off, and for how long.

On this machine they are kept by its JVM. On a cluster they are either files that all machines see,
or blocks of its executors with all that it takes to compute a lost one again: a local checkpoint
has forgotten that, and ends the analysis when one executor is lost.
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from kipctl.errors import UsageError
from kipctl.pipeline.jvm import located_on
from kipctl.pipeline.partitions import together
from kipctl.pipeline.place import is_local

_SCRATCH_SETTING = "spark.kipctl.scratch"


@contextmanager
def intermediate_results(session: SparkSession, scratch: str | None) -> Iterator[None]:
    """While inside, results are kept in a folder of their own below `scratch`, then removed.

    Without one the executors keep them. Raises UsageError when the folder cannot be made.
    """
    if scratch is None:
        yield
        return
    try:
        system, path = located_on(session, f"{scratch.rstrip('/')}/kipctl-{uuid.uuid4()}")
        system.mkdirs(path)
    except Py4JError as refused:
        cause = getattr(refused, "java_exception", refused)
        raise UsageError(
            f"--scratch {scratch}: no folder can be made there: {cause}.",
            "Name a folder that all of Spark's machines see, as hdfs://HOST/tmp or s3a://BUCKET.",
        ) from refused
    session.conf.set(_SCRATCH_SETTING, path.toString())
    try:
        yield
    finally:
        session.conf.unset(_SCRATCH_SETTING)
        system.delete(path, True)


def checkpointed(frame: DataFrame) -> DataFrame:
    """The frame, computed now and kept until the session ends.

    Its plan begins at its rows, since Spark goes through all of a plan again for each step that is
    added to it, and computes it again for each action on it. What executors keep still has all of
    its plan: what they lose is computed again.
    """
    session = frame.sparkSession
    if scratch := session.conf.get(_SCRATCH_SETTING, None):
        path = f"{scratch}/{uuid.uuid4()}"
        frame.write.parquet(path)
        return session.read.schema(frame.schema).parquet(path)
    if is_local(session.sparkContext.master or ""):
        return together(frame.localCheckpoint())
    kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
    kept.count()
    return kept
