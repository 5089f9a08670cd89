"""`kipctl elect`: elections of leaders, as changes."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kipctl.changes.carry_out import carry_out
from kipctl.changes.change import Change, ChangeRun, Done, Seen
from kipctl.changes.context import ChangeContext
from kipctl.changes.elections.batches import DEFAULT_TIMEOUT_S, REPEAT, elect_preferred
from kipctl.changes.execution.copy_progress import CatchUp
from kipctl.changes.execution.election_until_balanced import (
    UNTIL_TIMEOUT_S,
    elect_until_balanced,
)
from kipctl.changes.execution.plan_result import LeadersMoved
from kipctl.changes.execution.reassign import LAST_POLL_S, topic_ids
from kipctl.changes.execution.safety_checks import BUSY, list_or_reason
from kipctl.changes.guard_interface import ChangeGuard, GivenUpError
from kipctl.changes.journal.entry import ChangeKind, Entry, EntryState, ExecutionOptions
from kipctl.changes.plans.plan import Plan, SkippedPartition
from kipctl.changes.proposal import ElectionProposal
from kipctl.cluster.acls import hidden_topics_warning, require_topics_shown
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.recoveries import catching_up
from kipctl.cluster.snapshot import PartitionId, Snapshot, refresh_snapshot, take_snapshot
from kipctl.counts import counted
from kipctl.errors import (
    InterruptedRunError,
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
)
from kipctl.next_step import Command, joined

Choose = Callable[[Snapshot], Snapshot]
"""The partitions that are meant, of all that there are. May raise UsageError."""


@dataclass(frozen=True, kw_only=True)
class Election(Change[Seen, Done]):
    """An election of leaders of the partitions that are chosen; with `chooses` they are looked for,
    as those of a broker are."""

    choose: Choose
    chooses: bool = False

    def every(self, context: ChangeContext) -> Snapshot:
        """All partitions as they are now."""
        seen = take_snapshot(context.cluster, named=context.topics)
        if self.chooses and (
            hidden := hidden_topics_warning(context.cluster, seen.topics, context.topics)
        ):
            require_topics_shown(context.cluster, seen.topics)
            context.ui.say(hidden)
        return seen

    def chosen(self, context: ChangeContext) -> Snapshot:
        """The partitions that are meant, as they are now."""
        return self.choose(self.every(context))

    @contextmanager
    def locked(self, run: ChangeRun) -> Iterator[None]:
        """Where nobody else changes the cluster. An election is not kept waiting by a change that
        takes hours: what that reassigns is left alone."""
        with ExitStack() as stack:
            try:
                stack.enter_context(run.context.locked(run.journal))
            except RefusedError as refused:
                run.is_locked = False
                run.context.ui.say(f"{refused.what} What it reassigns is left alone.")
            yield


@dataclass(frozen=True, kw_only=True)
class ElectPreferred(Election[ElectionProposal, LeadersMoved]):
    """The preferred replica of each partition that is chosen is to lead it.

    `until_balanced` those whose broker is not whole are waited for; `as_they_come` only until the
    replica is in sync. `entry` is that of an election that was cut off, and is gone on with.
    """

    until_balanced: bool = False
    as_they_come: bool = False
    entry: Entry | None = None

    def look(self, context: ChangeContext) -> ElectionProposal:
        busy, _ = list_or_reason(context.cluster, may_not_list=True)
        now = self.every(context)
        chosen = self.choose(now)
        if not self.until_balanced:
            _say_still_copied(context, now, chosen, busy)
        return propose_election(chosen, {one.id for one in busy})

    def show(self, context: ChangeContext, seen: ElectionProposal) -> None:
        context.ui.preferred_election(seen)

    def end_without(self, context: ChangeContext, seen: ElectionProposal) -> None:
        if self.entry and not seen.skipped:
            self.entry.mark_or_note(EntryState.DONE)
        self._say_left_alone(context, seen)
        self.show(context, seen)

    def announce(self, context: ChangeContext, seen: ElectionProposal) -> None:
        self._say_left_alone(context, seen)

    def _say_left_alone(self, context: ChangeContext, seen: ElectionProposal) -> None:
        if seen.skipped:
            who = context.journal().changed_by()
            context.ui.say(
                f"Left alone, as {counted(len(seen.skipped), 'partition', 'are')}"
                f" being reassigned{who and ', by '}{who}: such as {seen.skipped[0].id}."
            )

    def question(self, seen: ElectionProposal) -> str:
        topics = seen.not_preferred.topics
        of = f"topic {topics[0]}" if len(topics) == 1 else counted(len(topics), "topic")
        return (
            f"{counted(len(seen.partitions), 'partition', of=len(seen.chosen.partitions))}, of"
            f" {of}, not led by the preferred replica."
            + (" Move leaders until all are?" if self.until_balanced else " Move these leaders?")
        )

    def look_again(self, run: ChangeRun, seen: ElectionProposal) -> ElectionProposal:
        """Anybody may have moved them since they were shown."""
        cluster = run.context.cluster
        busy, _ = list_or_reason(cluster, may_not_list=True)
        meant = seen.chosen if self.until_balanced else seen.not_preferred
        now = refresh_snapshot(cluster, meant.topics).only(meant.by_id)
        return propose_election(now, {one.id for one in busy})

    @contextmanager
    def recorded(self, run: ChangeRun, again: ElectionProposal) -> Iterator[Entry | None]:
        if self.entry or not again.partitions:
            yield self.entry
            return
        context, chosen = run.context, self._electable(again)
        yield run.journal.save(
            chosen.assignment,
            chosen.assignment,
            context.origin,
            topic_ids(context.cluster, chosen.topics),
            how=ExecutionOptions(
                context.pace.batch,
                context.pace.between_s,
                elects=True,
                until_balanced=self.until_balanced,
                as_they_come=self.as_they_come,
            ),
            kind=ChangeKind.ELECT_PREFERRED,
            leaders={one.id: one.leader for one in chosen.partitions},
            guard=context.guard.record,
        )

    def _electable(self, again: ElectionProposal) -> Snapshot:
        """Those that are elected; until all are balanced, those too that are led so now."""
        return again.electable if self.until_balanced else again.not_preferred

    def title(self, again: ElectionProposal) -> str:
        if self.until_balanced:
            partitions = counted(len(again.electable.partitions), "partition")
            return f"Electing until {partitions} have their preferred leaders"
        return f"Electing the preferred leaders of {counted(len(again.partitions), 'partition')}"

    def execute(self, run: ChangeRun, again: ElectionProposal) -> LeadersMoved:
        cluster, pace = run.context.cluster, run.context.pace
        guard: ChangeGuard = run.settings["guard"]
        if run.is_locked:
            guard = _Pausable(guard, run.journal.is_to_pause)
        with _explained(run):
            if self.until_balanced:
                held = elect_until_balanced(
                    cluster,
                    again.electable.by_id,
                    batch=pace.batch,
                    between_s=pace.between_s,
                    timeout_s=run.context.timeout_s or UNTIL_TIMEOUT_S,
                    progress=run.settings["progress"],
                    guard=guard,
                    as_they_come=self.as_they_come,
                )
            else:
                held = elect_preferred(
                    cluster,
                    {one.id: one.preferred_leader for one in again.not_preferred.partitions},
                    again.not_preferred,
                    timeout_s=run.context.timeout_s or DEFAULT_TIMEOUT_S,
                    batch=pace.batch,
                    between_s=pace.between_s,
                    guard=guard,
                )
        return LeadersMoved(None, held)

    def finish(self, run: ChangeRun, again: ElectionProposal, done: LeadersMoved) -> None:
        """Mark it done, and with it elections that were cut off of the same partitions."""
        if run.entry is None:
            return
        elected = run.entry.before.keys()
        run.entry.mark_or_note(EntryState.DONE)
        for one in list(run.journal.unfinished()):
            if one.kind is ChangeKind.ELECT_PREFERRED and one.before.keys() <= elected:
                one.mark_or_note(EntryState.DONE)

    def report(
        self,
        run: ChangeRun,
        seen: ElectionProposal,
        again: ElectionProposal,
        done: LeadersMoved,
    ) -> None:
        before = self._electable(again)
        after = run.context.final_snapshot(before.topics)
        run.context.ui.moved(done, before, after, Plan((), again.skipped))

    def next_step(self, run: ChangeRun) -> str:
        return "See their replicas: " + Command("inspect leaders")


def _say_still_copied(
    context: ChangeContext, now: Snapshot, chosen: Snapshot, busy: Iterable[Reassignment]
) -> None:
    """Which brokers would get leaders before they are whole; `now` is of all topics."""
    behind = catching_up(now, {one.id: one.adding for one in busy})
    wanted = {one.preferred_leader for one in chosen.not_led_by_preferred}
    for broker in sorted(wanted & behind.keys()):
        replicas = sum(broker in one.replicas for one in now.partitions)
        copies = str(CatchUp(broker, len(behind[broker]), replicas))
        context.ui.say(
            f"{copies.capitalize()}. Who writes to what it leads waits for that: --until"
            " balanced elects when it has copied all."
        )


@dataclass(frozen=True)
class _Pausable(ChangeGuard):
    """The same guard, which also gives up when somebody asks for a pause."""

    guard: ChangeGuard
    is_to_pause: Callable[[], bool]

    def look(self) -> None:
        self.guard.look()

    def require_quiet(self, *, until: float = float("inf"), anew: bool = True) -> None:
        self._demand_no_pause()
        self.guard.require_quiet(until=until, anew=anew)

    def sleep(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left_s := ends - time.monotonic()) > 0:
            self._demand_no_pause()
            self.guard.sleep(min(left_s, LAST_POLL_S))

    def _demand_no_pause(self) -> None:
        if self.is_to_pause():
            raise GivenUpError("Paused.")


@contextmanager
def _explained(run: ChangeRun) -> Iterator[None]:
    """Whatever stops elections says what goes on with them; what has moved no leader is over."""
    if (entry := run.entry) is None:
        yield
        return
    go_on = "Go on: " + Command("changes resume", run.context.named(entry))
    entry.mark(EntryState.SUBMITTED)
    try:
        yield
    except KeyboardInterrupt as interrupted:
        how_far = "".join(note.partition("\n")[0] for note in getattr(interrupted, "__notes__", ()))
        raise InterruptedRunError(f"Interrupted. {how_far}".strip(), go_on) from None
    except RefusedError as refused:
        if run.is_locked and run.journal.is_to_pause():
            raise PartlyDoneError(refused.what, go_on) from None
        entry.mark_or_note(EntryState.REFUSED)
        raise
    except (PartlyDoneError, TimedOutError, UnreachableError) as error:
        others = "" if error.next_step == REPEAT else error.next_step
        error.next_step = joined(" ", filter(None, (others, go_on)))
        raise


def propose_election(chosen: Snapshot, busy: Collection[PartitionId]) -> ElectionProposal:
    """What of these partitions a preferred election is for, now. A pure function.

    What is being reassigned is left alone: who does that elects its leaders.
    """
    skipped = tuple(
        SkippedPartition(one.id, BUSY) for one in chosen.not_led_by_preferred if one.id in busy
    )
    return ElectionProposal(chosen, skipped)


def elect(
    context: ChangeContext,
    choose: Choose,
    *,
    chooses: bool = False,
    until_balanced: bool = False,
    as_they_come: bool = False,
) -> None:
    """Let the preferred replicas of these partitions lead."""
    carry_out(
        context,
        ElectPreferred(
            choose=choose,
            chooses=chooses,
            until_balanced=until_balanced,
            as_they_come=as_they_come,
        ),
    )


def resumed_election(entry: Entry, how: ExecutionOptions) -> ElectPreferred:
    """What goes on with a preferred election that was cut off."""
    return ElectPreferred(
        choose=lambda snapshot: snapshot.only(entry.before),
        until_balanced=how.until_balanced,
        as_they_come=how.as_they_come,
        entry=entry,
    )
