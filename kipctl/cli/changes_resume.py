"""`kipctl changes resume`: what is left of a change that was cut off is carried out."""

import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kipctl.cli.change_context import (
    ChangeContext,
    final_snapshot,
    report_if_not_listed,
    show_plan,
    summarize_plan,
)
from kipctl.cli.change_entries import (
    OTHERS,
    current,
    cut_off_rollback,
    described,
    put_throttles_back,
)
from kipctl.cli.way_back import automatic_undo
from kipctl.counts import counted
from kipctl.errors import KipctlError, RefusedError, UsageError
from kipctl.report.leader_tables import moved_report
from kipctl.report.reassign_tables import (
    REASSIGN,
    plan_report,
    reassigned_report,
    with_skipped,
)

if TYPE_CHECKING:
    from kipctl.cluster.moves.journal import Journal
    from kipctl.cluster.moves.journal_entry import Entry, ExecutionOptions
    from kipctl.cluster.moves.resume import Remaining
    from kipctl.cluster.moves.throttle import Throttle
    from kipctl.cluster.reassignments import Reassignment
    from kipctl.cluster.snapshot import Snapshot


def resume(context: ChangeContext) -> None:
    """End what was cut off last, or the entry asked for."""
    journal, entry = current(context)
    if entry is None:
        found = journal.unfinished(context.report_damaged)
        entry = next(found, None)
    if entry is None:
        context.environment.message("Nothing is left to resume: no change of kipctl was cut off.")
        return
    resume_entry(context, journal, entry)


def resume_entry(context: ChangeContext, journal: "Journal", entry: "Entry") -> None:
    """End this one. While another kipctl changes the cluster, maybe this very entry, it waits."""
    with nullcontext() if context.dry_run else journal.locked(context.origin):
        _resume(context, journal, entry.reload())


def _resume(context: ChangeContext, journal: "Journal", entry: "Entry") -> None:
    from kipctl.cluster.moves.plan_summary import skip_reasons
    from kipctl.cluster.moves.safety_checks import require_no_reassignments
    from kipctl.cluster.moves.throttle import require_put_back

    if not entry.is_unfinished:
        _report_over(context, entry)
        return
    how = _demand_resumable(context, journal, entry)
    others, snapshot, left = _look(context, entry)
    numbers = summarize_plan(context, left.plan, snapshot)
    if context.dry_run:
        report = plan_report(
            left.plan,
            numbers,
            throttle=how.throttle,
            elects=how.elects,
            busy=others,
            about={
                "entry": entry.id,
                "leaders_to_elect": len(left.in_place),
                "under_way": len(left.under_way.moves),
            },
            closing=(f"What is left of {described(entry)}.", "Nothing was changed."),
        )
        context.report(report)
        return
    if left.count:
        require_no_reassignments(others, additional=context.additional)
        pace = replace(context.pace, throttle=how.throttle)
        show_plan(replace(context, pace=pace), numbers, left.plan)
        _report_remaining(context, left)
        context.environment.message(f"What is left of {described(entry)}.")
        context.environment.confirm(f"Go on with {counted(left.count, 'partition')}?", context.yes)
        _carry_out(context, journal, entry, how, left)
        return
    not_restored = put_throttles_back(context, journal, entry)
    for reason in skip_reasons(left.plan)[:3]:
        context.environment.message(str(reason))
    _end(context, journal, entry, is_whole=left.is_whole)
    require_put_back(not_restored)
    if not left.is_whole:
        raise RefusedError(
            f"Nothing of entry {entry.id} can be gone on with now.",
            "Resume it later, or undo it: kipctl undo",
        )
    context.environment.message(
        f"Nothing was left to do: entry {entry.id} is {entry.reload().state}."
    )


def _carry_out(
    context: ChangeContext,
    journal: "Journal",
    entry: "Entry",
    how: "ExecutionOptions",
    left: "Remaining",
) -> None:
    from kipctl.cluster.moves.plan_execution import resume
    from kipctl.cluster.moves.plan_result import require_all_done
    from kipctl.cluster.moves.throttle import require_put_back
    from kipctl.cluster.moves.throttled_change import throttle_for, throttled

    environment, cluster = context.environment, context.cluster
    to_set: Throttle | None = left.to_set_for_copies
    if entry.throttle is None and (throttle := throttle_for(cluster, left.moves, how)):
        entry, to_set = entry.with_throttle(throttle), None
    _, before, again = _look(context, entry)
    if (again.plan.target, again.in_place) != (left.plan.target, left.in_place):
        environment.message("Some of it has ended, or was changed, since it was shown.")
    context.guard.entry = entry
    with (
        context.guarded(journal, automatic_undo),
        throttled(cluster, entry, left.moves, environment.message, [], to_set),
        environment.progress(f"Going on with {counted(again.count, 'partition')}") as progress,
    ):
        context.guard.monitor.progress = progress
        moved = resume(
            cluster,
            again,
            entry,
            how,
            progress=progress,
            timeout_s=context.timeout_s,
            additional=context.additional,
            is_to_pause=journal.is_to_pause,
            guard=context.guard.monitor,
        )
    not_restored = put_throttles_back(context, journal, entry)
    _end(context, journal, entry, is_whole=again.is_whole and not moved.failures)
    known = before.only((*(move.id for move in again.moves), *again.in_place))
    after = final_snapshot(cluster, known.topics)
    if how.elects or moved.reassigned is None:
        report = moved_report(REASSIGN, moved, known, after)
        done = moved.done
    else:
        report = reassigned_report(moved.reassigned, after)
        done = len(moved.reassigned.plan.moves)
    context.report(with_skipped(report, again.plan))
    undo = "Undo: kipctl undo"
    require_all_done(moved.failures, done, undo, has_changed=moved.has_changed)
    require_put_back(not_restored)


def _end(context: ChangeContext, journal: "Journal", entry: "Entry", *, is_whole: bool) -> None:
    """Mark it done when nothing is left for later, and what it undoes when all is as before."""
    from kipctl.cluster.moves.cancel import retire
    from kipctl.cluster.moves.journal_entry import EntryState

    if not is_whole:
        return
    now = entry.reload()
    if now.is_open:
        now.mark_or_note(EntryState.DONE)
    if entry.undoes:
        try:
            undone = journal.find(entry.undoes)
        except UsageError:
            return  # it is in the journal of another machine
        if undone.may_be_undone:
            with suppress(KipctlError):  # it stays open then
                retire(context.cluster, [undone], time.monotonic() + context.step_timeout_s)


def _look(
    context: ChangeContext, entry: "Entry"
) -> tuple[tuple["Reassignment", ...], "Snapshot", "Remaining"]:
    """What others reassign, the cluster, and what is left of the entry."""
    from kipctl.cluster.moves.reassign import retry_until, topic_ids
    from kipctl.cluster.moves.resume import remaining_work
    from kipctl.cluster.moves.safety_checks import list_or_reason
    from kipctl.cluster.moves.throttled_change import settings_now
    from kipctl.cluster.snapshot import take_snapshot

    cluster = context.cluster
    deadline = time.monotonic() + context.step_timeout_s
    busy, why = retry_until(lambda: list_or_reason(cluster, may_not_list=context.dry_run), deadline)
    report_if_not_listed(context, why)
    now = retry_until(lambda: take_snapshot(cluster), deadline)
    topics = sorted({p.topic for p in entry.before} & set(now.topics))
    now_ids = topic_ids(cluster, topics) if entry.topic_ids else {}
    throttle = entry.throttle
    settings = settings_now(cluster, throttle, now.broker_ids) if throttle else {}
    left = remaining_work(entry, now, busy, now_ids, settings)
    mine = {move.id for move in left.under_way.moves}
    return tuple(one for one in busy if one.id not in mine), now, left


def _demand_resumable(
    context: ChangeContext, journal: "Journal", entry: "Entry"
) -> "ExecutionOptions":
    """How it was begun. Raises RefusedError for what cannot be gone on with."""
    if entry.how is None:
        raise RefusedError(
            f"Entry {entry.id} does not say how its change was carried out.",
            "Undo it: kipctl undo " + entry.id,
        )
    if begun := cut_off_rollback(context, journal, entry):
        raise RefusedError(
            f"The rollback of entry {entry.id} was begun: entry {begun.id}.",
            f"End that first: kipctl changes resume {begun.id}",
        )
    return entry.how


def _report_over(context: ChangeContext, entry: "Entry") -> None:
    from kipctl.cluster.moves.journal_entry import EntryState

    if entry.state is not EntryState.DONE:
        raise RefusedError(f"Entry {entry.id} is {entry.state}: it is not to be resumed.", OTHERS)
    context.environment.message(f"Entry {entry.id} is done: nothing is left of it.")


def _report_remaining(context: ChangeContext, left: "Remaining") -> None:
    say = context.environment.message
    if left.under_way.moves:
        say(
            "Still being reassigned, and waited for:"
            f" {counted(len(left.under_way.moves), 'partition')}."
        )
    if left.in_place:
        say(f"Only an election is needed for {counted(len(left.in_place), 'partition')}.")
    for setting, value in list(left.set_by_others.items())[:3]:
        say(f"Somebody else has set {setting} to {value}: it stays so.")
