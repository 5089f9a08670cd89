"""Refuses whatever a command would begin: processes, connections, files. Used by tests."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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

    def saw(self, event: str, arguments: tuple[Any, ...]) -> None:
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
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield begun
    finally:
        _watch[0].begun = None
        sys.dont_write_bytecode = writes_bytecode
