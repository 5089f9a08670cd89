"""How a change is undone: what is on its way is cancelled, the rest is moved back."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from kipctl.cli.change_context import (
    ChangeContext,
    final_snapshot,
    report_if_not_listed,
    require_possible,
    summarize_plan,
)
from kipctl.cli.change_entries import (
    put_throttles_back,
    throttled_for,
)
from kipctl.counts import counted
from kipctl.errors import KipctlError, PartlyDoneError
from kipctl.report.leader_tables import moved_report
from kipctl.report.reassign_tables import REASSIGN, cancelled_report, with_skipped
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.cluster.moves.cancel import Cancelled
    from kipctl.cluster.moves.journal import Journal
    from kipctl.cluster.moves.journal_entry import Entry
    from kipctl.cluster.moves.plan import Plan
    from kipctl.cluster.moves.plan_result import LeadersMoved
    from kipctl.cluster.moves.rollback import RollbackPlan
    from kipctl.cluster.moves.throttle import NotRestored
    from kipctl.cluster.reassignments import Reassignment
    from kipctl.cluster.snapshot import Snapshot

_RECENT = timedelta(hours=1)
"""So old a change may be for --yes to undo it without its id."""
_UNCHANGED = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class WayBack:
    """The way back as the cluster is now. `own` are moves of the entry that are still under way:
    they are cancelled, which is their way back.
    """

    own: tuple["Reassignment", ...]
    others: tuple["Reassignment", ...]
    snapshot: "Snapshot"
    way: "RollbackPlan"

    @property
    def count(self) -> int:
        return len(self.way.plan.moves) + len(self.way.in_place) + len(self.own)


@dataclass(frozen=True, slots=True)
class Undone:
    """The outcome of a rollback: what was seen `again` before it, `known` of what it changes.

    `cancelled` is None where nothing was on its way, `moved` where nothing was to be moved.
    """

    again: WayBack
    known: "Snapshot"
    cancelled: "Cancelled | None"
    moved: "LeadersMoved | None"
    not_restored: "Sequence[NotRestored]"

    def report(self, context: ChangeContext) -> Report | None:
        """None where there is nothing to report."""
        if self.moved is not None:
            after = final_snapshot(context.cluster, self.known.topics)
            report = moved_report(REASSIGN, self.moved, self.known, after)
        elif self.cancelled is not None:
            topics = sorted({one.topic for one in self.cancelled.cancelled})
            after = final_snapshot(context.cluster, topics)
            report = cancelled_report(self.cancelled, after)
        else:
            return None
        return with_skipped(report, self.again.way.plan)


def go_back(
    context: ChangeContext,
    journal: "Journal",
    entry: "Entry",
    seen: WayBack,
    done: list[str],
) -> Undone:
    """The way back that was seen, in the lock of the journal. Raises KipctlError.

    `done` gets a sentence for what cannot be taken back any more.
    """
    from kipctl.cluster.moves.journal_entry import EntryState
    from kipctl.cluster.moves.plan_execution import roll_back as rolled_back
    from kipctl.cluster.moves.safety_checks import require_same

    moved, cancelled = None, None
    own = [one.id for one in seen.own]
    entry = entry.reload()
    again = survey_way_back(context, entry)
    require_same(seen.way.plan, again.way.plan.without(own))
    if own:
        cancelled = _cancel(context, entry, seen.own)
        if cancelled.cancelled:
            done.append(f"Cancelled: {counted(len(cancelled.cancelled), 'reassignment')}.")
    is_throttled = bool(throttled_for(context, journal, entry))
    not_restored = list(put_throttles_back(context, journal, entry))
    if is_throttled:
        done.append(f"The throttle is {'not all ' if not_restored else ''}put back.")
    if own or is_throttled:
        entry = entry.reload()
        again = survey_way_back(context, entry)
        require_same(seen.way.plan, again.way.plan.without(own))
    way = again.way
    known = again.snapshot.only((*way.in_place, *way.plan.target))
    if way.plan.moves or way.in_place:
        title = f"Rolling back {counted(len(way.plan.moves), 'partition')}"
        whole = _with_elections(way, known)
        with (
            context.recorded(journal, whole, not_restored, undoes=entry.id) as record,
            context.environment.progress(title) as progress,
        ):
            if entry.is_open:
                entry.mark_or_note(EntryState.DONE)  # its remaining moves are not to be made
            how = context.carrying_out(record, progress)
            moved = rolled_back(context.cluster, way.plan, way.in_place, **how)
    is_undone = not way.left and not again.own and not (moved and moved.failures)
    if is_undone and entry.state is not EntryState.UNDONE:
        entry.mark_or_note(EntryState.UNDONE)
    return Undone(again, known, cancelled, moved, not_restored)


def automatic_undo(
    context: ChangeContext,
    journal: "Journal",
    entry: "Entry",
    stopped: KipctlError,
    report: Report,
) -> Report:
    """Undo a change whose guard gave up, in the lock of the journal, unasked and unguarded.

    Its outcome is added to the error that stopped the change. Returns the report of both.
    """
    from kipctl.cluster.moves.plan_result import require_all_done
    from kipctl.cluster.moves.throttle import require_put_back

    if entry.undoes:
        stopped.what += " A way back is not rolled back itself."
        return report
    context = replace(context, guard=context.guard.disabled())
    again = f"Try again: {undo_command(context, entry)}"
    try:
        seen = survey_way_back(context, entry)
        plan = seen.way.plan
        require_possible(context, plan, summarize_plan(context, plan, seen.snapshot))
        gone = go_back(context, journal, entry, seen, [])
        moved = gone.moved
        if moved:
            require_all_done(moved.failures, moved.done, again, has_changed=moved.has_changed)
        require_put_back(gone.not_restored)
        if left := gone.again.way.left:
            raise PartlyDoneError(f"{left[0].id}: {left[0].reason}.")
    except KipctlError as failed:
        stopped.what += f" It was not all rolled back: {failed.what}"
        stopped.next_step = again
        return report
    count = moved.done if moved else 0
    stopped.what += f" Then it was rolled back: {counted(count, 'partition')} brought back."
    stopped.next_step = "See: kipctl changes list"
    back = gone.report(context) or Report(REASSIGN, {}, ())
    return replace(
        back, document={**back.document, **report.document, "state": "undone", "rolled_back": True}
    )


def _with_elections(way: "RollbackPlan", known: "Snapshot") -> "Plan":
    """The way back with its mere elections, as moves to the order that there is."""
    from kipctl.cluster.moves.plan import Move, Plan

    elected = (
        Move(one.id, one.replicas, one.replicas, one.leader)
        for one in known.partitions
        if one.id in way.in_place
    )
    return Plan(tuple(sorted((*way.plan.moves, *elected), key=lambda move: move.id)))


def _cancel(context: ChangeContext, entry: "Entry", own: Sequence["Reassignment"]) -> "Cancelled":
    """Cancel what the entry still moves; what has ended meanwhile is rolled back afterwards."""
    from kipctl.cluster.moves.cancel import Cancellation, cancel

    with context.environment.progress(f"Cancelling {counted(len(own), 'reassignment')}"):
        return cancel(
            context.cluster,
            Cancellation(tuple(own), (), {one.id: entry for one in own}),
            context.step_timeout_s,
        )


def undo_command(context: ChangeContext, entry: "Entry") -> str:
    """What rolls back this entry, and no other one."""
    which = f"--journal {shlex.quote(str(context.file))}" if context.file else entry.id
    return f"kipctl undo {which}"


def survey_way_back(context: ChangeContext, entry: "Entry") -> WayBack:
    from kipctl.cluster.moves.cancel import started_by
    from kipctl.cluster.moves.reassign import retry_until, topic_ids
    from kipctl.cluster.moves.rollback import plan_rollback
    from kipctl.cluster.moves.safety_checks import list_or_reason
    from kipctl.cluster.snapshot import take_snapshot

    cluster = context.cluster
    deadline = time.monotonic() + context.step_timeout_s
    busy, why = list_or_reason(cluster, may_not_list=context.dry_run)
    report_if_not_listed(context, why)
    now = retry_until(lambda: take_snapshot(cluster), deadline)
    topics = sorted({p.topic for p in entry.before} & set(now.topics))
    now_ids = topic_ids(cluster, topics) if entry.topic_ids else {}
    way = plan_rollback(entry, now, now_ids, [one.id for one in busy], force=context.force)
    own = tuple(one for one in busy if entry.is_open and started_by(entry, one))
    mine = {one.id for one in own}
    others = tuple(one for one in busy if one.id not in mine)
    skipped = tuple(one for one in way.plan.skipped if one.id not in mine)
    return WayBack(own, others, now, replace(way, plan=replace(way.plan, skipped=skipped)))


def describe_left(way: "RollbackPlan") -> str:
    """What is left elsewhere than before, and why, in a few words."""
    from kipctl.cluster.moves.plan import Plan
    from kipctl.cluster.moves.plan_summary import skip_reasons

    return " ".join(str(one) for one in skip_reasons(Plan((), way.left))[:3])
