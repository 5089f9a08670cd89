"""What a session with a Spark Connect server (`sc://`) is asked in place of a JVM of this process.

Such a session has DataFrames, and neither a SparkContext nor a file system of Hadoop's.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from kipctl.pipeline.place import is_local

_CHECKPOINTS = "spark.checkpoint.dir"


def is_connect(session: SparkSession) -> bool:
    """Whether the session is with a server; classic ones are with a JVM of this process."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def runs_here(session: SparkSession) -> bool:
    """Whether Spark runs on this machine, in a JVM of this process alone."""
    return not is_connect(session) and is_local(session.sparkContext.master or "")


def kept_there(frame: DataFrame) -> DataFrame:
    """The frame, computed now and kept for as long as it is referred to: in files, where the server
    was started with a folder for them, which outlive executors; otherwise by its executors."""
    is_in_files = frame.sparkSession.conf.get(_CHECKPOINTS, "")
    return frame.checkpoint() if is_in_files else frame.localCheckpoint()


def files_below(session: SparkSession, path: str) -> list[str]:
    """The URIs of all files at a path, in folders below it, or in what its wildcards stand for;
    none if there is no such path."""
    files = session.read.format("binaryFile").option("recursiveFileLookup", True).load(path)
    try:
        return [str(row[0]) for row in files.select("_metadata.file_path").collect()]
    except AnalysisException as refused:
        if refused.getCondition() != "PATH_NOT_FOUND":
            raise
        return []
