"""Preferred elections held again and again, until every partition is led by its preferred replica.

As after a broker's restart: its replicas come back in sync one after the other, and until then an
election of them is refused.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kipctl.changes.elections.batches import (
    DEFAULT_TIMEOUT_S,
    REPEAT,
    ElectionOutcome,
    elect_preferred,
)
from kipctl.changes.elections.request import SEE_LEADERS, ElectionResult, Outcome
from kipctl.changes.execution.pacing import ReportInterval
from kipctl.changes.execution.plan_result import merged_elections
from kipctl.changes.execution.reassign import retry_until
from kipctl.changes.guard_interface import NO_GUARD, ChangeGuard, GivenUpError, NeverPauses
from kipctl.changes.plans.planners.placement import require_known
from kipctl.cluster.snapshot import Partition, PartitionId, Snapshot, refresh_snapshot
from kipctl.errors import (
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UsageError,
)
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.clock import now_us
from kipctl.transport.request import Cluster

BALANCED = "balanced"
UNTIL_TIMEOUT_S = 600.0
"""For all of it, where no time is given."""
_FIRST_PAUSE_S = 0.2
_LAST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class NotPreferred:
    """Partitions that another than their preferred replica leads: those whose preferred replica is
    in sync are `ready` to be elected, those whose is not are to wait for it."""

    ready: tuple[Partition, ...]
    waiting: tuple[Partition, ...]

    def __len__(self) -> int:
        return len(self.ready) + len(self.waiting)

    def __str__(self) -> str:
        reasons = []
        if self.ready:
            reasons.append(f"{len(self.ready):,} can be elected, such as {self.ready[0].id}")
        if self.waiting:
            one = self.waiting[0]
            reasons.append(
                f"{len(self.waiting):,} wait for their preferred replica to be in sync, such as"
                f" {one.id} for broker {one.preferred_leader}"
            )
        return "; ".join(reasons)


def not_preferred(snapshot: Snapshot) -> NotPreferred:
    """The partitions of the snapshot whose preferred replica does not lead. A pure function."""
    found = snapshot.not_led_by_preferred
    return NotPreferred(
        tuple(p for p in found if p.preferred_leader in p.isr),
        tuple(p for p in found if p.preferred_leader not in p.isr),
    )


def preferred_on(snapshot: Snapshot, brokers: Collection[int]) -> Snapshot:
    """The partitions whose preferred replica is one of these brokers. A pure function.

    Raises UsageError for a broker that is not alive and has no replica either: there is none.
    """
    require_known(snapshot, sorted(brokers))
    return snapshot.only(p.id for p in snapshot.partitions if p.preferred_leader in brokers)


def elect_until_balanced(
    cluster: Cluster,
    chosen: Iterable[PartitionId],
    *,
    batch: int,
    between_s: float,
    timeout_s: float,
    progress: Callable[[str], None],
    guard: ChangeGuard = NO_GUARD,
) -> ElectionOutcome:
    """Elect, in batches, until each of these is led by its preferred replica, or is gone.

    `timeout_s` is for all of it. What is refused, or not answered, is tried again with growing
    pauses. Returns the last outcome of each partition that was elected. Raises TimedOutError with
    what is left, RefusedError when the cluster refuses elections as a whole or the guard gives up
    before the first, PartlyDoneError when it does so later, UnreachableError when nobody answers in
    the end.
    """
    wanted = frozenset(chosen)
    held: list[ElectionOutcome] = []
    with _explain_give_up(held):
        topics = sorted({one.topic for one in wanted})
        deadline = time.monotonic() + timeout_s
        pause_s, reports, began_us = _FIRST_PAUSE_S, ReportInterval(), now_us()
        while True:
            now = retry_until(lambda: refresh_snapshot(cluster, topics), deadline).only(wanted)
            left = not_preferred(now)
            if not left:
                return _outcome(held, now, began_us)
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"After {timeout_s:g} s {len(left):,} of {len(wanted):,} partitions are not led"
                    f" by their preferred replica: {left}.",
                    SEE_LEADERS,
                )
            if reports.is_due(time.monotonic()):
                progress(str(left))
            before = len(held)
            if left.ready:
                guard.require_quiet(until=deadline)
                try:
                    expected = {one.id: one.preferred_leader for one in left.ready[:batch]}
                    held.append(
                        elect_preferred(
                            cluster,
                            expected,
                            now.only(expected),
                            timeout_s=max(1.0, min(DEFAULT_TIMEOUT_S, deadline - time.monotonic())),
                            guard=NeverPauses(guard),
                        )
                    )
                except (TimedOutError, UnreachableError) as error:
                    progress(error.what)
            has_elected = len(held) > before and held[-1].count(Outcome.ELECTED) > 0
            pause_s = _FIRST_PAUSE_S if has_elected else min(2 * pause_s, _LAST_PAUSE_S)
            if not (has_elected and len(left) == len(left.ready[:batch])):
                rest_s = between_s if has_elected else max(between_s, pause_s)
                guard.sleep(max(0.0, min(rest_s, deadline - time.monotonic())))


@contextmanager
def _explain_give_up(held: Sequence[ElectionOutcome]) -> Iterator[None]:
    try:
        yield
    except GivenUpError as given_up:
        moved = sum(one.count(Outcome.ELECTED) for one in held)
        if not held and not given_up.next_step:  # it was before the first election
            raise RefusedError(f"{given_up.what} No leader was moved.") from None
        raise PartlyDoneError(f"{given_up.what} {moved:,} leaders were moved.", REPEAT) from None


def _outcome(held: list[ElectionOutcome], now: Snapshot, began_us: int) -> ElectionOutcome:
    """All elections as one; what failed at first is led as wanted now, or gone."""
    if not held:
        return ElectionOutcome((), began_us, began_us)
    last = {one.id: one for election in held for one in election.outcomes}
    there = now.by_id
    outcomes = (
        ElectionResult(
            one.id,
            ErrorCode.ELECTION_NOT_NEEDED
            if one.id in there
            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        if one.outcome in (Outcome.FAILED, Outcome.UNKNOWN)
        else one
        for one in last.values()
    )
    return replace(merged_elections(held), outcomes=tuple(outcomes))


def parse_until(text: str) -> None:
    """Raises UsageError for anything but `balanced`."""
    if text != BALANCED:
        raise UsageError(f"--until {text!r} is not known.", f"Write --until {BALANCED}.")
