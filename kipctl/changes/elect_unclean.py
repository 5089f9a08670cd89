"""`kipctl elect unclean`: leaders for partitions that have none, at the price of records."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kipctl.changes.change import ChangeRun
from kipctl.changes.context import ChangeContext
from kipctl.changes.elect import Election
from kipctl.changes.elections.batches import DEFAULT_TIMEOUT_S, elect_unclean
from kipctl.changes.elections.unclean import (
    LeaderlessPartition,
    examine,
    longest_first,
    require_ends,
    require_lost_for_good,
    transactions_after,
    transactions_before,
    why_riskier,
)
from kipctl.changes.execution.journaled_action import journaled_action
from kipctl.changes.execution.plan_execution import reassign
from kipctl.changes.execution.plan_result import PlanResult, require_all_done
from kipctl.changes.execution.reassign import topic_ids
from kipctl.changes.execution.safety_checks import min_insync_replicas
from kipctl.changes.journal.entry import ChangeKind, Entry, EntryState
from kipctl.changes.plans.plan import SkippedPartition, plan_to
from kipctl.changes.proposal import UncleanProposal, UncleanResult
from kipctl.cluster.snapshot import Snapshot, refresh_snapshot
from kipctl.counts import counted
from kipctl.errors import RefusedError
from kipctl.transport.request import Cluster

_NEXT_STEP = (
    "Start a broker that holds a replica. Or repeat the command, and look at what would be lost"
    " again."
)


@dataclass(frozen=True, kw_only=True)
class ElectUnclean(Election[UncleanProposal, UncleanResult]):
    """A replica that is out of sync is to lead each partition that is chosen and has no leader.

    Partitions of internal topics are left alone unless `internal`. The `longest` log of the live
    replicas is to lead, or else the one that the controller chooses.
    """

    internal: bool = True
    longest: bool = False

    def examined(self, cluster: Cluster, snapshot: Snapshot) -> tuple[LeaderlessPartition, ...]:
        leaderless = examine(cluster, snapshot)
        return tuple(map(longest_first, leaderless)) if self.longest else leaderless

    def look(self, context: ChangeContext) -> UncleanProposal:
        shown = self.chosen(context)
        if not self.internal:
            left_out = sum(partition.internal for partition in shown.leaderless)
            shown = shown.only(
                partition.id for partition in shown.partitions if not partition.internal
            )
            if left_out:
                context.ui.say(
                    f"Left alone without --internal: {counted(left_out, 'partition')} of internal"
                    " topics without a leader."
                )
        leaderless = self.examined(context.cluster, shown)
        return UncleanProposal(shown, leaderless, transactions_before(context.cluster, leaderless))

    def show(self, context: ChangeContext, seen: UncleanProposal) -> None:
        context.ui.unclean_election(seen, is_result=True)

    def refuse(self, context: ChangeContext, seen: UncleanProposal) -> None:
        if not context.force:
            require_lost_for_good(seen.leaderless)

    def announce(self, context: ChangeContext, seen: UncleanProposal) -> None:
        context.ui.unclean_election(seen, is_result=False)

    def question(self, seen: UncleanProposal) -> str:
        total = len(seen.chosen.partitions)
        return (
            f"{counted(len(seen.leaderless), 'partition', 'have', total=total)} no leader. An"
            " unclean election loses for good the records that the elected replica does not have."
            " Elect them?"
        )

    def typed(self, seen: UncleanProposal) -> str:
        return str(len(seen.leaderless))

    def look_again(self, run: ChangeRun, seen: UncleanProposal) -> UncleanProposal:
        """What was confirmed is these leaders, and no greater loss."""
        cluster = run.context.cluster
        shown = {partition.id: partition for partition in seen.leaderless}
        # A broker may be back: what has a leader again loses nothing.
        now = refresh_snapshot(cluster, {id.topic for id in shown}).only(shown)
        before = now.only(partition.id for partition in now.leaderless)
        if recovered := len(shown) - len(before.partitions):
            run.context.ui.say(
                "Left out, as they have a leader again or are gone:"
                f" {counted(recovered, 'partition')}."
            )
        # A broker may be gone.
        leaderless = self.examined(cluster, before)
        reasons = {
            partition.id: why
            for partition in leaderless
            if (why := why_riskier(shown[partition.id], partition))
        }
        riskier = tuple(SkippedPartition(partition, why) for partition, why in reasons.items())
        left = tuple(partition for partition in leaderless if partition.id not in reasons)
        if not left:
            require_all_done(riskier, 0, _NEXT_STEP)
        return UncleanProposal(
            before.only(partition.id for partition in left), left, skipped=riskier
        )

    @contextmanager
    def recorded(self, run: ChangeRun, again: UncleanProposal) -> Iterator[Entry | None]:
        if not again.leaderless:
            yield None
            return
        chosen = again.chosen
        yield run.journal.save(
            chosen.assignment,
            chosen.assignment,
            run.context.origin,
            topic_ids(run.context.cluster, chosen.topics),
            kind=ChangeKind.ELECT_UNCLEAN,
            leaders={partition.id: partition.leader for partition in chosen.partitions},
        )

    def title(self, again: UncleanProposal) -> str:
        return f"Electing leaders of {counted(len(again.leaderless), 'partition')}"

    def execute(self, run: ChangeRun, again: UncleanProposal) -> UncleanResult:
        cluster, before = run.context.cluster, again.chosen
        if run.entry:
            run.entry.mark(EntryState.SUBMITTED)
        try:
            _put_in_order(run, again)
            timeout_s = run.context.timeout_s or DEFAULT_TIMEOUT_S
            held = elect_unclean(cluster, before.by_id, timeout_s)
        except RefusedError:
            if run.entry:
                run.entry.mark_or_note(EntryState.REFUSED)
            raise
        after = run.context.final_snapshot(before.topics)
        held_up = transactions_after(cluster, after.only(before.by_id).partitions)
        few = min_insync_replicas(cluster, {stand.topic for stand in held_up.stands})
        return UncleanResult(PlanResult(election=held), again.skipped, after, held_up, few)

    def finish(self, run: ChangeRun, again: UncleanProposal, done: UncleanResult) -> None:
        if run.entry:
            run.entry.mark_or_note(EntryState.DONE)

    def report(
        self,
        run: ChangeRun,
        seen: UncleanProposal,
        again: UncleanProposal,
        done: UncleanResult,
    ) -> None:
        run.context.ui.elected(done, again.chosen)

    def next_step(self, run: ChangeRun) -> str:
        return _NEXT_STEP

    def require_ended(self, run: ChangeRun, again: UncleanProposal, done: UncleanResult) -> None:
        require_ends(done.held_up, run.context.cluster.access)


def _put_in_order(run: ChangeRun, again: UncleanProposal) -> None:
    """Put the replicas first that are to lead, as the controller takes the first live one; the
    order of before is in the journal."""
    cluster = run.context.cluster
    wanted = {partition.id: partition.replicas for partition in again.leaderless}
    plan = plan_to(again.chosen, wanted)
    if not plan.moves:
        return
    moved = again.chosen.only(move.id for move in plan.moves)
    say, command = run.context.ui.say, run.context.origin.command
    with journaled_action(cluster, run.journal, moved, say, copies=False, command=command):
        reassign(cluster, plan, additional=True)
