"""Command lines in this process, with variables and a terminal of their own."""

import io

from one_process import Said

from kipctl.cli.app import run
from kipctl.cli.environment import Environment


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def kipctl(
    *words: str, typed: str | None = None, stdout: io.StringIO | None = None, **variables: str
) -> Said:
    """`typed` is what somebody at a terminal answers."""
    stdin = io.StringIO() if typed is None else Terminal(typed)
    out, err = stdout or io.StringIO(), io.StringIO()
    status = run(list(words), Environment(stdin, out, err, variables))
    return Said(int(status), out.getvalue(), err.getvalue())
