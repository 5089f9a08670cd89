"""Throttles of what brokers copy when they come back: set, adapted to clients, taken off.

`SetThrottle` sets one rate and ends; `AdaptThrottle` stays, raises it while a guard sees clients
well, lowers it when not, and puts everything back when all replicas are in sync.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace

from kipctl.changes.change import Change, ChangeRun
from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.adaptive_rate import AdaptiveRate
from kipctl.changes.execution.copy_progress import CatchUpTracker
from kipctl.changes.execution.pacing import ReportInterval
from kipctl.changes.execution.reassign import Failure
from kipctl.changes.execution.throttled_change import (
    entries_with_throttles,
    kept_throttles,
    restore_throttle_of,
)
from kipctl.changes.journal.entry import ChangeKind, Entry, EntryState
from kipctl.changes.journal.journal import Journal
from kipctl.changes.throttle import Change as SettingChange
from kipctl.changes.throttle import (
    Throttle,
    brokers_copying,
    format_rate,
    require_restored,
    set_throttle,
    throttle_changes,
)
from kipctl.changes.throttle_settings import raise_for, read_settings, write
from kipctl.cluster.reassignments import Reassignment, list_reassignments
from kipctl.cluster.recoveries import catching_up
from kipctl.cluster.snapshot import PartitionId, Snapshot, select, take_snapshot
from kipctl.cluster.throttle_configs import (
    ALL_REPLICAS,
    BROKER,
    RATES,
    REPLICAS,
    TOPIC,
    Setting,
)
from kipctl.counts import counted
from kipctl.errors import (
    KipctlError,
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UsageError,
)
from kipctl.next_step import Command

LOOK_S = 1.0
IN_SYNC_LOOKS = 2
"""So often one after the other everything has to be seen in sync: replicas come and go."""
MB = 10**6


@dataclass(frozen=True, slots=True)
class ThrottleProposal:
    """What is to be set: the cluster, what is being reassigned, what each broker still copies, and
    the throttle with what is set now."""

    snapshot: Snapshot
    busy: tuple[Reassignment, ...]
    behind: dict[int, tuple[PartitionId, ...]]
    throttle: Throttle

    @property
    def partitions(self) -> Sequence[object]:
        """What there is to do: settings."""
        return self.throttle.changes


@dataclass(frozen=True, slots=True)
class ThrottleDone:
    """`rate` is what is, or was last, set; `lowest` and `highest` what was; `seconds` how long."""

    rate: int
    lowest: int
    highest: int
    seconds: float = 0.0
    failures: tuple[Failure, ...] = ()
    done: int = 1
    has_changed: bool = True


def wanted_for(topics: Sequence[str], brokers: Sequence[int], rate: int) -> dict[Setting, str]:
    """What throttles whatever these brokers copy of these topics, to and fro. A pure function.

    Kafka holds back only replicas that are not in sync, so that all of a topic may be listed.
    """
    wanted = {Setting(TOPIC, t, config): ALL_REPLICAS for t in topics for config in REPLICAS}
    return wanted | {
        Setting(BROKER, str(b), config): str(rate) for b in brokers for config in RATES
    }


@dataclass(frozen=True)
class SetThrottle(Change[ThrottleProposal, ThrottleDone]):
    """A rate for what is out of sync: of these brokers (all), of these topics (those that have
    replicas out of sync)."""

    rate: int
    brokers: tuple[int, ...] = ()

    def look(self, context: ChangeContext) -> ThrottleProposal:
        cluster = context.cluster
        if self.rate < 1:
            raise UsageError(f"A throttle of {self.rate} bytes per second lets nothing through.")
        busy = list_reassignments(cluster)
        snapshot = take_snapshot(cluster)
        if unknown := set(self.brokers) - set(snapshot.broker_ids):
            raise RefusedError(
                f"Broker {min(unknown)} is not alive, and only a broker that runs takes a rate.",
                "Leave --broker out: rates of the others hold back what they send to it, too.",
            )
        behind = catching_up(snapshot, {one.id: one.adding for one in busy})
        topics = self._topics(context, snapshot, busy)
        brokers = self.brokers or snapshot.broker_ids
        return ThrottleProposal(
            snapshot, busy, behind, self._throttle(context, topics, brokers, busy)
        )

    def _topics(
        self, context: ChangeContext, snapshot: Snapshot, busy: Sequence[Reassignment]
    ) -> list[str]:
        if context.topics:
            return list(select(snapshot, context.topics).topics)
        out_of_sync = {p.id.topic for p in snapshot.partitions if len(p.isr) < len(p.replicas)}
        return sorted(out_of_sync | {one.id.topic for one in busy})

    def _throttle(
        self,
        context: ChangeContext,
        topics: Sequence[str],
        brokers: Sequence[int],
        busy: Sequence[Reassignment],
    ) -> Throttle:
        wanted = wanted_for(topics, brokers, self.rate)
        before = read_settings(context.cluster, wanted)
        moved = {one.id.topic for one in busy}
        # What a reassignment has listed is throttled already; its list is its own to put back.
        wanted = {
            one: value
            for one, value in wanted.items()
            if not (one.kind == TOPIC and one.name in moved and before.get(one))
        }
        copying = brokers_copying(context.cluster) or frozenset()
        return throttle_changes(wanted, before, kept_throttles(context.journal()), copying)

    def show(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        context.ui.throttle(seen.throttle, "Nothing was changed.")

    def end_without(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        context.ui.throttle(seen.throttle, "All of it is set so already.")

    def refuse(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        if not any(one.setting.kind == TOPIC for one in seen.throttle.changes):
            listed = self._topics(context, seen.snapshot, seen.busy)
            if not listed:
                raise RefusedError(
                    "Every replica is in sync, and nothing is being reassigned.",
                    "To throttle what falls behind later, name its topics: "
                    + Command("throttle set --help"),
                )

    def announce(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        topics = {c.setting.name for c in seen.throttle.changes if c.setting.kind == TOPIC}
        rates = {c.setting.name for c in seen.throttle.changes if c.setting.kind == BROKER}
        context.ui.say(
            f"{format_rate(str(self.rate))} in and out of each of"
            f" {counted(len(rates), 'broker')}, for replicas out of sync of"
            f" {counted(len(topics), 'topic')}."
        )

    def question(self, seen: ThrottleProposal) -> str:
        return f"Set {counted(len(seen.throttle.changes), 'setting')}?"

    def locked(self, run: ChangeRun) -> AbstractContextManager[None]:
        return run.journal.throttling(run.context.origin)

    def look_again(self, run: ChangeRun, seen: ThrottleProposal) -> ThrottleProposal:
        return self.look(run.context)

    @contextmanager
    def recorded(self, run: ChangeRun, again: ThrottleProposal) -> Iterator[Entry | None]:
        entry = record(run, again.throttle)
        try:
            set_throttle(run.context.cluster, again.throttle)
        except BaseException:
            restore_throttle_of(run.context.cluster, entry, run.context.ui.say)
            raise
        yield entry

    def title(self, again: ThrottleProposal) -> str:
        return ""

    def execute(self, run: ChangeRun, again: ThrottleProposal) -> ThrottleDone:
        return ThrottleDone(self.rate, self.rate, self.rate)

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
    for one in older:
        run.not_restored += restore_throttle_of(run.context.cluster, one, run.context.ui.say)
    return entry


def throttle_entries(journal: Journal) -> list[Entry]:
    """What `kipctl throttle` has set, and is not put back; the newest first."""
    return [one for one in entries_with_throttles(journal) if one.kind is ChangeKind.THROTTLE]


@dataclass(frozen=True)
class AdaptThrottle(SetThrottle):
    """The same, with a rate that follows what the guard sees, until all replicas are in sync."""

    floor: int = MB
    ceiling: int = 10**9

    def _throttle(
        self,
        context: ChangeContext,
        topics: Sequence[str],
        brokers: Sequence[int],
        busy: Sequence[Reassignment],
    ) -> Throttle:
        """With rates that are as wanted already, too: they are changed later."""
        throttle = super()._throttle(context, topics, brokers, busy)
        known = {one.setting for one in throttle.changes}
        rates = wanted_for((), brokers, self.rate)
        alike = [SettingChange(s, value, value) for s, value in rates.items() if s not in known]
        return Throttle((*throttle.changes, *alike))

    def refuse(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        if not (seen.behind or seen.busy):
            raise RefusedError(
                "No broker copies anything now: every replica that can be is in sync.",
                "Start the broker that is away, then repeat it. For a rate that stays: "
                + Command("throttle set --help"),
            )

    def announce(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        super().announce(context, seen)
        context.ui.say(
            f"From there it goes between {format_rate(str(self.floor))} and"
            f" {format_rate(str(self.ceiling))}, as the guard allows, until all is in sync."
        )

    @contextmanager
    def recorded(self, run: ChangeRun, again: ThrottleProposal) -> Iterator[Entry | None]:
        entry = record(run, again.throttle)
        try:
            set_throttle(run.context.cluster, again.throttle)
            yield entry
        finally:
            left = restore_throttle_of(run.context.cluster, entry, run.context.ui.say)
            run.not_restored += left
            if not left:
                run.context.ui.say("The throttle is removed.")

    def title(self, again: ThrottleProposal) -> str:
        return f"Throttled to {format_rate(str(self.rate))}"

    def execute(self, run: ChangeRun, again: ThrottleProposal) -> ThrottleDone:
        entry, settings = run.entry, run.settings
        assert entry is not None
        began = time.monotonic()
        now = AdaptiveRate(self.rate, self.floor, self.ceiling, began)
        lowest = highest = now.rate
        cluster, guard, progress = run.context.cluster, settings["guard"], settings["progress"]
        tracker, reports, in_sync = CatchUpTracker(cluster), ReportInterval(), 0
        until = None if run.context.timeout_s is None else began + run.context.timeout_s
        while in_sync < IN_SYNC_LOOKS:
            time.sleep(LOOK_S)
            crossed = guard.crossed()
            _require_own(run, entry)
            following = now.after(is_good=not crossed, now_s=time.monotonic())
            if following.rate != now.rate:
                entry = change_rate(run, entry, following.rate)
            now = following
            lowest, highest = min(lowest, now.rate), max(highest, now.rate)
            snapshot, busy = _look(run)
            if snapshot is None:
                continue
            behind = catching_up(snapshot, {one.id: one.adding for one in busy})
            listed = {c.setting.name for c in again.throttle.changes if c.setting.kind == TOPIC}
            is_busy = any(one.id.topic in listed or not listed for one in busy)
            in_sync = 0 if behind or is_busy else in_sync + 1
            if reports.is_due(time.monotonic()):
                copied = "; ".join(map(str, tracker.look(snapshot, behind)))
                why = f" ({crossed})" if crossed else ""
                progress(f"At most {format_rate(str(now.rate))}{why}. {copied}".rstrip(". "))
            if until is not None and time.monotonic() > until:
                raise PartlyDoneError(
                    "The time allowed has ended, and not all replicas are in sync.",
                    "Wait for them, without a throttle: " + Command("wait --until in-sync"),
                )
        return ThrottleDone(now.rate, lowest, highest, time.monotonic() - began)

    def report(
        self, run: ChangeRun, seen: ThrottleProposal, again: ThrottleProposal, done: ThrottleDone
    ) -> None:
        run.context.ui.throttle(
            again.throttle,
            f"All replicas are in sync after {done.seconds:.0f} s, at"
            f" {format_rate(str(done.lowest))} to {format_rate(str(done.highest))}.",
        )


def _look(run: ChangeRun) -> tuple[Snapshot | None, tuple[Reassignment, ...]]:
    """The cluster now; None while it does not answer, as when its controller moves."""
    try:
        busy = list_reassignments(run.context.cluster)
        return take_snapshot(run.context.cluster), busy
    except (TimedOutError, UnreachableError):
        return None, ()


def _require_own(run: ChangeRun, entry: Entry) -> None:
    """Raise PartlyDoneError when somebody else has set a rate since: two do not adapt one."""
    changes = entry.throttle.changes if entry.throttle else ()
    rates = {one.setting: one for one in changes if one.setting.config in RATES}
    alive = set(map(str, run.context.cluster.nodes))
    try:
        now = read_settings(run.context.cluster, [one for one in rates if one.name in alive])
    except KipctlError:
        return
    for setting, value in now.items():
        change = rates[setting]
        if value is not None and not change.is_own(value) and value != change.before:
            raise PartlyDoneError(
                f"Somebody else has set {setting} to {format_rate(value)}: it is theirs now.",
                "See whose throttles are set: " + Command("throttle show"),
            )


def change_rate(run: ChangeRun, entry: Entry, rate: int) -> Entry:
    """Give the entry's brokers another rate: written down first, then set. A broker that is away
    keeps its own."""
    throttle = entry.throttle or Throttle(())
    changes = tuple(
        replace(one, during=str(rate), replaces=one.during) if one.setting.config in RATES else one
        for one in throttle.changes
    )
    entry = entry.with_throttle(Throttle(changes))
    for one in changes:
        if one.setting.config in RATES:
            with suppress(TimedOutError, UnreachableError):
                for answer in write(run.context.cluster, {one.setting: one.during}):
                    raise_for(answer)
    return entry


def clear(context: ChangeContext, entry: Entry | None = None) -> None:
    """Put back what `kipctl throttle` has set, or this entry of it, whoever still needs it: who
    needs it is said before the question.

    Raises PartlyDoneError for what stays.
    """
    cluster, journal, ui = context.cluster, context.journal(), context.ui
    found = throttle_entries(journal) if entry is None else [entry.reload()]
    if not any(one.throttle for one in found):
        ui.say("No throttle that was set from here for a recovery is still set.")
        return
    if context.dry_run:
        for one in found:
            ui.throttle(one.throttle or Throttle(()), "Nothing was changed.", is_removal=True)
        return
    with journal.throttling(context.origin):
        busy = list_reassignments(cluster)
        behind = catching_up(take_snapshot(cluster), {one.id: one.adding for one in busy})
        for broker, partitions in behind.items():
            ui.say(
                f"Broker {broker} still copies {counted(len(partitions), 'partition')}, and then as"
                " fast as it can."
            )
        ui.confirm("Take the throttle off?")
        not_restored = [left for one in found for left in restore_throttle_of(cluster, one, ui.say)]
    require_restored(not_restored)
    ui.say("The throttle is removed.")
