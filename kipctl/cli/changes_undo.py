"""`kipctl undo`: back to what was before a change, finished or cut off."""

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from kipctl.cli.change_context import (
    ChangeContext,
    afterwards,
    in_numbers,
    report_if_not_listed,
    require_possible,
    show_plan,
)
from kipctl.cli.change_entries import (
    OTHERS,
    current,
    cut_off_rollback,
    described,
    put_throttles_back,
    throttled_for,
)
from kipctl.counts import counted
from kipctl.errors import KipctlError, PartlyDoneError, RefusedError, UsageError
from kipctl.report.leader_tables import moved_report
from kipctl.report.reassign_tables import REASSIGN, cancelled_report, plan_report, with_skipped
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
class _Survey:
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


def undo(context: ChangeContext) -> None:
    """Undo the last change of kipctl's own, or the entry asked for.

    A rollback of it that was cut off is gone on with.
    """
    from kipctl.cli.changes_resume import resume_entry
    from kipctl.cluster.moves.safety_checks import (
        replication_factor_warning,
        require_no_reassignments,
    )

    environment, say = context.environment, context.environment.message
    journal, named = current(context)
    entry = _entry(context, journal, named)
    if not context.dry_run:
        say(_entry_sentence(entry))
    if begun := cut_off_rollback(context, journal, entry):
        say(f"Its rollback was cut off, and is gone on with: entry {begun.id}.")
        resume_entry(context, journal, begun)
        return
    seen = _look(context, entry)
    way = seen.way
    numbers = in_numbers(context, way.plan, seen.snapshot)
    if context.dry_run:
        about = {
            "entry": entry.id,
            "leaders_to_elect": len(way.in_place),
            "to_be_cancelled": len(seen.own),
        }
        context.report(
            plan_report(
                way.plan,
                numbers,
                throttle=context.throttle,
                busy=(*seen.own, *seen.others),
                about=about,
                closing=(_entry_sentence(entry), "Nothing was changed."),
            )
        )
        return
    if not seen.count:
        _nothing_to_roll_back(context, journal, entry, way)
        return
    require_no_reassignments(seen.others, additional=context.additional)
    require_possible(context, way.plan, numbers)
    show_plan(context, numbers, way.plan)
    if way.in_place:
        say(f"Only an election is needed for {counted(len(way.in_place), 'partition')}.")
    if seen.own:
        say(f"Still being reassigned, and cancelled: {counted(len(seen.own), 'partition')}.")
    factor = replication_factor_warning(way.plan)
    environment.confirm(f"Roll back {counted(seen.count, 'partition')}?{factor}", context.yes)
    _carry_out(context, journal, entry, seen)


def _carry_out(context: ChangeContext, journal: "Journal", entry: "Entry", seen: _Survey) -> None:
    from kipctl.cluster.moves.plan_result import require_all_done
    from kipctl.cluster.moves.throttle import require_put_back

    done: list[str] = []
    with (
        journal.locked(context.origin),
        context.guarded(journal),
        _partly_done_after(done),
    ):
        gone = _go_back(context, journal, entry, seen, done)
    moved, next_step = gone.moved, f"Try again: {_command(context, entry)}"
    if report := gone.report(context):
        context.report(report)
    if moved is not None:
        if gone.again.way.left:
            _report_left_open(context, entry, gone.again.way)
        has_changed = moved.has_changed or bool(done)
        require_all_done(moved.failures, moved.done, next_step, has_changed=has_changed)
    with _partly_done_after(done):
        _require_undone(context, entry, gone.again, next_step, has_moved=moved is not None)
    require_put_back(gone.not_restored)


@dataclass(frozen=True, slots=True)
class _RolledBack:
    """The outcome of a rollback: what was seen `again` before it, `known` of what it changes.

    `cancelled` is None where nothing was on its way, `moved` where nothing was to be moved.
    """

    again: _Survey
    known: "Snapshot"
    cancelled: "Cancelled | None"
    moved: "LeadersMoved | None"
    not_restored: "Sequence[NotRestored]"

    def report(self, context: ChangeContext) -> Report | None:
        """None where there is nothing to report."""
        if self.moved is not None:
            after = afterwards(context.cluster, self.known.topics)
            report = moved_report(REASSIGN, self.moved, self.known, after)
        elif self.cancelled is not None:
            topics = sorted({one.topic for one in self.cancelled.cancelled})
            after = afterwards(context.cluster, topics)
            report = cancelled_report(self.cancelled, after)
        else:
            return None
        return with_skipped(report, self.again.way.plan)


def _go_back(
    context: ChangeContext,
    journal: "Journal",
    entry: "Entry",
    seen: _Survey,
    done: list[str],
) -> _RolledBack:
    """The way back that was seen, in the lock of the journal. Raises KipctlError.

    `done` gets a sentence for what cannot be taken back any more.
    """
    from kipctl.cluster.moves.journal_entry import EntryState
    from kipctl.cluster.moves.plan_execution import roll_back as rolled_back
    from kipctl.cluster.moves.safety_checks import require_same

    moved, cancelled = None, None
    own = [one.id for one in seen.own]
    entry = entry.reload()
    again = _look(context, entry)
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
        again = _look(context, entry)
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
    return _RolledBack(again, known, cancelled, moved, not_restored)


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
    context = replace(context, guard=context.guard.nobody())
    again = f"Try again: {_command(context, entry)}"
    try:
        seen = _look(context, entry)
        plan = seen.way.plan
        require_possible(context, plan, in_numbers(context, plan, seen.snapshot))
        gone = _go_back(context, journal, entry, seen, [])
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


@contextmanager
def _partly_done_after(done: Sequence[str]) -> Iterator[None]:
    """What is refused once something is done, as these sentences say, is partly done."""
    try:
        yield
    except (RefusedError, UsageError) as error:
        if not done:
            raise
        what, next_step = (
            " ".join(text.replace(_UNCHANGED, "").split()) for text in (error.what, error.next_step)
        )
        raise PartlyDoneError(f"{' '.join(done)} {what}", next_step) from None


def _require_undone(
    context: ChangeContext, entry: "Entry", seen: _Survey, next_step: str, *, has_moved: bool
) -> None:
    """Say that all is as before, unless there is a report of what has moved.

    Raises RefusedError where something is not, and nothing has moved; PartlyDoneError for what
    could not be cancelled.
    """
    if seen.own:
        raise PartlyDoneError(
            f"{counted(len(seen.own), 'partition')} of entry {entry.id} could not be cancelled,"
            f" such as {seen.own[0].id}. {_left_alone(seen.way)}".rstrip(),
            next_step,
        )
    if has_moved:
        return
    if seen.way.left:
        raise RefusedError(
            f"Entry {entry.id} is not all undone. {_left_alone(seen.way)}",
            f"{next_step}; --force insists on what somebody has changed.",
        )
    _report_undone(context, entry)


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


def _entry(context: ChangeContext, journal: "Journal", named: "Entry | None") -> "Entry":
    """The entry named, or the newest that may be undone.

    Raises RefusedError without, and where --yes would undo what may not be meant.
    """
    from kipctl.cluster.moves.journal_entry import EntryState

    if named is None:
        entry, newer = journal.last_change(context.report_damaged)
        if entry is not None and context.yes and not context.dry_run:
            _require_named_entry(context, entry, newer)
    else:
        entry = named
    if entry is None:
        raise RefusedError(
            "There is nothing to roll back: no change of this cluster that could be undone is in"
            f" {journal.folder}.",
            "See what was done: kipctl changes list. To an assignment of your own: kipctl reassign"
            " --plan FILE",
        )
    insists = context.force and entry.state is EntryState.UNDONE
    if not (entry.may_be_undone or insists):
        raise RefusedError(f"Entry {entry.id} is {entry.state}: there is nothing to undo.", OTHERS)
    return entry


def _require_named_entry(context: ChangeContext, entry: "Entry", newer: str) -> None:
    """Raise RefusedError where nobody is asked, and another change may be meant than this one.

    `newer` says what is passed over for it.
    """
    made_at = entry.made_at
    if newer:
        why = f"The newest change, {newer}: the one before it would be undone."
    elif made_at is None or not timedelta(0) <= datetime.now(UTC) - made_at <= _RECENT:
        why = "The last change was not made within the last hour."
    else:
        return
    raise RefusedError(
        f"{why} That is {described(entry)}. --yes does not undo it without its id.",
        f"If it is meant: {_command(context, entry)} --yes",
    )


def _command(context: ChangeContext, entry: "Entry") -> str:
    """What rolls back this entry, and no other one."""
    which = f"--journal {shlex.quote(str(context.file))}" if context.file else entry.id
    return f"kipctl undo {which}"


def _look(context: ChangeContext, entry: "Entry") -> _Survey:
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
    return _Survey(own, others, now, replace(way, plan=replace(way.plan, skipped=skipped)))


def _nothing_to_roll_back(
    context: ChangeContext, journal: "Journal", entry: "Entry", way: "RollbackPlan"
) -> None:
    from kipctl.cluster.moves.journal_entry import EntryState
    from kipctl.cluster.moves.throttle import require_put_back

    if not way.left:
        with journal.locked(context.origin):
            not_restored = put_throttles_back(context, journal, entry)
            entry.mark_or_note(EntryState.UNDONE)
        _report_undone(context, entry)
        require_put_back(not_restored)
        return
    raise RefusedError(
        f"Nothing of entry {entry.id} can be rolled back. {_left_alone(way)}",
        "Choose another (kipctl changes list), insist with --force, or stop what is being"
        " reassigned: kipctl changes cancel",
    )


def _report_left_open(context: ChangeContext, entry: "Entry", way: "RollbackPlan") -> None:
    context.environment.message(
        f"Entry {entry.id} is not all undone, and stays open. {_left_alone(way)}"
    )
    context.environment.message(
        f"The rest later: {_command(context, entry)}; --force insists on what somebody has changed."
    )


def _left_alone(way: "RollbackPlan") -> str:
    """What is left elsewhere than before, and why, in a few words."""
    from kipctl.cluster.moves.plan import Plan
    from kipctl.cluster.moves.plan_summary import skip_reasons

    return " ".join(str(one) for one in skip_reasons(Plan((), way.left))[:3])


def _report_undone(context: ChangeContext, entry: "Entry") -> None:
    context.environment.message(f"All is as before entry {entry.id}: it is undone.")


def _entry_sentence(entry: "Entry") -> str:
    """What a question about an entry says of it."""
    return f"Back to what was before {described(entry)}."
