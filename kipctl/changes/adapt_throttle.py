"""A throttle that follows what clients feel, and is taken off when all replicas are in sync."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace

from kipctl.changes.change import ChangeRun
from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.adaptive_rate import AdaptiveRate
from kipctl.changes.execution.copy_progress import CatchUpTracker
from kipctl.changes.execution.pacing import ReportInterval
from kipctl.changes.execution.throttled_change import restore_throttle_of
from kipctl.changes.journal.entry import Entry
from kipctl.changes.recovery_throttle import (
    SetThrottle,
    ThrottleDone,
    ThrottleProposal,
    brokers_away,
    record,
)
from kipctl.changes.throttle import Change as SettingChange
from kipctl.changes.throttle import Throttle, format_rate, set_throttle
from kipctl.changes.throttle_settings import groups, raise_for, read_settings, write
from kipctl.cluster.reassignments import Reassignment, adding_of, list_reassignments
from kipctl.cluster.recoveries import catching_up
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.cluster.throttle_configs import RATES, Setting
from kipctl.counts import broker_list
from kipctl.errors import (
    KipctlError,
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
)
from kipctl.next_step import Command

LOOK_S = 1.0
WINDOW_S = 3.0
"""Of latencies that count: a cut has to be felt before the next."""
IN_SYNC_LOOKS = 2
"""So often one after the other everything has to be seen in sync: replicas come and go."""
NOTICEABLE = 0.02
"""Quotas that differ by less are not set anew."""
MB = 10**6


@dataclass(frozen=True)
class AdaptThrottle(SetThrottle):
    """A rate that begins with `rate`, and follows what the guard sees between two limits.

    A broker that is away is waited for. While nothing else is copied the lowest rate is set, as
    Kafka would let eleven seconds of a higher one pass at once; and while it is measured what is
    undisturbed, where data is copied already and the guard compares with that.
    """

    floor: int = MB
    ceiling: int = 10**9

    def first_rate(self, context: ChangeContext, *, is_copied: bool) -> int:
        return self.rate if is_copied and not context.guard.is_to_compare else self.floor

    def throttle(
        self,
        context: ChangeContext,
        wanted: Mapping[Setting, str],
        busy: Sequence[Reassignment],
    ) -> Throttle:
        """With rates that are as wanted already, too: they are changed later."""
        throttle = super().throttle(context, wanted, busy)
        known = {change.setting for change in throttle.changes}
        rates = {setting: value for setting, value in wanted.items() if setting.config in RATES}
        alike = [SettingChange(s, value, value) for s, value in rates.items() if s not in known]
        return Throttle((*throttle.changes, *alike))

    def refuse(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        if not (seen.is_copied or seen.away):
            raise RefusedError(
                "No broker copies anything now, and none is away: every replica is in sync.",
                "For a rate that stays: " + Command("throttle set --help"),
            )

    def announce(self, context: ChangeContext, seen: ThrottleProposal) -> None:
        super().announce(context, seen)
        if seen.rate != self.rate:
            until = (
                "while latencies are measured undisturbed"
                if seen.is_copied
                else "until the broker is back"
            )
            context.ui.say(f"It stays so {until}; then it is {format_rate(str(self.rate))}.")
        context.ui.say(
            f"From there it goes between {format_rate(str(self.floor))} and"
            f" {format_rate(str(self.ceiling))}, as the guard allows, until all is in sync."
        )
        if seen.away:
            context.ui.say(f"{_away(seen.away)}, and waited for: it can be started now.")

    def watched(self, run: ChangeRun, seen: ThrottleProposal) -> AbstractContextManager[None]:
        return nullcontext()  # what is undisturbed is measured under the throttle

    @contextmanager
    def recorded(self, run: ChangeRun, again: ThrottleProposal) -> Iterator[Entry | None]:
        entry = record(run, again.throttle)
        try:
            set_throttle(run.context.cluster, again.throttle)
            with run.context.guard.canary(window_s=WINDOW_S):
                yield entry
        finally:
            left = restore_throttle_of(run.context.cluster, entry, run.context.ui.say)
            run.not_restored += left
            if not left:
                run.context.ui.say("The throttle is removed.")

    def title(self, again: ThrottleProposal) -> str:
        return "Adapting the throttle"

    def execute(self, run: ChangeRun, again: ThrottleProposal) -> ThrottleDone:
        assert run.entry is not None
        now_s = time.monotonic()
        before = again.rate if again.rate != self.rate else None
        rate = AdaptiveRate.beginning(self.rate, self.floor, self.ceiling, now_s, before)
        adapting = _Adapting(run, run.entry, rate, again.rate)
        return adapting.until_in_sync(again)

    def report(
        self, run: ChangeRun, seen: ThrottleProposal, again: ThrottleProposal, done: ThrottleDone
    ) -> None:
        run.context.ui.throttle(
            again.throttle,
            f"All replicas are in sync after {done.seconds:.0f} s, at"
            f" {format_rate(str(done.lowest))} to {format_rate(str(done.highest))}.",
        )


@dataclass(slots=True)
class _Adapting:
    """A throttle at work: `quota` is what was set last, of all that was `set_here`, of which a
    broker may still show an earlier one."""

    run: ChangeRun
    entry: Entry
    rate: AdaptiveRate
    quota: int
    set_here: set[str] = field(default_factory=set)

    def until_in_sync(self, again: ThrottleProposal) -> ThrottleDone:
        began = time.monotonic()
        context, guard = self.run.context, self.run.settings["guard"]
        progress, reports = self.run.settings["progress"], ReportInterval()
        tracker, in_sync = CatchUpTracker(context.cluster), 0
        waits = not again.is_copied
        lowest = highest = self.rate.rate
        while in_sync < IN_SYNC_LOOKS:
            if context.timeout_s is not None and time.monotonic() > began + context.timeout_s:
                raise PartlyDoneError(
                    "The time allowed has ended, and not all replicas are in sync.",
                    "Wait for them, without a throttle: " + Command("wait --until in-sync"),
                )
            time.sleep(LOOK_S)
            crossed = guard.crossed()
            self.require_own()
            if not waits:
                self.follow(is_good=not crossed)
                lowest, highest = min(lowest, self.rate.rate), max(highest, self.rate.rate)
            snapshot, busy = _look(self.run)
            if snapshot is None:
                continue
            behind = catching_up(snapshot, adding_of(busy))
            is_copied = bool(behind) or any(
                reassignment.id.topic in again.topics for reassignment in busy
            )
            away = brokers_away(snapshot)
            if away and not is_copied:
                if not waits:
                    lowest = min(lowest, self.rate.floor)
                waits, in_sync = True, 0
                self.set_quota(self.rate.floor)
                if reports.is_due(time.monotonic()):
                    progress(f"{_away(away)}: waiting for it")
                continue
            if waits:
                waits = False
                self.rate = self.rate.from_now(time.monotonic())
            in_sync = 0 if is_copied else in_sync + 1
            if reports.is_due(time.monotonic()):
                copied = "; ".join(map(str, tracker.look(snapshot, behind)))
                why = f" ({crossed})" if crossed else ""
                progress(f"At most {format_rate(str(self.rate.rate))}{why}. {copied}".rstrip(". "))
        return ThrottleDone(self.rate.rate, lowest, highest, time.monotonic() - began)

    def follow(self, *, is_good: bool) -> None:
        """Let the rate follow the guard, and the quota the rate."""
        now_s = time.monotonic()
        self.rate = self.rate.after(is_good=is_good, now_s=now_s)
        self.set_quota(self.rate.quota(now_s))

    def set_quota(self, quota: int) -> None:
        """Give the brokers this one, where it differs."""
        if abs(quota - self.quota) > NOTICEABLE * self.quota:
            self.set_here.add(str(self.quota))
            self.quota = quota
            self.entry = change_rate(self.run, self.entry, quota)

    def require_own(self) -> None:
        """Raise PartlyDoneError when somebody else has set a rate since (two do not adapt one), or
        has taken the throttle off."""
        if self.entry.reload().throttle is None:
            raise PartlyDoneError(
                "Somebody has taken the throttle off.",
                "What is copied goes as fast as it can. Throttle it anew: "
                + Command("throttle adapt --help"),
            )
        rates = _rates(self.run, self.entry)
        try:
            now = read_settings(self.run.context.cluster, rates)
        except KipctlError:
            return
        for setting, value in now.items():
            change = rates[setting]
            is_here = change.is_own(value) or value in (change.before, *self.set_here)
            if value is not None and not is_here:
                raise PartlyDoneError(
                    f"Somebody else has set {setting} to {format_rate(value)}: it is theirs now.",
                    "See whose throttles are set: " + Command("throttle show"),
                )


def _away(brokers: frozenset[int]) -> str:
    return f"{broker_list(brokers, 'are').capitalize()} away"


def _rates(run: ChangeRun, entry: Entry) -> dict[Setting, SettingChange]:
    """The rates of an entry, of brokers that are alive."""
    changes = entry.throttle.changes if entry.throttle else ()
    alive = set(map(str, run.context.cluster.nodes))
    return {
        change.setting: change
        for change in changes
        if change.setting.config in RATES and change.setting.name in alive
    }


def change_rate(run: ChangeRun, entry: Entry, rate: int) -> Entry:
    """Give the entry's brokers another rate: written down first, then set. A broker that is away
    keeps its own."""
    throttle = entry.throttle or Throttle(())
    changes = tuple(
        replace(change, during=str(rate), replaces=change.during)
        if change.setting.config in RATES
        else change
        for change in throttle.changes
    )
    entry = entry.with_throttle(Throttle(changes))
    for group in groups(list(_rates(run, entry))):
        with suppress(TimedOutError, UnreachableError):
            for answer in write(run.context.cluster, dict.fromkeys(group, str(rate))):
                raise_for(answer)
    return entry


def _look(run: ChangeRun) -> tuple[Snapshot | None, tuple[Reassignment, ...]]:
    """The cluster now; None while it does not answer, as when its controller moves."""
    try:
        busy = list_reassignments(run.context.cluster)
        return take_snapshot(run.context.cluster), busy
    except (TimedOutError, UnreachableError):
        return None, ()
