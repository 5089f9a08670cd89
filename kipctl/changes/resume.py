"""`kipctl changes resume`: what is left of a change that was cut off is carried out."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace

from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import OTHERS, current, cut_off_rollback, described, put_throttles_back
from kipctl.changes.execution.cancellation import retire
from kipctl.changes.execution.plan_execution import resume as carry_on
from kipctl.changes.execution.plan_result import require_all_done
from kipctl.changes.execution.reassign import retry_until, topic_ids
from kipctl.changes.execution.remaining import Remaining, remaining_work
from kipctl.changes.execution.safety_checks import list_or_reason, require_no_reassignments
from kipctl.changes.execution.throttled_change import settings_now, throttle_for, throttled
from kipctl.changes.journal.entry import Entry, EntryState, ExecutionOptions
from kipctl.changes.journal.journal import Journal
from kipctl.changes.plans.plan_summary import skip_reasons
from kipctl.changes.throttle import Throttle, require_put_back
from kipctl.changes.ui import PlanShown
from kipctl.changes.way_back import automatic_undo
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.counts import counted
from kipctl.errors import KipctlError, RefusedError, UsageError


def resume(context: ChangeContext) -> None:
    """End what was cut off last, or the entry asked for."""
    journal, entry = current(context)
    if entry is None:
        found = journal.unfinished_changes(context.say_damaged)
        entry = next(found, None)
    if entry is None:
        context.ui.say("Nothing is left to resume: no change of kipctl was cut off.")
        return
    resume_entry(context, journal, entry)


def resume_entry(context: ChangeContext, journal: Journal, entry: Entry) -> None:
    """End this one. While another kipctl changes the cluster, maybe this very entry, it waits."""
    with nullcontext() if context.dry_run else context.locked(journal):
        _resume(context, journal, entry.reload())


def _resume(context: ChangeContext, journal: Journal, entry: Entry) -> None:
    if not entry.is_unfinished:
        _report_over(context, entry)
        return
    how = _require_resumable(context, journal, entry)
    others, snapshot, left = _look(context, entry)
    summary = context.summarize(left.plan, snapshot)
    if context.dry_run:
        context.ui.plan(
            PlanShown(
                left.plan,
                summary,
                how.elects,
                how.throttle,
                others,
                {
                    "entry": entry.id,
                    "leaders_to_elect": len(left.in_place),
                    "under_way": len(left.under_way.moves),
                },
                (
                    f"What is left of {described(entry)}.",
                    *_beside_the_plan(left),
                    "Nothing was changed.",
                ),
            )
        )
        return
    if left.count:
        require_no_reassignments(others, additional=context.additional)
        pace = replace(context.pace, throttle=how.throttle)
        replace(context, pace=pace).show(left.plan, summary)
        for sentence in _beside_the_plan(left):
            context.ui.say(sentence)
        context.ui.say(f"What is left of {described(entry)}.")
        context.ui.confirm(f"Go on with {counted(left.count, 'partition')}?")
        _carry_out(context, journal, entry, how, left)
        return
    not_restored = put_throttles_back(context, journal, entry)
    for reason in skip_reasons(left.plan)[:3]:
        context.ui.say(str(reason))
    _end(context, journal, entry, is_whole=left.is_whole)
    require_put_back(not_restored)
    if not left.is_whole:
        raise RefusedError(
            f"Nothing of entry {entry.id} can be gone on with now.",
            f"Resume it later, or undo it: kipctl undo {context.named(entry)}",
        )
    context.ui.say(f"Nothing was left to do: entry {entry.id} is {entry.reload().state}.")


def _carry_out(
    context: ChangeContext,
    journal: Journal,
    entry: Entry,
    how: ExecutionOptions,
    left: Remaining,
) -> None:
    cluster = context.cluster
    to_set: Throttle | None = left.to_set_for_copies
    if entry.throttle is None and (throttle := throttle_for(cluster, left.moves, how)):
        entry, to_set = entry.with_throttle(throttle), None
    _, before, again = _look(context, entry)
    if (again.plan.target, again.in_place) != (left.plan.target, left.in_place):
        context.ui.say("Some of it has ended, or was changed, since it was shown.")
    with (
        context.guarded(journal, automatic_undo),
        throttled(cluster, entry, left.moves, context.ui.say, [], to_set),
        context.ui.progress(f"Going on with {counted(again.count, 'partition')}") as progress,
    ):
        moved = carry_on(
            cluster,
            again,
            entry,
            how,
            progress=progress,
            timeout_s=context.timeout_s,
            additional=context.additional,
            is_to_pause=journal.is_to_pause,
            named=context.named(entry),
            guard=context.guard.begin(entry, progress),
        )
    not_restored = put_throttles_back(context, journal, entry)
    _end(context, journal, entry, is_whole=again.is_whole and not moved.failures)
    known = before.only((*(move.id for move in again.moves), *again.in_place))
    after = context.final_snapshot(known.topics)
    if how.elects or moved.reassigned is None:
        context.ui.moved(moved, known, after, again.plan)
        done = moved.done
    else:
        context.ui.reassigned(moved.reassigned, after, again.plan)
        done = len(moved.reassigned.plan.moves)
    undo = f"Undo: kipctl undo {context.named(entry)}"
    require_all_done(moved.failures, done, undo, has_changed=moved.has_changed)
    require_put_back(not_restored)


def _end(context: ChangeContext, journal: Journal, entry: Entry, *, is_whole: bool) -> None:
    """Mark it done when nothing is left for later, and what it undoes when all is as before."""
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
                retire(context.cluster, [undone], context.deadline_s)


def _look(
    context: ChangeContext, entry: "Entry"
) -> tuple[tuple[Reassignment, ...], Snapshot, Remaining]:
    """What others reassign, the cluster, and what is left of the entry."""
    cluster = context.cluster
    deadline = context.deadline_s
    busy, why = retry_until(lambda: list_or_reason(cluster, may_not_list=context.dry_run), deadline)
    context.say_if_not_listed(why)
    now = retry_until(lambda: take_snapshot(cluster), deadline)
    topics = sorted({p.topic for p in entry.before} & set(now.topics))
    now_ids = topic_ids(cluster, topics) if entry.topic_ids else {}
    throttle = entry.throttle
    settings = settings_now(cluster, throttle, now.broker_ids) if throttle else {}
    left = remaining_work(entry, now, busy, now_ids, settings)
    mine = {move.id for move in left.under_way.moves}
    return tuple(one for one in busy if one.id not in mine), now, left


def _require_resumable(
    context: ChangeContext, journal: Journal, entry: "Entry"
) -> ExecutionOptions:
    """How it was begun. Raises RefusedError for what cannot be gone on with."""
    if entry.how is None:
        raise RefusedError(
            f"Entry {entry.id} does not say how its change was carried out.",
            f"Undo it: kipctl undo {context.named(entry)}",
        )
    if begun := cut_off_rollback(context, journal, entry):
        raise RefusedError(
            f"Entry {entry.id} is being undone, by entry {begun.id}.",
            f"End that first: kipctl changes resume {begun.id}",
        )
    return entry.how


def _report_over(context: ChangeContext, entry: Entry) -> None:
    if entry.state is not EntryState.DONE:
        raise RefusedError(f"Entry {entry.id} is {entry.state}: it is not to be resumed.", OTHERS)
    context.ui.say(f"Entry {entry.id} is done: nothing is left of it.")


def _beside_the_plan(left: Remaining) -> Iterator[str]:
    """What is waited for, elected or left as it is, beside what is submitted."""
    if left.under_way.moves:
        count = counted(len(left.under_way.moves), "partition")
        yield f"Still being reassigned, and waited for: {count}."
    if left.in_place:
        yield f"Only an election is needed for {counted(len(left.in_place), 'partition')}."
    for setting, value in list(left.set_by_others.items())[:3]:
        yield f"Somebody else has set {setting} to {value}: it stays so."
