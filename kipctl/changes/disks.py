"""Replicas moved between the log directories of their brokers, with a way back."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from kipctl.changes.change import Change, ChangeRun
from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import described, restore_throttles, throttled_for
from kipctl.changes.execution.disk_moves import (
    DiskResult,
    disk_moves,
    is_copying,
    look_at,
    move_disks,
    require_room,
)
from kipctl.changes.execution.reassign import topic_ids
from kipctl.changes.execution.throttled_change import kept_throttles, throttled_at_first
from kipctl.changes.journal.entry import ChangeKind, Entry, EntryState, ExecutionOptions
from kipctl.changes.plans.disks import DiskMove, by_broker
from kipctl.changes.plans.kafka_json import LogDirs
from kipctl.changes.plans.plan import SkippedPartition
from kipctl.changes.throttle import Throttle, require_restored, throttle_changes
from kipctl.changes.throttle_settings import read_settings
from kipctl.changes.ui import DisksShown
from kipctl.cluster.snapshot import Assignment, PartitionId, take_snapshot
from kipctl.cluster.throttle_configs import BROKER, DISK_RATE, Setting
from kipctl.counts import counted, format_bytes
from kipctl.errors import InterruptedRunError, KipctlError, UsageError
from kipctl.next_step import Command, joined


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
                moves = tuple(one for one in moves if one != move)
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
        throttle = _throttle(context, again.moves, kept_throttles(run.journal))
        if self.begun:
            entry = self.begun.reload()
            if entry.throttle is None and throttle:
                entry = entry.with_throttle(throttle)
        else:
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
        with throttled_at_first(cluster, entry, (), say, left, copies):
            yield entry

    def title(self, again: DiskProposal) -> str:
        return f"Moving {counted(len(again.moves), 'replica')} from disk to disk"

    def execute(self, run: ChangeRun, again: DiskProposal) -> DiskResult:
        assert run.entry is not None
        guard = run.settings["guard"]
        guard.require_quiet()
        run.entry = run.entry.mark(EntryState.SUBMITTED)
        try:
            return move_disks(
                run.context.cluster,
                again.moves,
                timeout_s=run.context.timeout_s,
                look=guard.look,
                progress=run.settings["progress"],
            )
        except KeyboardInterrupt:
            raise InterruptedRunError(
                "Interrupted. Brokers go on with what they copy from disk to disk.",
                self.next_step(run),
            ) from None
        except KipctlError as error:
            error.next_step = joined(" ", filter(None, (error.next_step, self.next_step(run))))
            raise

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
        if run.entry is None:
            return ""
        named = run.context.named(run.entry)
        if self.undoes:
            return "Go on: " + Command("changes resume", named)
        return "Go on: " + Command("changes resume", named) + ", or undo: " + Command("undo", named)


def _throttle(
    context: ChangeContext, moves: Sequence[DiskMove], kept: Sequence[Throttle]
) -> Throttle | None:
    """The rate of the brokers that move these; None where it is free."""
    if context.throttle is None:
        return None
    brokers = sorted({str(move.broker) for move in moves})
    wanted = {Setting(BROKER, one, DISK_RATE): str(context.throttle) for one in brokers}
    return throttle_changes(wanted, read_settings(context.cluster, wanted), kept)


def back(entry: Entry) -> DiskChange:
    """The way back from a change of disks, finished or cut off."""
    return DiskChange(by_broker(entry.disks, lambda move: move.before), undoes=entry)


def rest(entry: Entry) -> DiskChange:
    """What is left of one that was cut off."""
    return DiskChange(by_broker(entry.disks, lambda move: move.after), begun=entry)
