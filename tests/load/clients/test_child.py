"""A program in a process of its own: its end, its output, and that nothing is left of it."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kipctl.load.clients import child
from kipctl.load.clients.child import Child
from kipctl.trace.clock import now_us

LONG_US = 60_000_000
STARTS_ONE = """
import sys
from pathlib import Path
from kipctl.load.clients.child import Child
print(Child(["sleep", "600"], Path(sys.argv[1])).pid, flush=True)
sys.stdin.read()
"""


def shell(script: str, folder: Path) -> Child:
    return Child(["sh", "-c", script], folder)


def test_its_end_and_what_it_wrote(tmp_path: Path) -> None:
    program = shell("echo out; echo one >&2; printf half >&2; exit 3", tmp_path)
    assert program.is_over_by(now_us() + LONG_US)
    assert program.exit_code == 3
    assert program.stdout() == "out\n"
    assert program.new_stderr() == "one\n"  # whole lines only
    assert program.new_stderr() == ""
    program.close()
    assert program.exit_code == 3


def test_it_is_told_lines_while_it_listens(tmp_path: Path) -> None:
    child = Child(["sh", "-c", "read line; echo got $line"], tmp_path, is_told=True)
    child.write_line("a topic")
    assert child.is_over_by(now_us() + 10_000_000)
    assert child.stdout() == "got a topic\n"
    child.write_line("nobody")
    child.close_all()


def test_its_cpu_time_is_its_own(tmp_path: Path) -> None:
    busy = Child([sys.executable, "-c", "sum(range(10**7))"], tmp_path)
    assert busy.is_over_by(now_us() + LONG_US)
    idle = shell("sleep 0.1", tmp_path)
    assert idle.is_over_by(now_us() + LONG_US)
    assert busy.cpu_s > 0.05 > idle.cpu_s


def test_one_that_runs_is_not_over(tmp_path: Path) -> None:
    program = shell("sleep 600", tmp_path)
    assert not program.is_over_by(now_us())
    assert program.exit_code is None
    program.terminate()
    assert program.is_over_by(now_us() + LONG_US)
    assert program.exit_code == -signal.SIGTERM


def test_one_that_does_not_listen_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_END_TIMEOUT_S", 0.05)
    program = shell("trap '' TERM; echo ready; while :; do sleep 0.1; done", tmp_path)
    while "ready" not in program.stdout():
        assert not program.is_over_by(now_us() + 1000)
    program.close()
    assert program.exit_code == -signal.SIGKILL


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-java"):
        Child([str(tmp_path / "no-such-java")], tmp_path)


def test_it_does_not_outlive_a_starter_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        ended = os.pidfd_open(int(starter.stdout.readline()))
        assert not select.select([ended], [], [], 0)[0]
        starter.kill()
        assert select.select([ended], [], [], LONG_US / 1e6)[0]
    os.close(ended)


def test_it_does_not_begin_when_its_starter_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebody_else = os.getppid()
    with monkeypatch.context() as gone:
        gone.setattr(os, "getpid", lambda: somebody_else)
        program = shell("echo began", tmp_path)
    assert program.is_over_by(now_us() + LONG_US)
    assert program.stdout() == ""
