"""What is to be done to a cluster as it is now, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kipctl.changes.elections.unclean import LeaderlessPartition
from kipctl.changes.execution.cancellation import Cancelled
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.execution.reassign import Failure
from kipctl.changes.execution.remaining import ALREADY_BACK, DELETED, Remaining
from kipctl.changes.execution.safety_checks import BUSY
from kipctl.changes.plans.kafka_json import ReassignmentFile
from kipctl.changes.plans.log_sizes import NOT_ASKED, LogSizes
from kipctl.changes.plans.phases import Phase, phases_of
from kipctl.changes.plans.plan import NO_MOVES, Plan, SkippedPartition
from kipctl.changes.plans.plan_summary import PlanSummary, summarize
from kipctl.cluster.open_transactions import HeldUp, OpenTransactions
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import PartitionId, Snapshot

NOTHING_LEFT = Remaining(NO_MOVES)
NO_TRANSACTIONS = OpenTransactions()


@dataclass(frozen=True)
class Proposal:
    """What a change would do to the cluster of the snapshot.

    `under_way` are reassignments of the change itself, `others` those of anybody else. `batch`
    is how many partitions are changed at once, if not as the pace of the change says (0).
    """

    snapshot: Snapshot
    plan: Plan = NO_MOVES
    under_way: tuple[Reassignment, ...] = ()
    others: tuple[Reassignment, ...] = ()
    logs: LogSizes = NOT_ASKED
    batch: int = 0
    files: tuple[ReassignmentFile, ...] = ()

    @property
    def partitions(self) -> tuple[PartitionId, ...]:
        """Those that there is something to do for."""
        return (*self.plan.target, *(reassignment.id for reassignment in self.under_way))

    @cached_property
    def summary(self) -> PlanSummary:
        """What the plan comes to."""
        return summarize(self.snapshot, self.plan, self.logs)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """Where it is in phases, the plan of each of the `files`."""
        busy = dict.fromkeys((other.id for other in self.others), BUSY)
        return phases_of(self.snapshot, self.files, self.logs, busy)


@dataclass(frozen=True)
class ResumeProposal(Proposal):
    """What is `left` of a change that was cut off."""

    left: Remaining = NOTHING_LEFT

    @property
    def partitions(self) -> tuple[PartitionId, ...]:
        later = (id for phase in self.left.later for id in phase.target)
        return tuple(dict.fromkeys((*super().partitions, *later)))


@dataclass(frozen=True)
class UndoProposal(Proposal):
    """The way back from a change; what of it is under way is cancelled, which is its way back.

    `cancelled`, and the sentences of `begun`, are what was done before anything is moved back.
    """

    cancelled: Cancelled | None = None
    begun: tuple[str, ...] = ()

    @property
    def left(self) -> tuple[SkippedPartition, ...]:
        """What stays elsewhere than before: for later, or until somebody insists."""
        return tuple(
            skipped
            for skipped in self.plan.skipped
            if skipped.reason not in (ALREADY_BACK, DELETED)
        )


@dataclass(frozen=True)
class ElectionProposal:
    """A preferred election of those that were `chosen`; what is `skipped` is left alone."""

    chosen: Snapshot
    skipped: tuple[SkippedPartition, ...] = ()

    @cached_property
    def electable(self) -> Snapshot:
        """What is not left alone."""
        left_alone = {skipped.id for skipped in self.skipped}
        return self.chosen.only(p.id for p in self.chosen.partitions if p.id not in left_alone)

    @cached_property
    def not_preferred(self) -> Snapshot:
        """Of that, what another than its preferred replica leads."""
        return self.electable.only(
            partition.id for partition in self.electable.not_led_by_preferred
        )

    @property
    def partitions(self) -> tuple[PartitionId, ...]:
        return tuple(partition.id for partition in self.not_preferred.partitions)


@dataclass(frozen=True)
class UncleanProposal:
    """An unclean election of the partitions `leaderless` without a leader, of those `chosen`.

    `transactions` are those that readers of committed records will meet; `skipped` those of which
    more would be lost by now than was confirmed.
    """

    chosen: Snapshot
    leaderless: tuple[LeaderlessPartition, ...]
    transactions: OpenTransactions = NO_TRANSACTIONS
    skipped: tuple[SkippedPartition, ...] = ()

    @property
    def partitions(self) -> tuple[PartitionId, ...]:
        return tuple(partition.id for partition in self.leaderless)


@dataclass(frozen=True, slots=True)
class UncleanResult:
    """What became of an unclean election, and what holds up readers of committed records;
    min.insync.replicas of the topics where a high watermark stands, None where it is not known."""

    moved: PlanResult
    skipped: tuple[SkippedPartition, ...]
    after: Snapshot
    held_up: HeldUp
    min_insync: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def failures(self) -> tuple[Failure, ...]:
        return (*self.skipped, *self.moved.failures)

    @property
    def done(self) -> int:
        return self.moved.done

    @property
    def has_changed(self) -> bool:
        return self.moved.has_changed


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of the way back; `moved` is None where nothing was to be moved."""

    proposal: UndoProposal
    moved: PlanResult | None

    @property
    def before(self) -> Snapshot:
        """What was moved, as it was before."""
        return self.proposal.snapshot.only(self.proposal.plan.target)

    @property
    def topics(self) -> tuple[str, ...]:
        """Of what was moved; where nothing was, of what was cancelled."""
        if self.moved is not None:
            return tuple(self.before.topics)
        cancelled = self.proposal.cancelled
        return tuple(sorted({id.topic for id in cancelled.cancelled} if cancelled else ()))

    @property
    def failures(self) -> tuple[Failure, ...]:
        return self.moved.failures if self.moved else ()

    @property
    def done(self) -> int:
        return self.moved.done if self.moved else 0

    @property
    def has_changed(self) -> bool:
        return bool(self.proposal.begun) or (self.moved is not None and self.moved.has_changed)


def emptied_brokers(before: Snapshot, after: Snapshot) -> tuple[int, ...]:
    """The brokers that had replicas `before`, which is the whole cluster, and have none now.

    `after` has the topics that were changed. A pure function.
    """
    now = after.by_id
    held = {broker for partition in before.partitions for broker in partition.replicas}
    left = {b for partition in before.partitions for b in now.get(partition.id, partition).replicas}
    return tuple(sorted(held - left))
