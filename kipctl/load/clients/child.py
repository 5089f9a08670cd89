"""A program in a process of its own, with its output in files and its CPU time known."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kipctl.trace.clock import now_us

_POLL_S = 0.01
_END_TIMEOUT_S = 5.0
"""How long one that was asked to end may take."""
_STARTER_IS_THERE = '[ "$PPID" = "$0" ] && exec "$@"'


def _killed_with_its_starter() -> list[str]:
    """util-linux asks the kernel for it, and becomes the program: the process id stays.

    The kernel tells nothing of a starter that was gone before it was asked, so a shell looks
    whether it is still there: prctl(2), PR_SET_PDEATHSIG.
    """
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    if setpriv is None:
        return []
    return [setpriv, "--pdeathsig", "KILL", "--", "sh", "-c", _STARTER_IS_THERE, str(os.getpid())]


class Child:
    """It has a session of its own: Ctrl-C reaches its starter alone, who decides what to do.

    On Linux it is killed when the thread that started it is gone, however that came.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        works_in: Path | None = None,
        is_told: bool = False,
    ) -> None:
        """Start it in a folder, which gets its output; it may work in another. One that `is_told`
        has a standard input.

        Raises OSError when it cannot be run.
        """
        if shutil.which(command[0]) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
        self._stdout, self._stderr = folder / "stdout", folder / "stderr"
        with self._stdout.open("wb") as stdout, self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*_killed_with_its_starter(), *command],
                cwd=works_in or folder,
                stdin=subprocess.PIPE if is_told else subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self._read_to = 0
        self.cpu_s = 0.0
        """CPU seconds of the whole process; known when it is over."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.returncode

    def is_over_by(self, time_us: int) -> bool:
        """Whether it has ended; waits for it until a moment of the monotonic clock."""
        while not self._reaped():
            left_s = (time_us - now_us()) / 1e6
            if left_s <= 0:
                return False
            time.sleep(min(_POLL_S, left_s))
        return True

    def write_line(self, line: str) -> None:
        """Write a line to its standard input, if it reads that and is there still."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.write(f"{line}\n".encode())
                self._process.stdin.flush()

    def terminate(self) -> None:
        """Ask it to end (SIGTERM)."""
        if not self._reaped():
            os.kill(self.pid, signal.SIGTERM)

    def close(self) -> None:
        """End it, whatever it does: asked first, killed when it takes too long."""
        self.terminate()
        if not self.is_over_by(now_us() + round(_END_TIMEOUT_S * 1e6)):
            os.kill(self.pid, signal.SIGKILL)
            while not self._reaped():
                time.sleep(_POLL_S)

    def close_all(self) -> None:
        """End it, and what it has left behind in its session."""
        self.close()
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def stdout(self) -> str:
        """All that it has written there so far."""
        return self._stdout.read_text(encoding="utf-8", errors="replace")

    def new_stderr(self) -> str:
        """The whole lines that it has written there since the last call."""
        with self._stderr.open("rb") as file:
            file.seek(self._read_to)
            read = file.read()
        whole = read[: read.rfind(b"\n") + 1]
        self._read_to += len(whole)
        return whole.decode(errors="replace")

    def _reaped(self) -> bool:
        """Take its exit status, if there is one; a process id is not used again before that."""
        if self._process.returncode is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.cpu_s = usage.ru_utime + usage.ru_stime
                self._process.returncode = os.waitstatus_to_exitcode(status)
        return self._process.returncode is not None
