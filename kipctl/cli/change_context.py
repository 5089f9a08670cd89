"""What changes a cluster is carried out with, and how it looks, shows a plan, asks, records."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kipctl.cli.environment import Environment
from kipctl.cli.guard import ActiveGuard
from kipctl.counts import counted
from kipctl.errors import KipctlError, RefusedError
from kipctl.report.formats import OutputFormat
from kipctl.report.leader_tables import limit_rows
from kipctl.report.plan_tables import copied_lines, in_short, too_little_room
from kipctl.report.reassign_tables import (
    REASSIGN,
    ongoing_report,
    question_table,
    rotations_report,
    stopped_report,
    verified_report,
)
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.cluster.moves.journal import Damaged, Journal
    from kipctl.cluster.moves.journal_entry import Entry, Origin
    from kipctl.cluster.moves.log_sizes import LogSizes
    from kipctl.cluster.moves.pacing import Pace
    from kipctl.cluster.moves.plan import Plan
    from kipctl.cluster.moves.plan_summary import PlanSummary
    from kipctl.cluster.moves.safety_checks import Planner, Survey
    from kipctl.cluster.moves.throttle import NotRestored
    from kipctl.cluster.reassignments import Reassignment
    from kipctl.cluster.snapshot import Snapshot
    from kipctl.transport.request import Cluster

AutomaticUndo = Callable[..., Report]
"""What undoes a change whose guard gave up, and returns the report of both."""
UNDO = "Undo: kipctl undo"
_AFTERWARDS_S = 10.0
"""How long the last look, for the report, is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeContext:
    """What a command line that changes a cluster, or looks at its changes, is carried out with."""

    environment: Environment
    cluster: "Cluster"
    guard: ActiveGuard
    pace: "Pace"
    command: str
    output: OutputFormat = OutputFormat.AUTO
    topics: Sequence[str] = ()
    entry: str | None = None
    """The beginning of an entry's id."""
    file: Path | None = None
    """Of an entry."""
    dry_run: bool = False
    yes: bool = False
    force: bool = False
    additional: bool = False
    change_factor: bool = False
    measure: bool = False
    timeout_s: float | None = None

    @property
    def throttle(self) -> int | None:
        """The bytes per second in and out of each broker; None for no limit."""
        return self.pace.throttle

    @property
    def step_timeout_s(self) -> float:
        """How long one step may take: what is asked of the whole, or what a batch has."""
        from kipctl.cluster.moves.batch_execution import BATCH_TIMEOUT_S

        return self.timeout_s or BATCH_TIMEOUT_S

    @property
    def origin(self) -> "Origin":
        from kipctl.cluster.moves.journal_entry import Origin

        return Origin.here(self.environment.arguments)

    def journal(self, cluster_id: str) -> "Journal":
        from kipctl.cluster.moves.journal import journal

        return journal(cluster_id, self.environment.variables)

    def report(self, report: Report) -> None:
        """Print it, with what the guard saw; in a dry run, what it sees now."""
        if self.dry_run:
            self.guard.look_only()
        report = replace(report, command=self.command)
        shown = limit_rows(self.guard.with_guard_table(report))
        self.environment.report(shown, self.output)

    def report_damaged(self, damaged: "Damaged") -> None:
        """Say that an entry is skipped, as its file is damaged."""
        self.environment.message(str(damaged))

    @contextmanager
    def guarded(self, journal: "Journal", undo: "AutomaticUndo", along: int = 0) -> Iterator[None]:
        """Inside, the cluster is changed under the guard, if there is one.

        With a change of `along` partitions leaders of a canary's topic are to move. Whatever stops
        the change: what the guard saw is reported. When it gives up, and is to roll back, the
        change is undone by `undo`.
        """
        with self.guard.canary(-(-along // self.pace.batch)):
            try:
                yield
            except KipctlError as stopped:
                if not self.guard.is_set:
                    raise
                entry = self.guard.entry and self.guard.entry.reload()
                report = stopped_report(entry, stopped.what)
                if entry and entry.may_be_undone and self.guard.rolls_back:
                    report = undo(self, journal, entry, stopped, report)
                self.report(report)
                raise

    @contextmanager
    def recorded(
        self,
        journal: "Journal",
        plan: "Plan",
        not_restored: "list[NotRestored]",
        *,
        elects: bool = True,
        undoes: str = "",
    ) -> Iterator["Entry"]:
        """Inside, the plan is written down, and copies no faster than --throttle allows.

        What of the throttle cannot be put back is in `not_restored` afterwards.
        """
        from kipctl.cluster.moves.journal_entry import ExecutionOptions
        from kipctl.cluster.moves.throttled_change import journaled

        pace = self.pace
        how = ExecutionOptions(pace.batch, pace.between_s, elects, self.throttle, pace.concurrent)
        message = self.environment.message
        with journaled(
            self.cluster, journal, plan, self.origin, how, message, not_restored, undoes=undoes
        ) as entry:
            yield entry

    def report_unfinished(self, journal: "Journal", plan: "Plan | None" = None) -> None:
        """Warn of what an earlier kipctl has left, when it was cut off, and one elsewhere."""
        from kipctl.cluster.moves.throttled_change import (
            entries_with_throttles,
            leftover_warning,
            throttles_set_by_others,
        )

        if plan and (
            found := throttles_set_by_others(
                self.cluster, plan.moves, entries_with_throttles(journal)
            )
        ):
            setting, value = next(iter(found.items()))
            self.environment.message(
                f"{counted(len(found), 'throttle')} that kipctl here has not set, such as"
                f" {setting}:"
                f" {value}. Another tool, or a kipctl on another machine, may be moving partitions,"
                " or was cut off. They stay as they are."
            )
        unfinished = list(journal.unfinished())
        throttled = [entry for entry in unfinished if entry.throttle is not None]
        if throttled:
            self.environment.message(leftover_warning(throttled, self.cluster.nodes))
        open_ones = [entry for entry in unfinished if entry.is_open]
        if open_ones:
            newest, changed_by = open_ones[0], journal.locked_by()
            state = f"Entry {newest.id} {newest.describe_state(changed_by)}."
            if open_ones[1:]:
                state += f" {counted(len(open_ones) - 1, 'older one')} did not end."
            if not changed_by:
                state += (
                    f" Go on with it: kipctl changes resume {newest.id}, or undo it: kipctl undo"
                    f" {newest.id}"
                )
            self.environment.message(state)

    def carrying_out(
        self, entry: "Entry", progress: Callable[[str], None], batch: int = 0
    ) -> dict[str, Any]:
        """How a change is carried out, as its functions take it; in batches of --batch, or so."""
        self.guard.entry = entry
        self.guard.monitor.progress = progress
        return {
            "entry": entry,
            "progress": progress,
            "timeout_s": self.timeout_s,
            "pace": replace(self.pace, batch=batch or self.pace.batch),
            "additional": self.additional,
            "guard": self.guard.monitor,
        }


def show_rotations(context: ChangeContext) -> None:
    """What a rotation of each topic would move; nothing is changed."""
    from kipctl.cluster.moves.planners.rotate_leaders import rotate as rotated

    seen = survey_plan(context, rotated)
    context.report(rotations_report(seen.plan))


def verify_plan(context: ChangeContext, path: Path) -> None:
    """Compare the cluster with an assignment in Kafka's own JSON, or with an entry's."""
    from kipctl.cluster.moves.journal_entry import read_target
    from kipctl.cluster.moves.kafka_json import check_against
    from kipctl.cluster.moves.reassign import require_as_planned
    from kipctl.cluster.moves.reassign import verify as verified_with
    from kipctl.cluster.snapshot import take_snapshot

    file = read_target(path)
    check_against(file, take_snapshot(context.cluster), brokers_alive=False)
    verified = verified_with(context.cluster, file.assignment)
    context.report(verified_report(verified, file.assignment))
    require_as_planned(verified)


def show_ongoing(context: ChangeContext) -> None:
    """List what is being reassigned."""
    context.report(ongoing_report(ongoing_of(context)))


def ongoing_of(context: ChangeContext) -> tuple["Reassignment", ...]:
    from kipctl.cluster.reassignments import list_reassignments
    from kipctl.cluster.snapshot import select, take_snapshot

    busy = list_reassignments(context.cluster)
    if not context.topics:
        return busy
    shown = take_snapshot(context.cluster, named=context.topics)
    chosen = frozenset(select(shown, context.topics).topics)
    return tuple(one for one in busy if one.id.topic in chosen)


def survey_plan(context: ChangeContext, planner: "Planner", chooses: bool = True) -> "Survey":
    """The cluster, and what is to be changed; a dry run needs no right to list reassignments.

    With `chooses` the plan is for topics that were looked for, as those of a broker are.
    """
    from kipctl.cluster.moves.safety_checks import survey

    seen = survey(context.cluster, planner, context.topics, may_not_list=context.dry_run)
    if chooses:
        context.environment.report_hidden_topics(
            context.cluster, seen.snapshot.topics, context.topics
        )
    report_if_not_listed(context, seen.busy_refused)
    return seen


def report_if_not_listed(context: ChangeContext, why: str) -> None:
    if why:
        context.environment.message(f"What is being reassigned is not in this plan: {why}")


def replan(context: ChangeContext, planner: "Planner") -> "Survey":
    """The same after the question. Raises RefusedError when something is being reassigned now."""
    from kipctl.cluster.moves.safety_checks import require_no_reassignments, survey

    again = survey(context.cluster, lambda now: planner(context.guard.without_canary(now)))
    require_no_reassignments(again.busy, additional=context.additional)
    return again


def summarize_plan(
    context: ChangeContext, plan: "Plan", snapshot: "Snapshot", logs: "LogSizes | None" = None
) -> "PlanSummary":
    """What the plan comes to; how large partitions are is asked where it copies any."""
    from kipctl.cluster.moves.log_sizes import NOT_ASKED, ask_log_sizes
    from kipctl.cluster.moves.plan_summary import summarize

    if logs is None:
        logs = ask_log_sizes(context.cluster, snapshot) if plan.copies_data else NOT_ASKED
    return summarize(snapshot, plan, logs)


def show_plan(context: ChangeContext, numbers: "PlanSummary", plan: "Plan") -> None:
    """What is to be confirmed, in a few lines; before a question also the plan."""
    from kipctl.cluster.moves.copy_progress import format_duration
    from kipctl.cluster.moves.plan_summary import document

    shown = document(numbers, context.throttle)
    for line in (in_short(shown), *map(str, numbers.skip_reasons[:3]), *copied_lines(shown)):
        context.environment.message(line)
    if plan.moves and not context.yes and context.environment.stdin.isatty():
        context.environment.show(Report(REASSIGN, {}, (question_table(plan, shown),)))
    least_s = numbers.seconds_at(context.throttle) if context.throttle else 0.0
    if context.timeout_s is not None and least_s > context.timeout_s:
        context.environment.message(
            f"--timeout ends it after {format_duration(context.timeout_s)}, which is too short at"
            f" this throttle ({format_duration(least_s)} at least): what is submitted then goes on"
            " by itself, with the throttle set, and no further batch begins."
        )


def require_possible(context: ChangeContext, plan: "Plan", numbers: "PlanSummary") -> None:
    """Raise RefusedError when a disk would fill, or replicas get too few for acks=all."""
    from kipctl.cluster.moves.safety_checks import (
        min_insync_replicas,
        require_enough_replicas,
        topics_losing_replicas,
    )

    if topics := topics_losing_replicas(plan):
        known = min_insync_replicas(context.cluster, topics)
        require_enough_replicas(plan, known, force=context.force)
    if numbers.filled and not context.force:
        one = numbers.filled[0]
        raise RefusedError(
            too_little_room(one.broker, one.bytes_in, one.usable or 0),
            "Choose fewer partitions, or insist with --force.",
        )


def final_snapshot(cluster: "Cluster", topics: Sequence[str]) -> "Snapshot":
    """What a report shows of the topics that there still are."""
    from kipctl.cluster.moves.reassign import retry_until
    from kipctl.cluster.snapshot import refresh_snapshot

    return retry_until(lambda: refresh_snapshot(cluster, topics), time.monotonic() + _AFTERWARDS_S)
