"""What `kipctl changes clear-throttles` and `kipctl throttle` show of throttles, and take off."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.throttled_change import (
    applies_to,
    clear_throttles,
    entries_with_throttles,
    known_throttles,
    still_set,
)
from kipctl.changes.journal.entry import Entry
from kipctl.changes.throttle import (
    Change,
    NotRestored,
    Throttle,
    require_restored,
    restore_throttle,
)
from kipctl.cli.change_ui import TerminalUi
from kipctl.cluster.inspect.findings.finding import some
from kipctl.cluster.reassignments import Reassignment, list_reassignments
from kipctl.cluster.snapshot import take_snapshot
from kipctl.cluster.throttle_configs import KnownThrottles, Setting, removals
from kipctl.cluster.throttles import ask_throttles, held_back, needed
from kipctl.counts import counted
from kipctl.errors import KipctlError, RefusedError
from kipctl.next_step import Command
from kipctl.report.change_tables import CHANGES
from kipctl.report.tables import Report, Table, paragraphs


@dataclass(frozen=True, slots=True)
class ThrottlesSeen:
    """All throttles of a cluster: `values` as they are now, `used` those that something needs, and
    `why` the first that does; `known` says who of this journal has set which."""

    values: Mapping[Setting, str]
    used: Collection[Setting]
    why: str
    known: KnownThrottles
    busy: Sequence[Reassignment]

    def set_by(self, setting: Setting, recorded: str | None = None) -> str:
        """Who has set it, as far as is known; of a broker that is away, to what was `recorded`."""
        key = setting, self.values.get(setting, recorded or "")
        return self.known.running.get(key) or self.known.left.get(key) or "not kipctl here"


def look(context: ChangeContext) -> ThrottlesSeen:
    """Ask the whole cluster. Raises KipctlError."""
    cluster = context.cluster
    busy = list_reassignments(cluster)
    snapshot = take_snapshot(cluster)
    values = ask_throttles(cluster, snapshot)
    known = known_throttles(context.journal(snapshot.cluster_id))
    catching_up = held_back(values, snapshot, busy)
    why = "Partitions that they throttle are still being reassigned."
    if not busy and catching_up:
        broker, held = next(iter(catching_up.items()))
        why = (
            f"Broker {broker} catches up under them: {counted(len(held.partitions), 'partition')}"
            f" ({some(held.partitions)}) out of sync."
        )
    return ThrottlesSeen(values, needed(values, snapshot, busy), why, known, busy)


def show(context: ChangeContext, ui: TerminalUi) -> None:
    """Every throttle of the cluster."""
    seen = look(context)
    rows = tuple(
        (str(one), value, seen.set_by(one), "yes" if one in seen.used else "no")
        for one, value in sorted(seen.values.items())
    )
    listed = [
        {**one._asdict(), "value": value, "set_by": seen.set_by(one), "is_needed": one in seen.used}
        for one, value in sorted(seen.values.items())
    ]
    first = f"{counted(len(rows), 'setting')} throttle replication." if rows else ""
    first += f" {seen.why}" if seen.used and rows else ""
    table = Table("Throttles", ("Setting", "Value", "Set by", "Needed"), rows)
    left = [one for one in seen.values if one not in seen.used]
    closing = ("Take off what nothing needs: " + Command("changes clear-throttles --all"),)
    ui.report(
        Report(
            "throttle show",
            {"throttles": listed},
            (table,) if rows else (),
            closing if left else (),
            paragraphs(first.strip() or "No throttle of replication is set."),
        )
    )


def clear(context: ChangeContext, ui: TerminalUi, *, everything: bool) -> None:
    """Put back the throttles that earlier changes have left; of others too with `everything`.

    Raises RefusedError while something needs them, and PartlyDoneError for what stays.
    """
    cluster, journal = context.cluster, context.journal()
    recorded = entries_with_throttles(journal)
    found = recorded if context.force else still_set(cluster, recorded)
    own = [change for one in found if one.throttle for change in one.throttle.changes]
    try:
        seen = look(context)
    except KipctlError:
        if everything:
            raise
        seen = ThrottlesSeen({}, (), "", KnownThrottles(), list_reassignments(cluster))
    mine = {one.setting for one in own if one.is_own(seen.values.get(one.setting, one.during))}
    others = {one: value for one, value in seen.values.items() if one not in mine}
    report = _report(context, own, others if everything else {}, seen)
    if not everything and others:
        report = replace(
            report,
            closing=(
                f"{counted(len(others), 'throttle')} that kipctl here has not set:"
                f" {some(sorted(map(str, others)))}. Take them off, too: "
                + Command("changes clear-throttles --all"),
            ),
        )
    if context.dry_run or not (recorded or (everything and others)):
        ui.report(report)
        return
    _require_not_needed(context, seen, found, others if everything else ())
    ui.confirm(f"Put back {counted(len(own) + len(others) * everything, 'setting')}?")
    not_restored: list[NotRestored] = []
    with context.locked(journal):
        not_restored += clear_throttles(
            cluster, recorded, drop=context.force, message=context.ui.say
        )
        if everything:
            now = ask_throttles(cluster, take_snapshot(cluster))
            left = Throttle(tuple(Change(one, None, value) for one, value in now.items()))
            not_restored += restore_throttle(cluster, left)
    count = len(own) + len(others) * everything
    back = f"{counted(count - len(not_restored), 'throttle', of=count)} put back."
    ui.report(replace(report, opening=paragraphs(back), closing=()))
    require_restored(not_restored, is_forgotten=context.force)


def _require_not_needed(
    context: ChangeContext, seen: ThrottlesSeen, found: Sequence[Entry], others: Collection[Setting]
) -> None:
    changed = {c.setting for one in found if one.throttle for c in one.throttle.changes}
    is_needed = (changed | {*others}) & {*seen.used} or any(
        applies_to(entry, seen.busy) for entry in found
    )
    if is_needed and not context.force:
        raise RefusedError(
            seen.why or "Partitions that they throttle are still being reassigned.",
            "Wait until it is done ("
            + Command("wait --until in-sync,no-reassignment")
            + "), or insist with --force.",
        )


def _report(
    context: ChangeContext,
    own: Sequence[Change],
    others: Mapping[Setting, str],
    seen: ThrottlesSeen,
) -> Report:
    rows = [
        (str(c.setting), c.during or "-", seen.set_by(c.setting, c.during), c.before or "none")
        for c in own
    ]
    rows += [(str(one), value, seen.set_by(one), "none") for one, value in others.items()]
    first = f"{counted(len(own), 'throttle', 'are')} still set by earlier changes."
    if others:
        whose = counted(len(others), "throttle", "are")
        first = f"{first if own else ''} {whose} set by others.".strip()
    elif not own:
        first = "No throttle of this user on this machine is still set."
    listed = [
        {
            **c.setting._asdict(),
            "during": c.during,
            "before": c.before,
            "set_by": seen.set_by(c.setting, c.during),
        }
        for c in own
    ]
    listed += [
        {**one._asdict(), "during": value, "before": None, "set_by": seen.set_by(one)}
        for one, value in others.items()
    ]
    table = Table("Throttles", ("Setting", "Now", "Set by", "Then"), tuple(rows))
    lines = tuple(_kafkas_lines(context, own, others)) if context.dry_run and others else ()
    return Report(CHANGES, {"throttles": listed}, (table,), lines, paragraphs(first))


def _kafkas_lines(
    context: ChangeContext, own: Sequence[Change], others: Mapping[Setting, str]
) -> Iterator[str]:
    gone = [*others, *(one.setting for one in own if one.before is None)]
    yield "The same by Kafka's own tool:"
    access = context.cluster.access
    yield from removals(gone, str(access), is_secured=access.is_secured)
