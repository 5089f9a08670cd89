"""`kipctl changes cancel`: what is under way is stopped, and the old order put back."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from kipctl.changes.carry_out import carry_out
from kipctl.changes.change import Change, ChangeRun
from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import described
from kipctl.changes.execution.cancellation import Cancellation, Cancelled, choose, starting_entries
from kipctl.changes.execution.cancellation import cancel as cancel_chosen
from kipctl.changes.journal.entry import Entry
from kipctl.changes.journal.journal import Journal
from kipctl.changes.plans.plan import SkippedPartition
from kipctl.changes.plans.plan_files import read_assignment
from kipctl.cluster.snapshot import PartitionId, select, take_snapshot
from kipctl.counts import counted
from kipctl.errors import RefusedError
from kipctl.next_step import Command, NextStep

BEGUN_LATE = "it was begun while others were cancelled; cancel again"


@dataclass(frozen=True)
class Cancel(Change[Cancellation, Cancelled]):
    """Reassignments are cancelled: those that are `named` (without: kipctl's own last change's, or
    those of the entry or topics asked for), or `everything`.

    Whoever else changes the cluster is let begin nothing more, and is not waited for.
    """

    named: Collection[PartitionId] | None = None
    everything: bool = False

    def look(self, context: ChangeContext) -> Cancellation:
        journal = context.journal()
        chosen = self._choose(context, journal)
        if not (context.dry_run or chosen.stop) and self._stop_who_moves(context, journal, chosen):
            return self._choose(context, journal)  # it may have begun something since
        return chosen

    def _choose(self, context: ChangeContext, journal: Journal) -> Cancellation:
        busy = context.ongoing()
        every_one = self.everything or context.topics
        wanted = {one.id for one in busy} if every_one else self.named
        entry_id = journal.find(context.entry).id if context.entry else ""
        entries = journal.entries(context.say_damaged)
        return choose(busy, starting_entries(busy, entries), wanted, entry_id)

    def show(self, context: ChangeContext, seen: Cancellation) -> None:
        context.ui.to_cancel(seen, _left_alone(seen))

    def announce(self, context: ChangeContext, seen: Cancellation) -> None:
        for line in _left_alone(seen):
            context.ui.say(line)

    def question(self, seen: Cancellation) -> str:
        foreign = len(seen.stop) - len(seen.started)
        begun = {entry.id: entry for entry in seen.started.values()}
        by = "".join(f" Started by {described(entry)}." for entry in list(begun.values())[:1])
        by += f" {foreign} of them kipctl did not start." if foreign else ""
        return f"Cancel the reassignment of {counted(len(seen.stop), 'partition')}?{by}"

    def locked(self, run: ChangeRun) -> AbstractContextManager[None]:
        return nullcontext()

    def look_again(self, run: ChangeRun, seen: Cancellation) -> Cancellation:
        if not self._stop_who_moves(run.context, run.journal, seen):
            return seen
        return self._with_begun_since(run, seen)

    def recorded(self, run: ChangeRun, again: Cancellation) -> AbstractContextManager[Entry | None]:
        return nullcontext()

    def title(self, again: Cancellation) -> str:
        return f"Cancelling {counted(len(again.stop), 'reassignment')}"

    def execute(self, run: ChangeRun, again: Cancellation) -> Cancelled:
        cancelled = cancel_chosen(run.context.cluster, again, run.context.step_timeout_s)
        begun_late = tuple(
            SkippedPartition(one.id, BEGUN_LATE)
            for one in self._with_begun_since(run, again).stop
            if one.id not in again.partitions
        )
        return replace(cancelled, refused=(*cancelled.refused, *begun_late))

    def report(
        self, run: ChangeRun, seen: Cancellation, again: Cancellation, done: Cancelled
    ) -> None:
        topics = sorted({partition_id.topic for partition_id in done.cancelled})
        after = run.context.final_snapshot(topics)
        run.context.say_unfinished(run.journal)
        run.context.ui.cancelled(done, after, _left_alone(seen))

    def next_step(self, run: ChangeRun) -> str:
        return "See: " + Command("reassign --list")

    def _stop_who_moves(
        self, context: ChangeContext, journal: Journal, chosen: Cancellation
    ) -> bool:
        """Let the kipctl that runs begin nothing more, unless it is not its moves that are chosen.

        What is cancelled would make room for its next moves, or be followed by its next batch.
        """
        if not (chosen.started or self._may_concern(context, journal)):
            return False
        try:
            who = journal.ask_to_pause()
        except RefusedError:
            return False
        context.ui.say(
            NextStep(
                f"A kipctl runs, and begins nothing more: {who}. What it has moved before "
                "stays where it is: undo it (",
                Command("undo"),
                "), or go on with it (",
                Command("changes resume"),
                ").",
            )
        )
        return True

    def _may_concern(self, context: ChangeContext, journal: Journal) -> bool:
        """Whether what is to be cancelled may be of a change that goes on, under way or not yet."""
        named = self.named
        going_on = [entry for entry in journal.unfinished() if entry.is_open]
        if context.entry:
            return any(entry.id.startswith(context.entry) for entry in going_on)
        if context.topics:
            shown = take_snapshot(context.cluster, named=context.topics)
            named = {one.id for one in select(shown, context.topics).partitions}
        return named is None or any(not entry.before.keys().isdisjoint(named) for entry in going_on)

    def _with_begun_since(self, run: ChangeRun, chosen: Cancellation) -> Cancellation:
        """With what the same changes have begun since; what was not asked for is left out."""
        busy, named = run.context.ongoing(), self.named
        own = {entry.id for entry in chosen.started.values()}
        started = starting_entries(busy, run.journal.entries())
        wanted = {
            one
            for one, entry in started.items()
            if entry.id in own and (named is None or one in named)
        }
        return choose(busy, {**chosen.started, **started}, {*chosen.partitions, *wanted})


def _left_alone(chosen: Cancellation) -> Sequence[str]:
    if not chosen.left_alone:
        return ()
    count = counted(len(chosen.left_alone), "other", "are")
    return (f"{count} left alone: choose with --topic, --plan or --all.",)


def cancel(context: ChangeContext, path: Path | None = None, everything: bool = False) -> None:
    """Stop what kipctl's own last change still moves, or what was asked for."""
    named = None if path is None else read_assignment(path).assignment
    carry_out(context, Cancel(named, everything))
