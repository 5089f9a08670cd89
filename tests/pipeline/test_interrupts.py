"""Ctrl-C while Spark starts and while it works: the one line, and nothing of Python's or py4j's."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kipctl.errors import ExitStatus

pytestmark = pytest.mark.spark

_TIMEOUT_S = 600

_WORKING = """
import sys
from kipctl.pipeline.analysis import collected
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.place import Place
from kipctl.pipeline.session import spark_session
place, told = Place("local[1]", scratch=sys.argv[2]), lambda text: print(text, file=sys.stderr)
try:
    with spark_session(place, told, is_light=True) as spark:
        checkpointed(spark.range(10))
        endless = spark.range(10**18).selectExpr("sum(id % 7)")
        if sys.argv[1] == "one":
            endless.collect()
        collected({str(number): lambda: endless for number in range(4)})
except KeyboardInterrupt:
    sys.exit(130)
"""


@contextmanager
def started(state: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """Python with these arguments, in a process group of its own, as of a terminal's."""
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XDG_STATE_HOME": str(state)},
        start_new_session=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def ctrl_c(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """What a terminal does: the whole group is told. The status, and the lines on stderr."""
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=_TIMEOUT_S)
    assert out == ""
    return process.returncode, err.splitlines()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    assert select.select([process.stderr], [], [], _TIMEOUT_S)[0]
    return process.stderr.readline()


@pytest.mark.parametrize("logged", [None, "Setting Spark log level"], ids=["jvm", "context"])
def test_while_spark_starts(tmp_path: Path, logged: str | None) -> None:
    """As soon as that is said, and when the JVM is there and makes its context.

    Its context is not made before the test has ended: it reads what nobody writes.
    """
    (tmp_path / "some.log").touch()
    os.mkfifo(tmp_path / "metrics")
    reads = ("--conf", f"spark.metrics.conf={tmp_path}/metrics")
    command = ("-m", "kipctl", "analyze", "request-log", str(tmp_path / "some.log"), *reads)
    log = tmp_path / "kipctl" / "spark.log"
    with started(tmp_path, *command) as process:
        assert line_of(process).startswith("Starting Spark")
        deadline = time.monotonic() + _TIMEOUT_S
        while logged and not (log.exists() and logged in log.read_text()):
            assert time.monotonic() < deadline
            select.select([], [], [], 0.01)
        assert ctrl_c(process) == (ExitStatus.INTERRUPTED, ["", "kipctl: interrupted."])


@pytest.mark.parametrize("threads", ["one", "several"])
def test_while_spark_works(tmp_path: Path, threads: str) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with started(tmp_path, "-c", _WORKING, threads, str(scratch)) as process:
        assert line_of(process).startswith("Spark: stage")
        assert list(scratch.iterdir())
        status, told = ctrl_c(process)
    assert status == ExitStatus.INTERRUPTED
    assert [line for line in told if not line.startswith("Spark: stage")] == []
    assert list(scratch.iterdir()) == []
