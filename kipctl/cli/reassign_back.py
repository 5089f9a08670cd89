"""The ways back of `kipctl reassign`: the journal, a rollback, a cancellation."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kipctl.cli.reassign_entries import described
from kipctl.cli.reassign_request import (
    ReassignRequest,
    afterwards,
    ongoing_of,
)
from kipctl.counts import counted
from kipctl.errors import RefusedError
from kipctl.report.reassign_tables import (
    REASSIGN,
    cancelled_report,
    history_report,
    ongoing_report,
)
from kipctl.report.tables import Report, Table, paragraphs

if TYPE_CHECKING:
    from kipctl.cluster.moves.cancel import Cancellation
    from kipctl.cluster.moves.journal import Journal
    from kipctl.cluster.reassignments import Reassignment
    from kipctl.cluster.snapshot import PartitionId

_SHOWN_ENTRIES = 20
BEGUN_LATE = "it was begun while others were cancelled; cancel again"


def history(request: ReassignRequest) -> None:
    """List the journal's newest entries, and how far the last change is if it has not ended."""
    from kipctl.cluster.snapshot import refresh_snapshot

    journal = request.journal(request.cluster.metadata(()).cluster_id or "")
    found = journal.entries(request.report_damaged)
    entries = tuple(islice(found, _SHOWN_ENTRIES))
    older = journal.count() - len(entries) if len(entries) == _SHOWN_ENTRIES else 0
    done = 0
    if entries and entries[0].may_be_resumed:
        after = entries[0].after
        now = refresh_snapshot(request.cluster, {one.topic for one in after}).assignment
        done = sum(now.get(one) == replicas for one, replicas in after.items())
    changed_by = journal.locked_by()
    request.report(
        history_report(entries, older, str(journal.folder), datetime.now(UTC), done, changed_by)
    )


def cancel(request: ReassignRequest, path: Path | None, everything: bool) -> None:
    """Stop what kipctl's own last change still moves, or what was asked for."""
    from kipctl.cluster.moves.cancel import cancel as cancelled_by
    from kipctl.cluster.moves.kafka_json import read_reassignment
    from kipctl.cluster.moves.plan_result import require_all_done
    from kipctl.cluster.moves.reassign import LeftOut

    named = None if path is None else read_reassignment(path).assignment
    journal = request.journal(request.cluster.metadata(()).cluster_id or "")
    chosen = _chosen(request, journal, ongoing_of(request), named, everything)
    if not (request.dry_run or chosen.stop) and _stop_who_moves(request, journal, chosen, named):
        # It may have begun something since.
        chosen = _chosen(request, journal, ongoing_of(request), named, everything)
    others = (
        (
            f"{counted(len(chosen.left_alone), 'other is', 'others are')} left alone: choose"
            " with --topic, --plan or --all.",
        )
        if chosen.left_alone
        else ()
    )
    if request.dry_run or not chosen.stop:
        title = "To be cancelled"
        report = ongoing_report(chosen.stop, title, "to be cancelled", others)
        left = ongoing_report(chosen.left_alone, "Left alone")
        document = {**report.document, "left_alone": left.document["ongoing"]}
        tables = report.tables + (left.tables if chosen.left_alone else ())
        request.report(replace(report, document=document, tables=tables))
        return
    for line in others:
        request.environment.message(line)
    foreign = len(chosen.stop) - len(chosen.started)
    begun = {entry.id: entry for entry in chosen.started.values()}
    by = "".join(f" Started by {described(entry)}." for entry in list(begun.values())[:1])
    by += f" {foreign} of them kipctl did not start." if foreign else ""
    request.environment.confirm(
        f"Cancel the reassignment of {counted(len(chosen.stop), 'partition')}?{by}", request.yes
    )
    if _stop_who_moves(request, journal, chosen, named):
        chosen = _with_begun_since(request, journal, chosen, named)
    with request.environment.progress(f"Cancelling {counted(len(chosen.stop), 'reassignment')}"):
        cancelled = cancelled_by(request.cluster, chosen, request.step_timeout_s)
    topics = sorted({partition_id.topic for partition_id in cancelled.cancelled})
    after = afterwards(request.cluster, topics)
    report = cancelled_report(cancelled, after)
    request.report_unfinished(request.journal(after.cluster_id))
    request.report(replace(report, closing=(*report.closing, *others)))
    late = _with_begun_since(request, journal, chosen, named)
    asked_for = {one.id for one in chosen.stop}
    begun_late = (LeftOut(one.id, BEGUN_LATE) for one in late.stop if one.id not in asked_for)
    require_all_done(
        (*cancelled.refused, *begun_late),
        len(cancelled.cancelled),
        "See: kipctl reassign --list",
        has_changed=bool(cancelled.cancelled),
    )


def _stop_who_moves(
    request: ReassignRequest,
    journal: "Journal",
    chosen: "Cancellation",
    named: "Collection[PartitionId] | None",
) -> bool:
    """Let the kipctl that runs begin nothing more, unless it is not its moves that are chosen.

    What is cancelled would make room for its next moves, or be followed by its next batch.
    """
    if not (chosen.started or _may_concern(request, journal, named)):
        return False
    try:
        who = journal.ask_to_pause()
    except RefusedError:
        return False
    request.environment.message(
        f"A kipctl runs, and begins nothing more: {who}. What it has moved before stays where it"
        " is: kipctl reassign --rollback, or go on with --resume."
    )
    return True


def _may_concern(
    request: ReassignRequest, journal: "Journal", named: "Collection[PartitionId] | None"
) -> bool:
    """Whether what is to be cancelled may be of a change that goes on, under way or not yet."""
    from kipctl.cluster.snapshot import select, take_snapshot

    going_on = [entry for entry in journal.unfinished() if entry.is_open]
    if request.entry:
        return any(entry.id.startswith(request.entry) for entry in going_on)
    if request.topics:
        shown = take_snapshot(request.cluster, named=request.topics)
        named = {one.id for one in select(shown, request.topics).partitions}
    return named is None or any(not entry.before.keys().isdisjoint(named) for entry in going_on)


def _with_begun_since(
    request: ReassignRequest,
    journal: "Journal",
    chosen: "Cancellation",
    named: "Collection[PartitionId] | None",
) -> "Cancellation":
    """With what the same changes have begun since; what was not asked for is left out."""
    from kipctl.cluster.moves.cancel import choose, starting_entries

    busy = ongoing_of(request)
    own = {entry.id for entry in chosen.started.values()}
    started = starting_entries(busy, journal.entries())
    wanted = {one.id for one in chosen.stop}
    wanted |= {
        one for one, entry in started.items() if entry.id in own and (named is None or one in named)
    }
    return choose(busy, {**chosen.started, **started}, wanted)


def _chosen(
    request: ReassignRequest,
    journal: "Journal",
    busy: Sequence["Reassignment"],
    named: "Collection[PartitionId] | None",
    everything: bool,
) -> "Cancellation":
    from kipctl.cluster.moves.cancel import choose, starting_entries

    wanted = {one.id for one in busy} if everything or request.topics else named
    entry_id = journal.find(request.entry).id if request.entry else ""
    entries = journal.entries(request.report_damaged)
    return choose(busy, starting_entries(busy, entries), wanted, entry_id)


def pause(request: ReassignRequest) -> None:
    """Let the kipctl that changes the cluster stop after its batch."""
    journal = request.journal(request.cluster.metadata(()).cluster_id or "")
    who = journal.ask_to_pause()
    request.environment.message(
        f"It stops after its batch: {who}. To go on then: kipctl reassign --resume (of a roll:"
        " kipctl roll --resume)"
    )


def clear_throttles(request: ReassignRequest) -> None:
    """Put back the throttles that earlier changes have left."""
    from kipctl.cluster.moves.throttle import require_put_back
    from kipctl.cluster.moves.throttled_change import (
        clear_throttles,
        entries_with_throttles,
        is_needed,
    )
    from kipctl.cluster.snapshot import take_snapshot

    environment, cluster = request.environment, request.cluster
    journal = request.journal(take_snapshot(cluster, ()).cluster_id)
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
    report = Report(REASSIGN, {"throttles": listed}, (table,), opening=paragraphs(first))
    if request.dry_run or not found:
        request.report(report)
        return
    if is_needed(cluster, found) and not request.force:
        raise RefusedError(
            "Partitions that they throttle are still being reassigned.",
            "Wait until it is done (kipctl reassign --list), or insist with --force.",
        )
    environment.confirm(f"Put back {counted(len(rows), 'setting')}?", request.yes)
    with journal.locked(request.origin):
        not_restored = clear_throttles(cluster, found, forget=request.force)
    back = f"{len(rows) - len(not_restored)} of {counted(len(rows), 'throttle')} put back."
    request.report(replace(report, opening=paragraphs(back)))
    require_put_back(not_restored, is_forgotten=request.force)
