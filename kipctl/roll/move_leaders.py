"""Leaders off a broker before its restart, and back to where they were after it.

They are moved as every change of the cluster is carried out; each change is a part of its roll.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from kipctl.changes.carry_out import carry_out
from kipctl.changes.change import ChangeRun
from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.pacing import Pace
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.execution.reassign import Progress
from kipctl.changes.execution.safety_checks import BUSY
from kipctl.changes.guard_interface import ChangeGuard, GuardSession
from kipctl.changes.journal.entry import EntryState
from kipctl.changes.planned import PlannedChange
from kipctl.changes.plans.plan import Plan, SkippedPartition
from kipctl.changes.plans.planners.preferred_leaders import leaders_off
from kipctl.changes.proposal import Proposal, Undone, UndoProposal
from kipctl.changes.ui import ChangeUi
from kipctl.changes.way_back import Undo
from kipctl.cluster.snapshot import Snapshot
from kipctl.errors import PartlyDoneError, RefusedError
from kipctl.roll.record import RollRecord, moved_leaders, roll_parts


class _PartUi(ChangeUi):
    """Agrees to a part of a roll, and tells how far it is."""

    def __init__(self, report: Progress) -> None:
        self.report = report
        self.done: int | None = None
        """Partitions that were moved, once that has ended."""

    def progress(self, title: str) -> AbstractContextManager[Callable[[str], None]]:
        return nullcontext(self.report)

    def moved(
        self,
        done: PlanResult,
        before: Snapshot,
        after: Snapshot,
        plan: Plan,
        emptied: Sequence[int] = (),
    ) -> None:
        self.done = done.done

    def undone(self, done: Undone, after: Snapshot) -> None:
        self.done = done.done


class _PartGuard(GuardSession):
    """The roll's guard, which looks during its parts too; what giving up does is the roll's."""

    def __init__(self, guard: ChangeGuard) -> None:
        self.guard = guard

    def begin(self, progress: Progress) -> ChangeGuard:
        return self.guard


class _LeadersOff(PlannedChange):
    """Nobody is asked, so that there is nothing to look at again."""

    def look_again(self, run: ChangeRun, seen: Proposal) -> Proposal:
        return replace(seen, batch=run.context.pace.batch)


class _LeadersBack(Undo):
    """What somebody else has changed meanwhile is left alone for good; what has to wait is still
    there to be undone then."""

    def look_again(self, run: ChangeRun, seen: UndoProposal) -> UndoProposal:
        return seen  # nobody was asked meanwhile

    def end_without(self, context: ChangeContext, seen: UndoProposal) -> None:
        self._end(seen)

    def require_ended(self, run: ChangeRun, again: UndoProposal, done: Undone) -> None:
        self._end(again)

    def _end(self, seen: UndoProposal) -> None:
        held = [SkippedPartition(reassignment.id, BUSY) for reassignment in seen.under_way]
        held += (skipped for skipped in seen.left if skipped.is_for_later)
        if held:
            raise PartlyDoneError(f"Leaders are not all back: {held[0]}.")
        if (entry := self.entry.reload()).state is not EntryState.UNDONE:
            entry.mark(EntryState.UNDONE)


@dataclass(frozen=True, slots=True)
class LeaderMover:
    """Moves leaders for the roll of this record, in the lock that it holds."""

    context: ChangeContext
    record: RollRecord
    progress: Progress

    def move_off(self, broker: int, guard: ChangeGuard) -> int:
        """Let in-sync replicas elsewhere lead what the broker leads; returns how many were moved.

        What is being reassigned is left alone, and of what fails the first is reported: whether
        leaders are left is to be looked at. Raises what `carry_out` does.
        """
        ui = _PartUi(self.progress)
        change = _LeadersOff(
            planner=lambda now: leaders_off(now, [broker]),
            question_words="",
            chooses=False,
            may_meet_throttles=False,
        )
        try:
            carry_out(self._context(ui, guard), change)
        except (PartlyDoneError, RefusedError) as failed:
            if ui.done is None:  # it was stopped
                raise
            self.progress(failed.what)
        return ui.done or 0

    def bring_back(self, guard: ChangeGuard) -> int:
        """Undo what this roll has changed and not undone; returns how many leaders came back.

        Raises what `carry_out` does, and PartlyDoneError when something has to wait.
        """
        brought_back = 0
        journal = self.context.journal(self.record.cluster_id)
        for entry in moved_leaders(journal, self.record.id):
            ui = _PartUi(self.progress)
            carry_out(self._context(ui, guard), _LeadersBack(entry))
            brought_back += ui.done or 0
        for part in roll_parts(journal, self.record.id):
            if part.is_open:  # a way back that was cut off: another has gone it to its end
                part.mark_or_note(EntryState.DONE)
        return brought_back

    def _context(self, ui: ChangeUi, guard: ChangeGuard) -> ChangeContext:
        how = self.record.how
        return ChangeContext(
            cluster=self.context.cluster,
            ui=ui,
            guard=_PartGuard(guard),
            pace=Pace(how.batch),
            origin=replace(self.record.origin, part_of=self.record.id),
            variables=self.context.variables,
            additional=True,
            timeout_s=how.timeout_s,
        )


def movable_leaders(now: Snapshot, broker: int) -> int:
    """How many partitions the broker leads that another in-sync replica could lead."""
    alive = frozenset(now.broker_ids)
    return sum(
        partition.leader == broker and bool(frozenset(partition.isr) & alive - {broker})
        for partition in now.partitions
    )
