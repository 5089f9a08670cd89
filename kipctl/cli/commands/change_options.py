"""Options of commands that change a cluster, and how such a command begins."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from kipctl.cli.environment import Environment
from kipctl.cli.options import (
    BatchOption,
    BetweenOption,
    ClusterOptions,
    DryRunOption,
    YesOption,
    duration_option,
    option,
    parse_rate,
)
from kipctl.durations import Duration

if TYPE_CHECKING:
    from kipctl.changes.context import ChangeContext
    from kipctl.changes.execution.pacing import Pace
    from kipctl.changes.guard_interface import RecordedGuard
    from kipctl.cli.commands.change_ui import TerminalUi

AdditionalOption = Annotated[bool, option("Go on beside the reassignments of others.")]
ChangeTimeoutOption = Annotated[
    Duration | None,
    duration_option(
        "How long all of it may take, pauses too. Default: 5m a batch, or 5m in which no data"
        " arrives."
    ),
]


@dataclass(frozen=True)
class ChangeOptions(ClusterOptions):
    """Of a command that changes a cluster."""

    dry_run: DryRunOption = False
    yes: YesOption = False


@dataclass(frozen=True)
class PaceOptions:
    """How fast partitions are changed, and data is copied."""

    batch: BatchOption = 1000
    between: BetweenOption = Duration(10)
    concurrent: Annotated[
        int | None,
        option("--concurrent-moves", "Copy at most N replicas at a time.", value="N", min=1),
    ] = None
    throttle: Annotated[
        str | None, option("Copy at most so much a broker, as 50MB/s.", value="RATE")
    ] = None

    def read(self) -> "Pace":
        """Raises UsageError."""
        from kipctl.changes.execution.pacing import Pace

        rate = None if self.throttle is None else parse_rate(self.throttle)
        return Pace(self.batch, self.between, rate, self.concurrent)


@contextmanager
def changing(
    environment: Environment,
    options: ClusterOptions,
    *,
    guard: "RecordedGuard | None" = None,
    measures: bool = False,
    **given: Any,
) -> Iterator[tuple["ChangeContext", "TerminalUi"]]:
    """Yield what a change of the cluster is carried out with, connected; `given` are its fields.

    Raises KipctlError.
    """
    from kipctl.changes.context import ChangeContext
    from kipctl.changes.execution.pacing import ONE_BATCH
    from kipctl.changes.guard_interface import RecordedGuard
    from kipctl.changes.journal.entry import Origin
    from kipctl.cli.commands.change_ui import TerminalUi
    from kipctl.guard.session import guarded
    from kipctl.load.plan import OWN_TOPIC

    asked = options if isinstance(options, ChangeOptions) else ChangeOptions()
    if environment.command == "undo":
        environment.command = "changes undo"  # which it is for short
    with options.connected(environment) as cluster:
        named = environment.cluster
        urls = named.metrics_urls if named else ()
        watched = guarded(cluster, guard or RecordedGuard(), environment.message, urls)
        ui = TerminalUi(
            environment, cluster, watched, options.output, asked.yes, asked.dry_run, measures
        )
        context = ChangeContext(
            cluster=cluster,
            ui=ui,
            guard=watched,
            origin=Origin.here(environment.arguments),
            variables=environment.variables,
            dry_run=asked.dry_run,
            measured_on=(OWN_TOPIC,) if measures else (),
            **{"pace": ONE_BATCH, **given},
        )
        yield context, ui
