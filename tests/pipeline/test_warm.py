"""A JVM that is kept warm: used, found unfit, left by clients in every way, and ended."""

import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from one_process import JVM_OPTIONS
from runs import write_run

from kipctl.errors import ExitStatus, PipelineError
from kipctl.pipeline import warm
from kipctl.pipeline.holder import _Keeper
from kipctl.pipeline.place import Place
from kipctl.process import identify, wait_until

pytestmark = pytest.mark.spark

_TIMEOUT_S = 300
_ENDLESS = """
import sys
from kipctl.pipeline.analysis import collected
from kipctl.pipeline.session import spark_session
try:
    with spark_session("local[*]", lambda text: print(text, file=sys.stderr, flush=True)) as spark:
        endless = spark.range(10**18).selectExpr("sum(id % 7)")
        collected({str(number): lambda: endless for number in range(4)})
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state folder for this module's holders alone, none of which is left; they may take their
    time to answer."""
    folder = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        patch.setenv("JAVA_TOOL_OPTIONS", JVM_OPTIONS)
        patch.setattr(warm, "_ANSWER_TIMEOUT_S", _TIMEOUT_S)
        yield folder
        warm.stop(force=True)


@pytest.fixture
def running() -> warm.WarmStatus:
    return warm.start(Place(), 600)


def a_run(folder: Path) -> Path:
    row = {"first_seq": 0, "bytes": 100, "intended_us": 0, "sent_us": 5, "acked_us": 10}
    write_run(folder, {}, batches=[row | {"attempts": 1, "broker": 1}])
    return folder


def kipctl(*words: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kipctl", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )


def awaited(condition: Callable[[], bool]) -> None:
    assert wait_until(condition, _TIMEOUT_S)


def awaited_idle(uses: int) -> warm.WarmStatus:
    """The status once a client that has gone is forgotten."""
    idle: list[warm.WarmStatus] = []

    def is_idle() -> bool:
        if (now := warm.status()) and not now.is_busy:
            idle.append(now)
        return bool(idle)

    awaited(is_idle)
    assert idle[0].analyses == uses
    return idle[0]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


_START = [sys.executable, "-m", "kipctl", "spark", "start", "--output", "json"]

_SILENT_JAVA = """#!/bin/sh
case "$*" in
*org.apache.spark.launcher.Main*) printf '\\0\\n%s\\0' "$0" org.apache.spark.deploy.SparkSubmit ;;
*) exec cat ;;
esac
"""
"""A JVM that starts as long as its input lasts."""


def test_while_one_starts_a_stop_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(_SILENT_JAVA)
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with subprocess.Popen(_START, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as first:
        awaited(lambda: warm.running_holder() is not None)
        starting = warm.running_holder()
        assert starting is not None
        with pytest.raises(PipelineError, match="other settings"):
            warm.start(Place(conf={"spark.driver.memory": "1g"}), 600)
        assert "is being started" in kipctl("spark", "status").stdout
        assert warm.stop()
        assert first.stderr is not None
        assert b"did not start" in first.stderr.read()
    assert not is_alive(starting.pid)


def test_one_that_is_ended_before_it_has_its_order_did_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def record(holder: warm.Holder) -> None:
        os.kill(holder.pid, signal.SIGKILL)
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(warm, "record", record)
    monkeypatch.setattr(warm, "running_holder", lambda: None)
    with pytest.raises(PipelineError, match="did not start"):
        warm.start(Place(), 600)


def test_while_one_starts_another_start_waits() -> None:
    with subprocess.Popen(_START, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as first:
        awaited(lambda: warm.running_holder() is not None)
        second = kipctl("spark", "start", "--output", "json")
        assert second.returncode == ExitStatus.DONE, second.stderr
        assert first.stdout is not None
        started = json.loads(first.stdout.read())
    assert started["pid"] == json.loads(second.stdout)["pid"]


def tcp_ports(pid: int) -> list[int]:
    """Where a process takes connections over IPv4."""
    held = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if row[3] == "0A" and f"socket:[{row[9]}]" in held
    ]


def test_no_other_user_can_hold_it(running: warm.WarmStatus) -> None:
    """Who reaches its TCP ports, as everybody on the machine does, and sends a byte now and then.

    (One is PySpark's own, of its accumulators.)
    """
    assert stat.S_IMODE(warm.socket_path().parent.stat().st_mode) == 0o700
    assert warm.socket_path().is_socket()
    over = threading.Event()

    def trickle(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port)) as other, suppress(OSError):
            while not over.wait(0.05):
                other.sendall(b" ")

    others = [threading.Thread(target=trickle, args=(port,)) for port in tcp_ports(running.pid)]
    for thread in others:
        thread.start()
    try:
        over.wait(1.0)
        now = warm.status()
    finally:
        over.set()
        for thread in others:
            thread.join()
    assert now is not None
    assert now.pid == running.pid


def test_analyses_use_it_and_it_outlives_them(running: warm.WarmStatus, tmp_path: Path) -> None:
    assert stat.S_IMODE(warm.holder_file().stat().st_mode) == 0o600
    a_run(tmp_path / "run")
    used = kipctl("analyze", "./run", "--save", "saved", "--output", "json", folder=tmp_path)
    assert used.returncode == ExitStatus.DONE, used.stderr
    assert json.loads(used.stdout)["records"][0]["acknowledged"] == 1
    assert (tmp_path / "saved" / "records").is_dir()  # beside the client, not beside the JVM
    awaited_idle(running.analyses + 1)

    # Another heap is another JVM, which this one does not become.
    with pytest.raises(PipelineError):
        warm.start(Place(conf={"spark.driver.memory": "1g"}), 600)
    assert warm.lease(Place(conf={"spark.driver.memory": "1g"})) is None
    assert warm.lease(Place("local[1]")) is None

    # One at a time.
    held = warm.lease(Place())
    assert held is not None
    assert warm.lease(Place()) is None
    held.end()
    assert awaited_idle(running.analyses + 2).jvm_pid == running.jvm_pid


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_a_client_leaves_behind_is_cancelled(
    running: warm.WarmStatus, how: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _ENDLESS],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], _TIMEOUT_S)[0]
        assert process.stderr.readline().startswith("Spark: stage")
        os.killpg(process.pid, how)
        process.communicate(timeout=_TIMEOUT_S)
    assert process.returncode == (130 if how == signal.SIGINT else -how)
    # It is idle when nothing runs any more.
    assert awaited_idle(running.analyses + 1).jvm_pid == running.jvm_pid


def test_one_that_is_in_use_is_ended_by_force_alone(running: warm.WarmStatus) -> None:
    held = warm.lease(Place())
    assert held is not None
    refused = kipctl("spark", "stop")
    assert refused.returncode == ExitStatus.REFUSED
    assert f"process {os.getpid()}" in refused.stderr
    assert warm.is_running()
    assert kipctl("spark", "stop", "--force").stderr == "It has ended.\n"
    assert not is_alive(running.pid)
    assert not is_alive(running.jvm_pid)
    held.end()
    assert not warm.holder_file().exists()
    assert json.loads(kipctl("spark", "status", "--output", "json").stdout)["running"] is False
    assert not warm.stop()


def test_one_that_nobody_uses_ends_as_soon_as_it_is_told() -> None:
    keeper = object.__new__(_Keeper)
    keeper._client, keeper._must_end = None, False
    with socket.socket() as asking:
        assert not keeper._handle(warm.HolderRequest("stop", os.getpid()), asking).used_by
    assert keeper._must_end


def test_one_that_was_killed_is_not_used(running: warm.WarmStatus) -> None:
    os.kill(running.jvm_pid, signal.SIGKILL)
    awaited(lambda: not is_alive(running.jvm_pid))
    assert warm.lease(Place()) is None
    awaited(lambda: not warm.is_running())
    assert warm.status() is None


def test_a_process_that_has_a_holders_number_is_left_alone(
    running: warm.WarmStatus,
) -> None:
    holder = warm.running_holder()
    assert holder is not None
    with subprocess.Popen(["sleep", "1000"]) as other:
        # As where the holder's number was given to another process, and its JVM still ends.
        warm.record(replace(holder, pid=other.pid, is_listening=False))
        assert warm.running_holder() is None
        os.kill(running.pid, signal.SIGKILL)
        warm.stop()  # waits for a JVM that lives
        assert other.poll() is None
        other.kill()
    assert not warm.is_running()

    elsewhere = replace(holder, host="another.example.org")
    warm.record(elsewhere)
    assert not warm.stop()  # nobody has the lock
    with warm.locked():
        warm.record(elsewhere)
        for ask in (warm.stop, lambda: warm.start(Place(), 600)):
            with pytest.raises(PipelineError, match=r"another\.example\.org"):
                ask()


def test_one_that_does_not_answer_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the lock, and listens; that its JVM ends with it is what other tests show."""
    monkeypatch.setattr(warm, "_ANSWER_TIMEOUT_S", 0.2)
    with warm.locked() as lock:
        assert lock is not None
        process = subprocess.Popen(["sleep", "1000"], pass_fds=[lock])
    with process, warm.listen():
        warm.record(warm.holder_of(identify(process.pid), "key", is_listening=True))
        assert warm.stop()
        assert process.wait() == -signal.SIGKILL


def test_it_ends_when_nobody_uses_it() -> None:
    holder = warm.start(Place(), 15)  # who starts it has to hear of it before
    awaited(lambda: not warm.is_running())
    assert not is_alive(holder.jvm_pid)
