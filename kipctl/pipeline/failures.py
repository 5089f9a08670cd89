"""What went wrong in Spark, in our words: the cause, not the stages that it came through."""

import re
from pathlib import Path

from py4j.protocol import Py4JError

from kipctl.errors import PipelineError
from kipctl.pipeline.files import unquoted

_BROKEN_FILE = re.compile(r"while reading file (\S+?)\.?\s")
_CONDITION = re.compile(r"^(?:.*?: )?\[([A-Z_0-9.]+)\] (.*?)\s*(?:SQLSTATE.*)?$", re.MULTILINE)
_CAUSE = re.compile(r"^(?:Caused by)?: ([\w$.]+(?:: .*)?)$", re.MULTILINE)
"""A Java exception that Python was told of, and those that it came from: the last is the first."""
_REASONS = (
    (re.compile("Permission denied|AccessControlException"), "permission denied"),
    (re.compile("FileNotFoundException|No such file"), "it is not there any more"),
    (re.compile("EOFException"), "it is cut short"),
    (
        re.compile("is not a Parquet file|Parquet magic bytes|Parquet file size is"),
        "it is cut short, or it is no Parquet file",
    ),
)
_MEMORY = "--conf spark.driver.memory=4g (2g unless set)"
_OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError(?:: (?:\[[\w.]+\] )?([^\n]*?)\.?\s*(?:SQLSTATE.*)?)?$", re.MULTILINE
)
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_NO_PYTHON = re.compile(r'Cannot run program "([^"]*python[^"]*)"')
_LOST_CHECKPOINT = re.compile("Checkpoint block rdd_")
_NO_THREAD = "unable to create native thread"


def failure_of(failed: BaseException, log: Path, *, has_ended: bool) -> PipelineError:
    """The error to tell; `has_ended` says whether Spark's JVM answers no more."""
    own_words = f"Spark's own words are in {log}."
    try:
        text = str(failed)
    except (Py4JError, OSError):  # the JVM is asked for it, and may end meanwhile
        has_ended = True
    if has_ended:
        return PipelineError(
            "Spark's JVM has ended: its memory was exhausted, or it was killed since the machine's "
            "was (dmesg).",
            f"Set how much it may take: {_MEMORY}.\n{own_words}",
        )
    if exhausted := _OUT_OF_MEMORY.search(text):
        of_what = f": {exhausted[1][:200]}" if exhausted[1] else ""
        more = f"Give it more: {_MEMORY}; of executors, spark.executor.memory."
        if _NO_THREAD in of_what:
            more = "It may have no more threads: see ulimit -u, and pids.max of its cgroup."
        return PipelineError(f"Spark's memory is exhausted{of_what}.", f"{more}\n{own_words}")
    if lacks := _what_executors_lack(text, own_words):
        return lacks
    broken = _BROKEN_FILE.search(text)
    if broken and "FileNotFoundException" not in text and not broken[1].endswith(".parquet"):
        own_words = (
            "Leave out such files, from where they cannot be read on, and what they would count:\n"
            "--conf spark.sql.files.ignoreCorruptFiles=true"
        )
    return PipelineError(error_text(failed), own_words)


def failure_of_server(failed: BaseException, server: str) -> PipelineError:
    """The error to tell of what a Spark Connect server answered."""
    text = str(failed)
    if "StatusCode.UNAVAILABLE" in text or "RETRIES_EXCEEDED" in text:
        return PipelineError(
            f"{server} does not answer as Spark Connect.",
            "See that it is such a server, and that it runs; its own log says more.",
        )
    if _LOST_CHECKPOINT.search(text):
        return PipelineError(
            "An executor was lost with intermediate results.",
            f"Start {server} with spark.checkpoint.dir, a folder that all executors see.",
        )
    own_words = f"Spark's own words are in the log of {server}."
    return _what_executors_lack(text, own_words) or PipelineError(error_text(failed), own_words)


def _what_executors_lack(text: str, own_words: str) -> PipelineError | None:
    """Python itself, or a module of it."""
    lacks = _NO_MODULE.search(text) or _NO_PYTHON.search(text)
    if not lacks:
        return None
    return PipelineError(
        f"An executor's Python has no {lacks[1]}."
        if lacks.re is _NO_MODULE
        else f"An executor has no {lacks[1]}.",
        "Executors read request logs with Python: PYSPARK_PYTHON names one there of this "
        f"machine's minor version, with pyarrow and msgspec.\n{own_words}",
    )


def error_text(failed: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(failed, OSError) and failed.filename:
        return f"{failed.filename}: {failed.strerror}."
    text = str(failed)
    causes = _CAUSE.findall(text)
    if broken := _BROKEN_FILE.search(text):
        return cannot_be_read(unquoted(broken[1]), causes[-1] if causes else text)
    if condition := _CONDITION.search(text):
        return f"Spark failed: {condition[2][:400]}"
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return (
        f"Spark failed: {(_words(causes[-1]) if causes else first)[:400] or type(failed).__name__}"
    )


def cannot_be_read(path: str, cause: str) -> str:
    """What is said of a file, by the text of the first exception."""
    known = (reason for pattern, reason in _REASONS if pattern.search(cause))
    return f"{path} cannot be read: {next(known, _words(cause)[:400].rstrip('.'))}."


def _words(cause: str) -> str:
    """What a Java exception says, without its class; the class of one that says nothing."""
    return cause.partition(": ")[2] or cause
