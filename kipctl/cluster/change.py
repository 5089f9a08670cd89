"""Changes carried out from end to end: reassign, elect, and wait until every broker knows."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from kipctl.cluster.elect import LOOK, Elected, Outcome
from kipctl.cluster.elections import DEFAULT_TIMEOUT_S, ElectionHeld, elect_preferred
from kipctl.cluster.journal import Entry, Journal
from kipctl.cluster.plan import Plan, demand_moves, reach, rotate
from kipctl.cluster.reassign import (
    Progress,
    Refusal,
    await_finished,
    refuse_if_ongoing,
    submit,
)
from kipctl.cluster.snapshot import Snapshot, is_glob, select, take_snapshot
from kipctl.cluster.watch import ClusterEvent, EventKind, OnEvent, ignore_event
from kipctl.errors import (
    InterruptedRunError,
    KipctlError,
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
)
from kipctl.trace.clock import now_us
from kipctl.transport.request import Cluster

UNDO = "Undo: kipctl reassign --rollback"


def ignore_progress(_: str) -> None:
    """For those who do not follow the progress."""


@dataclass(frozen=True, slots=True)
class Reassigned:
    """A finished reassignment, with its times on the clock of now_us()."""

    plan: Plan
    refused: tuple[Refusal, ...]
    called_us: int
    answered_us: int
    finished_us: int
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class LeadersMoved:
    """Replicas reassigned (None when they were in place already), then their leaders elected."""

    reassigned: Reassigned | None
    held: ElectionHeld

    @property
    def failures(self) -> tuple[Refusal | Elected, ...]:
        refused = self.reassigned.refused if self.reassigned else ()
        return (*refused, *(e for e in self.held.outcomes if e.outcome is Outcome.FAILED))


def reassign(
    cluster: Cluster,
    plan: Plan,
    *,
    journal: Journal | None = None,
    on_event: OnEvent = ignore_event,
    progress: Progress = ignore_progress,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Reassigned:
    """Submit the plan and wait until the cluster has carried it out.

    With a journal, the current assignment of the plan's partitions is saved first. Partitions that
    were refused are in the result. Raises RefusedError when a partition is being reassigned already
    or none was accepted, TimedOutError, UnreachableError, and InterruptedRunError.
    """
    entry = _save(cluster, plan, journal)
    with _undo_reported(cluster, plan, UNDO if entry else LOOK):
        return _submit_and_wait(cluster, plan, entry, on_event, progress, timeout_s)


def _save(cluster: Cluster, plan: Plan, journal: Journal | None) -> Entry | None:
    """Make sure that nothing else moves these partitions, and save where they are now."""
    try:
        refuse_if_ongoing(cluster, plan.target)
        return journal.save({move.id: move.before for move in plan.moves}) if journal else None
    except KeyboardInterrupt:
        raise InterruptedRunError("Interrupted before anything was changed.") from None


def _submit_and_wait(
    cluster: Cluster,
    plan: Plan,
    entry: Entry | None,
    on_event: OnEvent,
    progress: Progress,
    timeout_s: float,
) -> Reassigned:
    deadline = time.monotonic() + timeout_s
    called_us = now_us()
    on_event(ClusterEvent(EventKind.REASSIGNMENT_CALLED, called_us))
    refused = submit(
        cluster,
        plan.target,
        may_change_replication_factor=plan.changes_replication_factor,
    )
    answered_us = now_us()
    on_event(ClusterEvent(EventKind.REASSIGNMENT_ANSWERED, answered_us))
    accepted = plan.without(refusal.id for refusal in refused)
    if not accepted.moves:
        if entry:
            entry.discard()
        raise RefusedError(f"The cluster refused every partition: {examples(refused)}")
    await_finished(cluster, accepted.target, deadline, progress)
    return Reassigned(accepted, refused, called_us, answered_us, now_us(), entry)


def rotate_leaders(
    cluster: Cluster,
    plan: Plan,
    before: Snapshot,
    *,
    journal: Journal | None = None,
    on_event: OnEvent = ignore_event,
    progress: Progress = ignore_progress,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> LeadersMoved:
    """Carry the plan out, then elect its preferred leaders. Raises what its two halves raise."""
    entry = _save(cluster, plan, journal)
    next_step = UNDO if entry else LOOK
    with _undo_reported(cluster, plan, next_step):
        reassigned = _submit_and_wait(cluster, plan, entry, on_event, progress, timeout_s)
        expected = reassigned.plan.preferred_leaders
        progress(f"Electing the preferred leaders of {len(expected)} partitions")
        with _partly_done_if_refused(next_step):
            held = elect_preferred(
                cluster, expected, before, on_event=on_event, timeout_s=timeout_s
            )
    return LeadersMoved(reassigned, held)


def rotate_once(
    cluster: Cluster,
    topics: Sequence[str],
    on_event: OnEvent = ignore_event,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> LeadersMoved:
    """Move every leader of these topics (names or globs) to its next replica, and wait for it.

    Nothing is saved in a journal. Raises what `rotate_leaders` does, and RefusedError when a topic
    cannot be rotated.
    """
    before = select(take_snapshot(cluster, None if any(map(is_glob, topics)) else topics), topics)
    plan = rotate(before)
    demand_moves(plan, topics)
    return rotate_leaders(cluster, plan, before, on_event=on_event, timeout_s=timeout_s)


def roll_back(
    cluster: Cluster,
    entry: Entry,
    before: Snapshot,
    *,
    on_event: OnEvent = ignore_event,
    progress: Progress = ignore_progress,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> LeadersMoved:
    """Bring back the assignment of a journal entry, and its preferred leaders.

    The entry is marked undone once every partition is back, so that the next rollback goes one
    further. Partitions that no longer exist are left out.
    """
    saved = entry.assignment()
    plan = reach(before, saved)
    expected = {p: replicas[0] for p, replicas in saved.items() if p in before.by_id}
    reassigned = None
    _save(cluster, plan, None)
    with _undo_reported(cluster, plan, "Go on with it: kipctl reassign --rollback"):
        if plan.moves:
            reassigned = _submit_and_wait(cluster, plan, None, on_event, progress, timeout_s)
        progress(f"Electing the preferred leaders of {len(expected)} partitions")
        with _partly_done_if_refused(LOOK) if plan.moves else nullcontext():
            held = elect_preferred(
                cluster, expected, before, on_event=on_event, timeout_s=timeout_s
            )
    moved = LeadersMoved(reassigned, held)
    if not moved.failures:
        entry.mark_undone()
    return moved


def examples(failures: Sequence[Refusal | Elected]) -> str:
    """The first failure in words, and how many more there are."""
    more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
    return f"{failures[0]}{more}." if failures else ""


def demand_all_done(failures: Sequence[Refusal | Elected], done: int, next_step: str) -> None:
    """Raise PartlyDoneError when some partitions failed, RefusedError when all did."""
    if not failures:
        return
    if not done:
        raise RefusedError(f"No partition was done: {examples(failures)}", next_step)
    raise PartlyDoneError(
        f"{done} partitions are done, {len(failures)} are not: {examples(failures)}", next_step
    )


@contextmanager
def _partly_done_if_refused(next_step: str) -> Iterator[None]:
    """An election that is refused (Kafka 3.0 has none in KRaft) leaves replicas that have moved."""
    try:
        yield
    except RefusedError as refused:
        raise PartlyDoneError(
            f"The replicas are in their new order, and led as before: {refused.what}", next_step
        ) from None


@contextmanager
def _undo_reported(cluster: Cluster, plan: Plan, next_step: str) -> Iterator[None]:
    """Add the next step to what may stop a change midway; Ctrl-C also tells how far it came."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError(f"Interrupted. {_how_far(cluster, plan)}", next_step) from None
    except (TimedOutError, UnreachableError) as error:
        error.next_step = f"{error.next_step} {next_step}".strip()
        raise


def _how_far(cluster: Cluster, plan: Plan) -> str:
    # Metadata alone, which brokers answer even when the controller hangs.
    try:
        now = take_snapshot(cluster, plan.topics).by_id
    except KipctlError as error:
        return f"How far it came is unknown: {error.what}"
    here = [move for move in plan.moves if move.id in now]
    placed = sum(now[move.id].replicas == move.after for move in here)
    waiting = sum(now[move.id].replicas == move.before for move in here)
    moved = sum(now[move.id].leader == move.preferred_leader for move in here)
    return (
        f"Of {len(here)} partitions {placed} have their new replicas, {waiting} their old ones and"
        f" {len(here) - placed - waiting} are under way; {moved} are led by their new preferred"
        f" leader, {len(here) - moved} are not."
    )
