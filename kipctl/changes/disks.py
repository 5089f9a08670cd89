"""Replicas moved between the log directories of their brokers, with a way back."""

import math
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

from kipctl.changes.change import Change, ChangeRun, nothing_changed_yet
from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import described, restore_throttles, throttled_for
from kipctl.changes.execution.disk_moves import (
    Dirs,
    DiskResult,
    disk_moves,
    give_up,
    is_copying,
    look_at,
    move_disks,
    require_room,
)
from kipctl.changes.execution.reassign import topic_ids
from kipctl.changes.execution.remaining import throttle_left
from kipctl.changes.execution.stopping import Stoppable
from kipctl.changes.execution.throttled_change import kept_throttles, settings_now, throttled
from kipctl.changes.journal.entry import ChangeKind, Entry, EntryState, ExecutionOptions
from kipctl.changes.plans.disks import DiskMove, by_broker
from kipctl.changes.plans.kafka_json import LogDirs
from kipctl.changes.plans.plan import NO_MOVES, SkippedPartition
from kipctl.changes.throttle import prepare_throttle, rates_of, require_restored
from kipctl.changes.ui import DisksShown
from kipctl.cluster.snapshot import Assignment, PartitionId, take_snapshot
from kipctl.cluster.throttle_configs import DISK_RATE
from kipctl.counts import counted, format_bytes
from kipctl.errors import (
    InterruptedRunError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UsageError,
)
from kipctl.next_step import Command


@dataclass(frozen=True)
class DiskProposal:
    """What is to be moved, what is left alone and why, and who holds the partitions."""

    moves: tuple[DiskMove, ...]
    skipped: tuple[SkippedPartition, ...] = ()
    replicas: Assignment = field(default_factory=dict)

    @property
    def partitions(self) -> tuple[PartitionId, ...]:
        return tuple(move.id for move in self.moves)


@dataclass(frozen=True)
class DiskChange(Change[DiskProposal, DiskResult]):
    """Replicas are brought to the directories that are `wanted`.

    `begun` is the entry that is gone on with, `undoes` the one that is undone.
    """

    wanted: LogDirs
    begun: Entry | None = None
    undoes: Entry | None = None

    def look(self, context: ChangeContext) -> DiskProposal:
        topics = sorted({partition.topic for partition in self.wanted})
        replicas = take_snapshot(context.cluster, topics).assignment
        seen = look_at(context.cluster, self.wanted)
        moves, skipped = disk_moves(self.wanted, seen)
        known = {(m.id, m.broker): m for m in self.undoes.disks} if self.undoes else {}
        for move in moves if known and not context.force else ():
            own = known[move.id, move.broker]
            if move.before not in (own.before, own.after):
                why = f"somebody has moved it since, to {move.before} of broker {move.broker}"
                skipped = (*skipped, SkippedPartition(move.id, why))
                moves = tuple(disk_move for disk_move in moves if disk_move != move)
        require_room(moves, seen, force=context.force)
        return DiskProposal(moves, skipped, {p: replicas[p] for p in self.wanted if p in replicas})

    def show(self, context: ChangeContext, seen: DiskProposal) -> None:
        context.ui.disks(DisksShown(seen.moves, seen.skipped, context.throttle))

    def end_without(self, context: ChangeContext, seen: DiskProposal) -> None:
        if self.begun or self.undoes:
            run = ChangeRun(context, context.journal(), self.begun)
            with context.locked(run.journal):
                self._end(run, seen)
            require_restored(run.not_restored)
        self.show(context, seen)

    def announce(self, context: ChangeContext, seen: DiskProposal) -> None:
        if entry := self.undoes or self.begun:
            back = "Back to what was before" if self.undoes else "What is left of"
            context.ui.say(f"{back} {described(entry)}.")
        for move in seen.moves[:3]:
            context.ui.say(
                f"{move.id} on broker {move.broker}: from {move.before} to {move.after},"
                f" {format_bytes(move.size)}."
            )
        if more := seen.moves[3:]:
            context.ui.say(f"And {len(more)} more.")

    def question(self, seen: DiskProposal) -> str:
        return f"Move {counted(len(seen.moves), 'replica')} to other disks of their brokers?"

    def look_again(self, run: ChangeRun, seen: DiskProposal) -> DiskProposal:
        if self.undoes and throttled_for(run.context, run.journal, self.undoes):
            run.not_restored += restore_throttles(run.context, run.journal, self.undoes)
        return self.look(run.context)

    @contextmanager
    def recorded(self, run: ChangeRun, again: DiskProposal) -> Iterator[Entry | None]:
        context, cluster = run.context, run.context.cluster
        entry, throttle, to_set = self.begun and self.begun.reload(), None, None
        with nothing_changed_yet():
            if entry and entry.throttle:
                to_set, _ = throttle_left(
                    entry, settings_now(cluster, entry.throttle, cluster.nodes)
                )
            elif context.throttle is not None:
                wanted = rates_of({m.broker for m in again.moves}, context.throttle, (DISK_RATE,))
                throttle = prepare_throttle(cluster, wanted, kept_throttles(run.journal))
                entry = entry and entry.with_throttle(throttle)
            if entry is None:
                entry = run.journal.save(
                    again.replicas,
                    again.replicas,
                    context.origin,
                    topic_ids(cluster, sorted({move.id.topic for move in again.moves})),
                    self.undoes.id if self.undoes else "",
                    ExecutionOptions(1, 0.0, False, context.throttle),
                    throttle,
                    kind=ChangeKind.DISKS,
                    guard=context.guard.record,
                    disks=again.moves,
                )
        copies = partial(is_copying, cluster, again.moves)
        say, left = context.ui.say, run.not_restored
        with throttled(cluster, entry, (), say, left, to_set, copies):
            yield entry

    def title(self, again: DiskProposal) -> str:
        return f"Moving {counted(len(again.moves), 'replica')} from disk to disk"

    def execute(self, run: ChangeRun, again: DiskProposal) -> DiskResult:
        change, guard = self._stoppable(run), run.settings["guard"]
        timeout_s = run.context.timeout_s
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s

        def look() -> None:
            change.is_changed = True  # brokers have begun to copy
            guard.look()

        with change.explain_errors():
            guard.require_quiet(until=until)
            change.send()
            return move_disks(
                run.context.cluster,
                again.moves,
                timeout_s=None if timeout_s is None else until - time.monotonic(),
                look=look,
                progress=run.settings["progress"],
            )

    def _stoppable(self, run: ChangeRun) -> "_CopyingDisks":
        named = run.context.named(run.entry) if run.entry else ""
        go_on = Command("changes resume", named) if self.undoes else None
        return _CopyingDisks(run.context.cluster, NO_MOVES, run.entry, named, go_on)

    def finish(self, run: ChangeRun, again: DiskProposal, done: DiskResult) -> None:
        if not done.failures:
            self._end(run, again)

    def _end(self, run: ChangeRun, seen: DiskProposal) -> None:
        """Mark the entry done, and the one that it undoes; what is left set is put back."""
        undone = self.undoes
        if run.entry and (now := run.entry.reload()).is_open:
            now.mark_or_note(EntryState.DONE)
        if entry := self.begun or self.undoes:
            run.not_restored += restore_throttles(run.context, run.journal, entry)
        if self.begun:
            with suppress(UsageError):  # it may be in the journal of another machine
                undone = run.journal.find(self.begun.undoes) if self.begun.undoes else None
        if undone and not seen.skipped and undone.reload().state is not EntryState.UNDONE:
            undone.mark_or_note(EntryState.UNDONE)

    def report(
        self, run: ChangeRun, seen: DiskProposal, again: DiskProposal, done: DiskResult
    ) -> None:
        shown = DisksShown(done.moved, again.skipped, run.context.throttle, done, run.entry)
        run.context.ui.disks(shown)

    def next_step(self, run: ChangeRun) -> str:
        return self._stoppable(run).go_on_or_undo if run.entry else ""


class _CopyingDisks(Stoppable):
    @property
    def next_step(self) -> str:
        # Whatever stops kipctl, brokers go on: that is no reason to undo it.
        return self.resume_it if self.go_on else self.resume_it + " or undo: " + self._undo

    def how_far(self) -> str:
        return "Brokers go on with what they copy from disk to disk."


@dataclass(frozen=True)
class CancelDisks(DiskChange):
    """What is still being copied for an entry is given up; what has been moved stays.

    Whoever carries the entry out is not waited for: he sees that his copies have ended.
    """

    wanted: LogDirs = field(default_factory=dict)
    entry: Entry = field(kw_only=True)

    def look(self, context: ChangeContext) -> DiskProposal:
        own = by_broker(self.entry.disks, attrgetter("after"))
        seen = look_at(context.cluster, own)
        replicas = ((m, seen[m.broker].replicas.get(m.id)) for m in self.entry.disks)
        return DiskProposal(tuple(m for m, at in replicas if at and at.future == m.after))

    def show(self, context: ChangeContext, seen: DiskProposal) -> None:
        context.ui.disks(DisksShown(seen.moves, given_up=self.entry))

    def question(self, seen: DiskProposal) -> str:
        return f"Give up {counted(len(seen.moves), 'copy')} of entry {self.entry.id}?"

    def locked(self, run: ChangeRun) -> AbstractContextManager[None]:
        return nullcontext()

    def look_again(self, run: ChangeRun, seen: DiskProposal) -> DiskProposal:
        return self.look(run.context)

    @contextmanager
    def recorded(self, run: ChangeRun, again: DiskProposal) -> Iterator[Entry | None]:
        yield None

    def title(self, again: DiskProposal) -> str:
        return f"Giving up {counted(len(again.moves), 'copy')}"

    def execute(self, run: ChangeRun, again: DiskProposal) -> DiskResult:
        try:
            return give_up(run.context.cluster, again.moves, run.context.deadline_s)
        except KeyboardInterrupt:
            raise InterruptedRunError(
                "Interrupted. Some copies may be given up already.", self.next_step(run)
            ) from None

    def finish(self, run: ChangeRun, again: DiskProposal, done: DiskResult) -> None:
        after_giving_up(run, self.entry)

    def report(
        self, run: ChangeRun, seen: DiskProposal, again: DiskProposal, done: DiskResult
    ) -> None:
        run.context.ui.disks(DisksShown(done.moved, done=done, given_up=self.entry))
        if self.entry.reload().state is EntryState.UNDONE:
            run.context.ui.say(f"Nothing of entry {self.entry.id} had moved: it is undone.")
        else:
            self._say_what_stays(run)
        run.context.say_unfinished(run.journal)

    def next_step(self, run: ChangeRun) -> str:
        return "See what is copied: " + Command("reassign --list")

    def _say_what_stays(self, run: ChangeRun) -> None:
        named = run.context.named(self.entry)
        run.context.ui.say(
            "What has been moved stays: undo it ("
            + Command("undo", named)
            + "), or go on ("
            + Command("changes resume", named)
            + ")."
        )


def after_giving_up(run: ChangeRun, entry: Entry) -> None:
    """Put back what the entry has left set, unless whoever carries it out will; where nothing had
    moved, giving up was all of the way back."""
    context = run.context
    with suppress(RefusedError, TimedOutError, UnreachableError), context.locked(run.journal):
        if is_copying(context.cluster, entry.disks):
            return
        run.not_restored += restore_throttles(context, run.journal, entry)
        moves, skipped = disk_moves(*_way_back(context, entry))
        if not (moves or skipped) and entry.reload().is_open:
            entry.mark_or_note(EntryState.UNDONE)


def _way_back(context: ChangeContext, entry: Entry) -> tuple[LogDirs, Dirs]:
    """Where its replicas were, and where they are."""
    before = by_broker(entry.disks, attrgetter("before"))
    return before, look_at(context.cluster, before)


def back(entry: Entry) -> DiskChange:
    """The way back from a change of disks, finished or cut off."""
    return DiskChange(by_broker(entry.disks, lambda move: move.before), undoes=entry)


def rest(entry: Entry) -> DiskChange:
    """What is left of one that was cut off."""
    return DiskChange(by_broker(entry.disks, lambda move: move.after), begun=entry)
