"""The journal of a cluster with its rolls among the changes, and which of both is meant."""

from collections.abc import Callable, Iterator, Mapping
from heapq import merge
from typing import NamedTuple

from kipctl.changes.context import ChangeContext
from kipctl.changes.journal.entry import Entry
from kipctl.changes.journal.journal import Journal, journal
from kipctl.errors import KipctlError, RefusedError, UsageError
from kipctl.next_step import Command
from kipctl.roll.record import RollRecord, find_roll, moved_leaders, rolls, unfinished_roll


def newest_first(context: ChangeContext, journal: Journal) -> Iterator[Entry | RollRecord]:
    """Changes and rolls; what is part of a roll is shown with it."""
    known = list(rolls(journal, context.say_damaged))
    ids = {record.id for record in known}
    entries = journal.entries(context.say_damaged)
    changes = (entry for entry in entries if entry.origin.part_of not in ids)
    return merge(changes, known, key=lambda entry: entry.id, reverse=True)


def roll_to_resume(context: ChangeContext) -> RollRecord | None:
    """The roll to go on with, if that is what ENTRY means, or was cut off last.

    Raises UsageError for options that a roll does not take here.
    """
    if context.file:  # it is an entry's
        return None
    journal = context.journal()
    record = _chosen(
        context,
        journal,
        unfinished_roll(journal),
        lambda: next(journal.unfinished_changes(context.say_damaged), None),
    )
    if record and (context.guard.is_set or context.additional):
        raise UsageError(
            f"{record.id} is a roll: it goes on under the guard that it was begun with, and beside"
            " no reassignments.",
            "Give it another guard: " + Command("roll --resume", guard="CONDITION"),
        )
    return record


def roll_to_undo(context: ChangeContext) -> RollRecord | None:
    """The roll whose leaders are to come back, if that is what ENTRY means, or is the last change.

    Raises RefusedError where nobody is asked whether it is meant.
    """
    if context.file:  # it is an entry's
        return None
    journal = context.journal()
    newest = next(rolls(journal, context.say_damaged), None)
    if newest and not moved_leaders(journal, newest.id):
        newest = None
    record = _chosen(context, journal, newest, lambda: journal.last_change()[0])
    if record and not (context.entry or context.ui.asks or context.dry_run):
        raise RefusedError(
            f"The last change is a roll, {record.id}. --yes does not undo it without its id.",
            "If it is meant: " + Command("undo", record.id, yes=True),
        )
    return record


def _chosen(
    context: ChangeContext,
    journal: Journal,
    newest: RollRecord | None,
    entry: Callable[[], Entry | None],
) -> RollRecord | None:
    """The roll that is meant by ENTRY; without ENTRY `newest`, if no `entry` is newer."""
    if context.entry:
        return find_roll(journal, context.entry)
    if newest is None:
        return None
    other = entry()
    return None if other and other.id > newest.id else newest


class NotEnded(NamedTuple):
    """The newest change, and the roll, that have not ended; which kipctl changes the cluster now,
    and whether it is this user's: then it is at that change; and the newest throttle that is left.
    Each is a phrase, "" where there is none."""

    entry: str = ""
    roll: str = ""
    changed_by: str = ""
    is_at_work: bool = False
    throttle: str = ""


def not_ended(cluster_id: str, variables: Mapping[str, str]) -> NotEnded:
    """What this user's kipctl has begun on the cluster from here, and not ended."""
    try:
        changes = journal(cluster_id, variables)
        is_at_work, changed_by = bool(changes.locked_by()), changes.changed_by()
        open_entries = (
            change for change in changes.unfinished_changes() if change.is_open and not is_at_work
        )
        entry = next(open_entries, None)
        throttle = _throttle_left(changes)
        roll = unfinished_roll(changes)
    except KipctlError as error:  # commands that change the cluster say so
        return NotEnded(f"is not readable: {error.what.removesuffix('.')}")
    return NotEnded(
        f"{entry.describe_state('')}: entry {entry.id}, {entry.origin}" if entry else "",
        roll.progress if roll else "",
        changed_by,
        is_at_work,
        throttle,
    )


def _throttle_left(changes: Journal) -> str:
    """The newest throttle that is set, or left, without a change at work that puts it back."""
    if at_work := changes.throttled_by():
        return f"is adapted now: {at_work}"
    if changes.locked_by():
        return ""
    left = (entry for entry in changes.unfinished() if entry.throttle and not entry.is_open)
    entry = next(left, None)
    return f"is still set: entry {entry.id}, {entry.origin}" if entry else ""
