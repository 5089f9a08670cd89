"""What ends an analysis, told by its cause, and what to do about it."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kipctl.pipeline.failures import error_text, failure_of, failure_of_server
from kipctl.pipeline.files import located

_UNREAD = "An error occurred while calling o9.localCheckpoint.\n: org.apache.spark.SparkException: "
_OF_FILE = "[FAILED_READ_FILE.{}] Encountered error while reading file file:///a/b%20c.log. {}\n"
_STACK = "\tat org.apache.spark.rdd.RDD.iterator(RDD.scala:338)\n"


def unread(kind: str, cause: str) -> Exception:
    """As py4j tells of a file that could not be read."""
    return Exception(_UNREAD + _OF_FILE.format(kind, " SQLSTATE: KD001") + _STACK + cause)


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        (
            unread("NO_HINT", "Caused by: java.io.EOFException: Unexpected end of input stream"),
            "/a/b c.log cannot be read: it is cut short.",
        ),
        (
            unread("NO_HINT", "Caused by: java.io.IOException: gzip stream CRC failure"),
            "/a/b c.log cannot be read: gzip stream CRC failure.",
        ),
        (
            unread("NO_HINT", "Caused by: a.B: no\n\tat c.D\nCaused by: java.io.EOFException"),
            "/a/b c.log cannot be read: it is cut short.",
        ),
        (
            unread(
                "FILE_NOT_EXIST",
                "Caused by: java.io.FileNotFoundException: /a/b c.log (Permission denied)",
            ),
            "/a/b c.log cannot be read: permission denied.",
        ),
        (
            unread(
                "FILE_NOT_EXIST",
                "Caused by: java.io.FileNotFoundException: File file:/a/b c.log does not exist",
            ),
            "/a/b c.log cannot be read: it is not there any more.",
        ),
        (
            unread(
                "NO_HINT",
                "Caused by: java.lang.RuntimeException: file:/a/b c.log is not a Parquet file. "
                "Expected magic number at tail, but found [120, 120, 120, 120]",
            ),
            "/a/b c.log cannot be read: it is cut short, or it is no Parquet file.",
        ),
        (
            Exception(
                "An error occurred while calling o48.text.\n"
                ": java.nio.file.AccessDeniedException: /logs/b: Permission denied\n" + _STACK
            ),
            "Spark failed: /logs/b: Permission denied",
        ),
        (PermissionError(13, "Permission denied", "/a/saved"), "/a/saved: Permission denied."),
        (Exception("[ARITHMETIC_OVERFLOW] overflow. SQLSTATE: 22003"), "Spark failed: overflow."),
        (Exception(), "Spark failed: Exception"),
    ],
)
def test_the_cause_is_told(failed: Exception, told: str) -> None:
    assert error_text(failed) == told
    assert len(str(failure_of(failed, Path("spark.log"), has_ended=False)).splitlines()) <= 3


def test_what_to_do_about_it() -> None:
    def next_step(failed: Exception, *, has_ended: bool = False) -> str:
        return failure_of(failed, Path("spark.log"), has_ended=has_ended).next_step

    damaged = unread("NO_HINT", "Caused by: java.io.EOFException: Unexpected end of input stream")
    assert "spark.sql.files.ignoreCorruptFiles=true" in next_step(damaged)
    gone = unread("FILE_NOT_EXIST", "Caused by: java.io.FileNotFoundException: b does not exist")
    assert next_step(gone) == "Spark's own words are in spark.log."
    heap = Exception(_UNREAD + "Job aborted: java.lang.OutOfMemoryError: Java heap space\n\tat a.B")
    assert "spark.driver.memory" in next_step(heap)
    worker = "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    for lacking, said in (
        (f"{worker}ModuleNotFoundError: No module named 'pyarrow'\n", "no pyarrow."),
        (': java.io.IOException: Cannot run program "python3": error=2\n', "no python3."),
    ):
        assert "PYSPARK_PYTHON" in next_step(Exception(lacking))
        told = failure_of(Exception(lacking), Path("spark.log"), has_ended=False)
        assert told.what.endswith(said)
    limit = "unable to create native thread: possibly out of memory or process/resource limits"
    threads = Exception(
        f"An error occurred.\n: java.lang.OutOfMemoryError: {limit} reached\n\tat a.B"
    )
    assert "ulimit -u" in next_step(threads)
    acquire = "Unable to acquire 65536 bytes of memory, got 0."
    of_spark = Exception(
        ": org.apache.spark.memory.SparkOutOfMemoryError: "
        f"[UNABLE_TO_ACQUIRE_MEMORY] {acquire} SQLSTATE: 53200\n"
    )
    for error, said in (
        (heap, "Java heap space."),
        (threads, f"{limit} reached."),
        (of_spark, acquire),
    ):
        told = failure_of(error, Path("spark.log"), has_ended=False)
        assert told.what == f"Spark's memory is exhausted: {said}"
    bare = failure_of(
        Exception("java.lang.OutOfMemoryError\n\tat a.B"), Path("spark.log"), has_ended=False
    )
    assert bare.what == "Spark's memory is exhausted."
    ended = next_step(ConnectionRefusedError(111, "Connection refused"), has_ended=True)
    assert "spark.driver.memory" in ended
    assert "spark.log" in ended

    class AsksTheJvmError(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError(111, "Connection refused")

    assert next_step(AsksTheJvmError()) == ended


@pytest.mark.spark
def test_what_spark_says_of_files(spark: SparkSession, tmp_path: Path) -> None:
    def told(path: Path, before: Callable[[], object] = lambda: None) -> str:
        lines = spark.read.text(located(str(path)))
        before()
        with pytest.raises(Exception, match="FAILED_READ_FILE") as failed:
            lines.collect()
        return error_text(failed.value).removeprefix(f"{path} cannot be read: ")

    cut = tmp_path / "a cut.gz"
    cut.write_bytes(gzip.compress(os.urandom(5000))[:-100])
    assert told(cut) == "it is cut short."
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    spark.read.text(located(str(cut))).collect()
    spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
    (tmp_path / "plain.gz").write_bytes(b"a line\n" * 1000)
    assert told(tmp_path / "plain.gz") == "not a gzip file."
    rotated = tmp_path / "a.log"
    rotated.write_text("a line\n")
    assert told(rotated, lambda: rotated.rename(tmp_path / "b")) == "it is not there any more."


@pytest.mark.parametrize(
    ("failed", "told", "next_step"),
    [
        ("status = StatusCode.UNAVAILABLE", "sc://a does not answer", "its own log"),
        ("Checkpoint block rdd_7_0 not found!", "An executor was lost", "spark.checkpoint.dir"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "has no pyarrow", "PYSPARK_PYTHON"),
        ("[DIVIDE_BY_ZERO] Division by zero.", "Division by zero", "in the log of sc://a."),
    ],
)
def test_what_a_connect_server_answers_is_told_with_a_next_step(
    failed: str, told: str, next_step: str
) -> None:
    error = failure_of_server(Exception(failed), "sc://a")
    assert told in error.what
    assert next_step in str(error.next_step)
