"""Processes that outlive the command that started them, and that are known again for certain."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# The shell waits until its process id is on record, and only then becomes the program. If kipctl
# dies in between, the pipe closes and nothing is left behind that nobody knows of.
_WAIT_THEN_BECOME = 'cd "$0" && read -r go && exec "$@" </dev/null'


@dataclass(frozen=True, slots=True)
class Process:
    """A process id, and when it started: together they never mean another process."""

    pid: int
    started: str


def current_process() -> Process:
    """This very process."""
    return identify(os.getpid())


def identify(pid: int) -> Process:
    """Raises ProcessLookupError when there is no such process."""
    state_and_start = _look(pid)
    if state_and_start is None:
        raise ProcessLookupError(pid)
    return Process(pid, state_and_start[1])


def is_alive(process: Process) -> bool:
    """Whether it still runs (or is paused). One that ended but was not reaped yet does not."""
    return _state(process) is not None


def is_running(pid: int) -> bool:
    """Whether there is a process of this id, whichever it is."""
    return _look(pid) is not None


def is_paused(process: Process) -> bool:
    """Whether it was stopped with SIGSTOP."""
    return _state(process) == "T"


def write_record(path: Path, process: Process) -> None:
    """Put a process on record, in one step: a reader finds all of it or nothing."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    beside.write_text(f"{process.pid} {process.started}\n", encoding="ascii")
    beside.replace(path)


def read_record(path: Path) -> Process | None:
    """The process on record there, whether it lives or not; None when there is no record."""
    try:
        pid, _, started = path.read_text(encoding="ascii").strip().partition(" ")
    except FileNotFoundError:
        return None
    return Process(int(pid), started)


def send_signal(process: Process, number: signal.Signals) -> bool:
    """Signal this process and no other; False when it is gone."""
    if sys.platform != "linux":
        if not is_alive(process):
            return False
        os.kill(process.pid, number)
        return True
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        # The handle holds on to one process, so what is checked here is what is signalled below.
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def wait_for_exit(process: Process, timeout_s: float) -> bool:
    """Wait until it is gone; False when it still runs after `timeout_s` seconds."""
    return wait_until(lambda: not is_alive(process), timeout_s)


def wait_for_pause(process: Process, paused: bool, timeout_s: float) -> bool:
    """Wait until it stands still, or goes on: a signal takes its time to have its effect."""
    return wait_until(lambda: is_paused(process) == paused or not is_alive(process), timeout_s)


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Look until it is so; False when it is not after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True


class Launch:
    """A program that is about to run: its process exists, and waits for `go`.

    It gets a session of its own, so that neither Ctrl-C nor the end of the terminal reaches it.
    """

    def __init__(self, command: Sequence[str], folder: Path, output: Path) -> None:
        read_end, self._go = os.pipe()
        try:
            log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                pid = os.posix_spawn(
                    "/bin/sh",
                    ["sh", "-c", _WAIT_THEN_BECOME, str(folder), *command],
                    os.environ,
                    file_actions=[
                        (os.POSIX_SPAWN_DUP2, read_end, 0),
                        (os.POSIX_SPAWN_DUP2, log, 1),
                        (os.POSIX_SPAWN_DUP2, log, 2),
                    ],
                    setsid=True,
                    setsigmask=[],
                    setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
                )
            finally:
                os.close(log)
        except BaseException:
            os.close(self._go)
            raise
        finally:
            os.close(read_end)
        self.process = identify(pid)

    def go(self) -> None:
        """Let it run."""
        os.write(self._go, b"go\n")
        os.close(self._go)


def _state(process: Process) -> str | None:
    """Its one-letter state, or None when it ended."""
    seen = _look(process.pid)
    return seen[0] if seen is not None and seen[1] == process.started else None


def _look(pid: int) -> tuple[str, str] | None:
    """State and start of the process; None when there is none, or only its exit status is left."""
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The program's name, in parentheses, may hold anything; see proc_pid_stat(5).
        fields = stat.rpartition(")")[2].split()
        state, threads, started = fields[0], int(fields[17]), fields[19]
    else:
        asked = subprocess.run(
            ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True
        )
        if not asked.stdout.strip():
            return None
        state, _, started = asked.stdout.strip().partition(" ")
        state, threads, started = state[0], 1, started.strip()
    # While other threads of it are being ended, it still has its ports.
    if state in "ZX" and threads <= 1:
        _reap(pid)
        return None
    return state, started


def _reap(pid: int) -> None:
    """Take the exit status of an ended process if it was started by this one."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
