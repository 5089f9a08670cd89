"""Throttles of what brokers copy when they come back: set, and taken off."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from kipctl.changes.change import Change, ChangeRun
from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.reassign import Failure
from kipctl.changes.execution.throttled_change import (
    entries_with_throttles,
    kept_throttles,
    restore_throttle_of,
)
from kipctl.changes.journal.entry import ChangeKind, Entry, EntryState
from kipctl.changes.journal.journal import Journal
from kipctl.changes.throttle import Throttle, format_rate, prepare_throttle, rates_of, set_throttle
from kipctl.cluster.reassignments import Reassignment, adding_of, list_reassignments
from kipctl.cluster.recoveries import catching_up
from kipctl.cluster.snapshot import PartitionId, Snapshot, select, take_snapshot
from kipctl.cluster.throttle_configs import ALL_REPLICAS, BROKER, REPLICAS, TOPIC, Setting
from kipctl.counts import counted
from kipctl.errors import RefusedError
from kipctl.next_step import Command


def brokers_away(snapshot: Snapshot) -> frozenset[int]:
    """Brokers with replicas that are not alive. A pure function."""
    with_replicas = {broker for partition in snapshot.partitions for broker in partition.replicas}
    return frozenset(with_replicas - {*snapshot.broker_ids})


@dataclass(frozen=True, slots=True)
class ThrottleProposal:
    """What is to be set: the cluster, what is being reassigned, what each broker still copies, and
    the throttle of `rate` bytes per second, with what is set now. `wanted` is all that is to be
    set then, of which some may be so already."""

    snapshot: Snapshot
    busy: tuple[Reassignment, ...]
    behind: dict[int, tuple[PartitionId, ...]]
    rate: int
    wanted: Collection[Setting]
    throttle: Throttle

    @property
    def is_copied(self) -> bool:
        """Whether data is copied now."""
        return bool(self.behind or self.busy)

    @property
    def topics(self) -> frozenset[str]:
        """Those whose replicas are to be throttled."""
        return frozenset(setting.name for setting in self.wanted if setting.kind == TOPIC)

    @property
    def away(self) -> frozenset[int]:
        """Brokers with replicas that are not alive."""
        return brokers_away(self.snapshot)

    @property
    def partitions(self) -> Sequence[object]:
        """What there is to do: settings."""
        return self.throttle.changes


@dataclass(frozen=True, slots=True)
class ThrottleDone:
    """`rate` is what is, or was last, set; `lowest` and `highest` what was; `seconds` how long."""

    rate: int = 0
    lowest: int = 0
    highest: int = 0
    seconds: float = 0.0
    failures: tuple[Failure, ...] = ()
    done: int = 1
    has_changed: bool = True


def wanted_for(topics: Sequence[str], brokers: Sequence[int], rate: int) -> dict[Setting, str]:
    """What throttles whatever these brokers copy of these topics, to and fro. A pure function.

    Kafka holds back only replicas that are not in sync, so that all of a topic may be listed.
    """
    lists = {Setting(TOPIC, t, config): ALL_REPLICAS for t in topics for config in REPLICAS}
    return lists | rates_of(brokers, rate)


@dataclass(frozen=True)
class SetThrottle(Change[ThrottleProposal, ThrottleDone]):
    """A rate for what is out of sync: of these brokers (all), of these topics (those that have
    replicas out of sync)."""

    rate: int
    brokers: tuple[int, ...] = ()

    def look(self, context: ChangeContext) -> ThrottleProposal:
        cluster = context.cluster
        busy = list_reassignments(cluster)
        snapshot = take_snapshot(cluster)
        if unknown := set(self.brokers) - set(snapshot.broker_ids):
            raise RefusedError(
                f"Broker {min(unknown)} is not alive, and only a broker that runs takes a rate.",
                "Leave --broker out: rates of the others hold back what they send to it, too.",
            )
        behind = catching_up(snapshot, adding_of(busy))
        topics = self._topics(context, snapshot, busy)
        brokers = self.brokers or snapshot.broker_ids
        rate = self.first_rate(context, is_copied=bool(behind or busy))
        wanted = wanted_for(topics, brokers, rate)
        throttle = self.throttle(context, wanted, busy)
        return ThrottleProposal(snapshot, busy, behind, rate, [*wanted], throttle)

    def first_rate(self, context: ChangeContext, *, is_copied: bool) -> int:
        """What is set first."""
        return self.rate

    def _topics(
        self, context: ChangeContext, snapshot: Snapshot, busy: Sequence[Reassignment]
    ) -> list[str]:
        if context.topics:
            return list(select(snapshot, context.topics).topics)
        out_of_sync = {p.id.topic for p in snapshot.partitions if len(p.isr) < len(p.replicas)}
        return sorted(out_of_sync | {reassignment.id.topic for reassignment in busy})

    def throttle(
        self,
        context: ChangeContext,
        wanted: Mapping[Setting, str],
        busy: Sequence[Reassignment],
    ) -> Throttle:
        """What sets what is `wanted`."""
        # What a reassignment has listed is throttled already; its list is its own to put back.
        listed = {reassignment.id.topic for reassignment in busy}
        kept = kept_throttles(context.journal())
        return prepare_throttle(context.cluster, wanted, kept, listed=listed)

    def show(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        context.ui.throttle(seen.throttle, "Nothing was changed.")

    def end_without(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        context.ui.throttle(seen.throttle, "All of it is set so already.")

    def refuse(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        if not seen.topics:
            raise RefusedError(
                "Every replica is in sync, and nothing is being reassigned.",
                "To throttle what falls behind later, name its topics: "
                + Command("throttle set --help"),
            )

    def announce(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        brokers = {setting.name for setting in seen.wanted if setting.kind == BROKER}
        context.ui.say(
            f"{format_rate(str(seen.rate))} in and out of each of"
            f" {counted(len(brokers), 'broker')}, for replicas out of sync of"
            f" {counted(len(seen.topics), 'topic')}."
        )

    def question(self, seen: ThrottleProposal) -> str:
        return f"Set {counted(len(seen.throttle.changes), 'setting')}?"

    def locked(self, run: ChangeRun) -> AbstractContextManager[None]:
        return run.journal.throttling(run.context.origin)

    @contextmanager
    def recorded(self, run: ChangeRun, again: ThrottleProposal) -> Iterator[Entry | None]:
        entry = record(run, again.throttle)
        try:
            set_throttle(run.context.cluster, again.throttle)
        except BaseException:
            restore_throttle_of(run.context.cluster, entry, run.context.ui.say)
            raise
        yield entry

    def execute(self, run: ChangeRun, again: ThrottleProposal) -> ThrottleDone:
        return ThrottleDone(self.rate)

    def report(
        self, run: ChangeRun, seen: ThrottleProposal, again: ThrottleProposal, done: ThrottleDone
    ) -> None:
        run.context.ui.throttle(
            again.throttle,
            f"Throttled to {format_rate(str(done.rate))}. Take it off when all is in sync: "
            + Command("throttle clear"),
        )


def record(run: ChangeRun, throttle: Throttle) -> Entry:
    """Write an entry of this throttle, in the place of what `throttle` has set here before."""
    older = throttle_entries(run.journal)
    # Done, as far as its entry goes: what is left is to put it back, which its throttle says.
    entry = run.journal.save(
        {}, {}, run.context.origin, throttle=throttle, kind=ChangeKind.THROTTLE
    ).mark(EntryState.DONE)
    for earlier in older:
        run.not_restored += restore_throttle_of(run.context.cluster, earlier, run.context.ui.say)
    return entry


def throttle_entries(journal: Journal) -> list[Entry]:
    """What `kipctl throttle` has set, and is not put back; the newest first."""
    return [entry for entry in entries_with_throttles(journal) if entry.kind is ChangeKind.THROTTLE]
