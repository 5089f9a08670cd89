"""`kipctl undo`: back to what was before a change, finished or cut off."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from kipctl.changes import disks
from kipctl.changes.carry_out import carry_out
from kipctl.changes.clear_throttles import ClearThrottle
from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import OTHERS, current, cut_off_rollback, described
from kipctl.changes.journal.entry import ChangeKind, Entry, EntryState
from kipctl.changes.journal.journal import Journal
from kipctl.changes.resume import resume_entry
from kipctl.changes.way_back import Undo
from kipctl.errors import RefusedError, UsageError
from kipctl.next_step import Command, NextStep

_LEADERS_NAMED = 3
_RECENT = timedelta(hours=1)
"""So old a change may be for --yes to undo it without its id."""


def undo(context: ChangeContext) -> None:
    """Undo the last change of kipctl's own, or the entry asked for.

    An undo of it that was cut off is gone on with.
    """
    journal, named = current(context)
    entry = _entry(context, journal, named)
    if entry.kind is ChangeKind.THROTTLE:
        carry_out(context, ClearThrottle(entry))
        return
    if entry.kind is ChangeKind.DISKS and not cut_off_rollback(context, journal, entry):
        carry_out(context.throttled_as(entry), disks.back(entry))
        return
    if begun := cut_off_rollback(context, journal, entry):
        context.ui.say(f"Back to what was before {described(entry)}.")
        context.ui.say(f"An undo of it was cut off, and is continued: entry {begun.id}.")
        resume_entry(context, journal, begun)
        return
    if not context.dry_run:
        context.require_nobody_else(journal)
    carry_out(context.throttled_as(entry), Undo(entry))


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
            NextStep(
                "See what was done: ",
                Command("changes list"),
                ". To an assignment of your own: ",
                Command("reassign --plan FILE"),
            ),
        )
    if not entry.kind.has_way_back:
        raise RefusedError(*_no_way_back(entry))
    insists = context.force and entry.state is EntryState.UNDONE
    if not (entry.may_be_undone or insists):
        raise RefusedError(f"Entry {entry.id} is {entry.state}: there is nothing to undo.", OTHERS)
    return entry


def _undo_that_is_newest(journal: Journal) -> Entry | None:
    """The change whose undo is the newest entry, and has not ended: that is continued."""
    newest = next((entry for entry in journal.entries() if not entry.origin.part_of), None)
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
        "If it is meant: " + Command("undo", context.named(entry), yes=True),
    )


def _no_way_back(entry: Entry) -> tuple[str, str]:
    """Why an election is not undone, and what to do instead. A pure function."""
    what = f"Entry {entry.id} is an election ({entry.kind}), which has no way back: "
    if entry.kind is ChangeKind.ELECT_UNCLEAN:
        return (
            f"{what}records that the elected replicas do not have are lost.",
            "See who leads: " + Command("inspect leaders"),
        )
    leaders = sorted(entry.leaders.items())
    led = [f"{partition}={leader}" for partition, leader in leaders if leader >= 0]
    others = " and so on" if led[_LEADERS_NAMED:] else ""
    return (
        f"{what}it let replicas lead that stand first in their partitions' order.",
        "Who led before may lead again by another order: "
        + Command("reassign", leader=led[:_LEADERS_NAMED])
        + others,
    )
