"""Preferred elections held again and again, until every partition is led by its preferred replica.

As after a broker's restart. A broker is given its leaders when it is whole: all its replicas, of
all topics, are in sync. One that still copies makes who writes to it wait: with 1 GB behind, the
writers' p99 was four times that of leaders left away until it had copied
(`benchmarks/recovery.py --of leaders`).
"""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from kipctl.changes.elections.batches import DEFAULT_TIMEOUT_S, ElectionOutcome
from kipctl.changes.elections.request import SEE_LEADERS, ElectionResult, Outcome
from kipctl.changes.execution.batch_execution import Execution
from kipctl.changes.execution.copy_progress import CatchUp, CatchUpTracker
from kipctl.changes.execution.pacing import ReportInterval
from kipctl.changes.execution.plan_result import PlanResult, merged_elections
from kipctl.changes.execution.reassign import retry_until
from kipctl.changes.plans.planners.placement import require_known
from kipctl.cluster.reassignments import adding_replicas
from kipctl.cluster.recoveries import catching_up
from kipctl.cluster.snapshot import (
    NO_LEADER,
    Partition,
    PartitionId,
    Snapshot,
    refresh_snapshot,
    take_snapshot,
)
from kipctl.counts import counted
from kipctl.errors import TimedOutError, UnreachableError, UsageError
from kipctl.next_step import Command
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.clock import now_us

BALANCED = "balanced"
UNTIL_TIMEOUT_S = 600.0
"""For all of it, where no time is given."""
FIRST_BATCH = 10
"""A broker that is back gets so many leaders at first."""
KNOWN_SOON_S = 1.0
"""Brokers that know a batch within that take twice as many the next time."""
_FIRST_PAUSE_S = 0.2
_LAST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class NotPreferred:
    """Partitions that another than their preferred replica leads: those that are `ready` to be
    elected, and those that are `waiting` for that replica, or its broker."""

    ready: tuple[Partition, ...]
    waiting: tuple[Partition, ...]

    def __len__(self) -> int:
        return len(self.ready) + len(self.waiting)

    def __str__(self) -> str:
        reasons = []
        if self.ready:
            reasons.append(f"{len(self.ready):,} can be elected, such as {self.ready[0].id}")
        if self.waiting:
            reasons.append(f"{len(self.waiting):,} wait, such as {self.waiting[0].id}")
        return "; ".join(reasons)


def not_preferred(snapshot: Snapshot, copying: Collection[int] = ()) -> NotPreferred:
    """The partitions of the snapshot whose preferred replica does not lead. A pure function.

    Those of the brokers `copying` wait, but for partitions that nobody leads: their clients wait
    for any leader.
    """

    def is_ready(partition: Partition) -> bool:
        is_whole = partition.preferred_leader not in copying or partition.leader == NO_LEADER
        return is_whole and partition.preferred_leader in partition.isr

    astray = snapshot.not_led_by_preferred
    return NotPreferred(
        tuple(partition for partition in astray if is_ready(partition)),
        tuple(partition for partition in astray if not is_ready(partition)),
    )


def waits_for(waiting: Iterable[Partition], now: Snapshot, copying: Iterable[CatchUp]) -> str:
    """What the preferred replicas of these partitions are waited for. A pure function.

    `now` is of all topics, and `copying` has how far each of its brokers is that still copies.
    """
    how_far = {catch_up.broker: str(catch_up) for catch_up in copying}
    why = {}
    for partition in waiting:
        broker = partition.preferred_leader
        why[broker] = how_far.get(broker) or (
            f"broker {broker} is not in sync"
            if broker in now.broker_ids
            else f"broker {broker} is down"
        )
    return "; ".join(reason for _, reason in sorted(why.items()))


def next_batch(size: int, took_s: float, most: int) -> int:
    """How many leaders come next, after `size` that every broker knew in `took_s`. Pure.

    Twice as many while brokers are quick, half where they are not, `most` at most.
    """
    return min(most, 2 * size if took_s <= KNOWN_SOON_S else max(1, size // 2))


def preferred_on(snapshot: Snapshot, brokers: Collection[int]) -> Snapshot:
    """The partitions whose preferred replica is one of these brokers. A pure function.

    Raises UsageError for a broker that is not alive and has no replica either: there is none.
    """
    require_known(snapshot, sorted(brokers))
    return snapshot.only(p.id for p in snapshot.partitions if p.preferred_leader in brokers)


def elect_until_balanced(change: Execution, *, as_they_come: bool = False) -> PlanResult:
    """Elect, in batches, until each of the plan is led by its preferred replica, or is gone.

    Each waits until its preferred replica's broker is whole; `as_they_come` only until that replica
    is in sync. Batches grow from `FIRST_BATCH` to that of the pace as `next_batch` says. All of it
    has the change's time, UNTIL_TIMEOUT_S without one. What is refused, or not answered, is tried
    again with growing pauses. The result has the last outcome of each partition that was elected.
    Raises what `reassign` does, and TimedOutError with what is left.
    """
    change.timeout_s = change.timeout_s or UNTIL_TIMEOUT_S
    cluster, wanted, deadline = change.cluster, change.plan.target, change.deadline()
    batch, between_s = change.pace.batch, change.pace.between_s
    pause_s, reports, began_us = _FIRST_PAUSE_S, ReportInterval(), now_us()
    catch_up, size = CatchUpTracker(cluster), min(FIRST_BATCH, batch)

    def look() -> tuple[Snapshot, Snapshot, dict[int, tuple[PartitionId, ...]]]:
        """All that is seen, of that the partitions wanted, and what brokers still copy."""
        if as_they_come:
            seen = refresh_snapshot(cluster, change.plan.topics)
            return seen, seen.only(wanted), {}
        adding = adding_replicas(cluster)  # first: what has arrived meanwhile is in sync
        seen = take_snapshot(cluster)
        return seen, seen.only(wanted), catching_up(seen, adding)

    with change.explain_errors():
        while True:
            seen, now, behind = retry_until(look, deadline)
            left = not_preferred(now, behind)
            if not left:
                return PlanResult(election=_outcome(change.elections, now, began_us))
            is_late = time.monotonic() > deadline
            if reports.is_due(time.monotonic()) or is_late:
                why = waits_for(left.waiting, seen, catch_up.look(seen, behind))
                text = f"{left}{why and ': '}{why}"
                if is_late:
                    raise _timed_out(left, text, change.timeout_s, len(wanted), bool(behind))
                change.progress(text)
            has_elected = False
            if chosen := left.ready[:size]:
                change.require_no_pause()
                change.wait_for_guard()
                try:
                    expected = {partition.id: partition.preferred_leader for partition in chosen}
                    held = change.hold_election(expected, now, DEFAULT_TIMEOUT_S)
                except (TimedOutError, UnreachableError) as error:
                    change.progress(error.what)
                    size = max(1, size // 2)
                else:
                    has_elected = held.count(Outcome.ELECTED) > 0
            if has_elected:
                if len(chosen) == len(left):
                    continue
                size = next_batch(size, (held.converged_us - held.called_us) / 1e6, batch)
            pause_s = _FIRST_PAUSE_S if has_elected else min(2 * pause_s, _LAST_PAUSE_S)
            rest_s = between_s if has_elected else max(between_s, pause_s)
            change.rest(max(0.0, min(rest_s, deadline - time.monotonic())))


def _timed_out(
    left: NotPreferred, text: str, timeout_s: float, wanted: int, waits_for_brokers: bool
) -> TimedOutError:
    return TimedOutError(
        f"After {timeout_s:g} s {counted(len(left), 'partition', 'are', total=wanted)} not led by"
        " the"
        f" preferred replica: {text}.",
        "See: "
        + Command("inspect brokers")
        + ". What is in sync can be elected while its broker still copies others: --as-they-come"
        if waits_for_brokers
        else SEE_LEADERS,
    )


def _outcome(held: Sequence[ElectionOutcome], now: Snapshot, began_us: int) -> ElectionOutcome:
    """All elections as one; what failed at first is led as wanted now, or gone."""
    if not held:
        return ElectionOutcome((), began_us, began_us)
    last = {outcome.id: outcome for election in held for outcome in election.outcomes}
    there = now.by_id
    outcomes = (
        ElectionResult(
            result.id,
            ErrorCode.ELECTION_NOT_NEEDED
            if result.id in there
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        if result.outcome in (Outcome.FAILED, Outcome.UNKNOWN)
        else result
        for result in last.values()
    )
    return replace(merged_elections(held), outcomes=tuple(outcomes))


def parse_until(text: str) -> None:
    """Raises UsageError for anything but `balanced`."""
    if text != BALANCED:
        raise UsageError(f"--until {text!r} is not known.", f"Write --until {BALANCED}.")
