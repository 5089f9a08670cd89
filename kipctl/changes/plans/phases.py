"""Plans that follow one another, as phases of one change: each by what those before it leave.

Pure rules.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from kipctl.changes.plans.kafka_json import ReassignmentFile, check_against
from kipctl.changes.plans.log_sizes import NOT_ASKED, LogSizes
from kipctl.changes.plans.plan import Move, Plan, plan_to, sorted_plan
from kipctl.changes.plans.plan_summary import PlanSummary, summarize
from kipctl.cluster.snapshot import NO_LEADER, Partition, PartitionId, Snapshot

IN_PLACE = "it is as the last phase leaves it already"


@dataclass(frozen=True)
class Phase:
    """One of the plans, with the cluster as it is when it begins, and the room on its disks.

    `name` is where it was read.
    """

    name: str
    snapshot: Snapshot
    plan: Plan
    logs: LogSizes = NOT_ASKED

    @cached_property
    def summary(self) -> PlanSummary:
        """What it comes to."""
        return summarize(self.snapshot, self.plan, self.logs)


def phases_of(
    snapshot: Snapshot,
    files: Sequence[ReassignmentFile],
    logs: LogSizes = NOT_ASKED,
    left_alone: Mapping[PartitionId, str] | None = None,
) -> tuple[Phase, ...]:
    """The phases from the cluster of the snapshot on.

    `left_alone` are in none of them, for this reason. So are partitions that are where the last
    phase brings them: what was done before is not done again. Raises UsageError for a file that
    names what there is not, or is not alive then.
    """
    now = snapshot.assignment
    last = {p: replicas for file in files for p, replicas in file.assignment.items()}
    there = {p: IN_PLACE for p, replicas in last.items() if now.get(p) == replicas}
    phases = []
    for file in files:
        check_against(file, snapshot)
        plan = plan_to(snapshot, file.assignment).skipping(there | dict(left_alone or {}))
        phase = Phase(str(file.path), snapshot, plan, logs)
        phases.append(phase)
        snapshot, logs = left_by(snapshot, plan), room_left_by(phase)
    return tuple(phases)


def left_by(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The cluster when all of the plan has arrived, led by those who lead now where they stay."""
    moves = {move.id: move for move in plan.moves}
    return replace(
        snapshot,
        partitions=tuple(
            _arrived(partition, moves.get(partition.id)) for partition in snapshot.partitions
        ),
    )


def _arrived(partition: Partition, move: Move | None) -> Partition:
    if move is None:
        return partition
    stays = partition.leader in (*move.after, NO_LEADER)
    leader = partition.leader if stays else move.preferred_leader
    return replace(partition, replicas=move.after, isr=move.after, leader=leader, offline=())


def room_left_by(phase: Phase) -> LogSizes:
    """The room on the disks when all of the phase has arrived, and what has left is deleted."""
    grown = {change.broker: change.bytes_after - change.bytes for change in phase.summary.brokers}
    disks = {
        broker: replace(disk, usable=max(0, disk.usable - grown.get(broker, 0)))
        for broker, disk in phase.logs.disks.items()
    }
    return replace(phase.logs, disks=disks)


def composed(plans: Sequence[Plan]) -> Plan:
    """All of them as one: each partition from where it is first to where it is brought last."""
    moves: dict[PartitionId, Move] = {}
    for plan in plans:
        for move in plan.moves:
            moves[move.id] = replace(moves.get(move.id, move), after=move.after)
    skipped = {
        skipped_partition.id: skipped_partition
        for plan in plans
        for skipped_partition in plan.skipped
        if skipped_partition.id not in moves
    }
    return sorted_plan((*moves.values(), *skipped.values()))
