"""`kipctl reassign --resume`: what is left of a change that was cut off is carried out."""

import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kipctl.cli.reassign_entries import (
    OTHERS,
    current,
    cut_off_rollback,
    described,
    put_throttles_back,
)
from kipctl.cli.reassign_request import (
    ReassignRequest,
    afterwards,
    in_numbers,
    report_if_not_listed,
    show_plan,
)
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


def resume(request: ReassignRequest) -> None:
    """End what was cut off last, or the entry asked for."""
    journal, entry = current(request)
    if entry is None:
        found = journal.unfinished(request.report_damaged)
        entry = next(found, None)
    if entry is None:
        request.environment.message("Nothing is left to resume: no change of kipctl was cut off.")
        return
    resume_entry(request, journal, entry)


def resume_entry(request: ReassignRequest, journal: "Journal", entry: "Entry") -> None:
    """End this one. While another kipctl changes the cluster, maybe this very entry, it waits."""
    with nullcontext() if request.dry_run else journal.locked(request.origin):
        _resume(request, journal, entry.again())


def _resume(request: ReassignRequest, journal: "Journal", entry: "Entry") -> None:
    from kipctl.cluster.moves.plan_summary import skip_reasons
    from kipctl.cluster.moves.safety_checks import require_no_reassignments
    from kipctl.cluster.moves.throttle import require_put_back

    if not entry.is_unfinished:
        _report_over(request, entry)
        return
    how = _demand_resumable(request, journal, entry)
    others, snapshot, left = _look(request, entry)
    numbers = in_numbers(request, left.plan, snapshot)
    if request.dry_run:
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
        request.report(report)
        return
    if left.count:
        require_no_reassignments(others, additional=request.additional)
        show_plan(replace(request, throttle=how.throttle), numbers, left.plan)
        _report_remaining(request, left)
        request.environment.message(f"What is left of {described(entry)}.")
        request.environment.confirm(f"Go on with {counted(left.count, 'partition')}?", request.yes)
        _carry_out(request, journal, entry, how, left)
        return
    not_restored = put_throttles_back(request, journal, entry)
    for reason in skip_reasons(left.plan)[:3]:
        request.environment.message(str(reason))
    _end(request, journal, entry, is_whole=left.is_whole)
    require_put_back(not_restored)
    if not left.is_whole:
        raise RefusedError(
            f"Nothing of entry {entry.id} can be gone on with now.",
            "Resume it later, or undo it: kipctl reassign --rollback",
        )
    request.environment.message(
        f"Nothing was left to do: entry {entry.id} is {entry.again().state}."
    )


def _carry_out(
    request: ReassignRequest,
    journal: "Journal",
    entry: "Entry",
    how: "ExecutionOptions",
    left: "Remaining",
) -> None:
    from kipctl.cluster.moves.plan_execution import resume
    from kipctl.cluster.moves.plan_result import require_all_done
    from kipctl.cluster.moves.throttle import require_put_back
    from kipctl.cluster.moves.throttled_change import throttle_for, throttled

    environment, cluster = request.environment, request.cluster
    to_set: Throttle | None = left.to_set_for_copies
    if entry.throttle is None and (throttle := throttle_for(cluster, left.moves, how)):
        entry, to_set = entry.with_throttle(throttle), None
    _, before, again = _look(request, entry)
    if (again.plan.target, again.in_place) != (left.plan.target, left.in_place):
        environment.message("Some of it has ended, or was changed, since it was shown.")
    request.guard.entry = entry
    with (
        request.guarded(journal),
        throttled(cluster, entry, left.moves, environment.message, [], to_set),
        environment.progress(f"Going on with {counted(again.count, 'partition')}") as progress,
    ):
        request.guard.monitor.progress = progress
        moved = resume(
            cluster,
            again,
            entry,
            how,
            progress=progress,
            timeout_s=request.timeout_s,
            additional=request.additional,
            is_to_pause=journal.is_to_pause,
            guard=request.guard.monitor,
        )
    not_restored = put_throttles_back(request, journal, entry)
    _end(request, journal, entry, is_whole=again.is_whole and not moved.failures)
    known = before.only((*(move.id for move in again.moves), *again.in_place))
    after = afterwards(cluster, known.topics)
    if how.elects or moved.reassigned is None:
        report = moved_report(REASSIGN, moved, known, after)
        done = moved.done
    else:
        report = reassigned_report(moved.reassigned, after)
        done = len(moved.reassigned.plan.moves)
    request.report(with_skipped(report, again.plan))
    undo = "Undo: kipctl reassign --rollback"
    require_all_done(moved.failures, done, undo, has_changed=moved.has_changed)
    require_put_back(not_restored)


def _end(request: ReassignRequest, journal: "Journal", entry: "Entry", *, is_whole: bool) -> None:
    """Mark it done when nothing is left for later, and what it undoes when all is as before."""
    from kipctl.cluster.moves.cancel import retire
    from kipctl.cluster.moves.journal_entry import EntryState

    if not is_whole:
        return
    now = entry.again()
    if now.is_open:
        now.mark_or_note(EntryState.DONE)
    if entry.undoes:
        try:
            undone = journal.find(entry.undoes)
        except UsageError:
            return  # it is in the journal of another machine
        if undone.may_be_undone:
            with suppress(KipctlError):  # it stays open then
                retire(request.cluster, [undone], time.monotonic() + request.step_timeout_s)


def _look(
    request: ReassignRequest, entry: "Entry"
) -> tuple[tuple["Reassignment", ...], "Snapshot", "Remaining"]:
    """What others reassign, the cluster, and what is left of the entry."""
    from kipctl.cluster.moves.reassign import retry_until, topic_ids
    from kipctl.cluster.moves.resume import remaining_work
    from kipctl.cluster.moves.safety_checks import list_or_reason
    from kipctl.cluster.moves.throttled_change import settings_now
    from kipctl.cluster.snapshot import take_snapshot

    cluster = request.cluster
    deadline = time.monotonic() + request.step_timeout_s
    busy, why = retry_until(lambda: list_or_reason(cluster, may_not_list=request.dry_run), deadline)
    report_if_not_listed(request, why)
    now = retry_until(lambda: take_snapshot(cluster), deadline)
    topics = sorted({p.topic for p in entry.before} & set(now.topics))
    now_ids = topic_ids(cluster, topics) if entry.topic_ids else {}
    throttle = entry.throttle
    settings = settings_now(cluster, throttle, now.broker_ids) if throttle else {}
    left = remaining_work(entry, now, busy, now_ids, settings)
    mine = {move.id for move in left.under_way.moves}
    return tuple(one for one in busy if one.id not in mine), now, left


def _demand_resumable(
    request: ReassignRequest, journal: "Journal", entry: "Entry"
) -> "ExecutionOptions":
    """How it was begun. Raises RefusedError for what cannot be gone on with."""
    if entry.how is None:
        raise RefusedError(
            f"Entry {entry.id} does not say how its change was carried out.",
            "Undo it: kipctl reassign --rollback --entry " + entry.id,
        )
    if begun := cut_off_rollback(request, journal, entry):
        raise RefusedError(
            f"The rollback of entry {entry.id} was begun: entry {begun.id}.",
            f"End that first: kipctl reassign --resume --entry {begun.id}",
        )
    return entry.how


def _report_over(request: ReassignRequest, entry: "Entry") -> None:
    from kipctl.cluster.moves.journal_entry import EntryState

    if entry.state is not EntryState.DONE:
        raise RefusedError(f"Entry {entry.id} is {entry.state}: it is not to be resumed.", OTHERS)
    request.environment.message(f"Entry {entry.id} is done: nothing is left of it.")


def _report_remaining(request: ReassignRequest, left: "Remaining") -> None:
    say = request.environment.message
    if left.under_way.moves:
        say(
            "Still being reassigned, and waited for:"
            f" {counted(len(left.under_way.moves), 'partition')}."
        )
    if left.in_place:
        say(f"Only an election is needed for {counted(len(left.in_place), 'partition')}.")
    for setting, value in list(left.set_by_others.items())[:3]:
        say(f"Somebody else has set {setting} to {value}: it stays so.")
