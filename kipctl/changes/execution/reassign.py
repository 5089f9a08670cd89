"""Partition reassignments: submitted, listed, waited for and verified.

Facts that shape it: the top-level error is 0 even when partitions fail, so each partition's error
is read; and a partition that is being reassigned silently gets the new target when it is
reassigned again, so that is refused here.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeVar

from kipctl.changes.execution.pacing import ReportInterval
from kipctl.changes.plans.plan import Move, SkippedPartition, plan_to
from kipctl.cluster.reassignments import SERVER_SHARE, list_reassignments
from kipctl.cluster.snapshot import (
    Assignment,
    PartitionId,
    Snapshot,
    by_topic,
    refresh_snapshot,
    take_snapshot,
)
from kipctl.counts import counted
from kipctl.errors import PartlyDoneError, TimedOutError, UnreachableError
from kipctl.next_step import Command, NextStep
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode, error_name, error_text
from kipctl.protocol.message import ZERO_UUID
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kipctl.transport.acl_errors import refusal
from kipctl.transport.request import Cluster

_SHOWN_TIMEOUT_S, _SHOWN_POLL_S = 1.0, 0.1
Progress = Callable[[str], None]
OnPoll = Callable[[Collection[PartitionId]], None]
Until = Callable[[], float]
"""When it is given up, on the clock of time.monotonic, by what is known now: it may be put off."""
T = TypeVar("T")

FIRST_POLL_S = 0.01
LAST_POLL_S = 0.5
METADATA_GRACE_S = 15.0
"""How long brokers may take to show in Metadata what the controller says is finished."""
LOOK = "Look: " + Command("reassign --list")


class EndedElsewhereError(PartlyDoneError):
    """What was being reassigned is so no more, and not where it was to go: it was cancelled, or
    replaced."""


class Failure(Protocol):
    """A partition that was not done; as text it says why."""

    @property
    def id(self) -> PartitionId: ...

    def __str__(self) -> str: ...


def poll_pauses() -> Iterator[float]:
    """Seconds between one look and the next: doubled each time, up to a limit."""
    pause_s = FIRST_POLL_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, LAST_POLL_S)


def retry_until(ask: Callable[[], T], deadline: float) -> T:
    """What is asked for, asked again with backoff while nobody answers: only for what is read.

    `deadline` is on the clock of time.monotonic. Raises what `ask` does, UnreachableError and
    TimedOutError only when it has passed. Each time a broker that did not answer is passed over.
    """
    for pause_s in poll_pauses():
        try:
            return ask()
        except (UnreachableError, TimedOutError):
            if time.monotonic() + pause_s > deadline:
                raise
            time.sleep(pause_s)
    raise AssertionError("pauses() ends")


def topic_ids(cluster: Cluster, topics: Iterable[str]) -> dict[str, str]:
    """The ids of these topics; empty with brokers before Kafka 2.8, which have none."""
    return {
        topic.name: str(topic.topic_id)
        for topic in cluster.metadata(topics).topics
        if topic.name and not topic.error_code and topic.topic_id != ZERO_UUID
    }


def submit(
    cluster: Cluster,
    target: Mapping[PartitionId, tuple[int, ...] | None],
    *,
    may_change_replication_factor: bool,
    deadline: float | None = None,
) -> tuple[SkippedPartition, ...]:
    """Ask the controller for this assignment (None cancels), and return what it refused.

    While the controller is moving it is asked again, until `deadline` (of time.monotonic; None:
    once). Version 1 of the request (Kafka 4.1) holds the replication factor unless told otherwise;
    version 0 has no such guard.

    Raises RefusedError when it refuses the request as a whole, UnreachableError when nothing was
    sent, and TimedOutError when it is not known whether the cluster has taken it.
    """
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=int(cluster.timeout_s * 1000 * SERVER_SHARE),
        allow_replication_factor_change=may_change_replication_factor,
        topics=tuple(
            ReassignableTopic(
                name=topic,
                partitions=tuple(
                    ReassignablePartition(
                        partition_index=number, replicas=target[PartitionId(topic, number)]
                    )
                    for number in numbers
                ),
            )
            for topic, numbers in by_topic(target).items()
        ),
    )
    response = _submit(cluster, request, deadline or 0.0)
    if response.error_code == ErrorCode.REQUEST_TIMED_OUT:
        raise _unknown_outcome(f"{error_text(response.error_code)}.")
    if response.error_code == ErrorCode.NOT_CONTROLLER:
        raise UnreachableError(
            "No broker has found the controller: the reassignment was not taken.",
            "Look for it: " + Command("inspect brokers") + ". Then try again.",
        )
    if response.error_code:
        raise refusal(
            "The cluster refused the reassignment",
            response.error_code,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            cluster.access,
            broker_message=response.error_message,
        )
    return tuple(
        SkippedPartition(
            PartitionId(topic.name, partition.partition_index),
            error_name(partition.error_code)
            + (f" ({partition.error_message})" if partition.error_message else ""),
        )
        for topic in response.responses
        for partition in topic.partitions
        if partition.error_code != ErrorCode.NONE
    )


def _submit(
    cluster: Cluster, request: AlterPartitionReassignmentsRequest, deadline: float
) -> AlterPartitionReassignmentsResponse:
    for pause_s in poll_pauses():
        cluster.controller()  # if nobody can be reached, nothing was sent
        try:
            response = cluster.ask_controller(request)
        except (UnreachableError, TimedOutError, MalformedFrame) as lost:
            raise _unknown_outcome(lost.what) from None
        if response.error_code != ErrorCode.NOT_CONTROLLER or time.monotonic() > deadline:
            return response
        time.sleep(pause_s)
    raise AssertionError("pauses() ends")


def _unknown_outcome(why: str) -> TimedOutError:
    return TimedOutError(f"It is not known whether the cluster has taken it: {why}", LOOK + ".")


def ignore_poll(_: Collection[PartitionId]) -> None:
    """For those who do not look at what is copied."""


def await_finished(
    cluster: Cluster,
    target: Assignment,
    until: Until,
    progress: Progress,
    look: OnPoll = ignore_poll,
) -> Snapshot:
    """Wait until the partitions are no longer being reassigned, and Metadata shows the target.

    `look` is called with those that are still being reassigned, each time that the controller was
    asked. A partition that is deleted meanwhile is not waited for. Returns the snapshot that shows
    it.

    Raises TimedOutError; UnreachableError when nobody answers any more; EndedElsewhereError.
    """
    topics = sorted({partition_id.topic for partition_id in target})
    ended, said, reports = 0.0, -1, ReportInterval()
    for pause_s in poll_pauses():
        busy = retry_until(lambda: list_reassignments(cluster, target), until())
        unfinished = len(busy)
        now = time.monotonic()
        look([reassignment.id for reassignment in busy])
        if not unfinished:
            snapshot = retry_until(lambda: refresh_snapshot(cluster, topics), until())
            differing = plan_to(snapshot, target).moves
            if not differing:
                return snapshot
            ended = ended or now
            if now - ended > METADATA_GRACE_S:
                raise EndedElsewhereError(
                    f"The reassignment of {counted(len(differing), 'partition')} ended elsewhere:"
                    f" {differing[0].id} is on {list(differing[0].before)} instead of"
                    f" {list(differing[0].after)}.",
                    "Someone cancelled or replaced it, or that broker is far behind. See: "
                    + Command("inspect leaders"),
                )
            if now > until():
                raise _not_shown(differing, len(target))
        elif now > until():
            raise _still_busy(unfinished, len(target))
        elif unfinished != said and reports.is_due(now):
            said = unfinished
            progress(
                f"{counted(len(target) - unfinished, 'partition', total=len(target))} reassigned"
            )
        time.sleep(pause_s)
    raise AssertionError("pauses() ends")


def await_one(
    cluster: Cluster,
    under_way: frozenset[PartitionId],
    until: Until,
    look: OnPoll = ignore_poll,
) -> frozenset[PartitionId]:
    """Wait until one of these is no longer being reassigned; returns those that still are.

    `until` and `look` are as in `await_finished`. Raises TimedOutError and UnreachableError.
    """
    if not under_way:
        return under_way
    for pause_s in poll_pauses():
        listed = retry_until(lambda: list_reassignments(cluster, under_way), until())
        busy = frozenset(reassignment.id for reassignment in listed)
        look(busy)
        if busy != under_way:
            return busy
        if time.monotonic() > until():
            raise _still_busy(len(busy), len(busy))
        time.sleep(pause_s)
    raise AssertionError("pauses() ends")


def _still_busy(unfinished: int, submitted: int) -> TimedOutError:
    return TimedOutError(
        f"{counted(unfinished, 'partition', 'are', total=submitted)} still being reassigned; the"
        " cluster goes on by"
        " itself.",
        NextStep("Watch: ", Command("reassign --list"), ". Stop: ", Command("changes cancel"), "."),
    )


def _not_shown(differing: Sequence[Move], submitted: int) -> TimedOutError:
    move = differing[0]
    return TimedOutError(
        f"{counted(submitted, 'partition', 'are')} no longer being reassigned, and"
        f" Metadata shows {len(differing)} of them otherwise than planned: {move.id} is on"
        f" {list(move.before)} instead of"
        f" {list(move.after)}.",
        "Brokers may be behind, or someone cancelled it. Look: " + Command("inspect leaders") + ".",
    )


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
    """Compare the cluster with the assignment wanted.

    What differs is looked at again for a second: the controller lists a partition no more a moment
    before the broker that is asked shows its new replicas.
    """
    deadline = time.monotonic() + _SHOWN_TIMEOUT_S
    while True:
        compared = _compared(cluster, target)
        states = {verified.state for verified in compared}
        if State.DIFFERENT not in states or time.monotonic() > deadline:
            return compared
        time.sleep(_SHOWN_POLL_S)


def _compared(cluster: Cluster, target: Assignment) -> tuple[Verified, ...]:
    busy = {reassignment.id for reassignment in list_reassignments(cluster, target)}
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


def require_as_planned(verified: Sequence[Verified], to_carry_out: NextStep) -> None:
    """Raise PartlyDoneError while a partition is being reassigned, or is not as was wanted."""
    states = [partition.state for partition in verified]
    left = len(states) - states.count(State.DONE)
    if not left:
        return
    busy, different = states.count(State.IN_PROGRESS), states.count(State.DIFFERENT)
    raise PartlyDoneError(
        f"{counted(left, 'partition', 'are', total=len(states))} not as the file says: {busy} in"
        " progress,"
        f" {different} different.",
        "Wait, and look again: " + Command("reassign --list") if busy else to_carry_out,
    )
