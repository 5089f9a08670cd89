"""How a change is undone: what is on its way is cancelled, the rest is moved back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kipctl.changes.change import ChangeRun, ReplicaChange
from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import (
    Look,
    described,
    look_at_partitions,
    restore_throttles,
    throttled_for,
)
from kipctl.changes.execution.cancellation import Cancellation, cancel, started_by
from kipctl.changes.execution.plan_execution import reassign
from kipctl.changes.execution.remaining import plan_rollback
from kipctl.changes.execution.safety_checks import replication_factor_warning, require_same
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.plans.plan import Plan, SkippedPartition
from kipctl.changes.plans.plan_summary import skip_reasons
from kipctl.changes.proposal import Undone, UndoProposal
from kipctl.changes.throttle import require_restored
from kipctl.counts import counted
from kipctl.errors import PartlyDoneError, RefusedError, UsageError
from kipctl.next_step import Command, NextStep, joined

_UNCHANGED = "Nothing was changed."


@dataclass(frozen=True)
class Undo(ReplicaChange[UndoProposal, Undone]):
    """Back to what was before the change of this entry, finished or cut off."""

    entry: Entry

    def propose(self, context: ChangeContext) -> UndoProposal:
        return self.proposed(context, look_at_partitions(context, self.entry.reload()))

    def proposed(self, context: ChangeContext, look: Look) -> UndoProposal:
        """The same, from what was seen of the cluster."""
        entry, (busy, now, now_ids) = self.entry.reload(), look
        plan = plan_rollback(
            entry, now, now_ids, [reassignment.id for reassignment in busy], force=context.force
        )
        own = tuple(
            reassignment
            for reassignment in busy
            if entry.is_open and started_by(entry, reassignment)
        )
        own_ids = {reassignment.id for reassignment in own}
        skipped = tuple(
            skipped_partition
            for skipped_partition in plan.skipped
            if skipped_partition.id not in own_ids
        )
        return UndoProposal(
            now,
            replace(plan, skipped=skipped),
            own,
            tuple(reassignment for reassignment in busy if reassignment.id not in own_ids),
        )

    def about(self, seen: UndoProposal) -> dict[str, object]:
        return {
            "entry": self.entry.id,
            "leaders_to_elect": len(seen.plan.elections),
            "to_be_cancelled": len(seen.under_way),
        }

    def beside_the_plan(self, seen: UndoProposal) -> Iterator[str]:
        if elected := seen.plan.elections:
            yield f"Only an election is needed for {counted(len(elected), 'partition')}."
        if seen.under_way:
            yield (
                f"Still being reassigned, and cancelled:"
                f" {counted(len(seen.under_way), 'partition')}."
            )
        yield f"Back to what was before {described(self.entry)}."
        if self.entry.phases:
            yield (
                "Straight back, not phase by phase: no replica is copied twice, and none is given"
                " up before the others are in sync."
            )

    def end_without(self, context: ChangeContext, seen: UndoProposal) -> None:
        if seen.left:
            raise RefusedError(
                f"Nothing of entry {self.entry.id} can be undone. {describe_left(seen.left)}",
                NextStep(
                    "Choose another (",
                    Command("changes list"),
                    "), insist with --force, or stop what is being reassigned: ",
                    Command("changes cancel"),
                ),
            )
        journal = context.journal()
        with context.locked(journal):
            not_restored = restore_throttles(context, journal, self.entry)
            self.entry.mark_or_note(EntryState.UNDONE)
        self._say_undone(context)
        require_restored(not_restored)

    def question(self, seen: UndoProposal) -> str:
        count = counted(len(seen.partitions), "partition")
        return f"Undo it for {count}?{replication_factor_warning(seen.plan)}"

    def look_again(self, run: ChangeRun, seen: UndoProposal) -> UndoProposal:
        """What is under way is cancelled, and throttles are put back: then it is looked again."""
        context, begun = run.context, list[str]()
        own = [reassignment.id for reassignment in seen.under_way]
        again, cancelled = self.propose(context), None
        require_same(seen.plan, again.plan.without(own))
        with partly_done_after(begun):
            if own:
                with context.ui.progress(f"Cancelling {counted(len(own), 'reassignment')}"):
                    entry = self.entry.reload()
                    cancelled = cancel(
                        context.cluster,
                        Cancellation(seen.under_way, (), dict.fromkeys(own, entry)),
                        context.step_timeout_s,
                    )
                if cancelled.cancelled:
                    begun.append(f"Cancelled: {counted(len(cancelled.cancelled), 'reassignment')}.")
            if throttled_for(context, run.journal, self.entry):
                not_restored = restore_throttles(context, run.journal, self.entry)
                run.not_restored += not_restored
                begun.append(f"The throttle is {'not all ' if not_restored else ''}removed.")
            if own or begun:
                again = self.propose(context)
                require_same(seen.plan, again.plan.without(own))
        return replace(again, cancelled=cancelled, begun=tuple(begun))

    @contextmanager
    def recorded(self, run: ChangeRun, again: UndoProposal) -> Iterator[Entry | None]:
        with partly_done_after(again.begun):
            if not again.plan.moves:
                yield None
                return
            with self.journal_as(run, again.plan, self.entry.id) as own_entry:
                if (entry := self.entry.reload()).is_open:
                    entry.mark_or_note(EntryState.DONE)  # its remaining moves are not to be made
                yield own_entry

    def title(self, again: UndoProposal) -> str:
        moves = len(again.plan.moves)
        return f"Undoing {counted(moves, 'partition')}" if moves else ""

    def execute(self, run: ChangeRun, again: UndoProposal) -> Undone:
        if run.entry is None:
            return Undone(again, None)
        moved = reassign(
            run.context.cluster,
            again.plan,
            entry=run.entry,
            elects=True,
            go_on=undo_command(run.context, self.entry),
            **run.settings,
        )
        return Undone(again, moved)

    def finish(self, run: ChangeRun, again: UndoProposal, done: Undone) -> None:
        is_undone = not (again.left or again.under_way or done.failures)
        if is_undone and (entry := self.entry.reload()).state is not EntryState.UNDONE:
            entry.mark_or_note(EntryState.UNDONE)

    def report(self, run: ChangeRun, seen: UndoProposal, again: UndoProposal, done: Undone) -> None:
        context = run.context
        if done.moved is not None or again.cancelled is not None:
            context.ui.undone(done, context.final_snapshot(done.topics))
        if done.moved is not None and again.left:
            context.ui.say(
                f"Entry {self.entry.id} is not all undone, and stays open."
                f" {describe_left(again.left)}"
            )
            context.ui.say(
                NextStep(
                    *("The rest later: ", undo_command(context, self.entry)),
                    "; --force insists on what somebody has changed.",
                )
            )

    def next_step(self, run: ChangeRun) -> NextStep:
        return "Try again: " + undo_command(run.context, self.entry)

    def require_ended(self, run: ChangeRun, again: UndoProposal, done: Undone) -> None:
        """Say that all is as before, if it is.

        Raises RefusedError where something is not, and nothing has moved; PartlyDoneError for what
        could not be cancelled.
        """
        next_step = self.next_step(run)
        with partly_done_after(again.begun):
            if again.under_way:
                raise PartlyDoneError(
                    f"{counted(len(again.under_way), 'partition')} of entry {self.entry.id} could"
                    f" not be cancelled, such as {again.under_way[0].id}."
                    f" {describe_left(again.left)}".rstrip(),
                    next_step,
                )
            if again.left and done.moved is None:
                raise RefusedError(
                    f"Entry {self.entry.id} is not all undone. {describe_left(again.left)}",
                    next_step + "; --force insists on what somebody has changed.",
                )
        if not again.left:
            self._say_undone(run.context)

    def _say_undone(self, context: ChangeContext) -> None:
        context.ui.say(f"All is as before entry {self.entry.id}: it is undone.")


@contextmanager
def partly_done_after(begun: Sequence[str]) -> Iterator[None]:
    """What is refused once something is done, as these sentences say, is partly done."""
    try:
        yield
    except (RefusedError, UsageError) as error:
        if not begun:
            raise
        what, next_step = (
            text.replace(f" {_UNCHANGED}", "").replace(f"{_UNCHANGED} ", "")
            for text in (error.what, error.next_step)
        )
        raise PartlyDoneError(joined(" ", (*begun, what)), next_step) from None


def undo_command(context: ChangeContext, entry: Entry) -> Command:
    """What undoes this entry, and no other one."""
    return Command("undo", context.named(entry))


def describe_left(left: Sequence[SkippedPartition]) -> str:
    """What is left elsewhere than before, and why, in a few words."""
    return " ".join(str(reason) for reason in skip_reasons(Plan((), tuple(left)))[:3])
