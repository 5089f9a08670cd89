"""The entries of the journal that undo, resume and cancel are about."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.reassign import retry_until, topic_ids
from kipctl.changes.execution.safety_checks import list_or_reason
from kipctl.changes.execution.throttled_change import (
    clear_throttles,
    entries_with_throttles,
    still_set,
)
from kipctl.changes.journal.entry import Entry, read_entry
from kipctl.changes.journal.journal import Journal
from kipctl.changes.throttle import NotRestored
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Partition, Snapshot, take_snapshot
from kipctl.errors import RefusedError
from kipctl.next_step import Command

OTHERS = "See the others: " + Command("changes list")


def current(context: ChangeContext) -> tuple[Journal, Entry | None]:
    """The journal of the cluster, and the entry of --journal or ENTRY; None without.

    The file is read first. Raises UsageError, RefusedError and UnreachableError.
    """
    entry = None if context.file is None else read_entry(context.file)
    journal = context.journal()
    if entry is not None:
        require_of_cluster(entry, journal.cluster_id)
        here = context.origin.host
        if entry.origin.host not in ("", here):
            context.ui.say(
                f"It was begun on {entry.origin.host}: whether kipctl still runs there cannot be"
                f" seen from {here}. Make sure that it does not."
            )
    elif context.entry:
        entry = journal.find(context.entry)
        require_of_cluster(entry, journal.cluster_id)
    return journal, entry


def require_of_cluster(entry: Entry, cluster_id: str) -> None:
    """Raise RefusedError for an entry of another cluster."""
    if entry.cluster_id not in ("", cluster_id):
        raise RefusedError(
            f"Entry {entry.id} is of another cluster: {entry.cluster_id}.",
            "See where it came from; it is no way back here.",
        )


def described(entry: Entry) -> str:
    """The command of an entry, who gave it, how long ago, and its id."""
    return f"{entry.origin} ({entry.age(datetime.now(UTC))}, entry {entry.id})"


def is_as_planned(entry: Entry, partition: Partition | None) -> bool:
    """Whether the entry's change is done for this partition, as it is now. A pure function."""
    if partition is None:
        return False
    if not entry.kind.has_way_back:
        return partition.leader == partition.preferred_leader
    return partition.replicas == entry.after.get(partition.id)


def cut_off_rollback(context: ChangeContext, journal: Journal, undone: Entry) -> Entry | None:
    """The newest rollback of this entry that has not ended; None when there is none."""
    entries = journal.unfinished(context.say_damaged)
    return next((entry for entry in entries if entry.undoes == undone.id and entry.is_open), None)


def throttled_for(context: ChangeContext, journal: Journal, entry: Entry) -> Sequence[Entry]:
    """What has set throttles for this change: it, and rollbacks of it, the newest first."""
    throttled = entries_with_throttles(journal)
    entries = [recorded for recorded in throttled if entry.id in (recorded.id, recorded.undoes)]
    if context.file is not None:
        entries = [recorded for recorded in entries if recorded.id != entry.id]
        entries += [reloaded for reloaded in (entry.reload(),) if reloaded.throttle is not None]
    return entries


class Look(NamedTuple):
    """What is being reassigned, then the cluster, and the ids of topics as they are now."""

    busy: tuple[Reassignment, ...]
    now: Snapshot
    topic_ids: dict[str, str]


def look_at_partitions(context: ChangeContext, *entries: Entry) -> "Look":
    """Look at the cluster for what is left of these, or for their ways back."""
    cluster, deadline = context.cluster, context.deadline_s
    busy, why = retry_until(lambda: list_or_reason(cluster, may_not_list=context.dry_run), deadline)
    context.say_if_not_listed(why)
    now = retry_until(lambda: take_snapshot(cluster), deadline)
    topics = sorted({p.topic for e in entries if e.topic_ids for p in e.before} & {*now.topics})
    return Look(busy, now, topic_ids(cluster, topics) if topics else {})


def restore_throttles(
    context: ChangeContext, journal: Journal, entry: "Entry"
) -> Sequence[NotRestored]:
    """Put back what was set for this change, and for rollbacks of it."""
    entries = throttled_for(context, journal, entry)
    was_set = still_set(context.cluster, entries)
    left = clear_throttles(context.cluster, entries, message=context.ui.say)
    if was_set and not left:
        context.ui.say("The throttle is removed.")
    return left
