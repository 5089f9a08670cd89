"""`--guard` at work on a cluster, and in its report."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kipctl.changes.guard_interface import RecordedGuard
from kipctl.changes.guard_session import GuardSession
from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cli.environment import Environment
from kipctl.cli.guard import ROLLBACK, GuardSettings
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.errors import UsageError
from kipctl.guard.canary import canary
from kipctl.guard.canary_moves import MOST_PARTITIONS, add_canary_moves
from kipctl.guard.conditions import Guard, Kind, parse_guard, require_metrics
from kipctl.guard.exporters import Exporters
from kipctl.guard.monitor import GuardMonitor
from kipctl.report.guard_tables import guard_table
from kipctl.report.tables import Report
from kipctl.runs.actions import lab_of
from kipctl.runs.plan import OWN_TOPIC
from kipctl.transport.request import Cluster
from kipctl.urls import without_login


@dataclass(slots=True)
class ActiveGuard(GuardSession):
    """A guard at work on a cluster; without conditions it does nothing."""

    environment: Environment
    cluster: Cluster
    settings: GuardSettings
    monitor: GuardMonitor
    has_canary: bool = False

    @property
    def is_set(self) -> bool:
        """Whether there are conditions."""
        return bool(self.settings.conditions)

    @property
    def rolls_back(self) -> bool:
        """Whether it has given up, and the change is to be undone."""
        return self.monitor.guard.is_given_up and self.settings.action == ROLLBACK

    @property
    def record(self) -> RecordedGuard | None:
        if not self.is_set:
            return None
        settings = self.settings
        return RecordedGuard(
            tuple(one.text for one in settings.conditions),
            settings.patience_s,
            settings.quiet_s,
            settings.action,
            tuple(map(without_login, settings.urls)),
        )

    def restore(self, record: RecordedGuard) -> None:
        if self.is_set:
            return
        conditions = tuple(map(parse_guard, record.conditions))
        self.settings = GuardSettings(
            conditions, record.patience_s, record.quiet_s, record.action, record.urls
        )
        self.monitor = monitor_of(self.environment, self.cluster, self.settings)
        self.environment.message(f"Guarded as it was begun: {', '.join(record.conditions)}.")

    def begin(self, progress: Callable[[str], None]) -> GuardMonitor:
        self.monitor.progress = progress
        return self.monitor

    @contextmanager
    def canary(self, batches: int = 0) -> Iterator[None]:
        """Inside, a producer runs if a condition is measured by it. Raises KipctlError."""
        by_canary = [one for one in self.settings.conditions if one.kind.is_measured_by_canary]
        if not by_canary:
            yield
            return
        at_least = min(batches, MOST_PARTITIONS)
        with canary(
            self.cluster, by_canary, self.environment.message, at_least
        ) as self.monitor.canary_values:
            self.has_canary = True
            yield

    def without_canary(self, now: Snapshot) -> Snapshot:
        """What is planned for: the canary's topic is none of it."""
        if not self.has_canary:
            return now
        return now.only(one.id for one in now.partitions if one.id.topic != OWN_TOPIC)

    def with_canary_moves(self, plan: Plan, batch: int) -> tuple[Plan, int]:
        """The plan with leaders of the canary's topic that move along, and how large its batches
        are with them: one more in each, as far as that topic has partitions."""
        if not self.has_canary:
            return plan, batch
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


def guarded(environment: Environment, cluster: Cluster, settings: GuardSettings) -> ActiveGuard:
    """The guard that was asked for, of this cluster.

    Raises UsageError for metrics of which nobody says where they are.
    """
    monitor = monitor_of(environment, cluster, settings)
    return ActiveGuard(environment, cluster, settings, monitor)


def monitor_of(environment: Environment, cluster: Cluster, settings: GuardSettings) -> GuardMonitor:
    """What looks for the guard. Raises UsageError for metrics of which nobody says where they
    are."""
    urls = settings.urls
    if any(one.kind is Kind.METRIC for one in settings.conditions):
        urls = urls or _known_urls(environment, cluster)
    require_metrics(settings.conditions, urls)
    guard = Guard.of(settings.conditions, settings.patience_s, settings.quiet_s)
    return GuardMonitor(cluster, guard, Exporters(urls), environment.message)


def _known_urls(environment: Environment, cluster: Cluster) -> tuple[str, ...]:
    """Those of the named cluster, or of the lab that it is."""
    if environment.cluster and environment.cluster.metrics_urls:
        return tuple(environment.cluster.metrics_urls)
    try:
        return lab_of(cluster).metrics_urls
    except UsageError:
        return ()
