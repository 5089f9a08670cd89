"""`kipctl changes` of the journal: what is in it, what goes on, and which of it are rolls."""

from datetime import UTC, datetime
from itertools import islice

from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import current, is_as_planned
from kipctl.changes.execution.safety_checks import list_or_reason
from kipctl.changes.journal.entry import Entry
from kipctl.cli.commands.change_ui import TerminalUi
from kipctl.cli.commands.roll_ui import of_roll
from kipctl.cluster.snapshot import refresh_snapshot
from kipctl.errors import RefusedError
from kipctl.next_step import Command
from kipctl.report.change_tables import entry_report, history_report
from kipctl.report.roll_tables import roll_report
from kipctl.roll.in_journal import newest_first, roll_to_resume, roll_to_undo
from kipctl.roll.record import RollRecord, find_roll, roll_parts
from kipctl.roll.roll import resume, undo

_SHOWN_ENTRIES = 20


def history(context: ChangeContext, ui: TerminalUi) -> None:
    """List the journal's newest changes and rolls, and how far the last is if it has not ended."""
    journal = context.journal()
    shown = tuple(islice(newest_first(context, journal), _SHOWN_ENTRIES))
    older = journal.count(shown[-1].id) if len(shown) == _SHOWN_ENTRIES else 0
    done = 0
    if shown and isinstance(newest := shown[0], Entry) and newest.may_be_resumed:
        busy = {
            reassignment.id
            for reassignment in list_or_reason(context.cluster, may_not_list=True)[0]
        }
        now = refresh_snapshot(context.cluster, {id.topic for id in newest.after}).by_id
        done = sum(is_as_planned(newest, now.get(id)) for id in newest.after.keys() - busy)
    changed_by = journal.locked_by()
    ui.report(
        history_report(shown, older, str(journal.folder), datetime.now(UTC), done, changed_by)
    )


def show_entry(context: ChangeContext, ui: TerminalUi) -> None:
    """Show one entry beside the cluster as it is now, or a roll. Raises RefusedError where there is
    none."""
    if context.entry and (record := find_roll(context.journal(), context.entry)):
        _show_roll(context, ui, record)
        return
    journal, entry = current(context)
    shown = entry or next(newest_first(context, journal), None)
    if shown is None:
        raise RefusedError(f"No change of this cluster is in {journal.folder}.")
    if isinstance(shown, RollRecord):
        _show_roll(context, ui, shown)
        return
    topics = {partition_id.topic for partition_id in shown.before}
    snapshot = refresh_snapshot(context.cluster, topics)
    busy, why = list_or_reason(context.cluster, may_not_list=True)
    context.say_if_not_listed(why)
    ids = {reassignment.id for reassignment in busy}
    ui.report(entry_report(shown, snapshot, ids, datetime.now(UTC), journal.locked_by()))


def _show_roll(context: ChangeContext, ui: TerminalUi, record: RollRecord) -> None:
    journal = context.journal()
    parts = roll_parts(journal, record.id)
    ui.report(roll_report(record, parts, datetime.now(UTC), journal.locked_by()))


def pause(context: ChangeContext) -> None:
    """Let the kipctl that changes the cluster stop after its batch."""
    journal = context.journal()
    who = journal.may_be_paused() if context.dry_run else journal.ask_to_pause()
    if context.dry_run:
        context.ui.say("Nothing was changed. Without --dry-run:")
    begun = next(journal.unfinished_changes(), None)
    if begun and not begun.may_be_resumed:  # leaders that rotate until clients have met enough
        context.ui.say(f"It ends, and puts back what it has moved: {who}.")
        return
    if isinstance(begun, Entry) and _is_one_batch(begun):
        to_stop = Command("changes cancel")
        context.ui.say(f"All of it is under way, as one batch: {who}. To stop that: " + to_stop)
        return
    go_on = Command("changes resume")
    context.ui.say(f"It stops after its batch: {who}. To go on then: " + go_on)


def _is_one_batch(entry: Entry) -> bool:
    """Whether all of it is begun at once: a pause then leaves nothing to go on with."""
    how = entry.how
    if how is None or how.concurrent is not None or how.until_balanced:
        return False
    return len(entry.before) <= how.batch and len(entry.phases) < 2


def resume_roll(context: ChangeContext, ui: TerminalUi) -> bool:
    """Go on with a roll, if that is what is meant."""
    if record := roll_to_resume(context):
        resume(of_roll(context, ui), record)
    return record is not None


def undo_roll(context: ChangeContext, ui: TerminalUi) -> bool:
    """Bring the leaders of a roll back, if that is what is meant."""
    if record := roll_to_undo(context):
        undo(of_roll(context, ui), record)
    return record is not None
