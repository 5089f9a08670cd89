"""The entries of the journal that `kipctl reassign` goes on with, or undoes."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kipctl.cli.reassign_modes import Asked
from kipctl.errors import RefusedError, UsageError
from kipctl.report.reassign_tables import age

if TYPE_CHECKING:
    from kipctl.cluster.moves.journal import Damaged, Journal
    from kipctl.cluster.moves.journal_entry import Entry, EntryState
    from kipctl.cluster.moves.throttle import StillSet

OTHERS = "See the others: kipctl reassign --history"


def current(asked: Asked) -> tuple["Journal", "Entry | None"]:
    """The journal of the cluster asked, and the entry of --journal or --entry; None without.

    The file is read first. Raises UsageError, RefusedError and UnreachableError.
    """
    from kipctl.cluster.moves.journal_entry import read_entry_file

    entry = None if asked.file is None else read_entry_file(asked.file)
    kept = asked.journal(asked.cluster.metadata(()).cluster_id or "")
    if entry is not None:
        demand_of_cluster(entry, kept.cluster_id)
        here = asked.origin.host
        if entry.origin.host not in ("", here):
            asked.environment.message(
                f"It was begun on {entry.origin.host}: whether kipctl still runs there cannot be"
                f" seen from {here}. Make sure that it does not."
            )
    elif asked.entry:
        entry = kept.find(asked.entry)
        demand_of_cluster(entry, kept.cluster_id)
    return kept, entry


def demand_of_cluster(entry: "Entry", cluster_id: str) -> None:
    """Raise RefusedError for an entry of another cluster."""
    if entry.cluster_id not in ("", cluster_id):
        raise RefusedError(
            f"Entry {entry.id} is of another cluster: {entry.cluster_id}.",
            "See where it came from; it is no way back here.",
        )


def say_damaged(asked: Asked, damaged: "Damaged") -> None:
    """Tell of an entry that is passed over."""
    asked.environment.message(str(damaged))


def whose(entry: "Entry") -> str:
    """The command of an entry, who gave it, how long ago, and its id."""
    return f"{entry.origin} ({age(entry.made_at, datetime.now(UTC))}, entry {entry.id})"


def mark(asked: Asked, entry: "Entry", state: "EntryState") -> None:
    """What has been done is told of also when the journal cannot be written any more."""
    try:
        entry.again().mark(state)
    except UsageError as error:
        asked.environment.message(f"Entry {entry.id} is not marked as {state}: {error.what}")


def cut_off_rollback(asked: Asked, kept: "Journal", undone: "Entry") -> "Entry | None":
    """The newest rollback of this entry that has not ended; None when there is none."""
    found = kept.unfinished(lambda damaged: say_damaged(asked, damaged))
    return next((one for one in found if one.undoes == undone.id and one.is_open), None)


def throttled_for(asked: Asked, kept: "Journal", entry: "Entry") -> Sequence["Entry"]:
    """What has set throttles for this change: it, and rollbacks of it, the newest first."""
    from kipctl.cluster.moves.throttled_change import entries_with_throttles

    found = [one for one in entries_with_throttles(kept) if entry.id in (one.id, one.undoes)]
    if asked.file is not None:
        found = [one for one in found if one.id != entry.id]
        found += [one for one in (entry.again(),) if one.throttle is not None]
    return found


def put_throttles_back(asked: Asked, kept: "Journal", entry: "Entry") -> Sequence["StillSet"]:
    """Put back what was set for this change, and for rollbacks of it."""
    from kipctl.cluster.moves.throttled_change import clear_throttles

    try:
        return clear_throttles(asked.cluster, throttled_for(asked, kept, entry))
    except UsageError as error:
        asked.environment.message(f"That throttles are put back is not written down: {error.what}")
        return ()
