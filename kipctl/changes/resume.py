"""`kipctl changes resume`: what is left of a change that was cut off is carried out."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from kipctl.changes import disks
from kipctl.changes.carry_out import carry_out
from kipctl.changes.change import ChangeRun, ReplicaChange, nothing_changed_yet, report_moves
from kipctl.changes.context import ChangeContext
from kipctl.changes.elect import resumed_election
from kipctl.changes.entries import (
    OTHERS,
    current,
    cut_off_rollback,
    described,
    look_at_partitions,
    restore_throttles,
)
from kipctl.changes.execution.cancellation import retire
from kipctl.changes.execution.pacing import Pace
from kipctl.changes.execution.phases import joined_results, reassign_phases
from kipctl.changes.execution.plan_execution import resume as carry_on
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.execution.remaining import remaining_work
from kipctl.changes.execution.throttled_change import (
    kept_beside,
    settings_now,
    throttle_for,
    throttled,
)
from kipctl.changes.journal.entry import ChangeKind, Entry, EntryState, ExecutionOptions
from kipctl.changes.journal.journal import Journal
from kipctl.changes.journal.phases import not_begun, phase_reached
from kipctl.changes.plans.plan_summary import skip_reasons
from kipctl.changes.proposal import ResumeProposal
from kipctl.changes.throttle import Throttle, require_restored
from kipctl.counts import counted
from kipctl.errors import KipctlError, RefusedError, UsageError
from kipctl.next_step import Command


@dataclass(frozen=True)
class Resume(ReplicaChange[ResumeProposal, PlanResult]):
    """What is left of the change of this entry, in the way it was begun (`how`)."""

    entry: Entry
    how: ExecutionOptions

    @property
    def elects(self) -> bool:  # type: ignore[override]
        return self.how.elects

    def propose(self, context: ChangeContext) -> ResumeProposal:
        cluster, entry = context.cluster, self.entry.reload()
        busy, now, now_ids = look_at_partitions(context, entry)
        throttle = entry.throttle
        settings = settings_now(cluster, throttle, now.broker_ids) if throttle else {}
        left = remaining_work(entry, now, busy, now_ids, settings)
        own = left.under_way.target
        return ResumeProposal(
            now,
            left.plan,
            tuple(reassignment for reassignment in busy if reassignment.id in own),
            tuple(reassignment for reassignment in busy if reassignment.id not in own),
            left=left,
        )

    def about(self, seen: ResumeProposal) -> dict[str, object]:
        return {
            "entry": self.entry.id,
            "leaders_to_elect": len(seen.plan.elections),
            "under_way": len(seen.under_way),
        }

    def beside_the_plan(self, seen: ResumeProposal) -> Iterator[str]:
        """What is waited for, elected or left as it is, beside what is submitted."""
        yield f"What is left of {described(self.entry)}."
        entry = self.entry.reload()
        if entry.phases:
            yield f"It goes on in {phase_reached(entry)}."
        for number, phase in enumerate(seen.left.later, entry.phase + 2):
            yield f"Then phase {number}: {counted(len(phase.moves), 'partition')}."
        if seen.under_way:
            count = counted(len(seen.under_way), "partition")
            yield f"Still being reassigned, and waited for: {count}."
        if elected := seen.plan.elections:
            yield f"Only an election is needed for {counted(len(elected), 'partition')}."
        if entry.throttle and not any(move.adding for move in seen.left.moves):
            yield "Its throttle is removed."
        for setting, value in list(seen.left.set_by_others.items())[:3]:
            yield f"Somebody else has set {setting} to {value}: it stays so."

    def end_without(self, context: ChangeContext, seen: ResumeProposal) -> None:
        journal, entry = context.journal(), self.entry
        with context.locked(journal):
            not_restored = restore_throttles(context, journal, entry)
            _end(context, journal, entry, is_whole=seen.left.is_whole)
        for reason in skip_reasons(seen.plan)[:3]:
            context.ui.say(str(reason))
        require_restored(not_restored)
        if not seen.left.is_whole:
            raise RefusedError(
                f"Nothing of entry {entry.id} can be gone on with now.",
                "Resume it later, or undo it: " + Command("undo", context.named(entry)),
            )
        context.ui.say(f"Nothing was left to do: entry {entry.id} is {entry.reload().state}.")

    def refuse(self, context: ChangeContext, seen: ResumeProposal) -> None:
        context.require_no_reassignments(seen.others)

    def question(self, seen: ResumeProposal) -> str:
        return f"Go on with {counted(len(seen.partitions), 'partition')}?"

    def look_again(self, run: ChangeRun, seen: ResumeProposal) -> ResumeProposal:
        if not (entry := self.entry.reload()).is_unfinished:
            raise RefusedError(f"Entry {entry.id} is {entry.state} by now.", OTHERS)
        again = self.propose(run.context)
        if again.plan.target != seen.plan.target:
            run.context.ui.say("Some of it has ended, or was changed, since it was shown.")
        return again

    @contextmanager
    def recorded(self, run: ChangeRun, again: ResumeProposal) -> Iterator[Entry | None]:
        entry, context = self.entry.reload(), run.context
        to_set: Throttle | None = again.left.to_set_for_copies
        kept = kept_beside(entry)
        with nothing_changed_yet():
            wanted = throttle_for(context.cluster, again.left.moves, self.how, kept)
        if entry.throttle is None and wanted:
            entry, to_set = entry.with_throttle(wanted), None
        with throttled(context.cluster, entry, again.left.moves, context.ui.say, [], to_set):
            yield entry

    def title(self, again: ResumeProposal) -> str:
        return f"Going on with {counted(len(again.partitions), 'partition')}"

    def execute(self, run: ChangeRun, again: ResumeProposal) -> PlanResult:
        entry, named = run.entry or self.entry, run.context.named(self.entry)
        done = carry_on(
            run.context.cluster,
            again.left,
            entry,
            elects=self.elects,
            is_to_pause=run.journal.is_to_pause,
            named=named,
            **run.settings,
        )
        if not again.left.later or done.failures:
            return done
        entry = entry.reload()
        later = reassign_phases(
            run.context.cluster,
            again.left.later,
            entry,
            first=entry.phase + 1,
            named=named,
            pause_asked=run.journal.is_to_pause,
            **run.settings,
        )
        return joined_results((done, later), later.entry)

    def finish(self, run: ChangeRun, again: ResumeProposal, done: PlanResult) -> None:
        run.not_restored += restore_throttles(run.context, run.journal, self.entry)
        is_whole = again.left.is_whole and not done.failures
        _end(run.context, run.journal, self.entry, is_whole=is_whole)

    def report(
        self,
        run: ChangeRun,
        seen: ResumeProposal,
        again: ResumeProposal,
        done: PlanResult,
    ) -> None:
        report_moves(run.context, again, again.snapshot, done)
        if done.failures and (left := not_begun(self.entry.reload())):
            run.context.ui.say(left)


def resume(context: ChangeContext) -> None:
    """End what was cut off last, or the entry asked for."""
    journal, entry = current(context)
    if entry is None:
        entry = next(journal.unfinished_changes(context.say_damaged), None)
    if entry is None:
        context.ui.say("Nothing is left to resume: no change of kipctl was cut off.")
        return
    resume_entry(context, journal, entry)


def resume_entry(context: ChangeContext, journal: Journal, entry: Entry) -> None:
    """End this one, as fast as it was begun and under its guard."""
    if not context.dry_run:
        context.require_nobody_else(journal)
    entry = entry.reload()
    if not entry.is_unfinished:
        if entry.state is not EntryState.DONE:
            raise RefusedError(
                f"Entry {entry.id} is {entry.state}: it is not to be resumed.", OTHERS
            )
        context.ui.say(f"Entry {entry.id} is done: nothing is left of it.")
        return
    how = _require_resumable(context, journal, entry)
    if entry.guard:
        context.guard.restore(entry.guard)
    pace = Pace(how.batch, how.between_s, how.throttle, how.concurrent)
    context = replace(context, pace=pace)
    if entry.kind is ChangeKind.DISKS:
        carry_out(context, disks.rest(entry))
    elif entry.kind is ChangeKind.ELECT_PREFERRED:
        carry_out(context, resumed_election(entry, how))
    else:
        carry_out(context, Resume(entry, how))


def _end(context: ChangeContext, journal: Journal, entry: Entry, *, is_whole: bool) -> None:
    """Mark it done when nothing is left for later, and what it undoes when all is as before."""
    if not is_whole:
        return
    now = entry.reload()
    if now.is_open:
        now.mark_or_note(EntryState.DONE)
    if entry.undoes:
        try:
            undone = journal.find(entry.undoes)
        except UsageError:
            return  # it is in the journal of another machine
        if undone.may_be_undone:
            with suppress(KipctlError):  # it stays open then
                retire(context.cluster, [undone], context.deadline_s)


def _require_resumable(context: ChangeContext, journal: Journal, entry: Entry) -> ExecutionOptions:
    """How it was begun. Raises RefusedError for what cannot be gone on with."""
    if entry.kind is ChangeKind.ELECT_UNCLEAN:
        raise RefusedError(
            f"Entry {entry.id} is an unclean election, which is not gone on with: what is lost has"
            " to be seen before.",
            "Repeat the command, and look again: " + Command("elect unclean --all --dry-run"),
        )
    if entry.how is None:
        raise RefusedError(
            f"Entry {entry.id} does not say how its change was carried out.",
            "Undo it: " + Command("undo", context.named(entry)),
        )
    if begun := cut_off_rollback(context, journal, entry):
        raise RefusedError(
            f"Entry {entry.id} is being undone, by entry {begun.id}.",
            "End that first: " + Command("changes resume", begun.id),
        )
    return entry.how
