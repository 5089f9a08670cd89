"""A plan carried out batch by batch: submitted, waited for, its leaders elected."""

import math
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from kipctl.changes.elections.batches import DEFAULT_TIMEOUT_S, ElectionOutcome, elect_preferred
from kipctl.changes.elections.request import Outcome
from kipctl.changes.execution.cancellation import cancel_unplanned
from kipctl.changes.execution.copy_progress import CopyTracker
from kipctl.changes.execution.pacing import ONE_BATCH, Pace, ReportInterval, next_moves
from kipctl.changes.execution.plan_result import PlanResult, first_failure, merged_elections
from kipctl.changes.execution.reassign import (
    FIRST_POLL_S,
    Failure,
    Progress,
    Until,
    await_finished,
    await_one,
    retry_until,
    submit,
)
from kipctl.changes.execution.safety_checks import BUSY, changed_since, unplanned
from kipctl.changes.execution.stopping import Stoppable
from kipctl.changes.guard_interface import NO_GUARD, ChangeGuard, NeverPauses, Pausable
from kipctl.changes.journal.entry import EntryState
from kipctl.changes.plans.plan import Move, Plan, SkippedPartition
from kipctl.cluster.metadata_convergence import ClusterEvent, EventKind, OnEvent, ignore_event
from kipctl.cluster.reassignments import list_reassignments
from kipctl.cluster.snapshot import Assignment, PartitionId, Snapshot, refresh_snapshot
from kipctl.counts import counted
from kipctl.errors import PartlyDoneError, RefusedError, TimedOutError
from kipctl.trace.clock import now_us

BATCH_TIMEOUT_S = 300.0
"""For each batch, where no time is given for the whole; while it copies data, for a standstill of
that."""
NOTHING_ACCEPTED = "of the batch before it nothing was accepted"


def ignore_progress(_: str) -> None:
    """For those who do not follow the progress."""


@dataclass(slots=True)
class Execution(Stoppable):
    """A plan that is carried out batch by batch, and how far it has come."""

    on_event: OnEvent = ignore_event
    progress: Progress = ignore_progress
    timeout_s: float | None = DEFAULT_TIMEOUT_S
    """For all batches together; None gives each one BATCH_TIMEOUT_S."""
    pace: Pace = ONE_BATCH
    additional: bool = True
    guard: ChangeGuard = NO_GUARD
    elects: bool = False
    accepted: list[Move] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    elections: list[ElectionOutcome] = field(default_factory=list)
    called_us: int = 0
    answered_us: int = 0
    finished_us: int = 0
    not_begun: int = 0
    """Partitions of a batch that were not submitted, as somebody asked for a pause."""
    is_whole: bool = True
    """When it is done, nothing of its entry is left for later."""
    copying: CopyTracker = field(init=False)
    """Of what is under way."""
    began: float = field(default_factory=time.monotonic)

    @property
    def whole(self) -> Plan:
        moves = {move.id: move for move in (*self.accepted, *self.plan.moves)}
        return Plan(tuple(moves.values()))

    def deadline(self) -> float:
        """For what begins now (time.monotonic): the deadline of the whole, if there is one."""
        whole_s = self.timeout_s
        return time.monotonic() + BATCH_TIMEOUT_S if whole_s is None else self.began + whole_s

    @contextmanager
    def _patience(self) -> Iterator[Until]:
        """Until when to wait: without a time for the whole, as long as data comes."""
        deadline = self.deadline()
        if self.timeout_s is not None:
            yield lambda: deadline
            return
        try:
            yield lambda: max(deadline, self.copying.stalled_until(BATCH_TIMEOUT_S))
        except TimedOutError as error:
            if self.copying.plan.copies_data:
                error.what += (
                    f" For {BATCH_TIMEOUT_S:g} s none has arrived, and no bytes were seen to come."
                )
            raise

    def _follow_copying(self, plan: Plan, *, is_under_way: bool = False) -> None:
        self.copying = CopyTracker(self.cluster, plan, self.pace.throttle, self.progress)
        self.copying.begin(is_under_way=is_under_way)
        if self.timeout_s is None and plan.copies_data and not self.copying.knows_sizes:
            self.progress(
                "Brokers do not report how far copying is: it is given up when no partition arrives"
                f" for {BATCH_TIMEOUT_S:g} s; --timeout gives all of it so much time as you say"
            )

    def execute(self) -> None:
        """Every batch, one after the other; `finish` it then. Raises what `reassign` does."""
        with self.explain_errors():
            self._follow_copying(self.plan)
            batches = list(self.plan.batches(self.pace.batch))
            for number, batch in enumerate(batches):
                if number:
                    self.pause(number, "batch", len(batches))
                else:
                    self.wait_for_guard()
                done = f"{counted(number, 'batch', 'are', total=len(batches))} done"
                if not self._submit_and_wait(batch, done):
                    left = (move.id for later in batches[number + 1 :] for move in later.moves)
                    self._leave_out(dict.fromkeys(left, NOTHING_ACCEPTED))
                    break
            if not self.accepted:
                raise RefusedError(f"No partition was accepted: {first_failure(self.failures)}")

    def finish(self) -> PlanResult:
        """Mark the entry as done, unless something of it is left for later."""
        if self.is_whole:
            self.mark(EntryState.DONE)
        return self.result()

    def result(self) -> PlanResult:
        """What has been reassigned, and elected, until now."""
        seconds = (self.finished_us - self.called_us) / 1e6
        held = self.elections or [ElectionOutcome((), self.called_us, self.answered_us)]
        return PlanResult(
            plan=Plan(tuple(self.accepted)),
            refused=tuple(self.failures),
            called_us=self.called_us,
            answered_us=self.answered_us,
            finished_us=self.finished_us,
            entry=self.entry,
            copied=self.copying.outcome(seconds) if self.plan.copies_data else None,
            election=merged_elections(held) if self.elects else None,
            batches=len(held),
        )

    def resume(self, under_way: Plan) -> None:
        """Wait for what was submitted before, and elect its leaders. Raises what `execute` does."""
        with self.explain_errors():
            self.accepted += under_way.moves
            self.is_changed = self.is_sent = True
            self._follow_copying(under_way, is_under_way=True)
            self.copying.submitted(under_way)
            now = self._await_finished(under_way.target)
            self.finished_us = now_us()
            if self.elects:
                leaders = under_way.preferred_leaders
                self.elect({p: leaders[p] for p in now.by_id if p in leaders}, now)

    def pause(self, done: int, noun: str, total: int) -> None:
        """Wait so long as the pace says, when so many batches or phases are `done`, and for the
        guard."""
        said = f"{counted(done, noun, 'are', total=total)} done"
        between_s, whole_s = self.pace.between_s, self.timeout_s
        if whole_s is not None and time.monotonic() + between_s > self.deadline():
            raise TimedOutError(
                f"{said}; the {whole_s:g} s allowed for the whole end before the next one begins.",
                "Repeat the command for the rest, with a longer --timeout.",
            )
        self.progress(f"{said}; the next one in {between_s:g} s")
        self.rest(between_s, said)
        self.wait_for_guard()

    def rest(self, seconds: float, done: str = "") -> None:
        """Wait so long, under the guard; `done` says how far it is, where a pause is asked for."""
        Pausable(self.guard, lambda: self.require_no_pause(done)).sleep(seconds)

    def wait_for_guard(self, *, anew: bool = True) -> None:
        """Wait while the guard holds the change up, until the time for the whole is over."""
        until = self.deadline() if self.timeout_s is not None else math.inf
        self.guard.require_quiet(until=until, anew=anew)

    def _look_on(self, busy: Collection[PartitionId]) -> None:
        """While these are being reassigned: how far they are, and whether the guard is crossed."""
        self.copying.look(busy)
        self.guard.look()

    def _submit_and_wait(self, batch: Plan, done: str) -> bool:
        """False when nothing of the batch was accepted; `done` says how much was before it."""
        now, batch = self._without_changed(batch)
        self.require_no_pause(done)
        in_order = batch.elections
        moved = self._execute_batch(batch.without(move.id for move in in_order))
        self.accepted += in_order
        accepted = Plan((*moved.moves, *in_order))
        if not accepted.moves:
            return False
        self.finished_us = now_us()
        if self.elects:
            self.elect(accepted.preferred_leaders, now)
        if self.not_begun:
            of_it = counted(len(accepted.moves), "partition", total=len(batch.moves))
            self.require_no_pause(f"{done}, and {of_it} of the next")
        return True

    def _execute_batch(self, batch: Plan) -> Plan:
        """The part of the batch that was accepted, when all of it is where it was to go.

        Where somebody asks for a pause meanwhile, what is left of it is `not_begun`.
        """
        most = self.pace.concurrent
        left, accepted, busy = batch, Plan(()), frozenset[PartitionId]()
        reports = ReportInterval()
        while left.moves:
            under_way = [move for move in accepted.moves if move.id in busy]
            chosen = left
            if most is not None:
                chosen = Plan(next_moves(left.moves, under_way, most))
            rest = left.without(chosen.target)
            if accepted.moves and chosen.moves:
                self.wait_for_guard(anew=False)
                _, chosen = self._without_changed(chosen, busy)
                if self.is_to_pause:
                    self.not_begun = len(left.moves)
                    break
            left = rest
            taken = self._submit(chosen) if chosen.moves else chosen
            accepted = Plan((*accepted.moves, *taken.moves))
            self.accepted += taken.moves
            self.copying.submitted(taken)
            if left.moves:
                submitted = busy | taken.target.keys()
                with self._patience() as until:
                    busy = await_one(self.cluster, submitted, until, self._look_on)
                    # What is not listed any more has arrived, or somebody has cancelled it.
                    ended = submitted - busy
                    if target := {p: to for p, to in accepted.target.items() if p in ended}:
                        await_finished(self.cluster, target, until, self.progress)
                if reports.is_due(time.monotonic()):
                    done = len(accepted.moves) - len(busy)
                    self.progress(
                        f"{counted(done, 'partition', total=len(batch.moves))} reassigned"
                    )
        if accepted.moves:
            self._await_finished(accepted.target)
        return accepted

    def _await_finished(self, target: Assignment) -> Snapshot:
        with self._patience() as until:
            return await_finished(self.cluster, target, until, self.progress, self._look_on)

    def _without_changed(
        self, batch: Plan, own: Collection[PartitionId] = ()
    ) -> tuple[Snapshot, Plan]:
        """The batch's topics as they are now, and the batch less what has changed since.

        `own` are being reassigned by this change itself.
        """
        deadline = self.deadline()
        listed = retry_until(lambda: list_reassignments(self.cluster), deadline)
        busy = [reassignment for reassignment in listed if reassignment.id not in own]
        if busy and not self.additional:
            raise RefusedError(
                f"{counted(len(busy), 'other partition', 'are')} being"
                f" reassigned by now, such as {busy[0].id}.",
            )
        now = retry_until(lambda: refresh_snapshot(self.cluster, batch.topics), deadline)
        reasons = changed_since(batch, now, elects=self.elects)
        in_batch = batch.target
        reasons |= {reassignment.id: BUSY for reassignment in busy if reassignment.id in in_batch}
        self._leave_out(reasons)
        return now, batch.without(reasons)

    def _submit(self, batch: Plan) -> Plan:
        """The part of the batch that was accepted, and does what the plan says."""
        deadline = self.deadline()
        self.send()
        called_us = now_us()
        self.called_us = self.called_us or called_us
        self.on_event(ClusterEvent(EventKind.REASSIGNMENT_CALLED, called_us))
        refused = submit(
            self.cluster,
            batch.target,
            may_change_replication_factor=batch.changes_replication_factor,
            deadline=deadline,
        )
        answered_us = now_us()
        self.answered_us = self.answered_us or answered_us
        self.on_event(ClusterEvent(EventKind.REASSIGNMENT_ANSWERED, answered_us))
        self.failures += refused
        self.copying.leave_out(refusal.id for refusal in refused)
        accepted = batch.without(refusal.id for refusal in refused)
        if not accepted.moves:
            return accepted
        self.is_changed = True
        busy = retry_until(lambda: list_reassignments(self.cluster, accepted.target), deadline)
        stopped = cancel_unplanned(self.cluster, unplanned(accepted, busy), deadline)
        self.failures += stopped
        unplanned_moves = [skipped.id for skipped in stopped]
        self.copying.leave_out(unplanned_moves)
        return accepted.without(unplanned_moves)

    def elect(self, expected: Mapping[PartitionId, int], now: Snapshot) -> None:
        """Elect these preferred leaders, and wait until the brokers know them."""
        # What was copied took its time; an order of replicas is taken at once.
        self.wait_for_guard(anew=self.plan.copies_data)
        self.progress(f"Electing the preferred leaders of {counted(len(expected), 'partition')}")
        self.hold_election(expected, now)

    def hold_election(
        self, expected: Mapping[PartitionId, int], now: Snapshot, within_s: float = math.inf
    ) -> ElectionOutcome:
        """The same, whatever the guard says, and within so many seconds."""
        left_s = max(FIRST_POLL_S, self.deadline() - time.monotonic())
        self.send()
        try:
            held = elect_preferred(
                self.cluster,
                expected,
                now.only(expected),
                on_event=self.on_event,
                timeout_s=min(within_s, left_s),
                guard=NeverPauses(self.guard),
            )
        except RefusedError as refused:  # Kafka 3.0 has no elections in KRaft
            if not any(not move.is_election for move in self.accepted):
                raise
            raise PartlyDoneError(
                f"The replicas are in their new order, and led as before: {refused.what}",
                self.next_step,
            ) from None
        self.elections.append(held)
        self.is_changed |= held.count(Outcome.ELECTED) > 0
        return held

    def _leave_out(self, reasons: Mapping[PartitionId, str]) -> None:
        self.failures += (SkippedPartition(partition, why) for partition, why in reasons.items())
        self.copying.leave_out(reasons)
