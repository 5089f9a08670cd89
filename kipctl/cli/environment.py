"""Where a command stands: its streams, its variables, and the cluster that it means."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kipctl.cli.streams import Streams
from kipctl.errors import KipctlError, UsageError
from kipctl.next_step import Command
from kipctl.report.formats import OutputFormat
from kipctl.report.printable import on_one_line
from kipctl.report.tables import ClusterIdentity, Report

if TYPE_CHECKING:
    from kipctl.transport.access import Access
    from kipctl.transport.clusters import NamedCluster
    from kipctl.transport.product import Product
    from kipctl.transport.request import Cluster


@dataclass
class Environment(Streams):
    """Tests make their own."""

    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    debug: bool = False
    arguments: tuple[str, ...] = ()
    """The command line, without `kipctl`."""
    command: str = ""
    """The words of it that name the command."""
    given: frozenset[str] = frozenset()
    """The options and arguments that stand in it, as `--dry-run` and `ENTRY`."""
    connecting: dict[str, Any] = field(default_factory=dict)
    """What the command's options say of how to connect (`kipctl.cli.connecting`)."""
    takes_cluster: Callable[[Command], bool] = lambda command: False
    """Whether a command goes to a cluster that its options name, and has none of them yet."""
    _cluster_options: tuple[str, ...] = field(default=(), init=False)
    """Those that name the cluster that the command means, for the next command."""
    cluster: "NamedCluster | None" = field(default=None, init=False)
    """The named cluster that the command means, once `access` has found it."""
    _access: "Access | None" = field(default=None, init=False)
    """Of the cluster that the command means."""
    _limits_said: "set[Product]" = field(default_factory=set, init=False)
    _maps_said: set[str] = field(default_factory=set, init=False)

    def report(self, report: Report, output: OutputFormat) -> None:
        """Print a command's result, with the cluster that it is of. Raises what `print` does."""
        self._say_limits()
        self.print(replace(report, cluster=self._identity()), output)

    def error(self, error: KipctlError) -> None:
        """Print an error, and before it what of --map may have led to it."""
        self._say_useless_maps()
        super().error(error)

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
        self.ask(question, typed)
        if access:
            access.consent.add("answered")

    def access(
        self,
        option: str | None,
        properties: Mapping[str, str] | None = None,
        properties_file: Path | None = None,
        revised: Callable[[Mapping[str, str]], Mapping[str, str]] = dict,
    ) -> "Access":
        """How the cluster is reached that is meant (`transport.target`), else the one running lab.

        `option` is --bootstrap-server, `properties` are those of a client that the command runs,
        from `properties_file` if there is one; `revised` makes of all properties, wherever they are
        from, those that are used. Raises UsageError for what is no address, and when
        there is no lab, or more than one.
        """
        from kipctl.lab.running import labs_as_clusters, the_running_lab
        from kipctl.security.settings import is_about_security
        from kipctl.security.weaknesses import weaknesses
        from kipctl.transport.access import access_of, parse_map
        from kipctl.transport.target import repeated_options, target_of, unused

        target = target_of(
            option, self.connecting, properties or {}, self.variables, labs_as_clusters
        )
        given_here = {"command_config": properties_file} | self.connecting
        self._cluster_options = repeated_options(option, given_here)
        servers, given = target.servers, target.properties
        if not servers:
            lab = the_running_lab(self.message)
            servers = lab.bootstrap_server
            given = given if any(map(is_about_security, given)) else lab.properties
        given = revised(given)
        for note in target.notes:
            self.message(note)
        for sentence in unused(given, target.file):
            self.message(sentence)
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

        self._say_useless_maps()
        for product in self._access.products - self._limits_said if self._access else ():
            self._limits_said.add(product)
            words = " ".join(word for word in self.arguments if not word.startswith("-"))
            for sentence in limits(product, words):
                self.message(sentence)

    def _say_useless_maps(self) -> None:
        """Say, once, what of --map fits no broker: it may be misspelt."""
        if (access := self._access) is None:
            return
        for at in set(access.useless_maps) - self._maps_said:
            self._maps_said.add(at)
            listed = ", ".join(map(str, access.brokers.values()))
            self.message(f"--map {at} is the address of no broker; they are at {listed}.")

    def _identity(self) -> ClusterIdentity | None:
        """The cluster that has answered, if one was asked."""
        if self._access is None or not self._access.ids:
            return None
        access = self._access
        return ClusterIdentity(access.name, ", ".join(sorted(access.ids)), str(access))

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

        records = read_records(self._access.ids, self.variables)
        if text := warning(records, socket.gethostname(), time.time()):
            self.message(*text.splitlines())

    def access_if_named(self, option: str | None) -> "Access | None":
        """The same, but None where nothing names a cluster: then a lab is made."""
        given = (option, *self.connecting.values())
        is_named = option is not None or self.connecting.get("cluster") is not None
        if not is_named and any(
            value is not None and value != () and value != [] for value in given
        ):
            raise UsageError(
                "Without a cluster to connect to a lab is made.",
                "Give --bootstrap-server or --cluster, or leave out what says how to connect.",
            )
        return self.access(option) if is_named else None

    def forget_cluster(self) -> None:
        """A command begins: the one before meant a cluster of its own."""
        self.connecting.clear()
        self._limits_said.clear()
        self._maps_said.clear()
        self.cluster = self._access = None
        self._cluster_options = ()

    def typed(self, command: Command) -> tuple[str, ...]:
        """The words of a command that goes to the cluster that this one went to."""
        options = self._cluster_options
        return command.line(options if options and self.takes_cluster(command) else ())

    def report_running_labs(self) -> None:
        """After this machine refused a connection, say where the labs are that run."""
        from kipctl.lab.running import labs_elsewhere

        if here := labs_elsewhere(self._access.bootstrap if self._access else []):
            self.message(f"Labs that run here: {'; '.join(here)}.")
