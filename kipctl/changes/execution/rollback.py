"""The way back from what kipctl changed, as far as nobody has changed it since. Pure rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kipctl.changes.execution.safety_checks import BUSY
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.journal.phases import left_in, present_phase
from kipctl.changes.plans.plan import Move, Plan, SkippedPartition
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot

DELETED = "it does not exist any more"
RECREATED = "its topic was deleted and made anew since"
CHANGED = "somebody has changed it since"
WOULD_COPY = "the change only reordered it, and the way back would copy data"
UNKNOWN_STATE = "how kipctl left it is not known, and the way back would copy data"
ALREADY_BACK = "it is as before already"


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """`plan` has the moves, and what is left alone and why; `in_place` the leaders to elect where
    the replicas are back already. Where `is_whole` is False, something is left for later: it is
    being reassigned, or waits for a broker.
    """

    plan: Plan
    in_place: Mapping[PartitionId, int]
    is_whole: bool

    @property
    def left(self) -> tuple[SkippedPartition, ...]:
        """What stays elsewhere than before: for later, or until somebody insists (`force`)."""
        return tuple(one for one in self.plan.skipped if one.reason not in (ALREADY_BACK, DELETED))


def plan_rollback(
    entry: Entry,
    now: Snapshot,
    topic_ids: Mapping[str, str],
    busy: Iterable[PartitionId] = (),
    *,
    force: bool = False,
) -> RollbackPlan:
    """How the entry's partitions come back to where they were before.

    Only those that are as kipctl left them; `force` insists on the others too. Those that are being
    reassigned, that lack a live broker, or that are gone are left alone in any case. Of a change
    that was only prepared no leader was moved: none is elected.
    """
    by_id, alive, being_moved = now.by_id, frozenset(now.broker_ids), frozenset(busy)
    moves: list[Move] = []
    skipped: list[SkippedPartition] = []
    in_place: dict[PartitionId, int] = {}
    is_whole = True
    for partition_id, before in sorted(entry.before.items()):
        partition = by_id.get(partition_id)
        if partition is None:
            skipped.append(SkippedPartition(partition_id, DELETED))
            continue
        is_anew = is_recreated(entry, topic_ids, partition_id.topic)
        left_alone = RECREATED if is_anew else _changed(entry, partition)
        if left_alone and not force:
            skipped.append(SkippedPartition(partition_id, left_alone))
        elif partition_id in being_moved:
            is_whole = False
            skipped.append(SkippedPartition(partition_id, BUSY))
        elif why := not_alive(partition, before, alive):
            is_whole = False
            skipped.append(SkippedPartition(partition_id, why))
        elif before[0] in partition.replicas and before[0] not in partition.isr:
            is_whole = False
            skipped.append(SkippedPartition(partition_id, f"broker {before[0]} is not in sync"))
        elif partition.replicas != before:
            moves.append(Move(partition_id, partition.replicas, before, partition.leader))
        elif partition.leader != before[0] and entry.state is not EntryState.PREPARED:
            in_place[partition_id] = before[0]
        else:
            skipped.append(SkippedPartition(partition_id, ALREADY_BACK))
    return RollbackPlan(Plan(tuple(moves), tuple(skipped)), in_place, is_whole)


def not_alive(partition: Partition, target: tuple[int, ...], alive: frozenset[int]) -> str:
    """Why the partition cannot go there now; "" when it can."""
    dead = [b for b in target if b not in alive and b not in partition.replicas]
    return f"broker {dead[0]} is not alive" if dead else ""


def _changed(entry: Entry, partition: Partition) -> str | None:
    """Why it is not for kipctl to bring the partition back; None when it is."""
    now, before, after = partition.replicas, entry.before[partition.id], entry.after[partition.id]
    if now == before:
        return None
    if after is None:
        return None if set(now) == set(before) else UNKNOWN_STATE
    if now in left_in(entry, partition.id) or was_cancelled(present_phase(entry), partition):
        return None
    if set(after) == set(before) and set(now) != set(before):
        return WOULD_COPY
    return CHANGED


def was_cancelled(entry: Entry, partition: Partition) -> bool:
    """True when its replicas are those of before in another order, as after a cancellation.

    So is what kipctl was ended in the middle of cancelling; to put the order back copies nothing.
    """
    before, after = entry.before.get(partition.id), entry.after.get(partition.id)
    if before is None or after is None:
        return False
    return entry.is_open and set(partition.replicas) == set(before) != set(after)


def is_recreated(entry: Entry, now: Mapping[str, str], topic: str) -> bool:
    """True when the topic, by its id (`now` has those of topics now), is another one by now."""
    return topic in entry.topic_ids and topic in now and entry.topic_ids[topic] != now[topic]
