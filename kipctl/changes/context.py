"""What a change is carried out with, and the steps that all changes share."""

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from kipctl.changes.execution.batch_execution import BATCH_TIMEOUT_S
from kipctl.changes.execution.pacing import Pace
from kipctl.changes.execution.plan_execution import ExecutionSettings
from kipctl.changes.execution.reassign import retry_until
from kipctl.changes.execution.safety_checks import (
    min_insync_replicas,
    require_enough_replicas,
    require_no_reassignments,
    topics_losing_replicas,
)
from kipctl.changes.execution.throttled_change import (
    entries_with_throttles,
    leftover_warning,
    others_warning,
    still_set,
    throttles_set_by_others,
)
from kipctl.changes.guard_interface import GuardSession
from kipctl.changes.journal.entry import Entry, Origin
from kipctl.changes.journal.journal import Damaged, Journal, journal
from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.plan_summary import PlanSummary, too_little_room
from kipctl.changes.ui import ChangeUi
from kipctl.cluster.reassignments import Reassignment, list_reassignments
from kipctl.cluster.snapshot import Snapshot, refresh_snapshot, select, take_snapshot
from kipctl.counts import counted, format_duration
from kipctl.errors import RefusedError
from kipctl.next_step import Command
from kipctl.transport.request import Cluster

_LAST_LOOK_S = 10.0
"""How long the last look, for the report, is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeContext:
    """A cluster, who is told and asked, what may hold a change up, and how it is to go.

    `force` insists where a check would refuse; `additional` goes on beside the reassignments of
    others. All of it may take `timeout_s` seconds (None:
    each batch its own time).
    """

    cluster: Cluster
    ui: ChangeUi = field(default_factory=ChangeUi)
    guard: GuardSession = field(default_factory=GuardSession)
    pace: Pace = field(default_factory=lambda: Pace(1000, 10.0))
    """As commands have it: so many partitions a batch, and so many seconds between two."""
    origin: Origin = field(default_factory=lambda: Origin.here(()))
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """They say where the journal is."""
    topics: Sequence[str] = ()
    entry: str | None = None
    """The beginning of an entry's id."""
    file: Path | None = None
    """Of an entry."""
    dry_run: bool = False
    no_throttle: bool = False
    """Whether an undo copies as fast as brokers can, however its change was throttled."""
    force: bool = False
    additional: bool = False
    change_factor: bool = False
    """Whether a plan may change how many replicas partitions have."""
    measured_on: tuple[str, ...] = ()
    """Topics that are made after the question, to measure on: their leaders move along."""
    timeout_s: float | None = None

    @property
    def throttle(self) -> int | None:
        """The bytes per second in and out of each broker; None for no limit."""
        return self.pace.throttle

    @property
    def step_timeout_s(self) -> float:
        """How long one step may take: what is asked of the whole, or what a batch has."""
        return self.timeout_s or BATCH_TIMEOUT_S

    @property
    def deadline_s(self) -> float:
        """Until when a look that begins now is tried again, on the clock of time.monotonic."""
        return time.monotonic() + self.step_timeout_s

    def journal(self, cluster_id: str = "") -> Journal:
        """The journal of the cluster, which is asked for its id where that is not given."""
        return journal(cluster_id or self.cluster.metadata(()).cluster_id or "", self.variables)

    @contextmanager
    def locked(self, journal: Journal) -> Iterator[None]:
        """Inside, nobody else changes the cluster: a part of a roll is in the roll's own lock.

        Raises RefusedError, which names the other, when there is one.
        """
        with nullcontext() if self.origin.part_of else journal.locked(self.origin):
            yield

    def named(self, entry: Entry) -> str:
        """How an entry is named to `kipctl changes`: by its file, if it was given so, or its id."""
        return f"--journal {shlex.quote(str(self.file))}" if self.file else entry.id

    def say_damaged(self, damaged: Damaged) -> None:
        """Say that an entry is skipped, as its file is damaged."""
        self.ui.say(str(damaged))

    def say_if_not_listed(self, why: str) -> None:
        """Say that a plan does not know what is being reassigned; "" where it does."""
        if why:
            self.ui.say(f"What is being reassigned is not in this plan: {why}")

    def require_nobody_else(self, journal: Journal) -> None:
        """Raise RefusedError, which names it, while another kipctl changes the cluster."""
        with self.locked(journal):
            pass

    def require_no_reassignments(self, busy: Sequence[Reassignment]) -> None:
        """See `safety_checks.require_no_reassignments`. Not within the lock, which is one's own."""
        who = self.journal().changed_by() if busy else ""
        require_no_reassignments(busy, additional=self.additional, changed_by=who)

    def throttled_as(self, entry: Entry) -> "ChangeContext":
        """The same, as slow as the entry's change was, unless a throttle, or none, is asked for."""
        if self.throttle is not None or self.no_throttle or entry.how is None:
            return self
        return replace(self, pace=replace(self.pace, throttle=entry.how.throttle))

    def say_unfinished(self, journal: Journal, plan: Plan | None = None) -> None:
        """Warn of what an earlier kipctl has left, when it was cut off, and one elsewhere."""
        if plan:
            self.say_throttles_of_others(journal, plan)
        if own := still_set(self.cluster, entries_with_throttles(journal)):
            self.ui.say(leftover_warning(own, self.cluster.nodes))
        if open_ones := [entry for entry in journal.unfinished_changes() if entry.is_open]:
            newest, changed_by = open_ones[0], journal.locked_by()
            state = f"Entry {newest.id} {newest.describe_state(changed_by)}."
            if open_ones[1:]:
                state += f" {counted(len(open_ones) - 1, 'older one')} did not end."
            if not changed_by:
                goes_on = newest.may_be_resumed
                if goes_on:
                    state += " Go on with it: " + Command("changes resume", newest.id)
                if newest.may_be_undone:
                    undo = " or undo it: " if goes_on else " Undo it: "
                    state += undo + Command("undo", newest.id)
            self.ui.say(state)

    def say_throttles_of_others(self, journal: Journal, plan: Plan) -> None:
        """Say whose throttles the change meets, and what becomes of them."""
        own = entries_with_throttles(journal)
        if throttles := throttles_set_by_others(self.cluster, plan.moves, own):
            self.ui.say(others_warning(throttles, self.throttle))

    def execution_settings(self, progress: Callable[[str], None]) -> ExecutionSettings:
        """How a change is carried out, and who follows it."""
        return {
            "progress": progress,
            "timeout_s": self.timeout_s,
            "pace": self.pace,
            "additional": self.additional,
            "guard": self.guard.begin(progress),
        }

    def show(self, plan: Plan, summary: PlanSummary, *, is_rest: bool = False) -> None:
        """What is to be confirmed (as `ChangeUi.question`), and whether there is time for it."""
        self.ui.question(plan, summary, self.throttle, is_rest=is_rest)
        least_s = summary.seconds_at(self.throttle) if self.throttle else 0.0
        if self.timeout_s is not None and least_s > self.timeout_s:
            self.ui.say(
                f"--timeout ends it after {format_duration(self.timeout_s)}, which is too short at"
                f" this throttle (about {format_duration(least_s)}): what is submitted then goes"
                " on by itself, with the throttle set, and no further batch begins."
            )

    def require_possible(self, plan: Plan, summary: PlanSummary) -> None:
        """Raise RefusedError when a disk would fill, or replicas get too few for acks=all."""
        if topics := topics_losing_replicas(plan):
            known = min_insync_replicas(self.cluster, topics)
            require_enough_replicas(plan, known, force=self.force)
        if summary.filled and not self.force:
            filled = summary.filled[0]
            raise RefusedError(
                too_little_room(filled.broker, filled.bytes_in, filled.usable or 0),
                "Choose fewer partitions, or insist with --force.",
            )

    def ongoing(self) -> tuple[Reassignment, ...]:
        """What is being reassigned of the topics asked for; without any, all."""
        busy = list_reassignments(self.cluster)
        if not self.topics:
            return busy
        shown = take_snapshot(self.cluster, named=self.topics)
        chosen = frozenset(select(shown, self.topics).topics)
        return tuple(reassignment for reassignment in busy if reassignment.id.topic in chosen)

    def final_snapshot(self, topics: Sequence[str]) -> Snapshot:
        """What a report shows of the topics that there still are."""
        return retry_until(
            lambda: refresh_snapshot(self.cluster, topics), time.monotonic() + _LAST_LOOK_S
        )
