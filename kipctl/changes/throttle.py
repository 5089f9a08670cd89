"""Throttles of what reassignments copy (KIP-73): set, written down, and put back exactly.

A rate is a broker's, in bytes per second; which replicas it holds for is a topic's. Both stay until
somebody removes them. So what was there before is read first, and described such that it can be
saved: whoever has the description can put it back.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from kipctl.changes.plans.plan import Move
from kipctl.changes.throttle_settings import (
    GONE,
    groups,
    raise_for,
    read_group,
    read_settings,
    write,
)
from kipctl.cluster.reassignments import list_reassignments, topics_and_brokers
from kipctl.cluster.snapshot import PartitionId
from kipctl.cluster.throttle_configs import (
    ALL_BROKERS,
    ALL_RATES,
    ALL_REPLICAS,
    BROKER,
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    RATES,
    TOPIC,
    Setting,
)
from kipctl.counts import format_bytes
from kipctl.errors import KipctlError, PartlyDoneError, TimedOutError, UnreachableError, UsageError
from kipctl.next_step import Command, joined
from kipctl.protocol.describe_configs import ResourceType
from kipctl.protocol.error_codes import error_text
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster

CLEAR = Command("changes clear-throttles")
CLEAR_ALL = Command("changes clear-throttles --all")
_SHOWN_TIMEOUT_S, _SHOWN_POLL_S = 5.0, 0.02


@dataclass(frozen=True, slots=True)
class Change:
    """A setting's value before the throttle and during it; None where there is none of its own.

    `replaces` is what kipctl had set until just now: a broker may not have heard yet of `during`.
    `of_another`: the rate before was of somebody whose data was being copied when it was replaced,
    so that it is not to outlive that.
    """

    setting: Setting
    before: str | None
    during: str | None
    replaces: str | None = None
    of_another: bool = False

    def is_own(self, value: str | None) -> bool:
        """Whether kipctl has set this value."""
        return value is not None and value in (self.during, self.replaces)


@dataclass(frozen=True, slots=True)
class Throttle:
    """All that a throttle sets, and so all that has to be put back."""

    changes: tuple[Change, ...]

    def document(self) -> dict[str, object]:
        """As JSON, for a journal; `read_throttle` reads it."""
        return {
            "changes": [
                {
                    **change.setting._asdict(),
                    "before": change.before,
                    "during": change.during,
                    "replaces": change.replaces,
                    "of_another": change.of_another,
                }
                for change in self.changes
            ]
        }


def read_throttle(document: object) -> Throttle:
    """The throttle of such a document. Raises UsageError when it is none."""
    changes = document.get("changes") if isinstance(document, dict) else None
    if not isinstance(changes, list):
        raise UsageError("What was saved of the throttle is damaged: it has no list of changes.")
    return Throttle(tuple(map(_read_change, changes)))


def _read_change(entry: object) -> Change:
    if isinstance(entry, dict) and entry.get("kind") in (BROKER, TOPIC):
        names = entry.get("name"), entry.get("config")
        values = entry.get("before"), entry.get("during"), entry.get("replaces")
        if all(isinstance(n, str) for n in names) and all(
            v is None or isinstance(v, str) for v in values
        ):
            setting = Setting(entry["kind"], str(names[0]), str(names[1]))
            return Change(setting, *values, entry.get("of_another") is True)
    raise UsageError(f"What was saved of the throttle is damaged: {entry!r} is no change.")


@dataclass(frozen=True, slots=True)
class NotRestored:
    """A setting that could not be put back, and why; `is_broker_down` if its broker cannot be
    reached, `is_set_by_other` if somebody else has set it since."""

    setting: Setting
    reason: str
    is_broker_down: bool = False
    is_set_by_other: bool = False

    def __str__(self) -> str:
        return f"{self.setting}: {self.reason}"


def wanted_settings(moves: Iterable[Move], rate: int, alive: Collection[int]) -> dict[Setting, str]:
    """What throttles these moves to so many bytes per second, in and out of each broker.

    As in Kafka's ReassignPartitionsCommand: leaders are throttled where the replicas are now, as
    any of them may become leader, and followers where new ones come. Brokers that are not alive
    cannot be throttled. Nothing where nothing is copied. Raises UsageError for a rate below 1.
    """
    entries: dict[Setting, list[str]] = {}
    brokers: set[int] = set()
    for move in moves:
        if not move.adding:
            continue
        brokers.update(move.before, move.adding)
        for config, replicas in ((LEADER_REPLICAS, move.before), (FOLLOWER_REPLICAS, move.adding)):
            entries.setdefault(Setting(TOPIC, move.id.topic, config), []).extend(
                f"{move.id.partition}:{replica}" for replica in replicas
            )
    # A partition may be copied in several phases.
    lists = {at: ",".join(dict.fromkeys(replicas)) for at, replicas in sorted(entries.items())}
    return lists | rates_of(brokers & set(alive), rate)


def rates_of(
    brokers: Iterable[int], rate: int, configs: Iterable[str] = RATES
) -> dict[Setting, str]:
    """The settings that give each of these brokers this rate, in bytes per second.

    Raises UsageError for one below 1.
    """
    if rate < 1:
        raise UsageError(
            f"A throttle of {rate} bytes per second would let nothing through.", "Give 1 or more."
        )
    return {
        Setting(BROKER, str(broker), config): str(rate)
        for broker in sorted(brokers)
        for config in configs
    }


def throttle_changes(
    wanted: Mapping[Setting, str],
    before: Mapping[Setting, str | None],
    kept: Iterable[Throttle] = (),
    busy: Collection[int] = (),
    listed: Collection[str] = (),
) -> Throttle:
    """What changes: rates are replaced, replicas that are throttled already stay so.

    What is as wanted already is no change, and will not be put back. `kept` are throttles of this
    journal that are still to be put back: what was before them is what was before this one, too.
    `busy` are brokers that others' reassignments copy to or from now, and so may need their rates.
    Topics that somebody else has `listed` replicas of keep their lists. A pure function.
    """
    known = {change.setting: change for throttle in kept for change in throttle.changes}
    changes = []
    for setting, value in wanted.items():
        was = before.get(setting)
        if was and setting.kind == TOPIC and setting.name in listed:
            continue
        is_rate = setting.config in ALL_RATES
        during = value if is_rate else with_replicas(was, value)
        earlier = known.get(setting)
        if earlier and earlier.is_own(was):  # held by both, until the last of them ends
            changes.append(Change(setting, earlier.before, during, of_another=earlier.of_another))
        elif during != was:
            is_of_copies = setting.config in RATES and setting.name in map(str, busy)
            of_another = is_of_copies and was is not None
            changes.append(Change(setting, was, during, of_another=of_another))
    return Throttle(tuple(changes))


def with_replicas(value: str | None, added: str) -> str:
    """A list of throttled replicas with more of them; one of all replicas stays as it is."""
    if value is not None and value.strip() == ALL_REPLICAS:
        return value
    if added == ALL_REPLICAS:
        return added
    return ",".join(dict.fromkeys([*_entries(value), *_entries(added)]))


def without_replicas(value: str, added: Iterable[str]) -> str | None:
    """A list of throttled replicas without these; None where none is left."""
    kept = [entry for entry in _entries(value) if entry not in set(added)]
    return ",".join(kept) or None


def _entries(value: str | None) -> list[str]:
    return [entry for part in (value or "").split(",") if (entry := part.strip())]


def prepare_throttle(
    cluster: Cluster,
    wanted: Mapping[Setting, str],
    kept: Iterable[Throttle] = (),
    *,
    own: Collection[PartitionId] = (),
    listed: Collection[str] = (),
) -> Throttle:
    """What would set what is `wanted`, with what is set now; changes nothing.

    `own` are the partitions that it is for; `kept` and `listed` are as in `throttle_changes`. Save
    it before `set_throttle`. Raises RefusedError, UnreachableError and TimedOutError.
    """
    before = read_settings(cluster, wanted)
    is_of_copies = any(setting.config in RATES for setting in wanted)
    busy = brokers_copying(cluster, without=own) if is_of_copies else None
    return throttle_changes(wanted, before, kept, busy or (), listed)


def brokers_copying(
    cluster: Cluster, without: Collection[PartitionId] = ()
) -> frozenset[int] | None:
    """The brokers that reassignments copy to or from now; None where that is not known."""
    try:
        busy = [
            reassignment
            for reassignment in list_reassignments(cluster)
            if reassignment.id not in without
        ]
    except KipctlError:
        return None
    return topics_and_brokers(busy)[1]


def set_throttle(cluster: Cluster, throttle: Throttle) -> None:
    """Set all of it, or nothing: when one fails, those that were set are put back before the error
    is raised; PartlyDoneError when one of them cannot be. Returns when the brokers show it, so that
    what is copied from then on is held back.
    """
    during = {change.setting: change.during for change in throttle.changes}
    try:
        for group in groups(list(during)):
            for answer in write(cluster, {setting: during[setting] for setting in group}):
                raise_for(answer)
        _await_settings(cluster, during)
    except BaseException as error:
        require_restored(restore_throttle(cluster, throttle))
        if isinstance(error, KipctlError):
            error.what += " All throttles are as they were."
        raise


@dataclass(frozen=True, slots=True)
class WayBack:
    """What becomes of a setting: it gets `value`, or is `left` as it is; `said` is why, where that
    is not what was before. `is_left_over`: nobody needs what somebody else has set."""

    setting: Setting
    value: str | None = None
    is_left: bool = False
    said: str = ""
    is_left_over: bool = False


def way_back(
    change: Change,
    now: str | None,
    kept: Iterable[Throttle] = (),
    busy: Collection[int] | None = None,
) -> WayBack:
    """How a setting that is `now` so is put back.

    `kept` are other throttles of this journal that are still set, the newest first: under one of
    them the setting gets its value. `busy` are the brokers that reassignments still copy to or from
    (None: not known). A rate that belonged to a reassignment which has ended is not set again. Of a
    list of replicas what was added is taken out. A pure function.
    """
    setting = change.setting
    others = [other for throttle in kept for other in throttle.changes if other.setting == setting]
    is_needed = busy is None or setting.name in map(str, busy)
    if setting.config not in ALL_RATES:
        if now is None:  # it may only not be shown yet
            return WayBack(setting, is_left=change.before is not None)
        if change.is_own(now):
            return WayBack(setting, others[0].during if others else change.before)
        under = {entry for other in others for entry in _entries(other.during)}
        added = set(_entries(change.during)) - set(_entries(change.before)) - under
        return WayBack(setting, without_replicas(now, added))
    # A broker may not have heard yet of what was set: then it shows what it had before.
    if change.is_own(now) or now == change.before:
        if others:
            return WayBack(setting, others[0].during)
        if change.of_another and busy is not None and not is_needed:
            was = f"{setting} was {format_rate(change.before)}, of a reassignment that has ended"
            return WayBack(setting, said=f"{was} since: it is not set again.")
        return WayBack(setting, change.before)
    if now is None or any(other.is_own(now) for other in others):
        return WayBack(setting, is_left=True)
    said = f"somebody else has set it to {format_rate(now)}"
    said += ", and data is still copied there: it stays" if is_needed else ""
    return WayBack(setting, is_left=True, said=said, is_left_over=not is_needed)


def format_rate(value: str | None) -> str:
    """A rate as a setting has it, in words."""
    if value is None:
        return "none"
    return f"{format_bytes(int(value))}/s" if value.isdecimal() and value.isascii() else value


def restore_throttle(
    cluster: Cluster,
    throttle: Throttle,
    kept: Sequence[Throttle] = (),
    say: Callable[[str], object] = lambda _: None,
) -> tuple[NotRestored, ...]:
    """Give every setting the value that is right after it (`way_back`); one that fails stops no
    other.

    One that somebody else has changed meanwhile stays as it is. Of a topic that is gone nothing is
    to be put back. Returns what is still set and should not be; what is left to others that need
    it is said.
    """
    not_restored: list[NotRestored] = []
    changes = {change.setting: change for change in throttle.changes}
    putting = _PuttingBack(cluster, kept, say)
    for group in groups(list(changes)):
        try:
            not_restored += putting.group([changes[setting] for setting in group])
        except KipctlError as error:
            is_broker_down = isinstance(error, (UnreachableError, TimedOutError))
            not_restored += [
                NotRestored(s, error.what, is_broker_down and s.kind == BROKER) for s in group
            ]
    # Who reads it next would take the throttle for what somebody else has set, and put that back.
    _await_settings(cluster, putting.written)
    return tuple(not_restored)


@dataclass(slots=True)
class _PuttingBack:
    cluster: Cluster
    kept: Sequence[Throttle]
    say: Callable[[str], object]
    written: dict[Setting, str | None] = field(default_factory=dict)
    _busy: list[frozenset[int] | None] = field(default_factory=list)

    @property
    def busy(self) -> frozenset[int] | None:
        """The brokers that data is copied to or from; asked once, when it is needed."""
        if not self._busy:
            self._busy.append(brokers_copying(self.cluster))
        return self._busy[0]

    def group(self, changes: Sequence[Change]) -> Iterator[NotRestored]:
        cluster, settings = self.cluster, [change.setting for change in changes]
        try:
            now = read_settings(cluster, settings)
        except (UnreachableError, TimedOutError):
            cluster.metadata(())  # it may have restarted at another address
            now = read_settings(cluster, settings)
        own: dict[Setting, str | None] = {}
        for change in changes:
            if change.setting not in now:
                continue  # a topic that is gone
            value = now[change.setting]
            is_plain = (change.is_own(value) or value == change.before) and not change.of_another
            back = way_back(change, value, self.kept, None if is_plain else self.busy)
            if back.is_left_over:
                yield NotRestored(change.setting, back.said, is_set_by_other=True)
            elif back.said:
                self.say(back.said if not back.is_left else f"{change.setting}: {back.said}.")
            if not back.is_left:
                own[change.setting] = back.value
        answers = write(cluster, own)
        if not any(answer.error_code for answer in answers):
            self.written |= own
        for answer in answers:
            if answer.error_code and answer.error_code not in GONE:
                why = answer.error_message or error_text(answer.error_code)
                kind = BROKER if answer.resource_type == ResourceType.BROKER else TOPIC
                for setting in own:
                    if (setting.kind, setting.name) == (kind, answer.resource_name):
                        yield NotRestored(setting, why)


def _await_settings(cluster: Cluster, wanted: Mapping[Setting, str | None]) -> None:
    """Wait a while until every broker shows what it can: each hears of it after the controller. The
    connections are for this alone: who is late, or cut off by Ctrl-C, may be asked still."""
    deadline = time.monotonic() + _SHOWN_TIMEOUT_S
    client_id, access = cluster.client_id, cluster.access

    def ask(broker: int, to: BrokerConnection) -> None:
        mine = [s for s in wanted if s.kind == TOPIC or s.name in (ALL_BROKERS, str(broker))]
        with BrokerConnection(*to.address, client_id, _SHOWN_TIMEOUT_S, access) as own:
            for group in groups(mine):
                while time.monotonic() < deadline and any(
                    value != wanted[setting] for setting, value in read_group(own, group).items()
                ):
                    time.sleep(_SHOWN_POLL_S)

    with suppress(KipctlError):
        ask_each(cluster, cluster.nodes if wanted else (), ask, _SHOWN_TIMEOUT_S)


def require_restored(not_restored: Sequence[NotRestored], *, is_forgotten: bool = False) -> None:
    """Raise PartlyDoneError, which names the first of them, when throttles are still set.

    Of a broker that is away the throttle waits for it, unless the journal does not know it any more
    (`is_forgotten`).
    """
    if not not_restored:
        return
    more = f" And {len(not_restored) - 1} more." if len(not_restored) > 1 else ""
    away = [throttle.setting.name for throttle in not_restored if throttle.is_broker_down]
    of_others = [throttle for throttle in not_restored if throttle.is_set_by_other]
    steps: list[str | Command] = []
    if len(not_restored) > len(away) + len(of_others) and not is_forgotten:
        steps.append("Remove it: " + CLEAR)
    elif of_others or len(not_restored) > len(away):
        steps.append("Remove it: " + CLEAR_ALL)
    if away and not is_forgotten:
        steps.append(
            f"When broker {away[0]} is back: "
            + CLEAR
            + ". If it is gone for good, forget its throttle: "
            + Command("changes clear-throttles --force")
        )
    elif away:
        steps.append(f"When broker {away[0]} is back: " + CLEAR_ALL)
    raise PartlyDoneError(
        f"A throttle is STILL SET: {not_restored[0]}.{more}".replace("..", "."), joined(". ", steps)
    )
