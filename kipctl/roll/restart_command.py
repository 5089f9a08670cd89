"""How a broker is restarted: a command of the operator's, the operator, or a lab of kipctl's.

A command runs without a shell, in a session of its own, and what it says goes to a file: it ends as
it would have if kipctl is ended meanwhile. A lab's broker is restarted by such a command too.
"""

import os
import select
import shlex
import signal
import socket
import string
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from re import fullmatch
from shutil import which
from typing import Protocol, TextIO

from kipctl import process
from kipctl.errors import UsageError
from kipctl.process import Launch, Process
from kipctl.redaction import text_without_secrets
from kipctl.roll.next_step import CommandState
from kipctl.roll.plan import Node

PLACEHOLDERS = ("host", "port", "broker", "rack", "role")
_PLAIN = r"[A-Za-z0-9_.:][A-Za-z0-9_.:-]*"
_SHOWN_LINES = 200


def parse_command(text: str) -> tuple[str, ...]:
    """The words of `ssh {host} systemctl restart kafka`, split as a shell does, run by none.

    A brace that is no placeholder's is doubled. Raises UsageError.
    """
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"--exec cannot be read: {error}.") from None
    if not words:
        raise UsageError("--exec is empty.", "Write it as 'ssh {host} systemctl restart kafka'.")
    for word in words:
        try:
            named = [
                name + (f"!{how}" if how else "") + (f":{spec}" if spec else "")
                for _, name, spec, how in string.Formatter().parse(word)
                if name is not None
            ]
        except ValueError as error:
            shown = text_without_secrets(word)
            raise UsageError(f"--exec: {shown!r}: {error}.", "Double braces: {{ and }}.") from None
        for name in named:
            if name not in PLACEHOLDERS:
                known = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
                raise UsageError(
                    f"--exec: {{{name}}} is no placeholder.",
                    f"There are {known}; double braces that are none: {{{{ and }}}}.",
                )
    return words


def command_for(words: Sequence[str], node: Node) -> tuple[str, ...]:
    """The command for one node.

    What its cluster calls it is put into words, and is nothing but letters, digits, dots, colons,
    dashes and underscores: it may come to a shell after all, on the other side. Raises UsageError.
    """
    values = {
        "host": node.host,
        "port": str(node.port),
        "broker": str(node.broker),
        "rack": node.rack or "",
        "role": node.name.split()[0],
    }
    for word in words:
        for _, name, _, _ in string.Formatter().parse(word):
            if name is not None and not fullmatch(_PLAIN, values[name]):
                why = f"is {values[name]!r}, which is not put into a command."
                if node.is_controller_only and not values[name]:
                    why = "is not shown by this cluster (hosts of controllers are since Kafka 3.9)."
                raise UsageError(
                    f"--exec: {name} of {node.name} {why}",
                    "Name what you mean by {broker}, or use --manual.",
                )
    return tuple(word.format_map(values) for word in words)


def working_folder() -> str:
    """Where the operator stands. Raises UsageError when that folder is gone."""
    try:
        return os.getcwd()
    except OSError as gone:
        raise UsageError(f"The folder that --exec is to run in: {gone.strerror}.") from None


def require_program(words: Sequence[str], folder: Path) -> None:
    """Raise UsageError unless the first word is a program: one in $PATH, or of a path as seen from
    this folder."""
    program = words[0]
    if not folder.is_dir():
        raise UsageError(f"{folder}, where --exec is to run, is no folder.", "Give --exec anew.")
    if which(folder / program if "/" in program else program) is None:
        raise UsageError(
            f"--exec: {text_without_secrets(program)} is no program that can be run in {folder}.",
            "Name one in $PATH, or its path as seen from where you stand; it has to be executable.",
        )


def lab_command(name: str) -> tuple[str, ...]:
    """The words of a command that restarts a lab's node."""
    return (sys.executable, "-m", "kipctl", "lab", "restart", "{broker}", "--name", name)


class Restart(Protocol):
    """A restart that was called, or that a kipctl that is gone has called."""

    def look(self) -> CommandState:
        """How it stands; its new output is shown."""
        ...

    @property
    def outcome(self) -> str:
        """How it ended, in words."""
        ...


@dataclass(slots=True)
class RunningCommand:
    """A command that this process runs, in this folder.

    `timeout_s` after its begin it is ended, and has failed.
    """

    words: Sequence[str]
    folder: Path
    output: Path
    timeout_s: float
    say: Callable[[str], None]
    _launch: Launch | None = None
    _began: float = 0.0
    _status: int | None = None
    _is_late: bool = False
    _read: int = 0
    _lines: int = 0

    def prepare(self) -> Process:
        """Make its process, which does nothing until `go`. If kipctl ends before, so does it.

        Raises UsageError when there can be none.
        """
        try:
            self._launch = Launch(self.words, self.folder, self.output)
        except OSError as failed:
            raise UsageError(
                f"The command that restarts it cannot be run, with its output in {self.output}:"
                f" {failed.strerror or 'it has ended'}."
            ) from None
        return self._launch.process

    def go(self) -> None:
        """Let it run."""
        assert self._launch is not None
        self._began = time.monotonic()
        with suppress(BrokenPipeError):  # it has ended, as where its folder is gone
            self._launch.go()

    def look(self) -> CommandState:
        assert self._launch is not None
        if self._status is None:
            ended, status = os.waitpid(self._launch.process.pid, os.WNOHANG)
            if ended:
                self._status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() - self._began > self.timeout_s:
                self._is_late = True
                self.end()
        self._report()
        if self._status is None:
            return CommandState.RUNNING
        return CommandState.FAILED if self._status else CommandState.ENDED

    @property
    def outcome(self) -> str:
        if self._is_late:
            return f"it still ran after {self.timeout_s:g} s, and was ended"
        if self._status is not None and self._status < 0:
            return f"it was ended by signal {-self._status}"
        return f"its status is {self._status}"

    def end(self) -> None:
        """All of its session, as its shell or ssh has started processes too."""
        assert self._launch is not None
        if self._status is not None:
            return
        pid = self._launch.process.pid
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        self._status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _report(self) -> None:
        """What it has said since, whole lines; all of it once it has ended."""
        with self.output.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = len(new) if self._status is not None else new.rfind(b"\n") + 1
        self._read += whole
        for line in new[:whole].decode(errors="replace").splitlines():
            self._lines += 1
            if self._lines <= _SHOWN_LINES:
                self.say(f"  {line}")
            elif self._lines == _SHOWN_LINES + 1:
                self.say(f"  (more is in {self.output})")


@dataclass(frozen=True, slots=True)
class CommandOfDeadKipctl:
    """A command that a kipctl that has ended called on this host, or another one; how the command
    ended is not known."""

    called: Process
    host: str

    def look(self) -> CommandState:
        if self.host != socket.gethostname():
            return CommandState.ELSEWHERE
        return CommandState.RUNNING if process.is_alive(self.called) else CommandState.ENDED

    @property
    def outcome(self) -> str:
        if self.look() is CommandState.ELSEWHERE:
            return f"it was called on {self.host}"
        return "how it ended is not known"


@dataclass(slots=True)
class ManualRestart:
    """A restart by the operator, who says when it is done; the cluster is watched meanwhile."""

    stdin: TextIO
    _state: CommandState = CommandState.RUNNING

    def ask(self) -> None:
        """What was typed before the question is no answer to it."""
        if self.stdin.isatty():
            termios.tcflush(self.stdin.fileno(), termios.TCIFLUSH)

    def look(self) -> CommandState:
        if self._state is CommandState.RUNNING and select.select([self.stdin], [], [], 0)[0]:
            typed = os.read(self.stdin.fileno(), 4096)
            if not typed:
                self._state = CommandState.FAILED
            elif b"\n" in typed:
                self._state = CommandState.ENDED
        return self._state

    @property
    def outcome(self) -> str:
        return "nobody said that it was done"
