"""`kipctl changes list`, `show` and `pause`: the journal, and what goes on."""

from datetime import UTC, datetime
from itertools import islice

from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import current
from kipctl.changes.execution.safety_checks import list_or_reason
from kipctl.cli.change_ui import TerminalUi
from kipctl.cluster.snapshot import refresh_snapshot
from kipctl.errors import RefusedError
from kipctl.report.change_tables import entry_report, history_report, is_as_planned

_SHOWN_ENTRIES = 20


def history(context: ChangeContext, ui: TerminalUi) -> None:
    """List the journal's newest entries, and how far the last change is if it has not ended."""
    journal = context.journal()
    found = journal.entries(context.say_damaged)
    entries = tuple(islice(found, _SHOWN_ENTRIES))
    older = journal.count() - len(entries) if len(entries) == _SHOWN_ENTRIES else 0
    done = 0
    if entries and entries[0].may_be_resumed:
        newest = entries[0]
        now = refresh_snapshot(context.cluster, {one.topic for one in newest.after}).by_id
        done = sum(is_as_planned(newest, now.get(one)) for one in newest.after)
    changed_by = journal.locked_by()
    ui.report(
        history_report(entries, older, str(journal.folder), datetime.now(UTC), done, changed_by)
    )


def show_entry(context: ChangeContext, ui: TerminalUi) -> None:
    """Show one entry beside the cluster as it is now. Raises RefusedError where there is none."""
    journal, entry = current(context)
    entry = entry or next(journal.entries(context.say_damaged), None)
    if entry is None:
        raise RefusedError(f"No change of this cluster is in {journal.folder}.")
    topics = {partition_id.topic for partition_id in entry.before}
    snapshot = refresh_snapshot(context.cluster, topics)
    busy, why = list_or_reason(context.cluster, may_not_list=True)
    context.say_if_not_listed(why)
    ids = {one.id for one in busy}
    ui.report(entry_report(entry, snapshot, ids, datetime.now(UTC), journal.locked_by()))


def pause(context: ChangeContext) -> None:
    """Let the kipctl that changes the cluster stop after its batch."""
    journal = context.journal()
    who = journal.ask_to_pause()
    context.ui.say(
        f"It stops after its batch: {who}. To go on then: kipctl changes resume (of a roll:"
        " kipctl roll --resume)"
    )
