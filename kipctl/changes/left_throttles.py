"""The throttles of a cluster: who has set them, what needs them, and which are left."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from kipctl.changes.execution.throttled_change import applies_to
from kipctl.changes.journal.entry import Entry
from kipctl.changes.throttle import Change
from kipctl.cluster.log_dirs import between_disks
from kipctl.cluster.reassignments import Reassignment, list_reassignments
from kipctl.cluster.snapshot import take_snapshot
from kipctl.cluster.throttle_configs import ALL_BROKERS, BROKER, DISK_RATE, KnownThrottles, Setting
from kipctl.cluster.throttles import ask_throttles, held_back, needed, rate_of, waiting_for
from kipctl.counts import counted, first_few
from kipctl.next_step import Command, NextStep
from kipctl.transport.request import Cluster

NOT_KIPCTL = "not kipctl here"
"""Who has set what no entry here tells of."""
REASSIGNED = "Partitions that they throttle are still being reassigned."

UNTIL_IN_SYNC = "Wait until it is done (" + Command("wait --until in-sync,no-reassignment") + ")"
SEE_COPIES = "See what is copied: " + Command("reassign --list")
"""Nothing waits for copies between disks but who has begun them."""


@dataclass(frozen=True, slots=True)
class ThrottlesSeen:
    """All throttles of a cluster: `values` as they are now at the brokers `asked`, `used` those
    that something needs, `why` the first that does, and `how_to_wait` for that; `known` says who of
    this journal has set which. The brokers `away` would catch up under them."""

    values: Mapping[Setting, str]
    used: Collection[Setting]
    why: str
    known: KnownThrottles
    busy: Sequence[Reassignment]
    asked: frozenset[str] = frozenset()
    how_to_wait: NextStep = UNTIL_IN_SYNC
    away: tuple[int, ...] = ()

    def is_put_back(self, change: Change) -> bool:
        """Whether it is known to be as it was before."""
        setting = change.setting
        is_known = bool(self.asked) and (setting.kind != BROKER or setting.name in self.asked)
        return is_known and self.values.get(setting) == change.before

    def is_own(self, setting: Setting) -> bool:
        """Whether kipctl here has set it, as it is now."""
        key = setting, self.values[setting]
        return key in self.known.running or key in self.known.left

    @property
    def not_known(self) -> Mapping[tuple[Setting, str], str]:
        """What this journal has set on brokers that are away, with the value, and by whom: it may
        be set still."""
        return {
            (setting, value): who
            for (setting, value), who in self.known.left.items()
            if setting.kind == BROKER and setting.name not in {*self.asked, ALL_BROKERS}
        }

    def set_by(self, setting: Setting, recorded: str | None = None) -> str:
        """Who has set it, as far as is known; of a broker that is away, to what was `recorded`."""
        key = setting, self.values.get(setting, recorded or "")
        return self.known.running.get(key) or self.known.left.get(key) or NOT_KIPCTL


def look_at_throttles(cluster: Cluster, known: KnownThrottles) -> ThrottlesSeen:
    """Ask the whole cluster. Those of a kipctl at work, which may wait for a broker that is away,
    are needed. Raises KipctlError."""
    busy = list_reassignments(cluster)
    snapshot = take_snapshot(cluster)
    values = ask_throttles(cluster, snapshot)
    catching_up = held_back(values, snapshot, busy)
    rated = [b for b in snapshot.broker_ids if rate_of(values, b, DISK_RATE) is not None]
    copies = between_disks(cluster, rated)
    copying = [broker for broker, replicas in copies.replicas.items() if replicas]
    of_disks = [*copying, *copies.silent]
    why, how_to_wait = REASSIGNED, UNTIL_IN_SYNC
    if not busy and catching_up:
        broker, held = next(iter(catching_up.items()))
        why = (
            f"Broker {broker} catches up under them: {counted(len(held.partitions), 'partition')}"
            f" ({first_few(held.partitions)}) out of sync."
        )
    elif not busy and of_disks:
        under = (f"Broker {broker} copies between its disks under them." for broker in copying)
        why, how_to_wait = next(chain(under, copies.not_known())), SEE_COPIES
    at_work = known.running
    running = {item[0]: at_work[item] for item in values.items() if item in at_work}
    if running and why == REASSIGNED and not busy:
        why = f"They are set by {next(iter(running.values()))}."
    used = needed(values, snapshot, busy, of_disks) | running.keys()
    asked = frozenset(map(str, snapshot.broker_ids))
    away = waiting_for(values, snapshot)
    return ThrottlesSeen(values, used, why, known, busy, asked, how_to_wait, away)


@dataclass(frozen=True, slots=True)
class LeftThrottles:
    """Throttles that are to be taken off: `recorded` are the entries that tell of one, of which
    those of `entries` are still set, and `others` what no entry here tells of.

    With `takes_all` the others are taken off, too.
    """

    recorded: tuple[Entry, ...]
    entries: tuple[Entry, ...]
    others: Mapping[Setting, str]
    takes_all: bool
    seen: ThrottlesSeen

    @property
    def own(self) -> tuple[Change, ...]:
        """What the entries have set, and is still so, or may be; of two the newer one's."""
        entries = reversed(self.entries)
        of_all = {
            c.setting: c for entry in entries if entry.throttle for c in entry.throttle.changes
        }
        return tuple(
            change
            for change in of_all.values()
            if change.is_own(self.seen.values.get(change.setting, change.during))
            and not self.seen.is_put_back(change)
        )

    @property
    def changes(self) -> tuple[Change, ...]:
        """All that is taken off, with what is there afterwards."""
        if not self.takes_all:
            return self.own
        others = (Change(setting, None, value) for setting, value in self.others.items())
        return (*(replace(change, before=None) for change in self.own), *others)

    @property
    def restores_others(self) -> bool:
        """Whether some are what they were before then, and not gone."""
        return any(change.before for change in self.changes)

    @property
    def partitions(self) -> Sequence[object]:
        """What there is to do: settings, and entries to be freed of what is not set any more."""
        return self.changes or self.recorded

    @property
    def is_needed(self) -> bool:
        """Whether something is held back by what would be taken off."""
        settings = {change.setting for change in self.changes}
        return not settings.isdisjoint(self.seen.used) or any(
            applies_to(entry, self.seen.busy) for entry in self.entries
        )
