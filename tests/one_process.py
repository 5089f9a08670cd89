"""kipctl's commands one after another in one process: only the first of them waits for a JVM."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from kipctl.cli.app import run
from kipctl.cli.environment import Environment

PLAINLY_COMPILED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM of tests lives for seconds."""

# What a command or a process of it writes is in the files, as it would be if its own process wrote.
_RUN_EACH = """
import json, os, sys
from kipctl.cli.app import run
from kipctl.cli.environment import Environment
asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for line in asked:
    words, environment, files = json.loads(line)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate(files, 1):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    status = run(words, Environment())
    jvm = sys.modules.get("kipctl.pipeline.jvm")
    if jvm and jvm.has_ended():  # the next command starts another
        jvm.forget(jvm.running_gateway())
    sys.stdout.flush()
    sys.stderr.flush()
    print(int(status), file=answers, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Said:
    """A command's exit status and all that was written."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.out)
        return parsed

    @property
    def error(self) -> str:
        """What stderr ends with: the error and its next step, without the messages before it."""
        return self.err[self.err.index("kipctl: ") :]


Kipctl = Callable[..., Said]
"""Takes the words of a command."""


def in_this_process(*words: str | Path, **variables: str) -> Said:
    """A command that needs no JVM and no terminal, in the test's own process."""
    out, err = StringIO(), StringIO()
    environment = Environment(StringIO(), out, err, os.environ | variables)
    status = run([*map(str, words)], environment)
    return Said(int(status), out.getvalue(), err.getvalue())


class OneProcess:
    """Call it with the words of a command, and variables of its environment by name."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self.pid = process.pid
        self._files = (folder / "stdout", folder / "stderr")

    def __call__(self, *words: str | Path, **variables: str) -> Said:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        environment = {**os.environ, "JAVA_TOOL_OPTIONS": PLAINLY_COMPILED, **variables}
        asked = [list(map(str, words)), environment, list(map(str, self._files))]
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        status = self._process.stdout.readline()
        out, err = (file.read_text() for file in self._files)
        assert status, f"kipctl has ended: {err}"
        return Said(int(status), out, err)


@contextmanager
def one_process(folder: Path, works_in: Path | None = None) -> Iterator[OneProcess]:
    """The process, which ends with the block, and with the test session however that ends.

    What commands print goes through files of `folder`.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _RUN_EACH],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=works_in,
    ) as process:
        yield OneProcess(process, folder)
