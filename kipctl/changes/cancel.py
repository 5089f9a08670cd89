"""`kipctl changes cancel`: what is under way is stopped, and the old order put back."""

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from kipctl.changes.carry_out import carry_out
from kipctl.changes.change import Change, ChangeRun
from kipctl.changes.context import ChangeContext
from kipctl.changes.disks import CancelDisks, after_giving_up
from kipctl.changes.entries import described
from kipctl.changes.execution.batch_execution import ignore_progress
from kipctl.changes.execution.cancellation import (
    Cancellation,
    Cancelled,
    choose,
    retire,
    starting_entries,
)
from kipctl.changes.execution.cancellation import cancel as cancel_chosen
from kipctl.changes.execution.disk_moves import give_up, under_way
from kipctl.changes.execution.reassign import Progress
from kipctl.changes.journal.entry import ChangeKind, Entry
from kipctl.changes.journal.journal import Journal
from kipctl.changes.plans.disks import DiskMove
from kipctl.changes.plans.plan import Plan, SkippedPartition
from kipctl.changes.plans.plan_files import read_assignment
from kipctl.cluster.log_dirs import between_disks
from kipctl.cluster.snapshot import PartitionId, select, take_snapshot
from kipctl.counts import counted
from kipctl.errors import InterruptedRunError, KipctlError, RefusedError
from kipctl.next_step import Command, NextStep

BEGUN_LATE = "it was begun while others were cancelled; cancel again"


@dataclass(frozen=True)
class Cancel(Change[Cancellation, Cancelled]):
    """Reassignments are cancelled: those that are `named` (without: kipctl's own last change's, or
    those of the entry or topics asked for), or `everything`. So are copies between disks, but for
    those of an entry (`CancelDisks`).

    Whoever else changes the cluster is let begin nothing more, and is not waited for.
    """

    named: Collection[PartitionId] | None = None
    everything: bool = False

    def look(self, context: ChangeContext) -> Cancellation:
        journal = context.journal()
        chosen = self._choose(context, journal, context.ui.say)
        if not (context.dry_run or chosen.stop) and self._stop_who_moves(context, journal, chosen):
            return self._choose(context, journal)  # it may have begun something since
        return chosen

    def _choose(
        self, context: ChangeContext, journal: Journal, say: Progress = ignore_progress
    ) -> Cancellation:
        busy = context.ongoing()
        copies = self._copies(context, say)
        every_one = self.everything or context.topics
        wanted = {reassignment.id for reassignment in busy} if every_one else self.named
        entry_id = journal.find(context.entry).id if context.entry else ""
        entries = journal.entries(context.say_damaged)
        chosen = choose(busy, starting_entries(busy, entries), wanted, entry_id)
        return replace(chosen, copies=copies)

    def _copies(self, context: ChangeContext, say: Progress) -> tuple[DiskMove, ...]:
        """Those between disks that are asked for, whoever has begun them."""
        if not (self.everything or context.topics or self.named is not None):
            return ()
        copies = between_disks(context.cluster, context.cluster.nodes)
        for line in copies.not_known():
            say(line)
        return tuple(
            move
            for move in under_way(copies)
            if self.everything
            or move.id.topic in context.topics
            or (self.named is not None and move.id in self.named)
        )

    def show(self, context: ChangeContext, seen: Cancellation) -> None:
        context.ui.to_cancel(seen, _left_alone(seen))

    def end_without(self, context: ChangeContext, seen: Cancellation) -> None:
        self.show(context, seen)
        context.say_unfinished(context.journal())

    def announce(self, context: ChangeContext, seen: Cancellation) -> None:
        for line in _left_alone(seen):
            context.ui.say(line)

    def question(self, seen: Cancellation) -> str:
        foreign = len(seen.stop) - len(seen.started)
        begun = {entry.id: entry for entry in seen.started.values()}
        by = "".join(f" Started by {described(entry)}." for entry in list(begun.values())[:1])
        by += f" {foreign} of them kipctl did not start." if foreign else ""
        asked = []
        if seen.stop:
            asked.append(f"cancel the reassignment of {counted(len(seen.stop), 'partition')}")
        if seen.copies:
            asked.append(f"give up {counted(len(seen.copies), 'copy')} between disks")
        question = ", and ".join(asked)
        return f"{question[:1].upper()}{question[1:]}?{by}"

    def locked(self, run: ChangeRun) -> AbstractContextManager[None]:
        return nullcontext()

    def look_again(self, run: ChangeRun, seen: Cancellation) -> Cancellation:
        if not self._stop_who_moves(run.context, run.journal, seen):
            return seen
        return self._with_begun_since(run, seen)

    def recorded(self, run: ChangeRun, again: Cancellation) -> AbstractContextManager[Entry | None]:
        return nullcontext()

    def title(self, again: Cancellation) -> str:
        return f"Cancelling {counted(len(again.stop) + len(again.copies), 'move')}"

    def execute(self, run: ChangeRun, again: Cancellation) -> Cancelled:
        cluster, context = run.context.cluster, run.context
        cancelled = Cancelled((), Plan(()), (), ())
        if again.stop:
            cancelled = cancel_chosen(cluster, again, context.step_timeout_s)
        if again.copies:
            cancelled = self._with_copies_given_up(run, again, cancelled)
        known = {reassignment.id for reassignment in again.stop}
        begun_late = tuple(
            SkippedPartition(reassignment.id, BEGUN_LATE)
            for reassignment in self._with_begun_since(run, again).stop
            if reassignment.id not in known
        )
        return replace(cancelled, refused=(*cancelled.refused, *begun_late))

    def _with_copies_given_up(
        self, run: ChangeRun, again: Cancellation, cancelled: Cancelled
    ) -> Cancelled:
        """Whatever stops that, what is cancelled already is written down and told."""
        try:
            done = give_up(run.context.cluster, again.copies, run.context.deadline_s)
        except KeyboardInterrupt:
            self.finish(run, again, cancelled)
            count = counted(len(cancelled.cancelled), "reassignment", "are")
            raise InterruptedRunError(
                f"Interrupted. {count} cancelled, and some copies may be given up already.",
                self.next_step(run),
            ) from None
        except KipctlError as failed:
            if not cancelled.cancelled:
                raise
            why = f"its copy is not given up: {failed.what.rstrip('.')}"
            failures = tuple(SkippedPartition(move.id, why) for move in again.copies)
            return replace(cancelled, refused=(*cancelled.refused, *failures))
        refused = (*cancelled.refused, *done.failures)
        return replace(cancelled, refused=refused, given_up=done.moved)

    def finish(self, run: ChangeRun, again: Cancellation, done: Cancelled) -> None:
        begun = {entry.id: entry for entry in again.started.values()}
        with suppress(KipctlError):  # they stay open then; what is cancelled is told all the same
            retire(run.context.cluster, begun.values(), run.context.deadline_s)
        if done.given_up:
            copied = {(move.id, move.broker) for move in done.given_up}
            for entry in run.journal.unfinished_changes():
                if copied.intersection((disk.id, disk.broker) for disk in entry.disks):
                    after_giving_up(run, entry)

    def report(
        self, run: ChangeRun, seen: Cancellation, again: Cancellation, done: Cancelled
    ) -> None:
        topics = sorted({partition_id.topic for partition_id in done.cancelled})
        after = run.context.final_snapshot(topics)
        run.context.ui.cancelled(done, after, _left_alone(seen))
        run.context.say_unfinished(run.journal)

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
            named = {partition.id for partition in select(shown, context.topics).partitions}
        return named is None or any(not entry.before.keys().isdisjoint(named) for entry in going_on)

    def _with_begun_since(self, run: ChangeRun, chosen: Cancellation) -> Cancellation:
        """With what the same changes have begun since; what was not asked for is left out."""
        busy, named = run.context.ongoing(), self.named
        own = {entry.id for entry in chosen.started.values()}
        started = starting_entries(busy, run.journal.entries())
        wanted = {
            partition_id
            for partition_id, entry in started.items()
            if entry.id in own and (named is None or partition_id in named)
        }
        stop = {reassignment.id for reassignment in chosen.stop} | wanted
        return replace(choose(busy, {**chosen.started, **started}, stop), copies=chosen.copies)


def _left_alone(chosen: Cancellation) -> Sequence[str]:
    if not chosen.left_alone:
        return ()
    count = counted(len(chosen.left_alone), "other", "are")
    return (f"{count} left alone: choose with --topic, --plan or --all.",)


def _of_disks(context: ChangeContext) -> Entry | None:
    """The entry that is meant, if it moves replicas between disks."""
    journal = context.journal()
    if context.entry:
        entry: Entry | None = journal.find(context.entry)
    else:
        entry = next((change for change in journal.unfinished_changes() if change.is_open), None)
    return entry if entry and entry.kind is ChangeKind.DISKS else None


def cancel(context: ChangeContext, path: Path | None = None, everything: bool = False) -> None:
    """Stop what kipctl's own last change still moves, or what was asked for."""
    entry = None if path or everything or context.topics else _of_disks(context)
    if entry:
        carry_out(context, CancelDisks(entry=entry))
        return
    named = None if path is None else read_assignment(path).assignment
    carry_out(context, Cancel(named, everything))
