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
from kipctl.pipeline.settings import PLAINLY_COMPILED

JVM_OPTIONS = " ".join(["-XX:+UseSerialGC", *PLAINLY_COMPILED])
"""Most JVMs of tests live for seconds."""

# What a command or a process of it writes is in the files, as it would be if its own process wrote.
_RUN_EACH = """
import json, os, sys
from kipctl.cli.app import run
from kipctl.cli.environment import Environment
asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for line in asked:
    asked_as, words, environment, files, works_in = json.loads(line)
    os.chdir(works_in)
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
    print(asked_as, int(status), file=answers, flush=True)
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
    """Call it with the words of a command, and variables of its environment by name.

    A command works in the folder of the test session, or the one that is named.
    """

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self._process = process
        self.pid = process.pid
        self._files = (folder / "stdout", folder / "stderr")
        self._asked = 0

    def __call__(self, *words: str | Path, works_in: Path | None = None, **variables: str) -> Said:
        self.begin(*words, works_in=works_in, **variables)
        assert self._process.stdout is not None
        # One that a test did not wait for, as its time was over, is answered first.
        for answer in self._process.stdout:
            number, status = map(int, answer.split())
            if number == self._asked:
                return Said(status, *(file.read_text() for file in self._files))
        raise AssertionError(f"kipctl has ended: {self._files[1].read_text()}")

    def begin(self, *words: str | Path, works_in: Path | None = None, **variables: str) -> None:
        """Let it run a command, and do not wait."""
        assert self._process.stdin is not None
        environment = {**os.environ, "JAVA_TOOL_OPTIONS": JVM_OPTIONS, **variables}
        files = list(map(str, self._files))
        self._asked += 1
        asked = [
            self._asked,
            list(map(str, words)),
            environment,
            files,
            str(works_in or Path.cwd()),
        ]
        print(json.dumps(asked), file=self._process.stdin, flush=True)


@contextmanager
def one_process(folder: Path) -> Iterator[OneProcess]:
    """The process, which ends with the block, and with the test session however that ends.

    What commands print goes through files of `folder`.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _RUN_EACH],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield OneProcess(process, folder)
