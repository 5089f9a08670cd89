"""`--guard` of the commands that move leaders in batches: what it says, at work, in the report."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from kipctl.cli.environment import Environment
from kipctl.cli.options import MetricsUrlOption, duration_option, pause_option
from kipctl.durations import Duration
from kipctl.errors import UsageError
from kipctl.report.guard_tables import guard_table
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.cluster.moves.journal_entry import Entry
    from kipctl.cluster.moves.plan import Plan
    from kipctl.cluster.snapshot import Snapshot
    from kipctl.guard.conditions import Condition
    from kipctl.guard.monitor import GuardMonitor
    from kipctl.transport.request import Cluster

STOP, ROLLBACK = "stop", "rollback"


@dataclass(frozen=True)
class GuardOptions:
    """Of commands that a guard may hold up."""

    guard: Annotated[
        list[str] | None,
        typer.Option(
            "--guard",
            metavar="CONDITION",
            help="What pauses it: 'urp > 10', 'under-min-isr > 0', 'offline > 0', "
            "'metric NAME > 5', 'p99 > 50ms for 10s', 'moved-wait p50 > 20ms'; repeatable.",
        ),
    ] = None
    guard_patience: Annotated[
        Duration, duration_option("--guard-patience", "After so long in a pause it gives up.")
    ] = Duration(600)
    guard_quiet: Annotated[
        Duration, pause_option("--guard-quiet", "So long it is quiet before it goes on.")
    ] = Duration(30)
    metrics_url: MetricsUrlOption = None


GuardActionOption = Annotated[
    str,
    typer.Option(
        "--guard-action",
        metavar="stop|rollback",
        help="What giving up does.",
    ),
]


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """What the options of a guard say, read and checked."""

    conditions: "tuple[Condition, ...]"
    patience_s: float
    quiet_s: float
    action: str
    urls: tuple[str, ...]


NO_GUARD = GuardSettings((), 0.0, 0.0, STOP, ())


def read_guard(options: GuardOptions, action: str = STOP, *, moves_along: bool) -> GuardSettings:
    """The guard asked for. Raises UsageError, also for one that could see nothing.

    `moves_along` says that leaders of a canary's topic move with the change: else there is no wait
    for them.
    """
    from kipctl.cluster.metrics_url import require_url
    from kipctl.guard.conditions import Kind, parse_guard

    conditions = tuple(dict.fromkeys(parse_guard(text) for text in options.guard or ()))
    urls = options.metrics_url or ()
    if action not in (STOP, ROLLBACK):
        raise UsageError(f"--guard-action {action!r} is none of {STOP}, {ROLLBACK}.")
    if not conditions and (action != STOP or urls):
        option = "--metrics-url" if urls else "--guard-action"
        raise UsageError(f"{option} does nothing without --guard.")
    for one in conditions:
        if one.kind is Kind.MOVED_WAIT and not moves_along:
            raise UsageError(
                f"--guard {one.text!r} would see nothing: no leader of the canary moves along.",
                "It goes with kipctl reassign --rotate, and with the ways that elect leaders.",
            )
    for url in urls:
        require_url(url)
    return GuardSettings(
        conditions, options.guard_patience, options.guard_quiet, action, tuple(urls)
    )


@dataclass(slots=True)
class ActiveGuard:
    """A guard at work on a cluster; without conditions it does nothing.

    `entry` is that of the change that it guards, once there is one.
    """

    environment: Environment
    cluster: "Cluster"
    settings: GuardSettings
    monitor: "GuardMonitor"
    entry: "Entry | None" = None
    has_canary: bool = False

    @property
    def is_set(self) -> bool:
        """Whether there are conditions."""
        return bool(self.settings.conditions)

    @property
    def rolls_back(self) -> bool:
        """Whether it has given up, and the change is to be undone."""
        return self.monitor.guard.is_given_up and self.settings.action == ROLLBACK

    def disabled(self) -> "ActiveGuard":
        """No guard, for a way back that nothing is to hold up."""
        return guarded(self.environment, self.cluster, NO_GUARD)

    @contextmanager
    def canary(self, batches: int = 0) -> Iterator[None]:
        """Inside, a producer runs if a condition is measured by it. Raises KipctlError."""
        by_canary = [one for one in self.settings.conditions if one.kind.is_measured_by_canary]
        if not by_canary:
            yield
            return
        from kipctl.guard.canary import canary
        from kipctl.guard.canary_moves import MOST_PARTITIONS

        at_least = min(batches, MOST_PARTITIONS)
        with canary(
            self.cluster, by_canary, self.environment.message, at_least
        ) as self.monitor.canary_values:
            self.has_canary = True
            yield

    def without_canary(self, now: "Snapshot") -> "Snapshot":
        """What is planned for: the canary's topic is none of it."""
        if not self.has_canary:
            return now
        from kipctl.runs.plan import OWN_TOPIC

        return now.only(one.id for one in now.partitions if one.id.topic != OWN_TOPIC)

    def with_canary_moves(self, plan: "Plan", batch: int) -> "tuple[Plan, int]":
        """The plan with leaders of the canary's topic that move along, and how large its batches
        are with them: one more in each, as far as that topic has partitions."""
        if not self.has_canary:
            return plan, batch
        from kipctl.cluster.moves.planners.rotate_leaders import rotate
        from kipctl.cluster.snapshot import take_snapshot
        from kipctl.guard.canary_moves import add_canary_moves
        from kipctl.runs.plan import OWN_TOPIC

        return add_canary_moves(plan, rotate(take_snapshot(self.cluster, [OWN_TOPIC])).moves, batch)

    def look_only(self) -> None:
        """What a dry run shows: what the guard sees now."""
        self.monitor.guard = replace(self.monitor.guard, patience_s=float("inf"))
        self.monitor.look()

    def with_guard_table(self, report: Report) -> Report:
        """The report with what the guard saw, if it has looked."""
        if not any(gauge.looks for gauge in self.monitor.guard.gauges):
            return report
        document = self.monitor.guard.as_document()
        return replace(
            report,
            document={**report.document, "guard": document},
            tables=(*report.tables, guard_table(document)),
        )


def guarded(environment: Environment, cluster: "Cluster", settings: GuardSettings) -> ActiveGuard:
    """The guard that was asked for, of this cluster.

    Raises UsageError for metrics of which nobody says where they are.
    """
    from kipctl.guard.conditions import Guard, Kind
    from kipctl.guard.exporters import Exporters
    from kipctl.guard.monitor import GuardMonitor

    urls = settings.urls
    if metrics := [one for one in settings.conditions if one.kind is Kind.METRIC]:
        urls = urls or _known_urls(environment, cluster)
        if not urls:
            raise UsageError(
                f"--guard {metrics[0].text!r} would see nothing: where metrics are is not known.",
                "Give --metrics-url for each broker.",
            )
    guard = Guard.of(settings.conditions, settings.patience_s, settings.quiet_s)
    return ActiveGuard(
        environment,
        cluster,
        settings,
        GuardMonitor(cluster, guard, Exporters(urls), environment.message),
    )


def _known_urls(environment: Environment, cluster: "Cluster") -> tuple[str, ...]:
    """Those of the named cluster, or of the lab that it is."""
    from kipctl.runs.actions import lab_of

    if environment.cluster and environment.cluster.metrics_urls:
        return tuple(environment.cluster.metrics_urls)
    try:
        return lab_of(cluster).metrics_urls
    except UsageError:
        return ()
