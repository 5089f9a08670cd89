"""`--guard` at work on a cluster, and in its report."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kipctl.changes.guard_interface import GuardSession, RecordedGuard
from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cli.environment import Environment
from kipctl.cli.guard import ROLLBACK
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.errors import UsageError
from kipctl.guard.canary import WINDOW_US, canary
from kipctl.guard.canary_moves import MOST_PARTITIONS, add_canary_moves
from kipctl.guard.conditions import Kind, parse_guard
from kipctl.guard.monitor import GuardMonitor, monitor_of
from kipctl.load.actions import lab_of
from kipctl.load.plan import OWN_TOPIC
from kipctl.report.guard_tables import guard_table
from kipctl.report.tables import Report
from kipctl.transport.request import Cluster


@dataclass(slots=True)
class ActiveGuard(GuardSession):
    """A guard at work on a cluster; without conditions it does nothing."""

    environment: Environment
    cluster: Cluster
    settings: RecordedGuard
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
        return replace(self.settings.redacted, undisturbed=self.monitor.guard.undisturbed)

    def restore(self, record: RecordedGuard) -> None:
        if self.is_set:
            return
        self.settings = record
        self.monitor = _monitor(self.environment, self.cluster, record)
        self.environment.message(f"Guarded as it was begun: {', '.join(record.conditions)}.")

    def begin(self, progress: Callable[[str], None]) -> GuardMonitor:
        self.monitor.progress = progress
        return self.monitor

    @property
    def is_to_compare(self) -> bool:
        return bool(self.monitor.guard.to_compare)

    @contextmanager
    def canary(self, batches: int = 0, window_s: float | None = None) -> Iterator[None]:
        """Inside, a producer runs if a condition is measured by it. Raises KipctlError."""
        by_canary = self.monitor.guard.measured_by_canary
        if not by_canary:
            yield
            return
        with canary(
            self.cluster,
            by_canary,
            self.environment.message,
            at_least=min(batches, MOST_PARTITIONS),
            window_us=WINDOW_US if window_s is None else int(window_s * 1e6),
            to_compare=self.monitor.guard.to_compare,
        ) as running:
            self.monitor.watch(running)
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


def guarded(environment: Environment, cluster: Cluster, settings: RecordedGuard) -> ActiveGuard:
    """The guard that was asked for, of this cluster.

    Raises UsageError for metrics of which nobody says where they are.
    """
    return ActiveGuard(environment, cluster, settings, _monitor(environment, cluster, settings))


def _monitor(environment: Environment, cluster: Cluster, settings: RecordedGuard) -> GuardMonitor:
    """What looks for the guard."""
    if any(parse_guard(text).kind is Kind.METRIC for text in settings.conditions):
        urls = settings.urls or _known_urls(environment, cluster)
        settings = replace(settings, urls=urls)
    return monitor_of(cluster, settings, environment.message)


def _known_urls(environment: Environment, cluster: Cluster) -> tuple[str, ...]:
    """Those of the named cluster, or of the lab that it is."""
    if environment.cluster and environment.cluster.metrics_urls:
        return tuple(environment.cluster.metrics_urls)
    try:
        return lab_of(cluster).metrics_urls
    except UsageError:
        return ()
