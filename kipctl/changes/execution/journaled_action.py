"""The way back from what is done to partitions otherwise: saved before, and marked after."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from kipctl.changes.execution.reassign import topic_ids
from kipctl.changes.journal.entry import Entry, EntryState, Origin
from kipctl.changes.journal.journal import Journal
from kipctl.cluster.reassignments import list_reassignments
from kipctl.cluster.snapshot import Snapshot, refresh_snapshot
from kipctl.errors import KipctlError
from kipctl.next_step import Command
from kipctl.transport.request import Cluster


@contextmanager
def journaled_action(
    cluster: Cluster,
    journal: Journal,
    before: Snapshot,
    message: Callable[[str], None],
    *,
    copies: bool,
    command: Iterable[str] = (),
) -> Iterator[Entry]:
    """Save where these partitions are, for what is done to them inside, whatever that will be, by
    a `command` line (without "kipctl").

    Afterwards it is noted how they were left, or where they are on their way to; if nothing has
    changed there is nothing to undo. Unless what is done inside `copies` data, other replicas are
    somebody else's doing: of these partitions it is noted that they were left as before, so that a
    rollback leaves them alone. Raises UsageError when it cannot be saved.
    """
    entry = journal.save(
        before.assignment,
        origin=Origin.here(command),
        topic_ids=topic_ids(cluster, before.topics),
    )
    undo = Command("undo", entry.id)
    message("Its assignment is saved; afterwards: " + undo)
    try:
        yield entry
    finally:
        try:
            was = before.assignment
            targets = {
                reassignment.id: reassignment.target
                for reassignment in list_reassignments(cluster, was)
            }
            now = {**refresh_snapshot(cluster, before.topics).assignment, **targets}
            left = {
                p: now[p] if p in now and (copies or set(now[p]) == set(replicas)) else replicas
                for p, replicas in was.items()
            }
            has_changed = left != was
            entry.mark(EntryState.DONE if has_changed else EntryState.REFUSED, left)
            if has_changed:
                topics = ", ".join(before.topics)
                message(f"The assignment of {topics} was left changed. Undo: " + undo)
        except KipctlError as failed:
            message(f"How it was left is not in entry {entry.id}: {failed.what}")
