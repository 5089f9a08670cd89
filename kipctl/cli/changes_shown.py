"""`kipctl changes list`, `show`, `pause` and `clear-throttles`: the journal, and what it left."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import current
from kipctl.changes.execution.safety_checks import list_or_reason
from kipctl.changes.execution.throttled_change import (
    clear_throttles,
    entries_with_throttles,
    is_needed,
)
from kipctl.changes.throttle import require_put_back
from kipctl.cli.change_ui import TerminalUi
from kipctl.cluster.snapshot import refresh_snapshot
from kipctl.counts import counted
from kipctl.errors import RefusedError
from kipctl.report.change_tables import CHANGES, entry_report, history_report
from kipctl.report.tables import Report, Table, paragraphs

_SHOWN_ENTRIES = 20


def history(context: ChangeContext, ui: TerminalUi) -> None:
    """List the journal's newest entries, and how far the last change is if it has not ended."""
    journal = context.journal()
    found = journal.entries(context.say_damaged)
    entries = tuple(islice(found, _SHOWN_ENTRIES))
    older = journal.count() - len(entries) if len(entries) == _SHOWN_ENTRIES else 0
    done = 0
    if entries and entries[0].may_be_resumed:
        after = entries[0].after
        now = refresh_snapshot(context.cluster, {one.topic for one in after}).assignment
        done = sum(now.get(one) == replicas for one, replicas in after.items())
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


def put_throttles_back(context: ChangeContext, ui: TerminalUi) -> None:
    """Put back the throttles that earlier changes have left."""
    cluster = context.cluster
    journal = context.journal()
    found = entries_with_throttles(journal)
    changes = [change for one in found if one.throttle for change in one.throttle.changes]
    rows = tuple(
        (str(c.setting), c.during or "-", "none" if c.before is None else c.before) for c in changes
    )
    first = f"{counted(len(rows), 'throttle is', 'throttles are')} still set by earlier changes."
    if not rows:
        first = "No throttle of this user on this machine is still set."
    listed = [{**c.setting._asdict(), "during": c.during, "before": c.before} for c in changes]
    table = Table("Throttles", ("Setting", "Now", "Before"), rows)
    report = Report(CHANGES, {"throttles": listed}, (table,), opening=paragraphs(first))
    if context.dry_run or not found:
        ui.report(report)
        return
    if is_needed(cluster, found) and not context.force:
        raise RefusedError(
            "Partitions that they throttle are still being reassigned.",
            "Wait until it is done (kipctl reassign --list), or insist with --force.",
        )
    ui.confirm(f"Put back {counted(len(rows), 'setting')}?")
    with journal.locked(context.origin):
        not_restored = clear_throttles(cluster, found, forget=context.force)
    back = f"{len(rows) - len(not_restored)} of {counted(len(rows), 'throttle')} put back."
    ui.report(replace(report, opening=paragraphs(back)))
    require_put_back(not_restored, is_forgotten=context.force)
