"""`kipctl undo`: back to what was before a change, finished or cut off."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import OTHERS, current, cut_off_rollback, described, put_throttles_back
from kipctl.changes.execution.plan_result import require_all_done
from kipctl.changes.execution.rollback import RollbackPlan
from kipctl.changes.execution.safety_checks import (
    replication_factor_warning,
    require_no_reassignments,
)
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.journal.journal import Journal
from kipctl.changes.outcome import WayBack
from kipctl.changes.resume import resume_entry
from kipctl.changes.throttle import require_put_back
from kipctl.changes.ui import PlanShown
from kipctl.changes.way_back import (
    automatic_undo,
    describe_left,
    go_back,
    survey_way_back,
    undo_command,
)
from kipctl.counts import counted
from kipctl.errors import PartlyDoneError, RefusedError, UsageError

_RECENT = timedelta(hours=1)
"""So old a change may be for --yes to undo it without its id."""
_UNCHANGED = "Nothing was changed."


def undo(context: ChangeContext) -> None:
    """Undo the last change of kipctl's own, or the entry asked for.

    A rollback of it that was cut off is gone on with.
    """
    say = context.ui.say
    journal, named = current(context)
    entry = _entry(context, journal, named)
    if not context.dry_run:
        say(_entry_sentence(entry))
    if begun := cut_off_rollback(context, journal, entry):
        say(f"An undo of it was cut off, and is continued: entry {begun.id}.")
        resume_entry(context, journal, begun)
        return
    seen = survey_way_back(context, entry)
    way = seen.way
    summary = context.summarize(way.plan, seen.snapshot)
    if context.dry_run:
        about = {
            "entry": entry.id,
            "leaders_to_elect": len(way.in_place),
            "to_be_cancelled": len(seen.own),
        }
        context.ui.plan(
            PlanShown(
                way.plan,
                summary,
                throttle=context.throttle,
                busy=(*seen.own, *seen.others),
                about=about,
                closing=(_entry_sentence(entry), *_beside_the_plan(seen), "Nothing was changed."),
            )
        )
        return
    if not seen.count:
        _nothing_to_undo(context, journal, entry, way)
        return
    require_no_reassignments(seen.others, additional=context.additional)
    context.require_possible(way.plan, summary)
    context.show(way.plan, summary)
    for sentence in _beside_the_plan(seen):
        say(sentence)
    factor = replication_factor_warning(way.plan)
    context.ui.confirm(f"Undo it for {counted(seen.count, 'partition')}?{factor}")
    _carry_out(context, journal, entry, seen)


def _beside_the_plan(seen: WayBack) -> Iterator[str]:
    """What is done beside moving replicas."""
    if seen.way.in_place:
        yield f"Only an election is needed for {counted(len(seen.way.in_place), 'partition')}."
    if seen.own:
        yield f"Still being reassigned, and cancelled: {counted(len(seen.own), 'partition')}."


def _carry_out(context: ChangeContext, journal: Journal, entry: Entry, seen: WayBack) -> None:
    done: list[str] = []
    with (
        context.locked(journal),
        context.guarded(journal, automatic_undo),
        _partly_done_after(done),
    ):
        gone = go_back(context, journal, entry, seen, done)
    moved, next_step = gone.moved, f"Try again: {undo_command(context, entry)}"
    if moved is not None or gone.cancelled is not None:
        context.ui.undone(gone, context.final_snapshot(gone.topics))
    if moved is not None:
        if gone.again.way.left:
            _report_left_open(context, entry, gone.again.way)
        has_changed = moved.has_changed or bool(done)
        require_all_done(moved.failures, moved.done, next_step, has_changed=has_changed)
    with _partly_done_after(done):
        _require_undone(context, entry, gone.again, next_step, has_moved=moved is not None)
    require_put_back(gone.not_restored)


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
    context: ChangeContext, entry: Entry, seen: WayBack, next_step: str, *, has_moved: bool
) -> None:
    """Say that all is as before, unless there is a report of what has moved.

    Raises RefusedError where something is not, and nothing has moved; PartlyDoneError for what
    could not be cancelled.
    """
    if seen.own:
        raise PartlyDoneError(
            f"{counted(len(seen.own), 'partition')} of entry {entry.id} could not be cancelled,"
            f" such as {seen.own[0].id}. {describe_left(seen.way)}".rstrip(),
            next_step,
        )
    if has_moved:
        return
    if seen.way.left:
        raise RefusedError(
            f"Entry {entry.id} is not all undone. {describe_left(seen.way)}",
            f"{next_step}; --force insists on what somebody has changed.",
        )
    _report_undone(context, entry)


def _entry(context: ChangeContext, journal: Journal, named: Entry | None) -> Entry:
    """The entry named, or the newest that may be undone.

    Raises RefusedError without, and where nobody is asked whether it is meant.
    """
    if named is None and (begun := _undo_that_is_newest(journal)):
        return begun
    if named is None:
        entry, newer = journal.last_change(context.say_damaged)
        if entry is not None and not (context.ui.asks or context.dry_run):
            _require_named_entry(context, entry, newer)
    else:
        entry = named
    if entry is None:
        raise RefusedError(
            "There is nothing to undo: no change of this cluster that could be undone is in"
            f" {journal.folder}.",
            "See what was done: kipctl changes list. To an assignment of your own: kipctl reassign"
            " --plan FILE",
        )
    insists = context.force and entry.state is EntryState.UNDONE
    if not (entry.may_be_undone or insists):
        raise RefusedError(f"Entry {entry.id} is {entry.state}: there is nothing to undo.", OTHERS)
    return entry


def _undo_that_is_newest(journal: Journal) -> Entry | None:
    """The change whose undo is the newest entry, and has not ended: that is continued."""
    newest = next((one for one in journal.entries() if not one.origin.part_of), None)
    if newest is None or not (newest.undoes and newest.is_open):
        return None
    with suppress(UsageError):  # its change may be in the journal of another machine
        return journal.find(newest.undoes)
    return None


def _require_named_entry(context: ChangeContext, entry: Entry, newer: str) -> None:
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
        f"If it is meant: {undo_command(context, entry)} --yes",
    )


def _nothing_to_undo(
    context: ChangeContext, journal: Journal, entry: Entry, way: RollbackPlan
) -> None:
    if not way.left:
        with context.locked(journal):
            not_restored = put_throttles_back(context, journal, entry)
            entry.mark_or_note(EntryState.UNDONE)
        _report_undone(context, entry)
        require_put_back(not_restored)
        return
    raise RefusedError(
        f"Nothing of entry {entry.id} can be undone. {describe_left(way)}",
        "Choose another (kipctl changes list), insist with --force, or stop what is being"
        " reassigned: kipctl changes cancel",
    )


def _report_left_open(context: ChangeContext, entry: Entry, way: RollbackPlan) -> None:
    context.ui.say(f"Entry {entry.id} is not all undone, and stays open. {describe_left(way)}")
    context.ui.say(
        f"The rest later: {undo_command(context, entry)}; --force insists on what somebody has"
        " changed."
    )


def _report_undone(context: ChangeContext, entry: Entry) -> None:
    context.ui.say(f"All is as before entry {entry.id}: it is undone.")


def _entry_sentence(entry: Entry) -> str:
    """What a question about an entry says of it."""
    return f"Back to what was before {described(entry)}."
