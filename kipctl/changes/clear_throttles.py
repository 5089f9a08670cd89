"""Throttles taken off: those of a recovery, and those that changes which were cut off have left."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from kipctl.changes.change import Change, ChangeRun, Seen
from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.throttled_change import (
    clear_throttles,
    entries_with_throttles,
    known_throttles,
    restore_throttle_of,
    still_set,
)
from kipctl.changes.journal.entry import Entry
from kipctl.changes.left_throttles import (
    NOT_KIPCTL,
    REASSIGNED,
    LeftThrottles,
    ThrottlesSeen,
    look_at_throttles,
)
from kipctl.changes.recovery_throttle import ThrottleDone, throttle_entries
from kipctl.changes.throttle import Change as SettingChange
from kipctl.changes.throttle import Throttle, require_restored, restore_throttle
from kipctl.cluster.reassignments import adding_of, list_reassignments
from kipctl.cluster.recoveries import catching_up
from kipctl.cluster.snapshot import PartitionId, take_snapshot
from kipctl.cluster.throttle_configs import Setting
from kipctl.cluster.throttles import ask_throttles
from kipctl.counts import broker_list, counted
from kipctl.errors import KipctlError, RefusedError
from kipctl.next_step import Command


@dataclass(frozen=True, slots=True)
class ThrottlesToClear:
    """What `kipctl throttle` has set, and what is still copied under it, by broker."""

    entries: tuple[Entry, ...]
    behind: dict[int, tuple[PartitionId, ...]]

    @property
    def partitions(self) -> Sequence[object]:
        """What there is to do: settings."""
        return self.throttle.changes

    @property
    def throttle(self) -> Throttle:
        """All of it."""
        return Throttle(
            tuple(c for entry in self.entries if entry.throttle for c in entry.throttle.changes)
        )


class _Clear(Change[Seen, ThrottleDone]):
    """What is written down of them is there already: their entries."""

    def recorded(self, run: ChangeRun, again: Seen) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass(frozen=True)
class ClearThrottle(_Clear[ThrottlesToClear]):
    """Put back what `kipctl throttle` has set, or this entry of it, whoever still needs it: who
    needs it is said before the question."""

    entry: Entry | None = None

    def look(self, context: ChangeContext) -> ThrottlesToClear:
        entries = [self.entry.reload()] if self.entry else throttle_entries(context.journal())
        adding = adding_of(list_reassignments(context.cluster))
        return ThrottlesToClear(tuple(entries), catching_up(take_snapshot(context.cluster), adding))

    def show(self, context: ChangeContext, seen: ThrottlesToClear) -> None:
        context.ui.throttle(seen.throttle, "Nothing was changed.", is_removal=True)

    def end_without(self, context: ChangeContext, seen: ThrottlesToClear) -> None:
        none = "No throttle of `throttle set` or `throttle adapt` is still set from here. What else"
        none += " is set, whoever did it: " + Command("throttle show")
        context.ui.throttle(seen.throttle, none, is_removal=True)

    def announce(self, context: ChangeContext, seen: ThrottlesToClear) -> None:
        for broker, partitions in seen.behind.items():
            context.ui.say(
                f"Broker {broker} still copies {counted(len(partitions), 'partition')}, and then as"
                " fast as it can."
            )

    def question(self, seen: ThrottlesToClear) -> str:
        return "Take the throttle off?"

    def locked(self, run: ChangeRun) -> AbstractContextManager[None]:
        return run.journal.throttling(run.context.origin)

    def execute(self, run: ChangeRun, again: ThrottlesToClear) -> ThrottleDone:
        for entry in again.entries:
            run.not_restored += restore_throttle_of(run.context.cluster, entry, run.context.ui.say)
        return ThrottleDone()

    def report(
        self, run: ChangeRun, seen: ThrottlesToClear, again: ThrottlesToClear, done: ThrottleDone
    ) -> None:
        what = "is not all removed" if run.not_restored else "is removed"
        run.context.ui.throttle(again.throttle, f"The throttle {what}.", is_removal=True)


@dataclass(frozen=True)
class ClearLeft(_Clear[LeftThrottles]):
    """Remove the throttles that earlier changes have left; with `takes_all` those of others."""

    takes_all: bool = False

    def look(self, context: ChangeContext) -> LeftThrottles:
        return self._look(context, is_locked=False)

    def _look(self, context: ChangeContext, *, is_locked: bool) -> LeftThrottles:
        journal = context.journal()
        known = known_throttles(journal, is_locked=is_locked)
        recorded = entries_with_throttles(journal)
        entries = recorded if context.force else still_set(context.cluster, recorded)
        try:
            seen = look_at_throttles(context.cluster, known)
        except KipctlError:
            if self.takes_all:
                raise
            busy = list_reassignments(context.cluster)
            seen = ThrottlesSeen({}, (), REASSIGNED, known, busy)
        mine = {
            change.setting
            for entry in entries
            for change in (entry.throttle.changes if entry.throttle else ())
            if change.is_own(seen.values.get(change.setting, change.during))
        }
        others = {setting: value for setting, value in seen.values.items() if setting not in mine}
        return LeftThrottles(tuple(recorded), tuple(entries), others, self.takes_all, seen)

    def show(self, context: ChangeContext, seen: LeftThrottles) -> None:
        context.ui.left_throttles(seen)

    def refuse(self, context: ChangeContext, seen: LeftThrottles) -> None:
        if seen.is_needed and not context.force:
            raise RefusedError(seen.seen.why, seen.seen.how_to_wait + ", or insist with --force.")

    def announce(self, context: ChangeContext, seen: LeftThrottles) -> None:
        by = defaultdict[str, list[Setting]](list)
        for change in seen.changes:
            by[seen.seen.set_by(change.setting, change.during)].append(change.setting)
        for who, settings in by.items():
            where = ", ".join(dict.fromkeys(setting.whose for setting in settings))
            by_whom = "not set by kipctl here" if who == NOT_KIPCTL else f"set by {who}"
            context.ui.say(f"{counted(len(settings), 'setting')} of {where}, {by_whom}.")
        if seen.changes and seen.seen.away:
            away = broker_list(seen.seen.away, "are")
            context.ui.say(
                f"{away.capitalize()} away: what is lacked there will be copied unthrottled."
            )

    def question(self, seen: LeftThrottles) -> str:
        if not seen.changes:
            return f"None of {counted(len(seen.recorded), 'throttle')} is set still. Forget them?"
        count = counted(len(seen.changes), "throttle")
        return f"Set {count} as before?" if seen.restores_others else f"Remove {count}?"

    @contextmanager
    def locked(self, run: ChangeRun) -> Iterator[None]:
        """Neither a change nor an adapted throttle goes on meanwhile."""
        with run.context.locked(run.journal), run.journal.throttling(run.context.origin):
            yield

    def look_again(self, run: ChangeRun, seen: LeftThrottles) -> LeftThrottles:
        again = self._look(run.context, is_locked=True)
        self.refuse(run.context, again)
        return again

    def execute(self, run: ChangeRun, again: LeftThrottles) -> ThrottleDone:
        context, cluster = run.context, run.context.cluster
        run.not_restored += clear_throttles(
            cluster, again.recorded, drop=context.force, message=context.ui.say
        )
        if self.takes_all:
            now = ask_throttles(cluster, take_snapshot(cluster))
            # What of theirs was left to others is removed with the rest.
            run.not_restored[:] = [
                not_restored for not_restored in run.not_restored if not_restored.setting not in now
            ]
            left = Throttle(tuple(SettingChange(setting, None, now[setting]) for setting in now))
            run.not_restored += restore_throttle(cluster, left)
        return ThrottleDone()

    def report(
        self, run: ChangeRun, seen: LeftThrottles, again: LeftThrottles, done: ThrottleDone
    ) -> None:
        settings = {change.setting for change in again.changes}
        still = sum(not_restored.setting in settings for not_restored in run.not_restored)
        run.context.ui.left_throttles(again, still)

    def require_ended(self, run: ChangeRun, again: LeftThrottles, done: ThrottleDone) -> None:
        require_restored(run.not_restored, is_forgotten=run.context.force)
