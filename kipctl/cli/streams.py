"""What a command reads and writes: its result, messages, questions, and what is drawn meanwhile."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from kipctl.errors import KipctlError, PartlyDoneError, RefusedError
from kipctl.next_step import Command, NextStep
from kipctl.progress import ProgressText
from kipctl.report.formats import A_SCREEN, OutputFormat, write
from kipctl.report.layout import wrapped
from kipctl.report.printable import on_one_line
from kipctl.report.progress_bar import ProgressLine
from kipctl.report.tables import Report, with_commands
from kipctl.report.terminal import columns_of, console_on, printable_stream

_PREPARING = "Preparing."
"""What a terminal shows until a command says what it does."""


@dataclass
class Streams:
    """Results go to stdout, messages and progress to stderr; whatever is written to either is made
    printable there. `typed` and `spelled` are how commands stand in them.
    """

    stdin: TextIO = field(default_factory=lambda: sys.stdin)
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    _drawing: Console | None = field(default=None, init=False)
    """Of what is drawn on the terminal at the moment: messages go above it."""
    _bar: "Callable[[ProgressText], None] | None" = field(default=None, init=False)
    """Shows on it how far the work is, if there is one that does."""

    def __post_init__(self) -> None:
        self.stdout = printable_stream(self.stdout)
        self.stderr = printable_stream(self.stderr, may_close=True)

    def typed(self, command: Command) -> tuple[str, ...]:
        """The words of a command that is to be typed next."""
        return command.line()

    def spelled(self, text: str) -> str:
        """A text with such commands in it."""
        return text.spelled(self.typed) if isinstance(text, NextStep) else text

    def print(self, report: Report, output: OutputFormat) -> None:
        """Print a command's result; it may be cut off by its reader (`| head`).

        Where stdout does not take the result, how a change is undone is said on stderr. Raises
        PartlyDoneError, but for a reader that has all it wanted.
        """
        about = with_commands(report, self.typed)
        try:
            write(about, output, self.stdout, self.stdout.isatty())
            self.stdout.flush()
        except OSError as failed:
            self.discard_stdout()
            undo = [line for line in about.closing if line.startswith("Undo")]
            for line in undo:
                self.message(line)
            if not isinstance(failed, BrokenPipeError):
                raise PartlyDoneError(
                    f"The result cannot be written to stdout: {failed.strerror}."
                    + (" What was done stays done." if undo else ""),
                    "Make room, or write it elsewhere.",
                ) from failed

    def show(self, report: Report) -> None:
        """Show what a question is about, on stderr: it is not the command's result."""
        shown = with_commands(report, self.typed)
        write(shown, OutputFormat.AUTO, self.stderr, self.stderr.isatty(), most=A_SCREEN)
        self.stderr.flush()

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

    def message(self, *lines: str) -> None:
        """Tell the user something that is not the result. Each is one line, whatever it holds."""
        if self._bar and isinstance(lines[0], ProgressText):
            self._bar(lines[0])
            return
        text = "\n".join(shown for line in lines for shown in self._on_screen(self.spelled(line)))
        if self._drawing:
            self._drawing.print(Text(text), soft_wrap=True)  # above it, not into it
            return
        self.stderr.write(text + "\n")
        self.stderr.flush()

    def _on_screen(self, text: str) -> list[str]:
        """Its lines on stderr: as many as it takes on a terminal, one elsewhere."""
        return wrapped(on_one_line(text), columns_of(self.stderr))

    def error(self, error: KipctlError) -> None:
        """Print an error, in at most three lines."""
        self.message("kipctl: " + error.what, *self.spelled(error.next_step).splitlines())

    def notes(self, error: BaseException) -> None:
        """Print what was noted on its way: what is left of what it cut off."""
        for note in getattr(error, "__notes__", ()):
            self.message(*self.spelled(note).splitlines())

    @contextmanager
    def progress(self, title: str = "") -> Iterator[Callable[[str], None]]:
        """Yield a function that tells what is being done: a spinner, or lines off a terminal.

        On a terminal a ProgressText has a bar, also one that `message` is given.
        """
        with self._drawn() as console:
            if console is None:
                if title:
                    self.message(title)
                yield self.message
                return
            with console.status(Text(title or _PREPARING), refresh_per_second=4) as status:
                line = ProgressLine(title or _PREPARING)

                def update(text: str) -> None:
                    line.update(text)
                    status.update(line)

                self._bar = update
                yield update

    @contextmanager
    def live(self) -> Iterator[Callable[[RenderableType], None] | None]:
        """Yield a function that draws something in place of what was there; None off a terminal."""
        with self._drawn() as console:
            if console is None:
                yield None
                return
            from rich.live import Live

            with Live(console=console, auto_refresh=False, transient=True) as drawing:
                yield lambda what: drawing.update(what, refresh=True)

    @contextmanager
    def _drawn(self) -> Iterator[Console | None]:
        """The terminal, for as long as something is drawn there; None where that cannot be."""
        console = console_on(self.stderr, highlight=False)
        is_plain = console.is_dumb_terminal or console.options.ascii_only
        if not self.stderr.isatty() or is_plain or self._drawing:
            yield None
            return
        self._drawing = console
        try:
            yield console
        finally:
            self._drawing = self._bar = None

    def ask(self, question: str, typed: str = "") -> None:
        """Raise RefusedError unless the answer is a y, or what has to be `typed`."""
        asked = f"{question} Type {typed}:" if typed else f"{question} [y/N]"
        self.stderr.write("\n".join(self._on_screen(asked)) + " ")
        self.stderr.flush()
        try:
            answer = self.stdin.readline()
        except KeyboardInterrupt as interrupted:
            interrupted.add_note("Nothing was changed.")
            raise
        if not answer.endswith("\n"):
            self.message("")
        if answer.strip().lower() not in ((typed.lower(),) if typed else ("y", "yes")):
            raise RefusedError("Nothing was changed: the answer was no.")
