"""A guard at work: what its conditions are worth, looked at every 1 to 5 s."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kipctl.changes.execution.pacing import ReportInterval
from kipctl.changes.execution.reassign import Progress
from kipctl.changes.execution.safety_checks import min_insync_replicas
from kipctl.changes.guard_interface import ChangeGuard, GivenUpError, RecordedGuard
from kipctl.cluster.reassignments import adding_replicas
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.errors import TimedOutError, UnreachableError
from kipctl.guard.canary import Canary
from kipctl.guard.conditions import (
    Guard,
    Kind,
    Verdict,
    count_partitions,
    parse_guard,
    require_metrics,
)
from kipctl.guard.exporters import Exporters
from kipctl.trace.clock import wall_time
from kipctl.transport.request import Cluster

_EVERY_S = 1.0
_SHARE = 0.1
"""Of the time that looks may take, where they take long."""
_AT_LEAST_EVERY_S = 5.0
_PATIENCE_S = 2.0
"""With an answer about topics that is cut off; what is not known then is asked at the next look."""


def monitor_of(cluster: Cluster, asked: RecordedGuard, progress: Progress) -> "GuardMonitor":
    """What looks for the guard that is asked for.

    Raises UsageError for metrics of which nobody says where they are.
    """
    guard = Guard.of(
        map(parse_guard, asked.conditions), asked.patience_s, asked.quiet_s, asked.undisturbed
    )
    require_metrics((gauge.condition for gauge in guard.gauges), asked.urls)
    return GuardMonitor(cluster, guard, Exporters(asked.urls), progress)


@dataclass
class GuardMonitor(ChangeGuard):
    """Looks, and says when to wait. Without conditions it looks at nothing."""

    cluster: Cluster
    guard: Guard
    exporters: Exporters
    progress: Progress
    canary_values: Callable[[], dict[str, float | None]] = dict
    """What the probe's conditions are worth, by their texts."""
    _next: float = field(default=0.0, init=False)
    _min_insync: dict[str, int | None] = field(default_factory=dict, init=False)

    def watch(self, canary: Canary) -> None:
        """Look by this canary from now on, and compare with what it has found undisturbed."""
        self.canary_values = canary
        self.guard = self.guard.with_undisturbed(canary.undisturbed)

    def look(self, away: int | None = None, snapshot: Snapshot | None = None) -> None:
        """Look, if the last time is long enough ago. Raises GivenUpError.

        `away` is the broker that is being restarted, `snapshot` one that was just taken.
        """
        if not self.guard.gauges or time.monotonic() < self._next:
            return
        began = time.monotonic()
        values = self._values(away, snapshot)
        now = time.monotonic()
        self.guard = self.guard.observe(values, now, wall_time(time.time_ns() // 1000))
        self._next = now + min(max(_EVERY_S, (now - began) / _SHARE), _AT_LEAST_EVERY_S)
        if given_up := self.given_up:
            raise GivenUpError(given_up)

    @property
    def given_up(self) -> str:
        """Why it has given up; "" while it has not."""
        if not self.guard.is_given_up:
            return ""
        return f"Given up after {self.guard.patience_s:g} s of patience: {self.guard}."

    def crossed(self) -> str:
        self.look()
        return ", ".join(map(str, self.guard.crossed))

    def require_quiet(
        self, away: int | None = None, *, until: float = math.inf, anew: bool = True
    ) -> None:
        """Look, and return when the guard says go. `anew` looks also if it has just done so.

        Raises GivenUpError, and TimedOutError when it still says no at `until` (time.monotonic).
        """
        if anew:
            self._next = 0.0
        self.look(away)
        last_text, reports = "", ReportInterval()
        while self.guard.verdict is Verdict.PAUSE:
            text = f"Paused: {self.guard}"
            if text != last_text and reports.is_due(time.monotonic()):
                last_text = text
                self.progress(text)
            if time.monotonic() > until:
                raise TimedOutError(f"The time allowed has ended in a pause: {self.guard}.")
            time.sleep(max(0.0, self._next - time.monotonic()))
            self.look(away)
        if last_text:
            self.progress("The guard is quiet: going on")

    def sleep(self, seconds: float) -> None:
        """Wait so long, looking on. Raises GivenUpError."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self.look(None)
            time.sleep(min(left, _EVERY_S))

    def _values(self, away: int | None, snapshot: Snapshot | None) -> dict[str, float | None]:
        conditions = [gauge.condition for gauge in self.guard.gauges]
        metrics = [condition for condition in conditions if condition.kind is Kind.METRIC]
        counted = [condition for condition in conditions if condition.kind.is_of_partitions]
        values = self.exporters.values(metrics, away)
        if self.guard.measured_by_canary:
            values |= self.canary_values()
        if not counted:
            return values
        try:
            takes_adding = any(condition.kind.takes_reassignments for condition in counted)
            adding = adding_replicas(self.cluster) if takes_adding else {}
            seen = snapshot or take_snapshot(self.cluster)
            if any(condition.kind.takes_min_insync for condition in counted):
                self._ask_min_insync(seen)
        except (UnreachableError, TimedOutError):
            return values | dict.fromkeys((condition.text for condition in counted), None)
        counts = {
            condition.text: count_partitions(condition.kind, seen, self._min_insync, away, adding)
            for condition in counted
        }
        return values | {
            text: None if count is None else float(count) for text, count in counts.items()
        }

    def _ask_min_insync(self, seen: Snapshot) -> None:
        """Ask for min.insync.replicas of topics where it is not known yet."""
        if new := [topic for topic in seen.topics if self._min_insync.get(topic) is None]:
            self._min_insync |= min_insync_replicas(self.cluster, new, _PATIENCE_S)
