"""Where a command stands: its streams, what is known of the terminal, and the cluster it means."""

import os
import select
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console
from rich.text import Text

from kipctl.errors import KipctlError, RefusedError, UsageError
from kipctl.report.formats import OutputFormat, renderable, write
from kipctl.report.tables import Report

BOOTSTRAP_VARIABLE = "KIPCTL_BOOTSTRAP_SERVER"


@dataclass
class Environment:
    """Results go to stdout, messages and progress to stderr. Tests make their own."""

    stdin: TextIO = field(default_factory=lambda: sys.stdin)
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    debug: bool = False
    _spinner: Console | None = field(default=None, init=False)

    def report(self, report: Report, output: OutputFormat) -> None:
        """Print a command's result; it may be cut off by its reader (`| head`)."""
        try:
            write(report, output, self.stdout, self.stdout.isatty())
            self.stdout.flush()
        except BrokenPipeError:
            # The reader has all it wanted: the command goes on to its own exit status.
            self.discard_stdout()

    def stdout_is_closed(self) -> bool:
        """True when stdout is a pipe that nobody reads any more."""
        try:
            descriptor = self.stdout.fileno()
        except OSError:  # A test's StringIO has none.
            return False
        poll = select.poll()
        poll.register(descriptor, 0)
        return any(events & select.POLLERR for _, events in poll.poll(0))

    def discard_stdout(self) -> None:
        """Send what is still to be written to stdout nowhere, so that Python's exit is quiet."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stdout.fileno())
        os.close(nowhere)

    def message(self, text: str) -> None:
        """Tell the user something that is not the result."""
        if self._spinner:
            self._spinner.print(Text(text), soft_wrap=True)  # above the spinner, not into it
            return
        with suppress(OSError):  # the terminal may be closed: what is told is not what is done
            self.stderr.write(text + "\n")
            self.stderr.flush()

    def error(self, error: KipctlError) -> None:
        """Print an error, in at most three lines."""
        self.message(f"kipctl: {error}")

    def notes(self, error: BaseException) -> None:
        """Print what was noted on its way: what is left of what it cut off."""
        for note in getattr(error, "__notes__", ()):
            self.message(note)

    @contextmanager
    def progress(self, title: str) -> Iterator[Callable[[str], None]]:
        """Yield a function that tells what is being done: a spinner, or lines off a terminal."""
        if not self.stderr.isatty():
            self.message(title)
            yield self.message
            return
        console = Console(file=self.stderr, highlight=False)
        self._spinner = console
        try:
            with console.status(Text(title)) as status:
                yield lambda text: status.update(Text(text))
        finally:
            self._spinner = None

    @contextmanager
    def live(self) -> Iterator[Callable[[Report], None]]:
        """Yield a function that draws a report in place of the one before, on a terminal only."""
        if not self.stderr.isatty():
            yield lambda report: None
            return
        from rich.live import Live

        console = Console(file=self.stderr, highlight=False)
        self._spinner = console
        try:
            with Live(console=console, auto_refresh=False, transient=True) as drawing:
                yield lambda report: drawing.update(renderable(report), refresh=True)
        finally:
            self._spinner = None

    def confirm(self, question: str, yes: bool) -> None:
        """Ask before the cluster is changed; `yes` (from `--yes`) answers for the user.

        Raises RefusedError when the answer is no, UsageError when there is nobody to ask.
        """
        if yes:
            return
        if not self.stdin.isatty():
            raise UsageError(f"{question} There is no terminal to ask on.", "Repeat with --yes.")
        self.stderr.write(f"{question} [y/N] ")
        self.stderr.flush()
        answer = self.stdin.readline()
        if not answer.endswith("\n"):
            self.message("")
        if answer.strip().lower() not in ("y", "yes"):
            raise RefusedError("Nothing was changed: the answer was no.")

    def bootstrap_server(self, option: str | None) -> str:
        """The cluster meant: the option, else the variable, else the one running lab.

        Raises UsageError for what is no address, and when there is no lab, or more than one.
        """
        if named := option or self.variables.get(BOOTSTRAP_VARIABLE):
            from kipctl.transport.request import parse_bootstrap_servers

            parse_bootstrap_servers(named)
            return named
        from kipctl.lab.cluster import running_labs

        labs = running_labs()
        if len(labs) == 1:
            self.message(f"Using the running lab {labs[0].name!r} at {labs[0].bootstrap_server}.")
            return labs[0].bootstrap_server
        if labs:
            names = ", ".join(f"{lab.name} ({lab.bootstrap_server})" for lab in labs)
            raise UsageError(
                f"No cluster was named, and several labs run: {names}.",
                f"Give --bootstrap-server, or set {BOOTSTRAP_VARIABLE}.",
            )
        raise UsageError(
            "No cluster was named, and no lab runs.",
            f"Give --bootstrap-server, set {BOOTSTRAP_VARIABLE}, or start one: kipctl lab up.",
        )
