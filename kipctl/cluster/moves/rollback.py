"""The way back from what kipctl changed, as far as nobody has changed it since. Pure rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kipctl.cluster.moves.guards import BUSY
from kipctl.cluster.moves.journal import Entry, EntryState
from kipctl.cluster.moves.plan import Move, Plan, Skipped
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot

GONE = "it does not exist any more"
MADE_ANEW = "its topic was deleted and made anew since"
CHANGED = "somebody has changed it since"
COPIES = "the change only reordered it, and the way back would copy data"
NOT_KNOWN = "how kipctl left it is not known, and the way back would copy data"
BACK = "it is as before already"


@dataclass(frozen=True, slots=True)
class WayBack:
    """`plan` has the moves, and what is left alone and why; `in_place` the leaders to elect where
    the replicas are back already. Where `is_whole` is False, something is left for later: it is
    being reassigned, or waits for a broker.
    """

    plan: Plan
    in_place: Mapping[PartitionId, int]
    is_whole: bool


def way_back(
    entry: Entry,
    now: Snapshot,
    topic_ids: Mapping[str, str],
    busy: Iterable[PartitionId] = (),
    *,
    force: bool = False,
) -> WayBack:
    """How the entry's partitions come back to where they were before.

    Only those that are as kipctl left them; `force` insists on the others too. Those that are being
    reassigned, that lack a live broker, or that are gone are left alone in any case.
    """
    by_id, alive, being_moved = now.by_id, frozenset(now.broker_ids), frozenset(busy)
    moves: list[Move] = []
    skipped: list[Skipped] = []
    in_place: dict[PartitionId, int] = {}
    is_whole = True
    for partition_id, before in sorted(entry.before.items()):
        partition = by_id.get(partition_id)
        if partition is None:
            skipped.append(Skipped(partition_id, GONE))
            continue
        is_anew = _differ(entry.topic_ids, topic_ids, partition_id.topic)
        dead = [b for b in before if b not in alive and b not in partition.replicas]
        left_alone = (
            MADE_ANEW if is_anew else _changed(partition, before, entry.after.get(partition_id))
        )
        if left_alone and not force:
            skipped.append(Skipped(partition_id, left_alone))
        elif partition_id in being_moved:
            is_whole = False
            skipped.append(Skipped(partition_id, BUSY))
        elif dead:
            is_whole = False
            skipped.append(Skipped(partition_id, f"broker {dead[0]} is not alive"))
        elif before[0] in partition.replicas and before[0] not in partition.isr:
            is_whole = False
            skipped.append(Skipped(partition_id, f"broker {before[0]} is not in sync"))
        elif partition.replicas != before:
            moves.append(Move(partition_id, partition.replicas, before, partition.leader))
        elif partition.leader != before[0]:
            in_place[partition_id] = before[0]
        else:
            skipped.append(Skipped(partition_id, BACK))
    return WayBack(Plan(tuple(moves), tuple(skipped)), in_place, is_whole)


def _changed(
    partition: Partition, before: tuple[int, ...], after: tuple[int, ...] | None
) -> str | None:
    """Why it is not for kipctl to bring the partition back; None when it is."""
    now = partition.replicas
    if now == before:
        return None
    if after is None:
        return None if set(now) == set(before) else NOT_KNOWN
    if now == after:
        return None
    if set(after) == set(before) and set(now) != set(before):
        return COPIES
    return CHANGED


def _differ(before: Mapping[str, str], now: Mapping[str, str], topic: str) -> bool:
    return topic in before and topic in now and before[topic] != now[topic]


def has_happened(entry: Entry, now: Snapshot, busy: Iterable[PartitionId] = ()) -> bool:
    """False for a change of which nothing is to be seen: all is as it was before.

    It was written down as submitted, and kipctl was ended before it was, or never got an answer.
    """
    if entry.state is EntryState.DONE and not entry.is_of_old_form:
        return True
    assignment, being_moved = now.assignment, frozenset(busy)
    return any(
        partition_id in being_moved or assignment.get(partition_id, before) != before
        for partition_id, before in entry.before.items()
    )


def entry_to_undo(
    entries: Iterable[Entry], now: Snapshot, busy: Iterable[PartitionId] = ()
) -> Entry | None:
    """The newest of these that has happened."""
    return next((entry for entry in entries if has_happened(entry, now, busy)), None)
