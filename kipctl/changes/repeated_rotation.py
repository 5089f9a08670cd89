"""Leaders that rotate as often as somebody who looks on wants, and then are where they were."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from kipctl.changes.carry_out import carry_out
from kipctl.changes.change import ChangeRun
from kipctl.changes.context import ChangeContext
from kipctl.changes.entries import look_at_partitions
from kipctl.changes.execution.plan_execution import reassign
from kipctl.changes.execution.plan_result import PlanResult, first_failure
from kipctl.changes.execution.reassign import topic_ids
from kipctl.changes.execution.remaining import ALREADY_BACK, DELETED, RECREATED, plan_rollback
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.planned import PlannedChange
from kipctl.changes.plans.plan import Plan, require_moves
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.changes.proposal import Proposal
from kipctl.changes.way_back import describe_left, undo_command
from kipctl.cluster.snapshot import Snapshot, refresh_snapshot, select
from kipctl.counts import counted
from kipctl.errors import ExitStatus, KipctlError, PartlyDoneError, error_of
from kipctl.next_step import Command, NextStep
from kipctl.process import wait_until

_SHOWN_WITHIN_S = 5.0
"""After an election that went well the broker asked may show the leaders of before for a moment."""


@dataclass(slots=True)
class Rotation:
    """Rotates, once a call, the leaders of the partitions of an entry, and of no others; it waits
    until every broker knows."""

    context: ChangeContext
    entry: Entry
    has_rotated: bool = False

    def __call__(self) -> int:
        """Returns of how many partitions. Raises what `reassign` does, and RefusedError where
        nothing can be rotated."""
        cluster = self.context.cluster
        plan = rotate(own(self.entry, refresh_snapshot(cluster, self.context.topics)))
        require_moves(plan, self.context.topics)
        self.has_rotated = True
        if failures := reassign(cluster, plan, elects=True).failures:
            self.context.ui.say(f"Not all leaders moved: {first_failure(failures)}")
        return len(plan.moves)

    @property
    def is_to_pause(self) -> bool:
        """Whether somebody has asked for it (`kipctl changes pause`)."""
        return self.entry.is_to_pause


Act = Callable[[Rotation], None]
"""What is done while leaders rotate."""


@dataclass(frozen=True, kw_only=True)
class _RepeatedRotation(PlannedChange):
    act: Act

    def title(self, again: Proposal) -> str:
        return ""  # whoever acts shows how far it is

    @contextmanager
    def recorded(self, run: ChangeRun, again: Proposal) -> Iterator[Entry | None]:
        """It stays open until all is back: `kipctl undo` does what could not be done."""
        context, plan = run.context, again.plan
        entry = run.journal.save(
            {move.id: move.before for move in plan.moves},
            origin=context.origin,
            topic_ids=topic_ids(context.cluster, plan.topics),
            leaders={move.id: move.leader for move in plan.moves},
            is_locked=True,
        )
        context.ui.say(
            "Leaders are put back at the end; should that fail: " + undo_command(context, entry)
        )
        yield entry

    def execute(self, run: ChangeRun, again: Proposal) -> PlanResult:
        """Also where `act` raises, and after Ctrl-C, replicas are put back into the order in which
        they were, and the first of each leads.

        Raises what `act` does, and PartlyDoneError, with that, where not all could be put back.
        """
        assert run.entry is not None
        rotation = Rotation(run.context, run.entry)
        try:
            self.act(rotation)
        except KipctlError as stopped:
            try:
                _restore(rotation)
            except KipctlError as left:
                left.what = f"{stopped.what} {left.what}"
                raise left from stopped
            raise
        except BaseException as stopped:
            try:
                _restore(rotation)
            except KipctlError as left:
                stopped.add_note(str(left))
            raise
        return _restore(rotation)

    def report(self, run: ChangeRun, seen: Proposal, again: Proposal, done: PlanResult) -> None:
        if run.entry and run.entry.reload().state is EntryState.UNDONE:
            run.context.ui.say("Replicas are in the order of before, and the first of each leads.")


def own(entry: Entry, now: Snapshot) -> Snapshot:
    """The entry's partitions that are on the brokers of before: others somebody else has moved."""
    before = entry.before
    return now.only(
        partition.id
        for partition in now.partitions
        if partition.id in before and set(partition.replicas) == set(before[partition.id])
    )


def _restore(rotation: Rotation) -> PlanResult:
    """Put back what can be, orders and leaders, and look whether all is.

    Raises PartlyDoneError where it is not, TimedOutError, UnreachableError, InterruptedRunError.
    """
    context, entry = rotation.context, rotation.entry
    if not rotation.has_rotated:
        entry.mark_or_note(EntryState.REFUSED)
        return PlanResult()
    undo = undo_command(context, entry)
    try:
        done, way = PlanResult(), _way_back(context, entry)
        if way.moves:
            done = reassign(context.cluster, way, elects=True)

        def is_back() -> bool:
            nonlocal way
            way = _way_back(context, entry)
            return not way.moves

        wait_until(is_back, 0.0 if done.failures else _SHOWN_WITHIN_S)
    except KipctlError as failed:
        refused = failed.status in (ExitStatus.REFUSED, ExitStatus.USAGE)
        raise error_of(
            ExitStatus.PARTLY_DONE if refused else failed.status,
            f"Leaders are not all put back: {failed.what}",
            "Put them back: " + undo,
        ) from failed
    if way.skipped:
        more = f", and {counted(len(way.moves), 'other')}" if way.moves else ""
        raise PartlyDoneError(
            f"Leaders are not all put back. {describe_left(way.skipped)}{more}",
            "When that is over: " + undo,
        )
    if way.moves:
        why = first_failure(done.failures) or f"{way.moves[0].id} is led by {way.moves[0].leader}."
        step = NextStep("Put them back: ", undo)
        if not way.without(move.id for move in way.elections).moves:
            topics = Command("elect preferred", topic=list(way.topics))
            step = NextStep("Only elections are left: ", topics, ", or ", undo)
        raise PartlyDoneError(
            f"{counted(len(way.moves), 'partition', 'are')} not put back: {why}", step
        )
    entry.mark_or_note(EntryState.UNDONE)
    return done


def _way_back(context: ChangeContext, entry: Entry) -> Plan:
    """What of the entry is not as before: to be moved or elected, or to be waited for."""
    busy, now, ids = look_at_partitions(context, entry)
    plan = plan_rollback(entry, own(entry, now), ids, [reassignment.id for reassignment in busy])
    over = (ALREADY_BACK, DELETED, RECREATED)
    return replace(plan, skipped=tuple(step for step in plan.skipped if step.reason not in over))


def rotate_while(context: ChangeContext, act: Act, question: str) -> None:
    """Rotate the leaders of the context's topics while `act` is at work, once `question` (with `{}`
    for the partitions) is answered; then put them back. One entry in the journal has the way back,
    should that fail.

    Raises what `carry_out` and `act` do.
    """
    carry_out(
        context,
        _RepeatedRotation(
            planner=lambda now: rotate(select(now, context.topics)),
            question_words=question,
            check=partial(require_moves, patterns=context.topics),
            may_meet_throttles=False,
            act=act,
        ),
    )
