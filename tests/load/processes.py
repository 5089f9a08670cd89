"""kipctl in a process of its own, that a test reads from, looks into and ends."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kipctl.lab.cluster import Lab
from kipctl.process import wait_until

Process = subprocess.Popen[str]
_LET_GO_S = 60.0


@contextmanager
def started(lab: Lab, words: str, **variables: str) -> Iterator[Process]:
    """It is of a group of its own, and ends with the block at the latest."""
    with subprocess.Popen(
        [sys.executable, "-m", "kipctl", *words.split()],
        env=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def has_ended(process: Process, within_s: float = 0.02) -> bool:
    """Whether it ends within so long."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(within_s)
    return process.returncode is not None


def read_until(process: Process, wanted: str) -> str:
    """What it has said up to the line that holds `wanted`."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if wanted in line:
            return said
    pytest.fail(f"it ended without {wanted!r}:\n{said}")


def holders_of(path: Path) -> dict[int, str]:
    """The processes but this one that have that file, or one of that folder, open; and one such
    file of each. (What this one has read with pyarrow is closed a moment later.)"""
    holders = {}
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        if int(link.parts[2]) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # it has ended, or closed the file
            file = os.readlink(link)
            if Path(file).is_relative_to(path):
                holders[int(link.parts[2])] = file
    return holders


def await_let_go(path: Path) -> None:
    """Wait until no process but this one has it open. pyarrow closes in the background what it has
    read: a process that goes on has that open a moment longer."""
    assert wait_until(lambda: not holders_of(path), _LET_GO_S), holders_of(path)
