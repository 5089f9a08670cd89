"""A guard at work on a cluster while it is changed: its looks, its canary, what is kept of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kipctl.changes.elections.batches import MAX_PER_REQUEST
from kipctl.changes.guard_interface import GuardSession, RecordedGuard
from kipctl.changes.plans.plan import Move, Plan
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.errors import UsageError
from kipctl.guard.canary import WINDOW_US, canary
from kipctl.guard.conditions import Kind, parse_guard
from kipctl.guard.monitor import GuardMonitor, monitor_of
from kipctl.load.actions import lab_of
from kipctl.load.plan import OWN_TOPIC
from kipctl.transport.request import Cluster

MOST_PARTITIONS = 60
"""Of a canary's topic, where a change has more batches than that."""


@dataclass(slots=True)
class ActiveGuard(GuardSession):
    """A guard at work on a cluster; without conditions it does nothing.

    `known_urls` are where metrics of the cluster are, where the settings do not say it.
    """

    cluster: Cluster
    settings: RecordedGuard
    message: Callable[[str], None]
    known_urls: Sequence[str]
    monitor: GuardMonitor
    has_canary: bool = False

    @property
    def is_set(self) -> bool:
        """Whether there are conditions."""
        return bool(self.settings.conditions)

    @property
    def rolls_back(self) -> bool:
        """Whether it has given up, and the change is to be undone."""
        return self.monitor.guard.is_given_up and self.settings.rolls_back

    @property
    def record(self) -> RecordedGuard | None:
        if not self.is_set:
            return None
        return replace(self.settings.redacted, undisturbed=self.monitor.guard.undisturbed)

    def restore(self, record: RecordedGuard) -> None:
        if self.is_set:
            return
        self.settings = record
        self.monitor = _monitor(self.cluster, record, self.message, self.known_urls)
        self.message(f"Guarded as it was begun: {', '.join(record.conditions)}.")

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
            self.message,
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
        return now.only(
            partition.id for partition in now.partitions if partition.id.topic != OWN_TOPIC
        )

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


def guarded(
    cluster: Cluster,
    settings: RecordedGuard,
    message: Callable[[str], None],
    known_urls: Sequence[str] = (),
) -> ActiveGuard:
    """The guard that was asked for, of this cluster.

    Raises UsageError for metrics of which nobody says where they are.
    """
    monitor = _monitor(cluster, settings, message, known_urls)
    return ActiveGuard(cluster, settings, message, known_urls, monitor)


def _monitor(
    cluster: Cluster,
    settings: RecordedGuard,
    message: Callable[[str], None],
    known_urls: Sequence[str],
) -> GuardMonitor:
    """What looks for the guard."""
    if any(parse_guard(text).kind is Kind.METRIC for text in settings.conditions):
        urls = settings.urls or tuple(known_urls) or _urls_of_lab(cluster)
        settings = replace(settings, urls=urls)
    return monitor_of(cluster, settings, message)


def _urls_of_lab(cluster: Cluster) -> tuple[str, ...]:
    """Where metrics are of the lab that it is, if it is one."""
    try:
        return lab_of(cluster).metrics_urls
    except UsageError:
        return ()


def add_canary_moves(plan: Plan, own: Sequence[Move], batch: int) -> tuple[Plan, int]:
    """The plan with some of these moves among its own, and how large its batches are then.

    One in each batch, which is larger by it: there are as many batches as without. Where there are
    more batches than such moves, these are spread over them, and batches stay as they are.
    """
    batches = -(-len(plan.moves) // batch)
    if len(own) >= batches:
        places = [number * (batch + 1) for number in range(batches)]
        return _with(plan, own, places), min(batch + 1, MAX_PER_REQUEST)
    total = len(plan.moves) + len(own)
    return _with(plan, own, [number * total // len(own) for number in range(len(own))]), batch


def _with(plan: Plan, own: Sequence[Move], places: Sequence[int]) -> Plan:
    """The plan with the first of those moves at these places, which grow."""
    moves = list(plan.moves)
    for place, move in zip(places, own, strict=False):
        moves.insert(place, move)
    return Plan(tuple(moves), plan.skipped)
