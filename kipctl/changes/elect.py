"""`kipctl elect`: elections of leaders, as changes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from kipctl.changes.change import Change, ChangeRun, Done, Seen
from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.batch_execution import Execution
from kipctl.changes.execution.copy_progress import CatchUp
from kipctl.changes.execution.election_until_balanced import (
    elect_until_balanced,
    preferred_on,
    waits_for,
)
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.execution.reassign import topic_ids
from kipctl.changes.execution.safety_checks import BUSY, list_or_reason
from kipctl.changes.journal.entry import ChangeKind, Entry, EntryState, ExecutionOptions
from kipctl.changes.plans.kafka_json import read_election
from kipctl.changes.plans.plan import Plan, SkippedPartition, move_of, require_partitions
from kipctl.changes.proposal import ElectionProposal
from kipctl.cluster.acls import hidden_topics_warning, require_topics_shown
from kipctl.cluster.reassignments import Reassignment, adding_of
from kipctl.cluster.recoveries import catching_up
from kipctl.cluster.snapshot import (
    PartitionId,
    Snapshot,
    parse_partition,
    refresh_snapshot,
    select,
    take_snapshot,
)
from kipctl.counts import counted
from kipctl.errors import RefusedError
from kipctl.next_step import Command

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

    def require_free(self, run: ChangeRun) -> None:
        """It may go on beside a change."""

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
class ElectPreferred(Election[ElectionProposal, PlanResult]):
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
            _say_what_waits(context, now, chosen, busy)
        return propose_election(chosen, {reassignment.id for reassignment in busy})

    def show(self, context: ChangeContext, seen: ElectionProposal) -> None:
        context.ui.preferred_election(seen)

    def end_without(self, context: ChangeContext, seen: ElectionProposal) -> None:
        if self.entry and not seen.skipped:
            self.entry.mark_or_note(EntryState.DONE)
        self._say_left_alone(context, seen)
        self.show(context, seen)

    def refuse(self, context: ChangeContext, seen: ElectionProposal) -> None:
        if not self.until_balanced and not any(
            partition.preferred_leader in partition.isr
            for partition in seen.not_preferred.partitions
        ):
            raise RefusedError(
                "No partition can be elected now.",
                "Choose the same with --until balanced: that waits for it."
                if self.entry is None
                else "Go on when they can: " + Command("changes resume", context.named(self.entry)),
            )

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
        scope = f"topic {topics[0]}" if len(topics) == 1 else counted(len(topics), "topic")
        return (
            f"{counted(len(seen.partitions), 'partition', total=len(seen.chosen.partitions))}, of"
            f" {scope}, not led by the preferred replica."
            + (" Move leaders until all are?" if self.until_balanced else " Move these leaders?")
        )

    def look_again(self, run: ChangeRun, seen: ElectionProposal) -> ElectionProposal:
        """Anybody may have moved them since they were shown."""
        cluster = run.context.cluster
        busy, _ = list_or_reason(cluster, may_not_list=True)
        meant = seen.chosen if self.until_balanced else seen.not_preferred
        now = refresh_snapshot(cluster, meant.topics).only(meant.by_id)
        return propose_election(now, {reassignment.id for reassignment in busy})

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
            leaders={partition.id: partition.leader for partition in chosen.partitions},
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

    def execute(self, run: ChangeRun, again: ElectionProposal) -> PlanResult:
        plan = Plan(tuple(move_of(p, p.replicas) for p in self._electable(again).partitions))
        run.settings["additional"] = True  # what is being reassigned is left alone
        change = Execution(
            run.context.cluster,
            plan,
            run.entry,
            go_on=Command("changes resume", run.context.named(run.entry)) if run.entry else None,
            pause_asked=run.journal.is_to_pause if run.is_locked else lambda: False,
            elects=True,
            **run.settings,
        )
        if self.until_balanced:
            return elect_until_balanced(change, as_they_come=self.as_they_come)
        if plan.moves:
            change.execute()
        return change.result()

    def finish(self, run: ChangeRun, again: ElectionProposal, done: PlanResult) -> None:
        """Mark it done, and with it elections that were cut off of the same partitions."""
        if run.entry is None:
            return
        elected = run.entry.before.keys()
        # Of what is gone on with, a part was done before.
        is_refused = done.failures and not done.done and self.entry is None
        run.entry.mark_or_note(EntryState.REFUSED if is_refused else EntryState.DONE)
        if done.failures:
            return
        for entry in list(run.journal.unfinished()):
            if entry.kind is ChangeKind.ELECT_PREFERRED and entry.before.keys() <= elected:
                entry.mark_or_note(EntryState.DONE)

    def report(
        self,
        run: ChangeRun,
        seen: ElectionProposal,
        again: ElectionProposal,
        done: PlanResult,
    ) -> None:
        before = self._electable(again)
        after = run.context.final_snapshot(before.topics)
        run.context.ui.moved(done, before, after, Plan((), again.skipped))

    def next_step(self, run: ChangeRun) -> str:
        return "See their replicas: " + Command("inspect leaders")


def _say_what_waits(
    context: ChangeContext, now: Snapshot, chosen: Snapshot, busy: Iterable[Reassignment]
) -> None:
    """Which partitions cannot be elected now, and which brokers would get leaders before they are
    whole; `now` is of all topics."""
    astray = chosen.not_led_by_preferred
    if waiting := [
        partition for partition in astray if partition.preferred_leader not in partition.isr
    ]:
        context.ui.say(
            f"{counted(len(waiting), 'partition', total=len(astray))} cannot be elected now:"
            f" {waits_for(waiting, now, ())}. --until balanced waits for that."
        )
    behind = catching_up(now, adding_of(busy))
    wanted = {partition.preferred_leader for partition in astray if partition not in waiting}
    for broker in sorted(wanted & behind.keys()):
        replicas = sum(broker in partition.replicas for partition in now.partitions)
        copies = str(CatchUp(broker, len(behind[broker]), replicas))
        context.ui.say(
            f"{copies.capitalize()}. Who writes to what it leads waits for that: --until"
            " balanced elects when it has copied all."
        )


def propose_election(chosen: Snapshot, busy: Collection[PartitionId]) -> ElectionProposal:
    """What of these partitions a preferred election is for, now. A pure function.

    What is being reassigned is left alone: who does that elects its leaders.
    """
    skipped = tuple(
        SkippedPartition(partition.id, BUSY)
        for partition in chosen.not_led_by_preferred
        if partition.id in busy
    )
    return ElectionProposal(chosen, skipped)


def chosen_partitions(
    topics: Sequence[str],
    partitions: Sequence[str],
    every: bool,
    json_file: Path | None,
    brokers: Sequence[int] = (),
) -> Choose:
    """What chooses those of Kafka's JSON, of these brokers, or as they are named.

    Raises UsageError for what cannot be read.
    """
    if every:
        return lambda snapshot: snapshot
    if topics:
        return lambda snapshot: select(snapshot, topics)
    if brokers:
        return lambda snapshot: preferred_on(snapshot, brokers)
    named: Sequence[PartitionId] = (
        [parse_partition(text) for text in partitions]
        if json_file is None
        else read_election(json_file)
    )

    def only_named(snapshot: Snapshot) -> Snapshot:
        require_partitions(snapshot, named)
        return snapshot.only(named)

    return only_named


def resumed_election(entry: Entry, how: ExecutionOptions) -> ElectPreferred:
    """What goes on with a preferred election that was cut off."""
    return ElectPreferred(
        choose=lambda snapshot: snapshot.only(entry.before),
        until_balanced=how.until_balanced,
        as_they_come=how.as_they_come,
        entry=entry,
    )
