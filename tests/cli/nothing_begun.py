"""Refuses whatever a command would begin: processes, connections, files. Used by tests."""

import gc
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from in_process import kipctl
from one_process import Said

NOT_HERE = re.compile(
    r"^kipctl: (There is no |.*no terminal to ask on|.*No such file|.*cannot be run|.*is not empty"
    r"|.*is whole)",
    re.MULTILINE,
)
"""Refusals of what is not on this machine, and not of words."""
_BEGINNINGS = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.kill",
        "os.mkdir",
        "os.posix_spawn",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.system",
        "shutil.rmtree",
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "subprocess.Popen",
        "tempfile.mkdtemp",
        "tempfile.mkstemp",
    }
)
"""Audit events of Python (docs.python.org/3/library/audit_events.html)."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class BegunError(Exception):
    """Something was about to begin."""


class _Watch:
    """One hook for all: Python has no way to take one back."""

    def __init__(self) -> None:
        self.begun: list[str] | None = None
        sys.addaudithook(self.saw)

    def saw(self, event: str, arguments: tuple[Any, ...], *_: object) -> None:
        if self.begun is None:
            return
        writes = event == "open" and bool(arguments[2] & _WRITING) and arguments[0] != os.devnull
        if writes or event in _BEGINNINGS:
            what = f"{event} {arguments[:2]}"
            self.begun.append(what)
            raise BegunError(what)


_watch: list[_Watch] = []


@contextmanager
def nothing_begins() -> Iterator[list[str]]:
    """In the block each beginning fails, and stands in the list, whoever hides the failure."""
    if not _watch:
        _watch.append(_Watch())
    begun: list[str] = []
    _watch[0].begun = begun
    gc.disable()  # a folder that an earlier test has left to the collector would go in the block
    # Of a child process of `multiprocessing` Python tells its hooks nothing.
    with (
        mock.patch.object(sys, "dont_write_bytecode", True),
        mock.patch("multiprocessing.util.spawnv_passfds", partial(_watch[0].saw, "os.posix_spawn")),
    ):
        try:
            yield begun
        finally:
            _watch[0].begun = None
            gc.enable()


@dataclass(frozen=True, slots=True)
class Outcome(Said):
    """Of a command, and what was about to begin."""

    begun: list[str]

    @property
    def is_wrong_usage(self) -> bool:
        """Told in three lines at most, before anything began."""
        return (self.status, self.out, self.begun) == (2, "", []) and self.err.count("\n") <= 3


def make_named(folder: Path) -> None:
    """Runs, a request log and an experiment, as examples of commands name them."""
    for name in ("before", "after"):
        (folder / "runs" / name / "batches").mkdir(parents=True)
        (folder / "runs" / name / "run.json").write_text('{"schema_version": 1, "summary": {}}')
    (folder / "kafka-request.log").write_text("a line\n")
    (folder / "logs").mkdir()
    arms = (f'[[arm]]\nname = "{name}"\nclient = "probe-kip951"\n' for name in "ab")
    (folder / "upgrade.toml").write_text("".join(arms))


def outcome(words: list[str], folder: Path, servers: str = "127.0.0.1:1") -> Outcome:
    """Of a command in this process, which is kept from beginning anything."""
    variables = {
        "KIPCTL_BOOTSTRAP_SERVER": servers,
        "KIPCTL_RUNS": str(folder / "runs"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    with nothing_begins() as begun:
        said = kipctl(*words, **variables)
    return Outcome(said.status, said.out, said.err, begun)
