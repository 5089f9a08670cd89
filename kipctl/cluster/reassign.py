"""Partition reassignments: submitted, listed, waited for, verified and cancelled.

Facts that shape it: the top-level error is 0 even when partitions fail, so each partition's error
is read; and a partition that is being reassigned silently gets the new target when it is
reassigned again, so that is refused here.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from kipctl.cluster.journal import Journal
from kipctl.cluster.plan import Plan, reach
from kipctl.cluster.snapshot import Assignment, PartitionId, Snapshot, take_snapshot
from kipctl.errors import PartlyDoneError, RefusedError, TimedOutError
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)
from kipctl.transport.request import Cluster
from kipctl.transport.rights import refusal

Progress = Callable[[str], None]

FIRST_POLL_S = 0.01
LAST_POLL_S = 0.5
METADATA_GRACE_S = 5.0
"""How long brokers may take to show in Metadata what the controller says is finished."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A partition for which the cluster said no, with Kafka's error code and its message."""

    id: PartitionId
    code: int
    message: str

    def __str__(self) -> str:
        return f"{self.id}: {error_name(self.code)}" + (
            f" ({self.message})" if self.message else ""
        )


@dataclass(frozen=True, slots=True)
class Ongoing:
    """A reassignment in progress; `replicas` are the ones kept, added and removed together."""

    id: PartitionId
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def original(self) -> frozenset[int]:
        """The brokers that held the partition before; the order is not known any more."""
        return frozenset(self.replicas) - frozenset(self.adding)


def submit(
    cluster: Cluster,
    target: Mapping[PartitionId, tuple[int, ...] | None],
    *,
    may_change_replication_factor: bool,
) -> tuple[Refusal, ...]:
    """Ask the controller for this assignment (None cancels), and return what it refused.

    Raises RefusedError when it refuses the request as a whole. Version 1 of the request (Kafka 4.1)
    holds the replication factor unless told otherwise; version 0 has no such guard.
    """
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(cluster.timeout_s * 1000),
        allow_replication_factor_change=may_change_replication_factor,
        topics=tuple(
            ReassignableTopic(
                name=topic,
                partitions=tuple(
                    ReassignablePartition(partition_index=p.partition, replicas=target[p])
                    for p in partitions
                ),
            )
            for topic, partitions in groupby(sorted(target), key=lambda p: p.topic)
        ),
    )
    response = cluster.ask_controller(request)
    if response.error_code:
        raise refusal(
            "The cluster refused the reassignment",
            response.error_code,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            cluster.access,
            broker_message=response.error_message,
        )
    return tuple(
        Refusal(
            PartitionId(topic.name, partition.partition_index),
            partition.error_code,
            partition.error_message or "",
        )
        for topic in response.responses
        for partition in topic.partitions
        if partition.error_code != ErrorCode.NONE
    )


def ongoing(
    cluster: Cluster, partitions: Iterable[PartitionId] | None = None
) -> tuple[Ongoing, ...]:
    """The reassignments in progress, of all partitions or of these; sorted."""
    topics = None
    if partitions is not None:
        topics = tuple(
            ListPartitionReassignmentsTopics(
                name=topic, partition_indexes=tuple(p.partition for p in group)
            )
            for topic, group in groupby(sorted(partitions), key=lambda p: p.topic)
        )
    response = cluster.ask_controller(ListPartitionReassignmentsRequest(topics=topics))
    if response.error_code:
        raise refusal(
            "The cluster does not list its reassignments",
            response.error_code,
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            cluster.access,
            broker_message=response.error_message,
        )
    found = (
        Ongoing(
            PartitionId(topic.name, partition.partition_index),
            partition.replicas,
            partition.adding_replicas,
            partition.removing_replicas,
        )
        for topic in response.topics
        for partition in topic.partitions
    )
    return tuple(sorted(found, key=lambda one: one.id))


def refuse_if_ongoing(cluster: Cluster, partitions: Iterable[PartitionId]) -> None:
    """Raise RefusedError when one of these partitions is being reassigned already."""
    if busy := ongoing(cluster, partitions):
        more = f" and {len(busy) - 1} more are" if len(busy) > 1 else " is"
        raise RefusedError(
            f"{busy[0].id}{more} being reassigned already; a second reassignment would replace the"
            " first one's target. Nothing was changed.",
            "Wait (kipctl reassign --list), or stop it: kipctl reassign --cancel",
        )


def await_finished(
    cluster: Cluster, target: Assignment, deadline: float, progress: Progress
) -> Snapshot:
    """Wait until the partitions are no longer being reassigned, and Metadata shows the target.

    `deadline` is on the clock of time.monotonic. Returns the snapshot that shows it. Raises
    TimedOutError; RefusedError when a reassignment ended elsewhere (someone cancelled it).
    """
    topics = sorted({partition_id.topic for partition_id in target})
    pause_s, left, ended = FIRST_POLL_S, -1, 0.0
    while True:
        now = time.monotonic()
        unfinished = len(ongoing(cluster, target))
        if not unfinished:
            snapshot = take_snapshot(cluster, topics)
            differing = reach(snapshot, target).moves
            if not differing:
                return snapshot
            ended = ended or now
            if now - ended > METADATA_GRACE_S:
                raise RefusedError(
                    f"The reassignment ended elsewhere: {differing[0].id} is on "
                    f"{list(differing[0].before)} instead of {list(differing[0].after)}.",
                    "Someone cancelled or replaced it; see: kipctl inspect leaders",
                )
        elif unfinished != left:
            left = unfinished
            progress(f"{len(target) - left} of {len(target)} partitions reassigned")
        if now > deadline:
            raise TimedOutError(
                f"{unfinished} of {len(target)} partitions are still being reassigned; the cluster"
                " goes on by itself.",
                "Watch: kipctl reassign --list. Stop: kipctl reassign --cancel.",
            )
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, LAST_POLL_S)


class State(StrEnum):
    """How a partition stands to the assignment that was wanted."""

    DONE = "done"
    IN_PROGRESS = "in progress"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Verified:
    """A partition's state, with the replicas it has now."""

    id: PartitionId
    state: State
    replicas: tuple[int, ...]


def verify(cluster: Cluster, target: Assignment) -> tuple[Verified, ...]:
    """Compare the cluster with the assignment wanted."""
    busy = {one.id for one in ongoing(cluster, target)}
    now = take_snapshot(cluster, sorted({partition_id.topic for partition_id in target})).assignment
    return tuple(
        Verified(
            partition_id,
            State.IN_PROGRESS
            if partition_id in busy
            else (State.DONE if now.get(partition_id) == replicas else State.DIFFERENT),
            now.get(partition_id, ()),
        )
        for partition_id, replicas in sorted(target.items())
    )


def demand_as_planned(verified: Sequence[Verified]) -> None:
    """Raise PartlyDoneError while a partition is being reassigned, or is not as was wanted."""
    states = [one.state for one in verified]
    left = len(states) - states.count(State.DONE)
    if not left:
        return
    busy, different = states.count(State.IN_PROGRESS), states.count(State.DIFFERENT)
    raise PartlyDoneError(
        f"{left} of {len(states)} partitions are not as the file says: {busy} in progress,"
        f" {different} different.",
        "Wait, and look again: kipctl reassign --list"
        if busy
        else "Carry it out: kipctl reassign --plan FILE",
    )


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancellation did: the partitions, whose order was put back, and what was refused.

    `order_unknown` are those whose original order no journal entry tells (kipctl did not start
    them): their preferred leader may have changed.
    """

    cancelled: tuple[PartitionId, ...]
    restored: Plan
    order_unknown: tuple[PartitionId, ...]
    refused: tuple[Refusal, ...]


def cancel(
    cluster: Cluster, stopped: Iterable[Ongoing], journal: Journal, timeout_s: float
) -> Cancelled:
    """Cancel these reassignments, and put the replicas back in the order the journal has.

    A cancelled partition gets its old replicas back, though the order (and with it the preferred
    leader) may have changed. Entries that nothing is left of are marked undone. Raises
    TimedOutError, and UsageError for a damaged journal before anything is changed.
    """
    deadline = time.monotonic() + timeout_s
    originals = {one.id: one.original for one in stopped}
    orders: dict[PartitionId, tuple[int, ...]] = {}
    for entry in journal.entries():
        for partition_id, replicas in entry.assignment().items():
            if originals.get(partition_id) == frozenset(replicas):
                orders.setdefault(partition_id, replicas)
    refused = submit(cluster, dict.fromkeys(originals), may_change_replication_factor=True)
    cancelled = sorted(originals.keys() - {refusal.id for refusal in refused})
    snapshot = _await_replicas(cluster, {p: originals[p] for p in cancelled}, deadline)
    restored = reach(snapshot, {p: orders[p] for p in cancelled if p in orders})
    if restored.moves:
        kept = submit(cluster, restored.target, may_change_replication_factor=False)
        restored = restored.without(refusal.id for refusal in kept)
        refused += kept
        await_finished(cluster, restored.target, deadline, lambda _: None)
    retire(journal, take_snapshot(cluster))
    return Cancelled(
        tuple(cancelled), restored, tuple(p for p in cancelled if p not in orders), refused
    )


def retire(journal: Journal, snapshot: Snapshot) -> None:
    """Mark the newest entries undone as long as the cluster is already as they say."""
    for entry in journal.entries():
        saved = entry.assignment()
        if any(snapshot.assignment.get(p) != replicas for p, replicas in saved.items()):
            return
        entry.mark_undone()


def _await_replicas(
    cluster: Cluster, wanted: Mapping[PartitionId, frozenset[int]], deadline: float
) -> Snapshot:
    """Wait until Metadata shows these sets of replicas. Raises TimedOutError."""
    topics = sorted({partition_id.topic for partition_id in wanted})
    while True:
        snapshot = take_snapshot(cluster, topics)
        now = snapshot.assignment
        if all(set(now.get(p, ())) == replicas for p, replicas in wanted.items()):
            return snapshot
        if time.monotonic() > deadline:
            raise TimedOutError(
                "The reassignments were cancelled, but Metadata does not show it yet.",
                "Look again: kipctl inspect leaders",
            )
        time.sleep(FIRST_POLL_S)
