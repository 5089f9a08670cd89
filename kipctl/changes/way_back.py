"""How a change is undone: what is on its way is cancelled, the rest is moved back."""

from collections.abc import Sequence
from dataclasses import replace

from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import put_throttles_back, throttled_for
from kipctl.changes.execution.cancellation import Cancellation, Cancelled, cancel, started_by
from kipctl.changes.execution.plan_execution import roll_back as rolled_back
from kipctl.changes.execution.plan_result import require_all_done
from kipctl.changes.execution.reassign import retry_until, topic_ids
from kipctl.changes.execution.rollback import RollbackPlan, plan_rollback
from kipctl.changes.execution.safety_checks import list_or_reason, require_same
from kipctl.changes.guarding import Guarding
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.journal.journal import Journal
from kipctl.changes.outcome import Undone, WayBack
from kipctl.changes.plans.plan import Move, Plan
from kipctl.changes.plans.plan_summary import skip_reasons
from kipctl.changes.throttle import require_put_back
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.counts import counted
from kipctl.errors import KipctlError, PartlyDoneError


def go_back(
    context: ChangeContext,
    journal: Journal,
    entry: Entry,
    seen: WayBack,
    done: list[str],
) -> Undone:
    """The way back that was seen, in the lock of the journal. Raises KipctlError.

    `done` gets a sentence for what cannot be taken back any more.
    """
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
        title = f"Undoing {counted(len(way.plan.moves), 'partition')}"
        whole = _with_elections(way, known)
        with (
            context.recorded(journal, whole, not_restored, undoes=entry.id) as record,
            context.ui.progress(title) as progress,
        ):
            if entry.is_open:
                entry.mark_or_note(EntryState.DONE)  # its remaining moves are not to be made
            how = context.carrying_out(record, progress)
            again_by = undo_command(context, entry)
            moved = rolled_back(context.cluster, way.plan, way.in_place, go_on=again_by, **how)
    is_undone = not way.left and not again.own and not (moved and moved.failures)
    if is_undone and entry.state is not EntryState.UNDONE:
        entry.mark_or_note(EntryState.UNDONE)
    return Undone(again, known, cancelled, moved, not_restored)


def automatic_undo(
    context: ChangeContext, journal: Journal, entry: Entry, stopped: KipctlError
) -> tuple[Undone, Snapshot] | None:
    """Undo a change whose guard gave up, in the lock of the journal, unasked and unguarded.

    What became of that is added to the error that stopped the change. Returns it, and the cluster
    afterwards; None where it was not all undone.
    """
    if entry.undoes:
        stopped.what += " An undo is not undone itself."
        return None
    context = replace(context, guard=Guarding())
    again = f"Try again: {undo_command(context, entry)}"
    try:
        seen = survey_way_back(context, entry)
        plan = seen.way.plan
        context.require_possible(plan, context.summarize(plan, seen.snapshot))
        gone = go_back(context, journal, entry, seen, [])
        moved = gone.moved
        if moved:
            require_all_done(moved.failures, moved.done, again, has_changed=moved.has_changed)
        require_put_back(gone.not_restored)
        if left := gone.again.way.left:
            raise PartlyDoneError(f"{left[0].id}: {left[0].reason}.")
    except KipctlError as failed:
        stopped.what += f" It was not all undone: {failed.what}"
        stopped.next_step = again
        return None
    count = moved.done if moved else 0
    stopped.what += f" Then it was undone: {counted(count, 'partition')} brought back."
    stopped.next_step = "See: kipctl changes list"
    return gone, context.final_snapshot(gone.topics)


def _with_elections(way: RollbackPlan, known: Snapshot) -> Plan:
    """The way back with its mere elections, as moves to the order that there is."""
    elected = (
        Move(one.id, one.replicas, one.replicas, one.leader)
        for one in known.partitions
        if one.id in way.in_place
    )
    return Plan(tuple(sorted((*way.plan.moves, *elected), key=lambda move: move.id)))


def _cancel(context: ChangeContext, entry: Entry, own: Sequence[Reassignment]) -> Cancelled:
    """Cancel what the entry still moves; what has ended meanwhile is rolled back afterwards."""
    with context.ui.progress(f"Cancelling {counted(len(own), 'reassignment')}"):
        return cancel(
            context.cluster,
            Cancellation(tuple(own), (), {one.id: entry for one in own}),
            context.step_timeout_s,
        )


def undo_command(context: ChangeContext, entry: Entry) -> str:
    """What rolls back this entry, and no other one."""
    return f"kipctl undo {context.named(entry)}"


def survey_way_back(context: ChangeContext, entry: Entry) -> WayBack:
    cluster = context.cluster
    deadline = context.deadline_s
    busy, why = list_or_reason(cluster, may_not_list=context.dry_run)
    context.say_if_not_listed(why)
    now = retry_until(lambda: take_snapshot(cluster), deadline)
    topics = sorted({p.topic for p in entry.before} & set(now.topics))
    now_ids = topic_ids(cluster, topics) if entry.topic_ids else {}
    way = plan_rollback(entry, now, now_ids, [one.id for one in busy], force=context.force)
    own = tuple(one for one in busy if entry.is_open and started_by(entry, one))
    mine = {one.id for one in own}
    others = tuple(one for one in busy if one.id not in mine)
    skipped = tuple(one for one in way.plan.skipped if one.id not in mine)
    return WayBack(own, others, now, replace(way, plan=replace(way.plan, skipped=skipped)))


def describe_left(way: RollbackPlan) -> str:
    """What is left elsewhere than before, and why, in a few words."""
    return " ".join(str(one) for one in skip_reasons(Plan((), way.left))[:3])
