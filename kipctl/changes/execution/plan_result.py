"""The result of a change, by partition; an error where it is not all that was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kipctl.changes.elections.batches import ElectionOutcome
from kipctl.changes.elections.request import Outcome
from kipctl.changes.execution.copy_progress import CopyResult
from kipctl.changes.execution.reassign import Failure
from kipctl.changes.journal.entry import Entry
from kipctl.changes.plans.plan import Plan
from kipctl.cluster.snapshot import Snapshot
from kipctl.counts import counted
from kipctl.errors import PartlyDoneError, RefusedError


@dataclass(frozen=True, slots=True)
class Reassigned:
    """A finished reassignment, with its times on the clock of now_us().

    `plan` has the moves that were accepted, `refused` the others. `copied` is None where the plan
    copies nothing.
    """

    plan: Plan
    refused: tuple[Failure, ...]
    called_us: int
    answered_us: int
    finished_us: int
    entry: Entry | None
    copied: CopyResult | None = None

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Partitions that were not reassigned."""
        return self.refused

    @property
    def done(self) -> int:
        """How many partitions have the wanted replicas."""
        return len(self.plan.moves)

    @property
    def has_changed(self) -> bool:
        """True when anything in the cluster is another way than before."""
        return bool(self.plan.moves)


@dataclass(frozen=True, slots=True)
class LeadersMoved:
    """Replicas reassigned (None when they were in place already), then their leaders elected.

    Of several batches `election` has the outcomes of all, and the times of the slowest.
    """

    reassigned: Reassigned | None
    election: ElectionOutcome
    batches: int = 1

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Partitions that were not reassigned, or not elected."""
        refused = self.reassigned.refused if self.reassigned else ()
        return (*refused, *(e for e in self.election.outcomes if e.outcome is Outcome.FAILED))

    @property
    def done(self) -> int:
        """How many partitions have the wanted replicas and leader."""
        return sum(elected.outcome is not Outcome.FAILED for elected in self.election.outcomes)

    @property
    def has_changed(self) -> bool:
        """True when anything in the cluster is another way than before."""
        moved = self.reassigned is not None and bool(self.reassigned.plan.moves)
        return moved or self.election.count(Outcome.ELECTED) > 0


def merged_elections(elections: Sequence[ElectionOutcome]) -> ElectionOutcome:
    """The elections of several batches, at least one: all outcomes, and the times of the slowest.

    The slowest is the one after which it took longest until every broker knew.
    """
    slowest = max(elections, key=lambda one: one.converged_us - one.called_us)
    return replace(
        slowest,
        outcomes=tuple(elected for one in elections for elected in one.outcomes),
        silent=tuple(sorted({broker for one in elections for broker in one.silent})),
        gone=tuple(partition_id for one in elections for partition_id in one.gone),
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
    """How much of a plan that was cut off has happened, by its partitions that are still there."""
    known = now.by_id
    here = [move for move in plan.moves if move.id in known]
    placed = sum(known[move.id].replicas == move.after for move in here)
    waiting = sum(known[move.id].replicas == move.before != move.after for move in here)
    moved = sum(known[move.id].leader == move.preferred_leader for move in here)
    return (
        f"Of {counted(len(here), 'partition')} {placed} have their new replicas, {waiting} their"
        f" old ones and {len(here) - placed - waiting} are under way; {moved} are led by their new"
        f" preferred leader, {len(here) - moved} are not."
    )
