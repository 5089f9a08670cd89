"""`kipctl changes cancel`: what is under way is stopped, and the old order put back."""

from collections.abc import Collection, Sequence
from pathlib import Path

from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import described
from kipctl.changes.execution.cancellation import Cancellation, choose, starting_entries
from kipctl.changes.execution.cancellation import cancel as cancelled_by
from kipctl.changes.execution.plan_result import require_all_done
from kipctl.changes.execution.reassign import LeftOut
from kipctl.changes.journal.journal import Journal
from kipctl.changes.plans.kafka_json import read_reassignment
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import PartitionId, select, take_snapshot
from kipctl.counts import counted
from kipctl.errors import RefusedError

BEGUN_LATE = "it was begun while others were cancelled; cancel again"


def cancel(context: ChangeContext, path: Path | None = None, everything: bool = False) -> None:
    """Stop what kipctl's own last change still moves, or what was asked for."""
    named = None if path is None else read_reassignment(path).assignment
    journal = context.journal()
    chosen = _chosen(context, journal, context.ongoing(), named, everything)
    if not (context.dry_run or chosen.stop) and _stop_who_moves(context, journal, chosen, named):
        # It may have begun something since.
        chosen = _chosen(context, journal, context.ongoing(), named, everything)
    others = (
        (
            f"{counted(len(chosen.left_alone), 'other is', 'others are')} left alone: choose"
            " with --topic, --plan or --all.",
        )
        if chosen.left_alone
        else ()
    )
    if context.dry_run or not chosen.stop:
        context.ui.to_cancel(chosen, others)
        return
    for line in others:
        context.ui.say(line)
    foreign = len(chosen.stop) - len(chosen.started)
    begun = {entry.id: entry for entry in chosen.started.values()}
    by = "".join(f" Started by {described(entry)}." for entry in list(begun.values())[:1])
    by += f" {foreign} of them kipctl did not start." if foreign else ""
    context.ui.confirm(f"Cancel the reassignment of {counted(len(chosen.stop), 'partition')}?{by}")
    if _stop_who_moves(context, journal, chosen, named):
        chosen = _with_begun_since(context, journal, chosen, named)
    with context.ui.progress(f"Cancelling {counted(len(chosen.stop), 'reassignment')}"):
        cancelled = cancelled_by(context.cluster, chosen, context.step_timeout_s)
    topics = sorted({partition_id.topic for partition_id in cancelled.cancelled})
    after = context.final_snapshot(topics)
    context.say_unfinished(context.journal(after.cluster_id))
    context.ui.cancelled(cancelled, after, others)
    late = _with_begun_since(context, journal, chosen, named)
    asked_for = {one.id for one in chosen.stop}
    begun_late = (LeftOut(one.id, BEGUN_LATE) for one in late.stop if one.id not in asked_for)
    require_all_done(
        (*cancelled.refused, *begun_late),
        len(cancelled.cancelled),
        "See: kipctl reassign --list",
        has_changed=bool(cancelled.cancelled),
    )


def _stop_who_moves(
    context: ChangeContext,
    journal: Journal,
    chosen: Cancellation,
    named: "Collection[PartitionId] | None",
) -> bool:
    """Let the kipctl that runs begin nothing more, unless it is not its moves that are chosen.

    What is cancelled would make room for its next moves, or be followed by its next batch.
    """
    if not (chosen.started or _may_concern(context, journal, named)):
        return False
    try:
        who = journal.ask_to_pause()
    except RefusedError:
        return False
    context.ui.say(
        f"A kipctl runs, and begins nothing more: {who}. What it has moved before stays where it"
        " is: undo it (kipctl undo), or go on with it (kipctl changes resume, of a roll kipctl"
        " roll --resume)."
    )
    return True


def _may_concern(
    context: ChangeContext, journal: Journal, named: "Collection[PartitionId] | None"
) -> bool:
    """Whether what is to be cancelled may be of a change that goes on, under way or not yet."""
    going_on = [entry for entry in journal.unfinished() if entry.is_open]
    if context.entry:
        return any(entry.id.startswith(context.entry) for entry in going_on)
    if context.topics:
        shown = take_snapshot(context.cluster, named=context.topics)
        named = {one.id for one in select(shown, context.topics).partitions}
    return named is None or any(not entry.before.keys().isdisjoint(named) for entry in going_on)


def _with_begun_since(
    context: ChangeContext,
    journal: Journal,
    chosen: Cancellation,
    named: "Collection[PartitionId] | None",
) -> Cancellation:
    """With what the same changes have begun since; what was not asked for is left out."""
    busy = context.ongoing()
    own = {entry.id for entry in chosen.started.values()}
    started = starting_entries(busy, journal.entries())
    wanted = {one.id for one in chosen.stop}
    wanted |= {
        one for one, entry in started.items() if entry.id in own and (named is None or one in named)
    }
    return choose(busy, {**chosen.started, **started}, wanted)


def _chosen(
    context: ChangeContext,
    journal: Journal,
    busy: Sequence[Reassignment],
    named: "Collection[PartitionId] | None",
    everything: bool,
) -> Cancellation:
    wanted = {one.id for one in busy} if everything or context.topics else named
    entry_id = journal.find(context.entry).id if context.entry else ""
    entries = journal.entries(context.say_damaged)
    return choose(busy, starting_entries(busy, entries), wanted, entry_id)
