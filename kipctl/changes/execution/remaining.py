"""What is left to do of a change that was cut off, and the way back from one. Pure rules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kipctl.changes.execution.cancellation import started_by
from kipctl.changes.execution.safety_checks import BUSY
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.journal.phases import at_phase, left_in, present_phase
from kipctl.changes.plans.phases import left_by
from kipctl.changes.plans.plan import Move, Plan, SkippedPartition, move_of, sorted_plan
from kipctl.changes.throttle import Throttle
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot
from kipctl.cluster.throttle_configs import Setting

DELETED = "it does not exist any more"
RECREATED = "its topic was deleted and made anew since"
CHANGED = "somebody has changed it since"
WOULD_COPY = "the change only reordered it, and the way back would copy data"
UNKNOWN_STATE = "how kipctl left it is not known, and the way back would copy data"
ALREADY_BACK = "its replicas are as before already, and the first one leads"


def plan_rollback(
    entry: Entry,
    now: Snapshot,
    topic_ids: Mapping[str, str],
    busy: Iterable[PartitionId] = (),
    *,
    force: bool = False,
) -> Plan:
    """How the entry's partitions come back to where they were before.

    Only those that are as kipctl left them; `force` insists on the others too. Those that are being
    reassigned, that lack a live broker, or that are gone are left alone in any case. Of a change
    that was only prepared no leader was moved: none is elected.
    """
    by_id, alive, being_moved = now.by_id, frozenset(now.broker_ids), frozenset(busy)
    steps: list[Move | SkippedPartition] = []
    for partition_id, before in entry.before.items():
        partition = by_id.get(partition_id)
        if partition is None:
            steps.append(SkippedPartition(partition_id, DELETED))
            continue
        is_anew = is_recreated(entry, topic_ids, partition_id.topic)
        left_alone = RECREATED if is_anew else _changed(entry, partition)
        if left_alone and not force:
            steps.append(SkippedPartition(partition_id, left_alone))
        elif partition_id in being_moved:
            steps.append(SkippedPartition(partition_id, BUSY, is_for_later=True))
        elif why := not_alive(partition, before, alive):
            steps.append(SkippedPartition(partition_id, why, is_for_later=True))
        elif before[0] in partition.replicas and before[0] not in partition.isr:
            why = f"broker {before[0]} is not in sync"
            steps.append(SkippedPartition(partition_id, why, is_for_later=True))
        elif partition.replicas != before or (
            partition.leader != before[0] and entry.state is not EntryState.PREPARED
        ):
            steps.append(move_of(partition, before))
        else:
            steps.append(SkippedPartition(partition_id, ALREADY_BACK))
    return sorted_plan(steps)


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


DONE = "it is as planned already"
TARGET_NOT_KNOWN = "where kipctl was to bring it is not known"


@dataclass(frozen=True, slots=True)
class Remaining:
    """What an entry leaves to do, to its end or back to before.

    `plan` has the moves to submit, or to elect the leaders of, and what is left alone and why;
    `under_way` those that were submitted and are not there yet. `later` has the phases that follow,
    by what is left then. `to_set` is the part of the entry's throttle that is not set now,
    `set_by_others` what others have set it to since.
    """

    plan: Plan
    under_way: Plan = field(default_factory=lambda: Plan(()))
    to_set: Throttle = field(default_factory=lambda: Throttle(()))
    set_by_others: Mapping[Setting, str | None] = field(default_factory=dict)
    later: tuple[Plan, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left for later still."""
        return all(phase.is_whole for phase in (self.plan, *self.later))

    @property
    def count(self) -> int:
        """How many partitions there is something to do for."""
        return len(self.plan.moves) + len(self.under_way.moves)

    @property
    def to_set_for_copies(self) -> Throttle:
        """What is to be set now: nothing when nothing is to be copied any more."""
        return self.to_set if any(move.adding for move in self.moves) else Throttle(())

    @property
    def moves(self) -> tuple[Move, ...]:
        """What is to be copied or reordered, or is being so."""
        following = (move for phase in self.later for move in phase.moves)
        return (*self.under_way.moves, *self.plan.moves, *following)


def remaining_work(
    entry: Entry,
    now: Snapshot,
    busy: Iterable[Reassignment] = (),
    topic_ids: Mapping[str, str] | None = None,
    settings: Mapping[Setting, str | None] | None = None,
) -> Remaining:
    """What is left of the entry's change. A pure function.

    `busy` is what is being reassigned, asked for before `now`: what ended in between is then seen
    as ended. `settings` are those of the entry's throttle as far as they are known. A partition
    that is neither as before, nor as planned, nor on its way there is somebody else's by now.
    """
    if not entry.is_unfinished:
        return Remaining(Plan(()))
    to_set, others = throttle_left(entry, settings or {})
    if not entry.is_open:
        return Remaining(Plan(()), to_set=to_set, set_by_others=others)
    left = _left_of(present_phase(entry), now, busy := tuple(busy), topic_ids or {})
    left = replace(left, to_set=to_set, set_by_others=others)
    # What is under way of a phase has arrived when the next one begins.
    busy = [reassignment for reassignment in busy if reassignment.id not in left.under_way.target]
    now, later = left_by(now, Plan(left.moves)), list[Plan]()
    for number in range(entry.phase + 1, len(entry.phases)):
        if not (left.plan, *later)[-1].is_whole:
            break
        later.append(_left_of(at_phase(entry, number), now, busy, topic_ids or {}).plan)
        now = left_by(now, later[-1])
    return replace(left, later=tuple(later))


def _left_of(
    entry: Entry,
    now: Snapshot,
    busy: Iterable[Reassignment],
    topic_ids: Mapping[str, str],
) -> Remaining:
    """The same of one phase, or of a change that has none."""
    open_ones = {reassignment.id: reassignment for reassignment in busy}
    alive = frozenset(now.broker_ids)
    elects = entry.how is not None and entry.how.elects
    steps: list[Move | SkippedPartition] = []
    under_way: list[Move] = []
    for partition_id, before in sorted(entry.before.items()):
        after, partition = entry.after.get(partition_id), now.by_id.get(partition_id)
        current = open_ones.get(partition_id)
        if after is None or partition is None:
            why = DELETED if partition is None else TARGET_NOT_KNOWN
            steps.append(SkippedPartition(partition_id, why))
        elif is_recreated(entry, topic_ids, partition_id.topic):
            steps.append(SkippedPartition(partition_id, RECREATED))
        elif current is not None and started_by(entry, current) and current.target == after:
            under_way.append(Move(partition_id, before, after, partition.leader))
        elif current is not None:
            steps.append(SkippedPartition(partition_id, BUSY, is_for_later=True))
        elif partition.replicas == after:
            if elects and partition.leader != after[0]:
                steps.append(move_of(partition, after))
            else:
                steps.append(SkippedPartition(partition_id, DONE))
        elif partition.replicas != before and not was_cancelled(entry, partition):
            steps.append(SkippedPartition(partition_id, CHANGED))
        elif why := not_alive(partition, after, alive):
            steps.append(SkippedPartition(partition_id, why, is_for_later=True))
        else:
            steps.append(move_of(partition, after))
    return Remaining(sorted_plan(steps), Plan(tuple(under_way)))


def throttle_left(
    entry: Entry, settings: Mapping[Setting, str | None]
) -> tuple[Throttle, dict[Setting, str | None]]:
    """What of the entry's throttle is not set now, and what others have set since; what is not
    known of `settings` is taken for set. A pure function."""
    to_set, others = [], {}
    for change in entry.throttle.changes if entry.throttle else ():
        value = settings.get(change.setting, change.during)
        if value == change.before:
            to_set.append(change)
        elif value != change.during:
            others[change.setting] = value
    return Throttle(tuple(to_set)), others
