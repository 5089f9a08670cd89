"""The result of a change, by partition; an error where it is not all that was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kipctl.changes.elections.batches import ElectionOutcome
from kipctl.changes.elections.request import Outcome
from kipctl.changes.execution.copy_progress import CopyResult
from kipctl.changes.execution.reassign import Failure
from kipctl.changes.journal.entry import Entry
from kipctl.changes.plans.plan import NO_MOVES, Plan
from kipctl.cluster.snapshot import Snapshot
from kipctl.counts import counted
from kipctl.errors import PartlyDoneError, RefusedError

NO_ELECTION = ElectionOutcome((), 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """What became of a plan, with its times on the clock of now_us().

    `plan` has the moves that were accepted, `refused` the others. `copied` is None where the plan
    copies nothing, `election` where no leaders were to be elected. Of several batches `election`
    has the outcomes of all, and the times of the slowest.
    """

    plan: Plan = NO_MOVES
    refused: tuple[Failure, ...] = ()
    called_us: int = 0
    answered_us: int = 0
    finished_us: int = 0
    entry: Entry | None = None
    copied: CopyResult | None = None
    election: ElectionOutcome | None = None
    batches: int = 1

    @property
    def election_outcome(self) -> ElectionOutcome:
        """The election, one of nothing where there was none."""
        return self.election or NO_ELECTION

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Partitions that were not reassigned, or not elected."""
        return (
            *self.refused,
            *(e for e in self.election_outcome.outcomes if e.outcome is Outcome.FAILED),
        )

    @property
    def done(self) -> int:
        """How many partitions have the wanted replicas, and leader."""
        if self.election is None:
            return len(self.plan.moves)
        return sum(elected.outcome is not Outcome.FAILED for elected in self.election.outcomes)

    @property
    def has_changed(self) -> bool:
        """True when anything in the cluster is another way than before."""
        moved = any(not move.is_election for move in self.plan.moves)
        return moved or self.election_outcome.count(Outcome.ELECTED) > 0


def merged_elections(elections: Sequence[ElectionOutcome]) -> ElectionOutcome:
    """The elections of several batches, at least one: all outcomes, and the times of the slowest.

    The slowest is the one after which it took longest until every broker knew.
    """
    slowest = max(elections, key=lambda election: election.converged_us - election.called_us)
    return replace(
        slowest,
        outcomes=tuple(elected for election in elections for elected in election.outcomes),
        silent=tuple(sorted({broker for election in elections for broker in election.silent})),
        gone=tuple(partition_id for election in elections for partition_id in election.gone),
    )


def first_failure(failures: Sequence[Failure]) -> str:
    """The first failure in words, and how many more there are."""
    more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
    return f"{failures[0]}{more}." if failures else ""


def require_all_done(
    failures: Sequence[Failure], done: int, next_step: str, *, has_changed: bool = False
) -> None:
    """Raise PartlyDoneError when some partitions failed, RefusedError when all did.

    `has_changed` says that something is another way than before though nothing was done as a
    whole: that is never reported as refused.
    """
    if not failures:
        return
    if done or has_changed:
        raise PartlyDoneError(
            f"{counted(done, 'partition', 'are')} done,"
            f" {counted(len(failures), '', 'are')} not: {first_failure(failures)}",
            next_step,
        )
    raise RefusedError(f"No partition was done: {first_failure(failures)}", next_step)


def progress_of(plan: Plan, now: Snapshot) -> str:
    """How much of a plan that was cut off has happened, by its partitions that are still there.

    Metadata lists a replica from the moment that it is to come; it has come when it is in sync.
    """
    known = now.by_id
    here = [(move, known[move.id]) for move in plan.moves if move.id in known]
    led = sum(partition.leader == move.preferred_leader for move, partition in here)
    if here and all(move.is_election for move, _ in here):
        return f"{counted(led, 'partition', 'are', total=len(here))} led by the preferred replica."
    listed = [(move, partition) for move, partition in here if partition.replicas == move.after]
    done = sum({*move.adding} <= {*partition.isr} for move, partition in listed)
    waiting = sum(partition.replicas == move.before != move.after for move, partition in here)
    under_way = len(here) - done - waiting
    text = (
        f"Of {counted(len(here), 'partition')} {counted(done, '', 'have')} their new replicas,"
        f" {counted(waiting, '', 'have')} their old ones and {counted(under_way, '', 'are')} under"
        " way"
    )
    if any(move.leader != move.preferred_leader for move, _ in here):
        text += f"; {counted(led, '', 'are')} led by their new preferred leader"
    return f"{text}." + (" What is under way goes on by itself." if under_way else "")
