"""Processes that outlive kipctl: known again for certain, and nobody else's is ever signalled."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kipctl import process
from kipctl.errors import RefusedError, TimedOutError
from kipctl.lab.node import Node, NodeState
from kipctl.lab.properties import NodeSpec, Role
from kipctl.process import Launch, Process

SLEEP = ["sleep", "1000"]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    folder = tmp_path / "broker-1"
    folder.mkdir()
    node = Node(NodeSpec(1, Role.BROKER, None, 20000), folder)
    yield node
    node.kill()


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any lab."""
    with subprocess.Popen(SLEEP) as bystander:
        yield bystander
        bystander.kill()


def test_a_node_is_seen_running_paused_stopped_and_crashed(node: Node) -> None:
    assert (node.state, node.pid) == (NodeState.STOPPED, None)
    node.launch(SLEEP).go()
    assert node.state is NodeState.RUNNING
    node.pause()
    assert node.state is NodeState.PAUSED
    node.resume()
    assert node.state is NodeState.RUNNING
    node.pause()
    node.stop(timeout_s=60)
    assert (node.state, node.pid) == (NodeState.STOPPED, None)
    launch = node.launch(SLEEP)
    launch.go()
    os.kill(launch.process.pid, signal.SIGKILL)
    assert process.wait_for_exit(launch.process, 10)
    assert (node.state, node.pid) == (NodeState.CRASHED, None)
    with pytest.raises(RefusedError, match="broker-1 does not run"):
        node.pause()


# Told to stop, it says so, and ends once it is allowed to.
SLOW_TO_STOP = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
told, may_end = os.open("told", os.O_WRONLY), open("may-end")
signal.sigwait([signal.SIGTERM])
os.write(told, b"told")
may_end.read()
"""


def test_a_node_that_was_told_to_stop_is_waited_for_and_started_anew(node: Node) -> None:
    for fifo in ("told", "may-end"):
        os.mkfifo(node.folder / fifo)
    node.launch([sys.executable, "-c", SLOW_TO_STOP]).go()
    node.wait_while_stopping()
    assert node.state is NodeState.RUNNING
    with (node.folder / "told").open() as told, (node.folder / "may-end").open("w"):
        with pytest.raises(TimedOutError, match=r"broker-1 still runs 0 s after"):
            node.stop(timeout_s=0)
        assert told.read(4) == "told"
        assert node.state is NodeState.STOPPING
        with pytest.raises(TimedOutError, match=r"broker-1 still runs 0 s after"):
            node.wait_while_stopping(timeout_s=0)
    node.wait_while_stopping()
    assert (node.state, node.pid) == (NodeState.STOPPED, None)
    node.launch(SLEEP).go()
    assert node.state is NodeState.RUNNING


def test_who_stopped_a_node_leaves_the_record_of_the_next_start(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.launch(SLEEP).go()
    ended = process.wait_for_exit

    def and_somebody_starts_it(stopped: Process, timeout_s: float) -> bool:
        assert ended(stopped, timeout_s)
        node.launch(SLEEP).go()
        return True

    with monkeypatch.context() as patch:
        patch.setattr(process, "wait_for_exit", and_somebody_starts_it)
        node.stop()
    assert node.state is NodeState.RUNNING


def test_a_recycled_process_id_is_left_alone(
    node: Node, bystander: subprocess.Popen[bytes]
) -> None:
    process.write_record(node.folder / "process", Process(bystander.pid, "1"))
    assert (node.state, node.pid) == (NodeState.CRASHED, None)
    with pytest.raises(RefusedError):
        node.pause()
    node.stop()
    assert bystander.poll() is None
    process.write_record(node.folder / "process", Process(bystander.pid, "1"))
    node.kill()
    assert bystander.poll() is None
    assert process.is_alive(process.identify(bystander.pid))


def test_an_ended_process_is_nobody_also_while_its_parent_has_not_reaped_it() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        for _ in range(2):
            with pytest.raises(ProcessLookupError):
                process.identify(child.pid)
            child.wait()


def test_a_program_does_not_start_before_go_and_has_a_session_of_its_own(tmp_path: Path) -> None:
    program = "import os; print(os.getsid(0) == os.getpid(), os.getcwd())"
    launch = Launch([sys.executable, "-c", program], tmp_path, tmp_path / "output.log")
    assert process.is_alive(launch.process)
    assert (tmp_path / "output.log").read_text() == ""
    launch.go()
    assert process.wait_for_exit(launch.process, 60)
    assert (tmp_path / "output.log").read_text() == f"True {tmp_path}\n"


def test_nothing_starts_when_kipctl_dies_before_go(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from kipctl.process import Launch\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "launch = Launch(['touch', 'ran'], folder, folder / 'output.log')\n"
        "print(launch.process.pid, launch.process.started, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    died = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert died.returncode == -signal.SIGKILL
    pid, started = died.stdout.split()
    assert process.wait_for_exit(Process(int(pid), started), 10)
    assert not (tmp_path / "ran").exists()
