"""The one way in which a cluster is changed: every command and every program goes it.

Look, see that it is free, refuse, show, ask, lock, look again, write down, carry out (guarded,
throttled, paced), say.
"""

from contextlib import nullcontext
from dataclasses import replace

from kipctl.changes.change import Change, ChangeRun, Done, Seen, nothing_changed_yet
from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.plan_result import require_all_done
from kipctl.changes.guard_interface import GuardSession
from kipctl.changes.journal.entry import Entry
from kipctl.changes.proposal import Undone
from kipctl.changes.throttle import require_restored
from kipctl.changes.way_back import Undo, undo_command
from kipctl.cluster.snapshot import Snapshot
from kipctl.counts import counted
from kipctl.errors import KipctlError, PartlyDoneError
from kipctl.next_step import Command
from kipctl.transport.reachable import require_a_broker_in_reach


def carry_out(context: ChangeContext, change: Change[Seen, Done]) -> None:
    """Carry a change out, as far as it is confirmed; a dry run ends with what is shown.

    Raises KipctlError: what of it is not done, and what to do then.
    """
    seen = change.look(context)
    if context.dry_run:
        change.show(context, seen)
        return
    if not seen.partitions:
        change.end_without(context, seen)
        return
    run = ChangeRun(context, context.journal())
    change.require_free(run)  # first: what else refuses it may be what the other kipctl does
    change.refuse(context, seen)
    if not context.force:
        require_a_broker_in_reach(context.cluster, "clusters test")
    change.announce(context, seen)
    context.ui.confirm(change.question(seen), change.typed(seen))
    with change.locked(run):
        again, done = _guarded(run, change, seen)
    change.report(run, seen, again, done)
    require_all_done(done.failures, done.done, change.next_step(run), has_changed=done.has_changed)
    change.require_ended(run, again, done)
    require_restored(run.not_restored)


def _guarded(run: ChangeRun, change: Change[Seen, Done], seen: Seen) -> tuple[Seen, Done]:
    """Execute it under the guard, if there is one: whatever stops it, what the guard saw is told,
    and a change that it gave up is undone where that was asked for."""
    context = run.context
    with change.watched(run, seen):
        try:
            return context.ui.measured(
                lambda: _execute(run, change, seen), moves_leaders=change.moves_measured
            )
        except KipctlError as stopped:
            if context.guard.is_set:
                _tell_stopped(run, stopped)
            raise


def _execute(run: ChangeRun, change: Change[Seen, Done], seen: Seen) -> tuple[Seen, Done]:
    """In the lock: look again, write down, carry out."""
    context = run.context
    with nothing_changed_yet():
        again = change.look_again(run, seen)
    title = change.title(again)
    with (
        change.recorded(run, again) as run.entry,
        context.ui.progress(title) if title else nullcontext(lambda _: None) as progress,
    ):
        run.settings = context.execution_settings(progress)
        done = change.execute(run, again)
    change.finish(run, again, done)
    return again, done


def _tell_stopped(run: ChangeRun, stopped: KipctlError) -> None:
    entry, why = run.entry and run.entry.reload(), stopped.what
    undone = None
    if entry and entry.may_be_undone and run.context.guard.rolls_back:
        undone = _undo_unasked(run, entry, stopped)
    run.context.ui.stopped(entry, why, undone)


def _undo_unasked(
    run: ChangeRun, entry: Entry, stopped: KipctlError
) -> tuple[Undone, Snapshot] | None:
    """Undo a change whose guard gave up, in the lock that is held, unguarded.

    What became of that is added to the error that stopped the change. Returns it, and the cluster
    afterwards; None where it was not all undone.
    """
    if entry.undoes:
        stopped.what += " An undo is not undone itself."
        return None
    context = replace(run.context, guard=GuardSession())
    again = "Try again: " + undo_command(context, entry)
    change, back = Undo(entry), ChangeRun(context, run.journal)
    try:
        seen = change.look(context)
        context.require_possible(seen.plan, seen.summary)
        _, done = _execute(back, change, seen)
        require_all_done(done.failures, done.done, again, has_changed=done.has_changed)
        require_restored(back.not_restored)
        if left := done.proposal.left:
            raise PartlyDoneError(f"{left[0].id}: {left[0].reason}.")
    except KipctlError as failed:
        stopped.what += f" It was not all undone: {failed.what}"
        stopped.next_step = again
        return None
    stopped.what += f" Then it was undone: {counted(done.done, 'partition')} brought back."
    stopped.next_step = "See: " + Command("changes list")
    return done, context.final_snapshot(done.topics)
