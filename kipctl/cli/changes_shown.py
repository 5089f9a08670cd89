"""`kipctl changes` of the journal: what is in it, what goes on, and which of it are rolls."""

from collections.abc import Iterator
from datetime import UTC, datetime
from heapq import merge
from itertools import islice

from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import current
from kipctl.changes.execution.safety_checks import list_or_reason
from kipctl.changes.journal.entry import Entry
from kipctl.changes.journal.journal import Journal
from kipctl.cli.change_ui import TerminalUi
from kipctl.cli.roll_ui import chosen_roll, of_roll
from kipctl.cluster.snapshot import refresh_snapshot
from kipctl.errors import RefusedError, UsageError
from kipctl.next_step import Command
from kipctl.report.change_tables import entry_report, history_report, is_as_planned
from kipctl.report.roll_tables import roll_report
from kipctl.roll.record import (
    RollRecord,
    find_roll,
    moved_leaders,
    roll_parts,
    rolls,
    unfinished_roll,
)
from kipctl.roll.roll import resume, undo

_SHOWN_ENTRIES = 20


def history(context: ChangeContext, ui: TerminalUi) -> None:
    """List the journal's newest changes and rolls, and how far the last is if it has not ended."""
    journal = context.journal()
    shown = tuple(islice(_newest_first(context, journal), _SHOWN_ENTRIES))
    older = journal.count(shown[-1].id) if len(shown) == _SHOWN_ENTRIES else 0
    done = 0
    if shown and isinstance(newest := shown[0], Entry) and newest.may_be_resumed:
        now = refresh_snapshot(context.cluster, {one.topic for one in newest.after}).by_id
        done = sum(is_as_planned(newest, now.get(one)) for one in newest.after)
    changed_by = journal.locked_by()
    ui.report(
        history_report(shown, older, str(journal.folder), datetime.now(UTC), done, changed_by)
    )


def _newest_first(context: ChangeContext, journal: Journal) -> Iterator[Entry | RollRecord]:
    """Changes and rolls; what is part of a roll is shown with it."""
    known = list(rolls(journal, context.say_damaged))
    ids = {record.id for record in known}
    entries = journal.entries(context.say_damaged)
    changes = (entry for entry in entries if entry.origin.part_of not in ids)
    return merge(changes, known, key=lambda one: one.id, reverse=True)


def show_entry(context: ChangeContext, ui: TerminalUi) -> None:
    """Show one entry beside the cluster as it is now, or a roll. Raises RefusedError where there is
    none."""
    if context.entry and (record := find_roll(context.journal(), context.entry)):
        _show_roll(context, ui, record)
        return
    journal, entry = current(context)
    shown = entry or next(_newest_first(context, journal), None)
    if shown is None:
        raise RefusedError(f"No change of this cluster is in {journal.folder}.")
    if isinstance(shown, RollRecord):
        _show_roll(context, ui, shown)
        return
    topics = {partition_id.topic for partition_id in shown.before}
    snapshot = refresh_snapshot(context.cluster, topics)
    busy, why = list_or_reason(context.cluster, may_not_list=True)
    context.say_if_not_listed(why)
    ids = {one.id for one in busy}
    ui.report(entry_report(shown, snapshot, ids, datetime.now(UTC), journal.locked_by()))


def _show_roll(context: ChangeContext, ui: TerminalUi, record: RollRecord) -> None:
    journal = context.journal()
    parts = roll_parts(journal, record.id)
    ui.report(roll_report(record, parts, datetime.now(UTC), journal.locked_by()))


def pause(context: ChangeContext) -> None:
    """Let the kipctl that changes the cluster stop after its batch."""
    journal = context.journal()
    who = journal.ask_to_pause()
    go_on = Command("changes resume")
    context.ui.say(f"It stops after its batch: {who}. To go on then: " + go_on)


def resume_roll(context: ChangeContext, ui: TerminalUi) -> bool:
    """Go on with a roll, if that is what ENTRY means, or was cut off last. Raises UsageError for
    options that a roll does not take here."""
    if context.file:  # it is an entry's
        return False
    journal = context.journal()
    record = chosen_roll(
        context,
        journal,
        unfinished_roll(journal),
        lambda: next(journal.unfinished_changes(context.say_damaged), None),
    )
    if record is None:
        return False
    if context.guard.is_set or context.additional:
        raise UsageError(
            f"{record.id} is a roll: it goes on under the guard that it was begun with, and beside"
            " no reassignments.",
            "Give it another guard: " + Command("roll --resume", guard="CONDITION"),
        )
    resume(of_roll(context, ui), record)
    return True


def undo_roll(context: ChangeContext, ui: TerminalUi) -> bool:
    """Bring the leaders of a roll back, if that is what ENTRY means, or is the last change.

    Raises RefusedError where nobody is asked whether it is meant.
    """
    if context.file:  # it is an entry's
        return False
    journal = context.journal()
    newest = next(rolls(journal, context.say_damaged), None)
    if newest and not moved_leaders(journal, newest.id):
        newest = None
    record = chosen_roll(context, journal, newest, lambda: journal.last_change()[0])
    if record is None:
        return False
    if not (context.entry or context.ui.asks or context.dry_run):
        raise RefusedError(
            f"The last change is a roll, {record.id}. --yes does not undo it without its id.",
            "If it is meant: " + Command("undo", record.id, yes=True),
        )
    undo(of_roll(context, ui), record)
    return True
