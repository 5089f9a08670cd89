"""`kipctl changes list`, `show`, `pause` and `clear-throttles`: the journal, and what it left."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from kipctl.cli.change_context import ChangeContext
from kipctl.cli.change_entries import current
from kipctl.counts import counted
from kipctl.errors import RefusedError
from kipctl.report.change_tables import CHANGES, entry_report, history_report
from kipctl.report.tables import Report, Table, paragraphs

_SHOWN_ENTRIES = 20


def history(context: ChangeContext) -> None:
    """List the journal's newest entries, and how far the last change is if it has not ended."""
    from kipctl.cluster.snapshot import refresh_snapshot

    journal = context.journal(context.cluster.metadata(()).cluster_id or "")
    found = journal.entries(context.report_damaged)
    entries = tuple(islice(found, _SHOWN_ENTRIES))
    older = journal.count() - len(entries) if len(entries) == _SHOWN_ENTRIES else 0
    done = 0
    if entries and entries[0].may_be_resumed:
        after = entries[0].after
        now = refresh_snapshot(context.cluster, {one.topic for one in after}).assignment
        done = sum(now.get(one) == replicas for one, replicas in after.items())
    changed_by = journal.locked_by()
    context.report(
        history_report(entries, older, str(journal.folder), datetime.now(UTC), done, changed_by)
    )


def show_entry(context: ChangeContext) -> None:
    """Show one entry beside the cluster as it is now. Raises RefusedError where there is none."""
    from kipctl.cluster.snapshot import refresh_snapshot

    journal, entry = current(context)
    entry = entry or next(journal.entries(context.report_damaged), None)
    if entry is None:
        raise RefusedError(f"No change of this cluster is in {journal.folder}.")
    topics = {partition_id.topic for partition_id in entry.before}
    snapshot = refresh_snapshot(context.cluster, topics)
    context.report(entry_report(entry, snapshot, datetime.now(UTC), journal.locked_by()))


def pause(context: ChangeContext) -> None:
    """Let the kipctl that changes the cluster stop after its batch."""
    journal = context.journal(context.cluster.metadata(()).cluster_id or "")
    who = journal.ask_to_pause()
    context.environment.message(
        f"It stops after its batch: {who}. To go on then: kipctl changes resume (of a roll:"
        " kipctl roll --resume)"
    )


def clear_throttles(context: ChangeContext) -> None:
    """Put back the throttles that earlier changes have left."""
    from kipctl.cluster.moves.throttle import require_put_back
    from kipctl.cluster.moves.throttled_change import (
        clear_throttles,
        entries_with_throttles,
        is_needed,
    )
    from kipctl.cluster.snapshot import take_snapshot

    environment, cluster = context.environment, context.cluster
    journal = context.journal(take_snapshot(cluster, ()).cluster_id)
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
        context.report(report)
        return
    if is_needed(cluster, found) and not context.force:
        raise RefusedError(
            "Partitions that they throttle are still being reassigned.",
            "Wait until it is done (kipctl reassign --list), or insist with --force.",
        )
    environment.confirm(f"Put back {counted(len(rows), 'setting')}?", context.yes)
    with journal.locked(context.origin):
        not_restored = clear_throttles(cluster, found, forget=context.force)
    back = f"{len(rows) - len(not_restored)} of {counted(len(rows), 'throttle')} put back."
    context.report(replace(report, opening=paragraphs(back)))
    require_put_back(not_restored, is_forgotten=context.force)
