"""A change that is written down, and throttled while it copies data.

What a throttle replaces is in the change's own entry of the journal before it is set, so that any
later kipctl can put it back, however this one ended, and on whatever machine the entry is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kipctl.changes.journal.entry import ChangeKind, Entry, EntryState, ExecutionOptions
from kipctl.changes.journal.journal import Journal
from kipctl.changes.plans.plan import Move
from kipctl.changes.throttle import (
    CLEAR,
    NotRestored,
    Throttle,
    format_rate,
    prepare_throttle,
    restore_throttle,
    set_throttle,
    wanted_settings,
)
from kipctl.changes.throttle_settings import read_settings
from kipctl.cleanup_failures import CleanupFailures
from kipctl.cluster.reassignments import Reassignment, list_reassignments, topics_and_brokers
from kipctl.cluster.throttle_configs import (
    ALL_BROKERS,
    BROKER,
    RATES,
    TOPIC,
    KnownThrottles,
    Setting,
)
from kipctl.counts import counted
from kipctl.errors import KipctlError, PartlyDoneError, UsageError
from kipctl.transport.request import Cluster

Message = Callable[[str], None]


def throttle_for(
    cluster: Cluster, moves: Sequence[Move], how: ExecutionOptions, kept: Sequence[Throttle] = ()
) -> Throttle | None:
    """What these moves are to be throttled by; None where they copy nothing or may run freely.

    `kept` are throttles of the same journal that are still set.
    """
    if how.throttle is None or not any(move.adding for move in moves):
        return None
    wanted = wanted_settings(moves, how.throttle, cluster.nodes)
    return prepare_throttle(cluster, wanted, kept, own={move.id for move in moves})


def kept_throttles(journal: Journal, without: str = "") -> list[Throttle]:
    """The throttles of a journal that are still to be put back, but that of one entry."""
    entries = [entry for entry in entries_with_throttles(journal) if entry.id != without]
    return [entry.throttle for entry in entries if entry.throttle]


def kept_beside(entry: Entry) -> list[Throttle]:
    """The same, of the journal that the entry is in."""
    return kept_throttles(Journal(entry.path.parent, entry.cluster_id), entry.id)


@contextmanager
def throttled(
    cluster: Cluster,
    entry: Entry,
    moves: Sequence[Move],
    message: Message,
    not_restored: list[NotRestored],
    to_set: Throttle | None = None,
    copies: Callable[[], bool] | None = None,
) -> Iterator[None]:
    """While inside, the throttle of the entry is set; afterwards all is as it was before it.

    What could not be put back is in `not_restored` then, and stays in the entry. Of a change that
    is gone on with `to_set` is the part that is not set: the rest stays where that fails, as data
    may be copied under it. Raises PartlyDoneError when it could be neither set nor put back.
    """
    throttle = entry.throttle
    if throttle is None:
        yield
        return
    try:
        set_throttle(cluster, throttle if to_set is None else to_set)
    except BaseException:
        if to_set is None:
            if entry.state is EntryState.PREPARED:  # nothing was moved
                entry.mark_or_note(EntryState.REFUSED)
            if not restore_throttle(cluster, throttle, kept_beside(entry), message):
                forget(entry)
        raise
    ended = False
    try:
        yield
        ended = True
    finally:
        if ended or not (copies() if copies else _is_copying(cluster, moves)):
            left = restore_throttle_of(cluster, entry, message)
            not_restored += left
            if not left and not any(change.before for change in throttle.changes):
                message("The throttle is removed.")
        else:
            message(
                "Data is still copied, so the throttle stays until the change is resumed or undone."
            )


def restore_throttle_of(
    cluster: Cluster, entry: Entry, message: Message
) -> tuple[NotRestored, ...]:
    """Put the throttle of an entry back; it stays in it as far as kipctl could not."""
    throttle = entry.reload().throttle if entry.path.exists() else entry.throttle
    if throttle is None:
        return ()
    left = restore_throttle(cluster, throttle, kept_beside(entry), message)
    if not all(setting.is_set_by_other for setting in left):
        message("The throttle is not all removed. Try again: " + CLEAR)
    else:
        forget(entry)
    return left


def forget(entry: Entry) -> None:
    """Take the throttle off the entry. Where that cannot be written it is said after the result."""
    try:
        now = entry.reload().with_throttle(None)
        if now.kind is ChangeKind.THROTTLE:  # nothing else is left of it
            now.mark(EntryState.UNDONE)
    except UsageError as failed:
        what = f"That the throttle is removed is not in entry {entry.id}: {failed.what}"
        CleanupFailures.note(PartlyDoneError(what, "To remove it again does no harm: " + CLEAR))


def settings_now(
    cluster: Cluster, throttle: Throttle, alive: Iterable[int]
) -> dict[Setting, str | None]:
    """How the settings of a throttle stand; those of brokers that are not alive are not known.

    Raises RefusedError, UnreachableError and TimedOutError.
    """
    brokers = {str(broker) for broker in alive}
    return read_settings(
        cluster,
        (
            change.setting
            for change in throttle.changes
            if change.setting.kind != BROKER or change.setting.name in brokers
        ),
    )


def throttles_set_by_others(
    cluster: Cluster, moves: Sequence[Move], own: Iterable[Entry]
) -> dict[Setting, str]:
    """The throttles on brokers and topics of these moves that no entry of `own` tells of.

    Where data is copied they are what can be seen of another tool, or of a kipctl on another
    machine, that throttles now or was cut off. Those that are set for all brokers are among them.
    Empty where nothing is copied or shown.
    """
    wanted = wanted_settings(moves, 1, cluster.nodes)
    known = {
        (change.setting, change.during) for e in own if e.throttle for change in e.throttle.changes
    }
    of_all = [Setting(BROKER, ALL_BROKERS, config) for config in RATES] if wanted else []
    try:
        settings = read_settings(cluster, [*wanted, *of_all])
    except KipctlError:
        return {}
    return {s: value for s, value in settings.items() if value and (s, value) not in known}


def others_warning(throttles: Mapping[Setting, str], rate: int | None) -> str:
    """What becomes of others' throttles under a change that is throttled to `rate`, or not.

    A pure function.
    """
    rates = {setting: value for setting, value in throttles.items() if setting.config in RATES}
    setting, value = next(iter((rates or throttles).items()))
    shown = format_rate(value) if rates else value
    sentence = (
        f"{counted(len(throttles), 'throttle')} that kipctl here has not set, such as {setting}:"
        f" {shown}. Another tool, or a kipctl on another machine, may be moving partitions, or was"
        " cut off."
    )
    if not rates:
        return f"{sentence} What this change copies is listed beside it, and taken out at the end."
    if rate is None:
        return f"{sentence} It holds for what this change copies, too, where replicas are listed."
    return (
        f"{sentence} While this change copies, {format_rate(str(rate))} takes its place, for all"
        " that is listed; at the end it is set again, if it is needed still."
    )


def entries_with_throttles(journal: Journal) -> list[Entry]:
    """The entries whose throttles are not put back, the newest first."""
    return [entry for entry in journal.unfinished() if entry.throttle is not None]


def known_throttles(journal: Journal, *, is_locked: bool = False) -> KnownThrottles:
    """Who of this journal has set which throttle: a kipctl at work, or one that was cut off.

    Who holds all locks of it himself, as `is_locked` says, has nobody else at work.
    """
    changing, throttling = ("", "") if is_locked else (journal.locked_by(), journal.throttled_by())
    running: dict[tuple[Setting, str], str] = {}
    left: dict[tuple[Setting, str], str] = {}
    for entry in entries_with_throttles(journal):
        who, into = f"entry {entry.id} ({entry.origin})", left
        is_throttle = entry.kind is ChangeKind.THROTTLE
        at_work = throttling if is_throttle else changing if entry.is_open else ""
        if at_work:  # only the newest of a kind: the others were cut off
            who, into = f"the running kipctl ({at_work})", running
            throttling, changing = ("", changing) if is_throttle else (throttling, "")
        for change in entry.throttle.changes if entry.throttle else ():
            for value in (
                change.during,
                change.replaces,
            ):  # a rate that is changed may still be shown
                if value is not None:
                    into.setdefault((change.setting, value), who)
    return KnownThrottles(running, left)


def still_set(cluster: Cluster, entries: Iterable[Entry]) -> list[Entry]:
    """Those of which something is still set, or may be: the journal alone does not know what others
    have taken off. What cannot be asked may be."""
    return [entry for entry in entries if entry.throttle and _is_set(cluster, entry.throttle)]


def _is_set(cluster: Cluster, throttle: Throttle) -> bool:
    try:
        now = settings_now(cluster, throttle, cluster.nodes)
    except KipctlError:
        return True
    alive = set(map(str, cluster.nodes))
    return any(
        change.is_own(now[change.setting])
        if change.setting in now
        else change.setting.kind == BROKER and change.setting.name not in alive
        for change in throttle.changes
    )


def leftover_warning(entries: Sequence[Entry], alive: Collection[int]) -> str:
    """The sentence about throttles that earlier changes have left, and what ends them."""
    settings = [change.setting for e in entries if e.throttle for change in e.throttle.changes]
    names = sorted(
        {int(setting.name) for setting in settings if setting.kind == BROKER} - set(alive)
    )
    away = ", ".join(map(str, names))
    gone = f" Broker {away} is away: if for good, with --force." if names else ""
    return f"Throttles of earlier changes are still set.{gone} Remove them: " + CLEAR


def clear_throttles(
    cluster: Cluster,
    entries: Sequence[Entry],
    *,
    drop: bool = False,
    message: Message = lambda _: None,
) -> list[NotRestored]:
    """Put their throttles back, the newest first; what cannot be stays in them unless `drop`."""
    not_restored: list[NotRestored] = []
    for entry in entries:
        if entry.throttle is not None:
            these = restore_throttle(cluster, entry.throttle, kept_beside(entry), message)
            if drop or all(left.is_set_by_other for left in these):
                forget(entry)
            not_restored += these
    return not_restored


def applies_to(entry: Entry, busy: Collection[Reassignment]) -> bool:
    """Whether the entry's throttle holds for something of this. A pure function.

    What was set already is not in it: with a topic's replicas throttled for good it has rates
    alone, without which the topic is copied as fast as brokers can.
    """
    if entry.throttle is None:
        return False
    names = {(change.setting.kind, change.setting.name) for change in entry.throttle.changes}
    topics, brokers = topics_and_brokers(busy)
    return (
        any(reassignment.id in entry.before for reassignment in busy)
        or any((TOPIC, topic) in names for topic in topics)
        or any((BROKER, str(broker)) in names for broker in brokers)
    )


def _is_copying(cluster: Cluster, moves: Sequence[Move]) -> bool:
    """True also when that is not known."""
    try:
        return bool(list_reassignments(cluster, [move.id for move in moves]))
    except KipctlError:
        return True
