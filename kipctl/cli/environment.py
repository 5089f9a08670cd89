"""Where a command stands: its streams, what is known of the terminal, and the cluster it means."""

import os
import select
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from kipctl.errors import KipctlError, PartlyDoneError, RefusedError, UsageError
from kipctl.next_step import Command, NextStep
from kipctl.progress import ProgressText
from kipctl.protocol.address import in_brief
from kipctl.report.formats import A_SCREEN, OutputFormat, write
from kipctl.report.layout import wrapped
from kipctl.report.printable import on_one_line
from kipctl.report.progress_bar import ProgressLine
from kipctl.report.tables import ClusterIdentity, Report, with_commands
from kipctl.report.terminal import columns_of, console_on, printable_stream

if TYPE_CHECKING:
    from kipctl.cli.follow_up import FollowUp
    from kipctl.lab.cluster import Lab
    from kipctl.transport.access import Access
    from kipctl.transport.clusters import NamedCluster
    from kipctl.transport.product import Product
    from kipctl.transport.request import Cluster


_PREPARING = "Preparing."
"""What a terminal shows until a command says what it does."""
_WITHOUT_PROTOCOL = (
    "There is no security.protocol, and without it, as with Java's clients, no TLS and no login:"
)
_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")


def orphaned(lab: str) -> str:
    """What to say of a lab whose run is gone."""
    return f"The run that made lab {lab!r} is gone. Remove it: kipctl lab down --name {lab}"


@dataclass
class Environment:
    """Results go to stdout, messages and progress to stderr; whatever is written to either is made
    printable there. Tests make their own.
    """

    stdin: TextIO = field(default_factory=lambda: sys.stdin)
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    debug: bool = False
    arguments: tuple[str, ...] = ()
    """The command line, without `kipctl`."""
    connecting: dict[str, Any] = field(default_factory=dict)
    """What the command's options say of how to connect (`kipctl.cli.connecting`)."""
    takes_cluster: Callable[[Command], bool] = lambda command: False
    """Whether a command goes to a cluster that its options name, and has none of them yet."""
    _drawing: Console | None = field(default=None, init=False)
    """Of what is drawn on the terminal at the moment: messages go above it."""
    _bar: "Callable[[ProgressText], None] | None" = field(default=None, init=False)
    """Shows on it how far the work is, if there is one that does."""
    _follow_up: "FollowUp | None" = field(default=None, init=False)
    _cluster_options: tuple[str, ...] = field(default=(), init=False)
    """Those that name the cluster that the command means, for the next command."""
    cluster: "NamedCluster | None" = field(default=None, init=False)
    """The named cluster that the command means, once `access` has found it."""
    _access: "Access | None" = field(default=None, init=False)
    """Of the cluster that the command means."""
    _limits_said: "set[Product]" = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.stdout = printable_stream(self.stdout)
        self.stderr = printable_stream(self.stderr, may_close=True)

    def report(self, report: Report, output: OutputFormat) -> None:
        """Print a command's result; it may be cut off by its reader (`| head`).

        What was done stays done where stdout does not take the result: how it is undone is said on
        stderr then. Raises PartlyDoneError, but for a reader that has all it wanted.
        """
        self._say_limits()
        about = with_commands(
            replace(
                report,
                cluster=self._identity(),
                tables=tuple(
                    replace(table, notes=tuple(map(self._repeatable, table.notes)))
                    for table in report.tables
                ),
                closing=tuple(map(self._repeatable, report.closing)),
            ),
            self._typed,
        )
        try:
            write(about, output, self.stdout, self.stdout.isatty())
            self.stdout.flush()
        except OSError as failed:
            self.discard_stdout()
            for line in about.closing:
                if line.startswith("Undo"):
                    self.message(line)
            if not isinstance(failed, BrokenPipeError):
                raise PartlyDoneError(
                    f"The result cannot be written to stdout: {failed.strerror}."
                    " What was done stays done.",
                    "Make room, or write it elsewhere.",
                ) from failed

    def show(self, report: Report) -> None:
        """Show what a question is about, on stderr: it is not the command's result."""
        shown = with_commands(report, self._typed)
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
        text = "\n".join(line for of in lines for line in self._on_screen(self._spelled(of)))
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
        self.message("kipctl: " + error.what, *self._spelled(error.next_step).splitlines())

    def notes(self, error: BaseException) -> None:
        """Print what was noted on its way: what is left of what it cut off."""
        for note in getattr(error, "__notes__", ()):
            self.message(*self._spelled(note).splitlines())

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

    def confirm(self, question: str, yes: bool, typed: str = "") -> None:
        """Ask before something is changed; `yes` (from `--yes`) answers for the user.

        What cannot be undone is not answered with a y: then `typed` is what has to be typed, such
        as the number of partitions. The question says which cluster it is about. On a protected
        one `--yes` needs `--expect-cluster` beside it. Raises RefusedError when the answer is no,
        UsageError when there is nobody to ask.
        """
        self._say_limits()
        identity = self._identity()
        if identity is not None:
            question = f"Cluster {identity}. {question}"
        question = on_one_line(question)  # no name in it draws another
        access = self._access
        if yes and access and access.is_protected and not access.consent:
            raise UsageError(
                f"{question} This cluster is protected: --yes alone does not answer.",
                "Repeat with --expect-cluster ID as well, or answer on a terminal.",
            )
        if yes:
            return
        if not self.stdin.isatty():
            asks_more = access and access.is_protected and not access.consent
            raise UsageError(
                f"{question} There is no terminal to ask on.",
                "It is protected: repeat with --yes --expect-cluster ID."
                if asks_more
                else "Repeat with --yes.",
            )
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
        if access:
            access.consent.add("answered")

    def access(
        self,
        option: str | None,
        properties: Mapping[str, str] | None = None,
        properties_file: Path | None = None,
        revised: Callable[[Mapping[str, str]], Mapping[str, str]] = dict,
    ) -> "Access":
        """How the cluster is reached that is meant (`kipctl.cli.target`), else the one running lab.

        `option` is --bootstrap-server, `properties` are those of a client that the command runs,
        from `properties_file` if there is one; `revised` makes of all properties, wherever they are
        from, those that are used. Raises UsageError for what is no address, and when
        there is no lab, or more than one.
        """
        from kipctl.cli.follow_up import FollowUp
        from kipctl.cli.target import repeated_options, target_of
        from kipctl.security.settings import is_about_security
        from kipctl.security.weaknesses import weaknesses
        from kipctl.transport.access import access_of, parse_map

        target = target_of(option, self.connecting, properties or {}, self.variables)
        given_here = {"command_config": properties_file} | self.connecting
        self._follow_up = FollowUp.of(option, given_here)
        self._cluster_options = repeated_options(option, given_here)
        servers, given = target.servers, target.properties
        if not servers:
            lab = self._running_lab()
            servers = lab.bootstrap_server
            given = given if any(map(is_about_security, given)) else lab.properties
        given = revised(given)
        for note in target.notes:
            self.message(note)
        self._warn_of_unused(given, target.file)
        self.cluster = target.cluster
        self._access = access_of(
            servers,
            given,
            parse_map(self.connecting.get("map") or []),
            target.cluster,
            self.connecting.get("expect_cluster") or "",
            target.protected_ids,
        )
        file = target.file or str(properties_file or "")
        for sentence in weaknesses(self._access.security, given, file, servers):
            self.message(sentence)
        return self._access

    def metrics_urls(self, option: Sequence[str] | None) -> tuple[str, ...]:
        """Those of --metrics-url, else of the named cluster. Raises UsageError for what is none."""
        from kipctl.cluster.metrics_url import require_url

        named = self.cluster.metrics_urls if self.cluster else ()
        urls = tuple(dict.fromkeys(option or named))
        for url in urls:
            require_url(url)
        return urls

    def _say_limits(self) -> None:
        """Say, once, what the command cannot do on the product that has answered."""
        from kipctl.transport.product import limits

        for product in self._access.products - self._limits_said if self._access else ():
            self._limits_said.add(product)
            words = " ".join(word for word in self.arguments if not word.startswith("-"))
            for sentence in limits(product, words):
                self.message(sentence)

    def _identity(self) -> ClusterIdentity | None:
        """The cluster that has answered, if one was asked."""
        if self._access is None or not self._access.ids:
            return None
        found = self._access
        return ClusterIdentity(found.name, ", ".join(sorted(found.ids)), str(found))

    def report_hidden_topics(
        self, cluster: "Cluster", topics: Collection[str], named: Sequence[str] = ()
    ) -> None:
        """Say that there may be more than these topics of the cluster, where there may be.

        For every command that looks at all topics, or at those that match a glob.
        """
        from kipctl.cluster.acls import hidden_topics_warning

        if said := hidden_topics_warning(cluster, topics, named):
            self.message(said)

    def warn_of_request_log(self) -> None:
        """Say that the request log of the cluster is still on where nobody is to switch it off."""
        if self._access is None or not self._access.ids:
            return
        import socket
        import time

        from kipctl.cluster.request_log_record import read_records, warning

        found = read_records(self._access.ids, self.variables)
        if text := warning(found, socket.gethostname(), time.time()):
            self.message(*text.splitlines())

    def access_if_named(self, option: str | None) -> "Access | None":
        """The same, but None where nothing names a cluster: then a lab is made."""
        given = (option, *self.connecting.values())
        is_named = option is not None or self.connecting.get("cluster") is not None
        if not is_named and any(one is not None and one != () and one != [] for one in given):
            raise UsageError(
                "Without a cluster to connect to a lab is made.",
                "Give --bootstrap-server or --cluster, or leave out what says how to connect.",
            )
        return self.access(option) if is_named else None

    def forget_cluster(self) -> None:
        """A command begins: the one before meant a cluster of its own."""
        self.connecting.clear()
        self._limits_said.clear()
        self.cluster = self._access = self._follow_up = None
        self._cluster_options = ()

    def _typed(self, command: Command) -> tuple[str, ...]:
        """The words of a command that goes to the cluster that this one went to."""
        options = self._cluster_options
        return command.line(options if options and self.takes_cluster(command) else ())

    def _spelled(self, text: str) -> str:
        """A text with such commands in it."""
        return text.spelled(self._typed) if isinstance(text, NextStep) else self._repeatable(text)

    def _repeatable(self, text: str) -> str:
        if self._follow_up and not isinstance(text, NextStep):
            return self._follow_up.on_this_cluster(text)
        return text

    def _warn_of_unused(self, properties: Mapping[str, str], file: str) -> None:
        """Say what does nothing: it may be misspelt, or be Java's alone."""
        from kipctl.java_properties import is_ascii
        from kipctl.security.settings import (
            ignored_properties,
            is_about_security,
            refused_by_java,
            unused_by_protocol,
            with_suggestion,
        )

        others = [name for name in properties if not is_about_security(name)]
        others = [name for name in others if name != "bootstrap.servers"]
        if file and others:
            self.message(f"Of {file} this says nothing of how to connect: {', '.join(others)}.")
        if unused := ignored_properties(properties):
            self.message(f"Not used by kipctl: {', '.join(map(with_suggestion, unused))}.")
        for sentence in refused_by_java(properties):
            self.message(sentence)
        if file and not is_ascii(Path(file)):
            self.message(
                f"{file} is read as UTF-8, and by Java as ISO 8859-1: write what is not ASCII as"
                r" \uXXXX."
            )
        if unused := unused_by_protocol(properties):
            protocol = properties.get("security.protocol")
            why = f"With security.protocol={protocol}" if protocol else _WITHOUT_PROTOCOL
            self.message(f"{why} these do nothing: {', '.join(unused)}.")

    def report_running_labs(self) -> None:
        """After this machine refused a connection, say where the labs are that run."""
        from kipctl.lab.cluster import running_labs
        from kipctl.transport.access import parse_bootstrap_servers

        asked = self._access.bootstrap if self._access else []
        here = [
            f"{lab.name!r} at {lab.bootstrap_server}"
            for lab in (running_labs() if any(host in _THIS_MACHINE for host, _ in asked) else ())
            if lab.owner is None
            and set(asked).isdisjoint(parse_bootstrap_servers(lab.bootstrap_server))
        ]
        if here:
            self.message(f"Labs that run here: {'; '.join(here)}.")

    def _running_lab(self) -> "Lab":
        from kipctl.lab.cluster import running_labs

        running = running_labs()
        # A run's own lab is nobody else's, and least of all one that nobody looks after.
        labs = [lab for lab in running if lab.owner is None]
        for lab in running:
            if lab.is_orphan:
                self.message(orphaned(lab.name))
        if len(labs) == 1:
            self.message(
                f"Using the running lab {labs[0].name!r} at {in_brief(labs[0].bootstrap_server)}."
            )
            return labs[0]
        if labs:
            names = ", ".join(f"{lab.name} ({lab.bootstrap_server})" for lab in labs)
            raise UsageError(
                f"No cluster was named, and several labs run: {names}.",
                "Give --bootstrap-server, or set KIPCTL_BOOTSTRAP_SERVER.",
            )
        raise UsageError(
            "No cluster was named, and no lab runs.",
            "Give --bootstrap-server, set KIPCTL_BOOTSTRAP_SERVER, or start one: kipctl lab up.",
        )
