"""What commands print of throttles: what is set, put back, or was left."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kipctl.changes.throttle import format_rate
from kipctl.cluster.throttle_configs import removals
from kipctl.counts import broker_list, counted, first_few
from kipctl.next_step import Command
from kipctl.report.tables import Report, Table, paragraphs

if TYPE_CHECKING:
    from kipctl.changes.left_throttles import LeftThrottles, ThrottlesSeen
    from kipctl.changes.throttle import Change, Throttle
    from kipctl.transport.access import Access


def throttle_report(throttle: "Throttle", first: str, *, is_removal: bool = False) -> Report:
    """What it sets, each with what was there before; of a removal what it gives back."""
    rows = tuple(
        (str(change.setting), *(map(format_rate, _from_to(change, is_removal=is_removal))))
        for change in throttle.changes
    )
    settings = list(map(_values, throttle.changes))
    table = Table("Settings", ("Setting", "Before", "After" if is_removal else "Set"), rows)
    return Report("throttle", {"settings": settings}, (table,), opening=paragraphs(first))


def _from_to(change: "Change", *, is_removal: bool) -> tuple[str | None, str | None]:
    there, back = change.before, change.during
    return (back, there) if is_removal else (there, back)


def seen_report(seen: "ThrottlesSeen") -> Report:
    """Every throttle of the cluster: where, who has set it, and what needs it."""
    throttles = [
        (throttle, value, seen.set_by(throttle), throttle in seen.used)
        for throttle, value in sorted(seen.values.items())
    ]
    rows = tuple(
        (str(throttle), format_rate(value), who, "yes" if needed else "no")
        for throttle, value, who, needed in throttles
    )
    listed = [
        {**throttle._asdict(), "value": value, "set_by": who, "is_needed": needed}
        for throttle, value, who, needed in throttles
    ]
    unknown = [
        {**throttle._asdict(), "value": value, "set_by": who}
        for (throttle, value), who in sorted(seen.not_known.items())
    ]
    away = sorted({int(rate["name"]) for rate in unknown})
    first = "No throttle of replication is set."
    if unknown:
        first = "No throttle of replication is set on the brokers that answer."
    if rows:
        first = f"{counted(len(rows), 'setting', 'throttle')} replication."
        first += f" {seen.why}" if seen.used else ""
    if unknown:
        first += (
            f" {broker_list(away, 'are').capitalize()} away, where"
            f" {counted(len(unknown), 'rate')} may be set still, by"
            f" {', '.join(dict.fromkeys(str(rate['set_by']) for rate in unknown))}."
        )
    left = [throttle for throttle, _, _, needed in throttles if not needed]
    clear = Command(
        "changes clear-throttles", all=any(not seen.is_own(setting) for setting in left)
    )
    return Report(
        "throttle show",
        {"throttles": listed, "not_known": unknown},
        (Table("Throttles", ("Setting", "Value", "Set by", "Needed"), rows),) if rows else (),
        ("Take off what nothing needs: " + clear,) if left else (),
        paragraphs(first),
    )


def _values(change: "Change") -> dict[str, str | None]:
    setting = change.setting._asdict()
    return {**setting, "value_before": change.before, "value_during": change.during}


def left_report(
    left: "LeftThrottles", access: "Access", *, is_dry_run: bool, not_restored: int | None
) -> Report:
    """What would be removed, or set as before; where it was, all but `not_restored` of it."""
    changes, others = left.changes, left.others
    own = len(left.own)
    set_by = [left.seen.set_by(change.setting, change.during) for change in changes]
    listed = [
        {**_values(change), "set_by": who} for change, who in zip(changes, set_by, strict=True)
    ]
    rows = tuple(
        (str(change.setting), format_rate(change.during), who, format_rate(change.before))
        for change, who in zip(changes, set_by, strict=True)
    )
    said = [f"{counted(own, 'throttle', 'are')} still set by earlier changes."] if own else []
    if left.takes_all and others:
        said.append(f"{counted(len(others), 'throttle', 'are')} set by others.")
    closing: tuple[str, ...] = ()
    if not_restored is not None:
        count = len(changes)
        how = "as before" if left.restores_others else "removed"
        said = [f"{counted(count - not_restored, 'throttle', 'are', total=count)} {how}."]
        if not count:
            said = [f"Forgotten: {counted(len(left.recorded), 'entry')}."]
    elif left.takes_all and others:
        closing = tuple(_kafkas_lines(left, access)) if is_dry_run else ()
    elif others:
        closing = (
            f"{counted(len(others), 'throttle')} that kipctl here has not set:"
            f" {first_few(sorted(map(str, others)))}. Take them off, too: "
            + Command("changes clear-throttles --all"),
        )
    return Report(
        "changes",
        {"throttles": listed},
        (Table("Throttles", ("Setting", "Now", "Set by", "Then"), rows),),
        closing,
        paragraphs(" ".join(said) or "No throttle of this user on this machine is still set."),
    )


def _kafkas_lines(left: "LeftThrottles", access: "Access") -> Iterator[str]:
    gone = [change.setting for change in left.changes if change.before is None]
    yield "The same by Kafka's own tool:"
    yield from removals(gone, str(access), is_secured=access.is_secured)
