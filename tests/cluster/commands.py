"""Command lines on a cluster, run in this process as a user runs them."""

import io
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pytest
from on_lab import Ran

from kipctl.cli.app import run
from kipctl.cli.environment import Environment


class Typed(io.StringIO):
    """Standard input: a terminal if anything is typed there, and meanwhile something may happen."""

    def __init__(self, typed: str | None, meanwhile: Callable[[], object]) -> None:
        super().__init__(typed or "")
        self._is_terminal, self._meanwhile = typed is not None, meanwhile

    def isatty(self) -> bool:
        return self._is_terminal

    def readline(self, size: int | None = -1, /) -> str:
        self._meanwhile()
        return super().readline(size)


class Commands:
    """Of a cluster at this address."""

    bootstrap_server: str
    state: Path
    """Where kipctl keeps its journal of it."""

    def kipctl(
        self,
        *arguments: str,
        status: int | tuple[int, ...] = 0,
        typed: str | None = None,
        meanwhile: Callable[[], object] = lambda: None,
        state: Path | None = None,
        stdout: TextIO | None = None,
    ) -> Ran:
        """Run a command line, given in one piece or more, as in a shell; it has to end with this
        status, or with one of these.

        `typed` is what a question at a terminal is answered, and `meanwhile` is called before; a
        `state` of its own has another machine.
        """
        out, err = io.StringIO(), io.StringIO()
        variables = {
            "KIPCTL_BOOTSTRAP_SERVER": self.bootstrap_server,
            "XDG_STATE_HOME": str(state or self.state),
        }
        environment = Environment(Typed(typed, meanwhile), stdout or out, err, variables)
        words = shlex.split(" ".join(arguments))
        with pytest.MonkeyPatch.context() as patch:
            if state:
                state.mkdir(exist_ok=True)
                patch.setenv("KIPCTL_LOCK_FOLDER", str(state))
            ran = Ran(run(words, environment), out.getvalue(), err.getvalue())
        assert ran.status in (status if isinstance(status, tuple) else (status,)), ran
        return ran


@dataclass
class OnLab(Commands):
    """Command lines on a lab."""

    bootstrap_server: str
    state: Path
