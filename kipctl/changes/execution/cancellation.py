"""Reassignments cancelled: which ones, and how their replicas get their order back.

A cancelled partition gets its old replicas back, but the order, and with it the preferred leader,
may have changed.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kipctl.changes.elections.batches import in_batches
from kipctl.changes.execution.reassign import (
    METADATA_GRACE_S,
    Failure,
    await_finished,
    poll_pauses,
    retry_until,
    submit,
)
from kipctl.changes.execution.safety_checks import BUSY
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.journal.phases import present_phase
from kipctl.changes.plans.disks import DiskMove
from kipctl.changes.plans.plan import Plan, SkippedPartition, plan_to
from kipctl.cluster.reassignments import Reassignment, list_reassignments
from kipctl.cluster.snapshot import PartitionId, Snapshot, refresh_snapshot
from kipctl.counts import counted
from kipctl.errors import (
    InterruptedRunError,
    KipctlError,
    PartlyDoneError,
    TimedOutError,
    UnreachableError,
)
from kipctl.next_step import Command, NextStep
from kipctl.transport.request import Cluster

_AT_ONCE = 1000
"""Partitions in a request; the controller takes 10,000 records in one operation."""
_LOOK = NextStep("See: ", Command("reassign --list"), ", ", Command("inspect leaders"))


def started_by(entry: Entry, reassignment: Reassignment) -> bool:
    """True when the reassignment is the one that the entry tells of: from there, and to there."""
    entry = present_phase(entry)
    before, after = entry.before.get(reassignment.id), entry.after.get(reassignment.id)
    return (
        before is not None
        and after is not None
        and frozenset(before) == reassignment.original
        and frozenset(after) == reassignment.wanted
    )


def starting_entries(
    busy: Iterable[Reassignment], entries: Iterable[Entry]
) -> dict[PartitionId, Entry]:
    """The journal entries that reassignments in progress were started with, by partition.

    `entries` are the newest first. Of each partition only the newest change counts: an older one
    that looks the same is over. So is one that is done: all of it had arrived. What no entry tells
    of is somebody else's.
    """
    open_ones = {reassignment.id: reassignment for reassignment in busy}
    by_partition: dict[PartitionId, Entry] = {}
    for entry in entries:
        if not open_ones:
            break
        if entry.state is EntryState.PREPARED or not entry.may_be_undone:
            continue  # it started none
        for partition_id in open_ones.keys() & entry.before.keys():
            reassignment = open_ones.pop(partition_id)
            if entry.is_open and started_by(entry, reassignment):
                by_partition[partition_id] = entry
    return by_partition


@dataclass(frozen=True, slots=True)
class Cancellation:
    """What is cancelled and what is not; `started` has the entries of the former. The `copies`
    between disks are given up."""

    stop: tuple[Reassignment, ...]
    left_alone: tuple[Reassignment, ...]
    started: Mapping[PartitionId, Entry]
    copies: tuple[DiskMove, ...] = ()

    @property
    def partitions(self) -> tuple[PartitionId, ...]:
        """Of which something is cancelled or given up."""
        return (*(ongoing.id for ongoing in self.stop), *(copy.id for copy in self.copies))


def choose(
    busy: Sequence[Reassignment],
    started: Mapping[PartitionId, Entry],
    wanted: Collection[PartitionId] | None,
    entry_id: str = "",
) -> Cancellation:
    """What to cancel: the partitions `wanted`; else those of an entry, by default the newest.

    A pure function.
    """
    if wanted is None:
        newest = entry_id or max((entry.id for entry in started.values()), default="")
        wanted = {p for p, entry in started.items() if entry.id == newest}
    stop = tuple(reassignment for reassignment in busy if reassignment.id in wanted)
    return Cancellation(
        stop,
        tuple(reassignment for reassignment in busy if reassignment.id not in wanted),
        {
            reassignment.id: started[reassignment.id]
            for reassignment in stop
            if reassignment.id in started
        },
    )


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancellation did: the partitions, whose order was put back, what was refused, and the
    copies between disks that were given up.

    `order_unknown` are those whose original order no journal entry tells (kipctl did not start
    them): their preferred leader may have changed.
    """

    cancelled: tuple[PartitionId, ...]
    restored: Plan
    order_unknown: tuple[PartitionId, ...]
    refused: tuple[Failure, ...]
    given_up: tuple[DiskMove, ...] = ()

    @property
    def failures(self) -> tuple[Failure, ...]:
        return self.refused

    @property
    def done(self) -> int:
        return len(self.cancelled) + len(self.given_up)

    @property
    def has_changed(self) -> bool:
        return self.done > 0


def cancel(cluster: Cluster, chosen: Cancellation, timeout_s: float) -> Cancelled:
    """Cancel these reassignments, and put the replicas back in the order of before.

    What has ended, or has another target by now, is left out. Raises RefusedError and
    UnreachableError when nothing was cancelled; after that PartlyDoneError, TimedOutError, and
    InterruptedRunError.
    """
    deadline = time.monotonic() + timeout_s
    ids = [reassignment.id for reassignment in chosen.stop]
    now = {ongoing.id: ongoing for ongoing in list_reassignments(cluster, ids)}
    failures: list[Failure] = [
        SkippedPartition(reassignment.id, "it has ended, or has another target by now")
        for reassignment in chosen.stop
        if reassignment.id not in now or now[reassignment.id].wanted != reassignment.wanted
    ]
    left_out = {failure.id for failure in failures}
    left = {
        reassignment.id: now[reassignment.id].when_cancelled
        for reassignment in chosen.stop
        if reassignment.id not in left_out
    }
    done: set[PartitionId] = set()
    try:
        for batch in in_batches(left, _AT_ONCE):
            refused = submit(
                cluster,
                dict.fromkeys(batch),
                may_change_replication_factor=True,
                deadline=deadline,
            )
            failures += refused
            done |= set(batch) - {refusal.id for refusal in refused}
        return _restored(cluster, chosen, left, done, failures, deadline)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"Interrupted. {counted(len(done), 'reassignment', total=len(left))} cancelled;"
            f" the order of their replicas may not be put back.",
            _LOOK,
        ) from None
    except (TimedOutError, UnreachableError, PartlyDoneError):
        raise
    except KipctlError as error:
        if not done:
            raise
        raise PartlyDoneError(
            f"{counted(len(done), 'reassignment', total=len(left))} cancelled. {error.what}",
            _LOOK,
        ) from None


def _restored(
    cluster: Cluster,
    chosen: Cancellation,
    left: Mapping[PartitionId, tuple[int, ...]],
    done: Collection[PartitionId],
    failures: list[Failure],
    deadline: float,
) -> Cancelled:
    cancelled = sorted(done)
    orders = {
        p: present_phase(chosen.started[p]).before[p] for p in cancelled if p in chosen.started
    }
    snapshot = _await_replicas(cluster, {p: left[p] for p in cancelled}, deadline)
    restored = plan_to(snapshot, orders)
    if restored.moves:
        # Somebody may have started anew what was cancelled.
        busy = retry_until(lambda: list_reassignments(cluster, restored.target), deadline)
        failures += (
            SkippedPartition(reassignment.id, f"its order is not put back: {BUSY}")
            for reassignment in busy
        )
        restored = restored.without(reassignment.id for reassignment in busy)
    for batch in restored.batches(_AT_ONCE):
        refused = submit(
            cluster, batch.target, may_change_replication_factor=False, deadline=deadline
        )
        failures += refused
        restored = restored.without(refusal.id for refusal in refused)
    if restored.moves:
        await_finished(cluster, restored.target, lambda: deadline, lambda _: None)
    unknown = tuple(p for p in cancelled if p not in orders)
    return Cancelled(tuple(cancelled), restored, unknown, tuple(failures))


def retire(cluster: Cluster, entries: Iterable[Entry], deadline: float) -> None:
    """Mark the entries undone of which all is as before again."""
    for entry in entries:
        if is_as_before(entry, _look(cluster, entry.before, deadline)):
            entry.mark_or_note(EntryState.UNDONE)


def is_as_before(entry: Entry, now: Snapshot) -> bool:
    """True when every partition that there still is has the replicas of before, in their order."""
    assignment = now.assignment
    return all(assignment.get(p, before) == before for p, before in entry.before.items())


def _look(cluster: Cluster, partitions: Iterable[PartitionId], deadline: float) -> Snapshot:
    topics = sorted({partition_id.topic for partition_id in partitions})
    return retry_until(lambda: refresh_snapshot(cluster, topics), deadline)


def _await_replicas(
    cluster: Cluster, wanted: Mapping[PartitionId, tuple[int, ...]], deadline: float
) -> Snapshot:
    """Wait until Metadata shows these replicas in this order.

    The same ones in another order may be what a broker that is behind shows of before, or what
    somebody has made of them since: after METADATA_GRACE_S they count too. Raises TimedOutError,
    UnreachableError.
    """
    in_order_until = time.monotonic() + METADATA_GRACE_S
    for pause_s in poll_pauses():
        snapshot = _look(cluster, wanted, deadline)
        now = snapshot.assignment
        shown = [(now.get(p, replicas), replicas) for p, replicas in wanted.items()]
        if all(there == replicas for there, replicas in shown):
            return snapshot
        is_late = time.monotonic() > in_order_until
        if is_late and all(set(there) == set(replicas) for there, replicas in shown):
            return snapshot
        if time.monotonic() > deadline:
            raise TimedOutError(
                "The reassignments were cancelled, but Metadata does not show it yet.",
                "Look again: " + Command("inspect leaders"),
            )
        time.sleep(pause_s)
    raise AssertionError("pauses() ends")


def cancel_unplanned(
    cluster: Cluster, unplanned_moves: Mapping[PartitionId, Reassignment], deadline: float
) -> list[SkippedPartition]:
    """Cancel at once what turned out not to do what was confirmed; what came of each.

    While the controller moves it is asked again until `deadline` (of time.monotonic). What could
    not be cancelled goes on; that is in its text.
    """
    if not unplanned_moves:
        return []
    target = dict.fromkeys(unplanned_moves)
    refused: dict[PartitionId, object]
    try:
        answers = submit(cluster, target, may_change_replication_factor=True, deadline=deadline)
        refused = {refusal.id: refusal for refusal in answers}
    except KipctlError as error:
        refused = dict.fromkeys(unplanned_moves, error.what.rstrip("."))
    return [
        SkippedPartition(
            partition_id,
            "another change came before this one, which would have added"
            f" {list(reassignment.adding)} and removed {list(reassignment.removing)}; "
            + (
                NextStep(
                    f"it may go on, as it could not be cancelled ({refused[partition_id]}): ",
                    Command("reassign --list"),
                    ", ",
                    Command("changes cancel", topic=partition_id.topic),
                )
                if partition_id in refused
                else "so it was cancelled at once"
            ),
        )
        for partition_id, reassignment in unplanned_moves.items()
    ]
