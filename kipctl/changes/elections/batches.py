"""Elections from end to end: in batches, each answered and waited for before the next."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kipctl.at_once import chunks
from kipctl.changes.elections.request import SEE_LEADERS, ElectionResult, Outcome, elect
from kipctl.changes.guard_interface import NO_GUARD, ChangeGuard, GivenUpError
from kipctl.cluster.metadata_convergence import (
    ClusterEvent,
    Convergence,
    EventKind,
    LeaderWatch,
    OnEvent,
    ignore_event,
    sample_brokers,
    views_of,
)
from kipctl.cluster.snapshot import PartitionId, Snapshot, refresh_snapshot
from kipctl.counts import counted
from kipctl.errors import PartlyDoneError, RefusedError, TimedOutError, UnreachableError
from kipctl.protocol.elect_leaders import ElectionType
from kipctl.protocol.error_codes import ErrorCode
from kipctl.trace.clock import now_us
from kipctl.transport.request import Cluster

DEFAULT_TIMEOUT_S = 60.0
BATCH = 1000
"""Partitions in one request: as many leaders as Cruise Control moves at a time by default."""
MAX_PER_REQUEST = 10_000
"""An election of more the controller refuses (`QuorumController.MAX_RECORDS_PER_BATCH`)."""
_LOOK_S = 1.0
"""How often a guard is asked while brokers are waited for."""
_FIRST_PAUSE_S = 0.01
_LAST_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class ElectionOutcome:
    """A finished election, with its times on the clock of now_us().

    `called_us` is of the first batch, `answered_us` of the last. `knew_us` has, by broker, when it
    first showed the last of the new leaders. Of the brokers `watched` those that are `silent` did
    not answer: whether they know is not known. `gone` are partitions that were deleted meanwhile.
    """

    outcomes: tuple[ElectionResult, ...]
    called_us: int
    answered_us: int
    knew_us: Mapping[int, int] = field(default_factory=dict)
    silent: tuple[int, ...] = ()
    watched: tuple[int, ...] = ()
    gone: tuple[PartitionId, ...] = ()

    @property
    def converged_us(self) -> int:
        """When every broker that answers knew every new leader."""
        return max(self.knew_us.values(), default=self.answered_us)

    def count(self, outcome: Outcome) -> int:
        return sum(elected.outcome is outcome for elected in self.outcomes)


def elect_preferred(
    cluster: Cluster,
    expected: Mapping[PartitionId, int],
    before: Snapshot,
    *,
    on_event: OnEvent = ignore_event,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    batch: int = BATCH,
    guard: ChangeGuard = NO_GUARD,
) -> ElectionOutcome:
    """Hold preferred elections, and wait until the brokers watched show the expected leaders.

    `before` tells who led until now; `expected` the preferred leaders. A batch has `timeout_s`, and
    the `guard` looks on. Events of leaders seen carry the time they were seen at, and may be
    reported a little later.

    Raises TimedOutError when the brokers do not show them in time or the outcome is not known,
    UnreachableError, RefusedError, and PartlyDoneError when a batch is refused, or the guard gives
    up, after others were held. How far it came is in the message, and is a note of what Ctrl-C
    raises.
    """
    run = _Batches(len(expected))
    run.brokers = tuple(broker.id for broker in sample_brokers(before.brokers))
    with run.progress_in_errors():
        for part in in_batches(expected, batch):
            run.asked += len(part)
            wanted = {id: expected[id] for id in part}
            _elect_batch(cluster, wanted, before, run, on_event, timeout_s, guard)
    return run.result()


def elect_unclean(
    cluster: Cluster,
    partitions: Iterable[PartitionId],
    timeout_s: float = DEFAULT_TIMEOUT_S,
    batch: int = BATCH,
) -> ElectionOutcome:
    """Hold unclean elections, and wait until a broker shows a leader for all that were elected.

    What the elected replica lacks is lost. A batch has `timeout_s`. Raises what `elect_preferred`
    does.
    """
    chosen = tuple(partitions)
    run = _Batches(len(chosen))
    with run.progress_in_errors():
        for part in in_batches(chosen, batch):
            deadline = time.monotonic() + timeout_s
            run.asked += len(part)
            outcomes = run.answered(elect(cluster, ElectionType.UNCLEAN, part, deadline))
            awaited = {outcome.id for outcome in outcomes if outcome.outcome in _AWAITED}
            there = _await_leaders(cluster, awaited, deadline).by_id
            run.seen(there)
            run.gone += sorted(awaited - there.keys())
    return run.result()


_AWAITED = (Outcome.ELECTED, Outcome.UNKNOWN)


@dataclass(slots=True)
class _Batches:
    """How far elections of so many partitions have come."""

    total: int
    asked: int = 0
    outcomes: dict[PartitionId, ElectionResult] = field(default_factory=dict)
    gone: list[PartitionId] = field(default_factory=list)
    knew_us: dict[int, int] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    brokers: tuple[int, ...] = ()
    called_us: int = field(default_factory=now_us)
    answered_us: int = field(default_factory=now_us)

    def answered(self, outcomes: Sequence[ElectionResult]) -> Sequence[ElectionResult]:
        """Note a batch's outcomes."""
        self.answered_us = now_us()
        self.outcomes |= {outcome.id: outcome for outcome in outcomes}
        self.gone += (outcome.id for outcome in outcomes if outcome.outcome is Outcome.GONE)
        return outcomes

    def seen(self, led: Iterable[PartitionId]) -> None:
        """These are led as expected: where the outcome was not known, that was an election."""
        for id in led:
            if id in self.outcomes and self.outcomes[id].outcome is Outcome.UNKNOWN:
                self.outcomes[id] = ElectionResult(id, ErrorCode.NONE)

    def result(self) -> ElectionOutcome:
        """The end of it."""
        return ElectionOutcome(
            tuple(self.outcomes.values()),
            self.called_us,
            self.answered_us,
            self.knew_us,
            tuple(sorted(self.silent)),
            self.brokers,
            tuple(self.gone),
        )

    def __str__(self) -> str:
        had = len(self.outcomes)
        unknown = f", of {self.asked - had:,} it is not known" if self.asked > had else ""
        return (
            f"{counted(had, 'partition', 'have', total=self.total)} had an election{unknown};"
            f" {counted(self.total - self.asked, '', 'have')} not."
        )

    @contextmanager
    def progress_in_errors(self) -> Iterator[None]:
        """Add the progress to the error that stops the elections."""
        try:
            yield
        except KeyboardInterrupt as interrupted:
            interrupted.add_note(f"{self}\n" + SEE_LEADERS)
            raise
        except GivenUpError as given_up:
            given_up.what = f"{given_up.what} {self}"
            raise
        except RefusedError as refused:
            if not self.outcomes:
                raise
            self.asked = len(self.outcomes)
            raise PartlyDoneError(
                f"{self} {refused.what}", refused.next_step or SEE_LEADERS
            ) from None
        except (TimedOutError, UnreachableError) as error:
            if self.outcomes and self.asked < self.total:
                error.what = f"{error.what} {self}"
            raise


def in_batches(partitions: Iterable[PartitionId], size: int) -> Iterator[Sequence[PartitionId]]:
    """So many at a time, in the order of topics, so that a batch has few of them."""
    return chunks(tuple(sorted(partitions)), size)


def _elect_batch(
    cluster: Cluster,
    expected: Mapping[PartitionId, int],
    before: Snapshot,
    run: _Batches,
    on_event: OnEvent,
    timeout_s: float,
    guard: ChangeGuard,
) -> None:
    """Hold one batch's election, and wait until the brokers watched know."""
    deadline = time.monotonic() + timeout_s
    views = views_of(before, expected)
    # One that a batch before found silent is not waited for again.
    watched = sample_brokers(before.brokers)
    brokers = [broker for broker in watched if broker.id not in run.silent] or watched
    convergence = Convergence(views, expected, [broker.id for broker in brokers])
    with LeaderWatch(brokers, views, cluster.access) as watch:
        called_us = now_us()
        if not run.outcomes:
            run.called_us = called_us
        on_event(ClusterEvent(EventKind.ELECTION_CALLED, called_us))
        outcomes = run.answered(elect(cluster, ElectionType.PREFERRED, expected, deadline))
        on_event(ClusterEvent(EventKind.ELECTION_ANSWERED, run.answered_us))
        convergence.leave_out(
            outcome.id for outcome in outcomes if outcome.outcome in (Outcome.FAILED, Outcome.GONE)
        )
        while not convergence.is_reached:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise _not_converged(convergence)
            guard.look()
            for news in watch.news(min(left_s, _LOOK_S)):
                if event := convergence.apply(news):
                    run.knew_us[news.broker] = event.time_us
                    on_event(event)
    gone = convergence.gone()
    run.seen(expected.keys() - frozenset(gone))
    run.gone += gone
    run.silent |= frozenset(convergence.silent)


def _not_converged(convergence: Convergence) -> TimedOutError:
    missing = convergence.missing()
    partition_id, brokers = next(iter(missing.items()))
    if not brokers:
        return TimedOutError(
            "No broker answers any more: whether they know their new leaders is not known.",
            SEE_LEADERS,
        )
    return TimedOutError(
        f"{counted(len(missing), 'partition', 'are')} not led as expected in every"
        f" broker's eyes yet, such as {partition_id} on broker {', '.join(map(str, brokers))}.",
        SEE_LEADERS,
    )


def _await_leaders(cluster: Cluster, elected: set[PartitionId], deadline: float) -> Snapshot:
    """Wait until each of these has a leader, or is gone; returns what is there. TimedOutError."""
    topics = {partition_id.topic for partition_id in elected}
    pause_s = _FIRST_PAUSE_S
    while True:
        is_late = time.monotonic() > deadline
        try:
            there = refresh_snapshot(cluster, topics).only(elected)
        except UnreachableError:
            if is_late:
                raise
        else:
            if not there.leaderless:
                return there
            if is_late:
                raise TimedOutError(
                    f"{counted(len(there.leaderless), 'elected partition')} without a leader"
                    f" yet, such as {there.leaderless[0].id}.",
                    SEE_LEADERS,
                )
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LAST_PAUSE_S)
