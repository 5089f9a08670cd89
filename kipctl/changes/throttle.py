"""Throttles of what reassignments copy (KIP-73): set, written down, and put back exactly.

A rate is a broker's, in bytes per second; which replicas it holds for is a topic's. Both stay until
somebody removes them. So what was there before is read first, and described such that it can be
saved: whoever has the description can put it back. A broker's settings are changed by the broker
itself, and only while it runs.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from kipctl.changes.plans.plan import Move
from kipctl.cluster.throttle_configs import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    RATES,
)
from kipctl.errors import (
    KipctlError,
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UsageError,
)
from kipctl.protocol.describe_configs import (
    ConfigSource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResult,
    ResourceType,
)
from kipctl.protocol.error_codes import ErrorCode, error_text
from kipctl.protocol.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
)
from kipctl.transport.request import Cluster

ALL_REPLICAS = "*"
CLEAR = "kipctl changes clear-throttles"

BROKER, TOPIC = "broker", "topic"
_TYPES = {BROKER: ResourceType.BROKER, TOPIC: ResourceType.TOPIC}
_SOURCES = {BROKER: ConfigSource.BROKER, TOPIC: ConfigSource.TOPIC}
_TOPICS_A_REQUEST = 500
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
_SHOWN_TIMEOUT_S, _SHOWN_POLL_S = 5.0, 0.02


class Setting(NamedTuple):
    """A config of a broker or a topic: `kind` says of which, `name` is its id or name."""

    kind: str
    name: str
    config: str

    def __str__(self) -> str:
        return f"{self.config} of {self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Change:
    """A setting's value before the throttle and during it; None where there is none of its own."""

    setting: Setting
    before: str | None
    during: str | None


@dataclass(frozen=True, slots=True)
class Throttle:
    """All that a throttle sets, and so all that has to be put back."""

    changes: tuple[Change, ...]

    def document(self) -> dict[str, object]:
        """As JSON, for a journal; `read_throttle` reads it."""
        return {
            "changes": [
                {**one.setting._asdict(), "before": one.before, "during": one.during}
                for one in self.changes
            ]
        }


def read_throttle(document: object) -> Throttle:
    """The throttle of such a document. Raises UsageError when it is none."""
    changes = document.get("changes") if isinstance(document, dict) else None
    if not isinstance(changes, list):
        raise UsageError("What was saved of the throttle is damaged: it has no list of changes.")
    return Throttle(tuple(map(_read_change, changes)))


def _read_change(entry: object) -> Change:
    if isinstance(entry, dict) and entry.get("kind") in _TYPES:
        names = entry.get("name"), entry.get("config")
        values = entry.get("before"), entry.get("during")
        if all(isinstance(n, str) for n in names) and all(
            v is None or isinstance(v, str) for v in values
        ):
            return Change(Setting(entry["kind"], str(names[0]), str(names[1])), *values)
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
    if rate < 1:
        raise UsageError(
            f"A throttle of {rate} bytes per second would let nothing through.", "Give 1 or more."
        )
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
    wanted = {setting: ",".join(replicas) for setting, replicas in sorted(entries.items())}
    for broker in sorted(brokers & set(alive)):
        wanted |= {Setting(BROKER, str(broker), config): str(rate) for config in RATES}
    return wanted


def throttle_changes(
    wanted: Mapping[Setting, str], before: Mapping[Setting, str | None]
) -> Throttle:
    """What changes: rates are replaced, replicas that are throttled already stay so.

    What is as wanted already is no change, and will not be put back.
    """
    changes = []
    for setting, value in wanted.items():
        was = before.get(setting)
        during = value if setting.config in RATES else with_replicas(was, value)
        if during != was:
            changes.append(Change(setting, was, during))
    return Throttle(tuple(changes))


def with_replicas(value: str | None, added: str) -> str:
    """A list of throttled replicas with more of them; one of all replicas stays as it is."""
    if value is not None and value.strip() == ALL_REPLICAS:
        return value
    listed = [] if not value else [one.strip() for one in value.split(",")]
    return ",".join(dict.fromkeys([*listed, *added.split(",")]))


def prepare_throttle(cluster: Cluster, moves: Iterable[Move], rate: int) -> Throttle:
    """What would throttle these moves, with what is set now; changes nothing.

    `rate` is in bytes per second, in and out of each broker. Save it before `set_throttle`. Raises
    RefusedError, UnreachableError, TimedOutError, and UsageError for a rate below 1.
    """
    wanted = wanted_settings(moves, rate, cluster.nodes)
    return throttle_changes(wanted, read_settings(cluster, wanted))


def set_throttle(cluster: Cluster, throttle: Throttle) -> None:
    """Set all of it, or nothing: when one fails, those that were set are put back before the error
    is raised; PartlyDoneError when one of them cannot be.
    """
    try:
        for group in _groups([one.setting for one in throttle.changes]):
            during = {one.setting: one.during for one in throttle.changes}
            for answer in _write(cluster, {setting: during[setting] for setting in group}):
                _raise_for(answer)
    except BaseException as error:
        require_put_back(put_back(cluster, throttle))
        if isinstance(error, KipctlError):
            error.what += " All throttles are as they were."
        raise


def put_back(cluster: Cluster, throttle: Throttle) -> tuple[NotRestored, ...]:
    """Give every setting the value that it had before; one that fails stops no other.

    One that somebody else has changed meanwhile stays as it is. Of a topic that is gone nothing is
    to be put back. Returns what is still set.
    """
    not_restored: list[NotRestored] = []
    changes = {one.setting: one for one in throttle.changes}
    for group in _groups(list(changes)):
        try:
            not_restored += _put_back_group(cluster, [changes[setting] for setting in group])
        except KipctlError as error:
            is_broker_down = isinstance(error, (UnreachableError, TimedOutError))
            not_restored += [
                NotRestored(s, error.what, is_broker_down and s.kind == BROKER) for s in group
            ]
    return tuple(not_restored)


def _put_back_group(cluster: Cluster, changes: Sequence[Change]) -> Iterator[NotRestored]:
    settings = [one.setting for one in changes]
    try:
        now = _read_group(cluster, settings)
    except (UnreachableError, TimedOutError):
        cluster.metadata(())  # it may have restarted at another address
        now = _read_group(cluster, settings)
    own: dict[Setting, str | None] = {}
    for one in changes:
        if one.setting not in now:
            continue  # a topic that is gone
        # A broker may not have heard yet of what was set: then it shows what it had before.
        if now[one.setting] in (one.before, one.during):
            own[one.setting] = one.before
        else:
            why = f"somebody else has set it to {now[one.setting]}"
            yield NotRestored(one.setting, why, is_set_by_other=True)
    answers = _write(cluster, own)
    if own and not any(answer.error_code for answer in answers):
        _await_settings(cluster, own)
    for answer in answers:
        if answer.error_code and answer.error_code not in _GONE:
            why = answer.error_message or error_text(answer.error_code)
            kind = BROKER if answer.resource_type == ResourceType.BROKER else TOPIC
            for setting in own:
                if (setting.kind, setting.name) == (kind, answer.resource_name):
                    yield NotRestored(setting, why)


def _await_settings(cluster: Cluster, wanted: Mapping[Setting, str | None]) -> None:
    """Wait a while until the broker that is asked shows them: who reads it next would take the
    throttle for what somebody else has set, and put that back."""
    deadline = time.monotonic() + _SHOWN_TIMEOUT_S
    with suppress(KipctlError):
        while time.monotonic() < deadline:
            now = _read_group(cluster, list(wanted))
            if all(now.get(setting) == value for setting, value in wanted.items()):
                return
            time.sleep(_SHOWN_POLL_S)


def require_put_back(not_restored: Sequence[NotRestored], *, is_forgotten: bool = False) -> None:
    """Raise PartlyDoneError, which names the first of them, when throttles are still set.

    Of a broker that is away the throttle waits for it, unless the journal does not know it any more
    (`is_forgotten`).
    """
    if not not_restored:
        return
    more = f" And {len(not_restored) - 1} more." if len(not_restored) > 1 else ""
    own = [one for one in not_restored if not (one.is_broker_down or one.is_set_by_other)]
    here = [one.setting for one in not_restored if is_forgotten or not one.is_broker_down]
    away = [one.setting.name for one in not_restored if one.is_broker_down]
    steps = []
    if own and not is_forgotten:
        steps.append(f"Put it back: {CLEAR}.")
    if here:
        steps.append(
            f"{'Or remove' if steps else 'Remove'} it: kafka-configs --alter --entity-type"
            f" {here[0].kind}s --entity-name"
            f" {here[0].name} --delete-config {here[0].config}"
        )
    if away and not is_forgotten:
        steps.append(
            f"When broker {away[0]} is back: {CLEAR}. If it is gone for good, forget its throttle:"
            f" {CLEAR} --force"
        )
    raise PartlyDoneError(
        f"A throttle is STILL SET: {not_restored[0]}.{more}".replace("..", "."), " ".join(steps)
    )


def read_settings(cluster: Cluster, settings: Iterable[Setting]) -> dict[Setting, str | None]:
    """Each setting's own value; None where it has none, but only a default or one for all brokers.

    Of topics that do not exist nothing is known. Raises RefusedError, UnreachableError and
    TimedOutError.
    """
    found: dict[Setting, str | None] = {}
    for group in _groups(list(settings)):
        found |= _read_group(cluster, group)
    return found


def _groups(settings: Sequence[Setting]) -> Iterator[list[Setting]]:
    """What goes into one request each: some topics' settings, or those of one broker."""
    topics = list(dict.fromkeys(s.name for s in settings if s.kind == TOPIC))
    for start in range(0, len(topics), _TOPICS_A_REQUEST):
        names = frozenset(topics[start : start + _TOPICS_A_REQUEST])
        yield [s for s in settings if s.kind == TOPIC and s.name in names]
    for broker in dict.fromkeys(s.name for s in settings if s.kind == BROKER):
        yield [s for s in settings if s.kind == BROKER and s.name == broker]


def _by_resource(settings: Iterable[Setting]) -> dict[tuple[str, str], list[Setting]]:
    found: dict[tuple[str, str], list[Setting]] = {}
    for setting in settings:
        found.setdefault((setting.kind, setting.name), []).append(setting)
    return found


def _read_group(cluster: Cluster, group: Sequence[Setting]) -> dict[Setting, str | None]:
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(_TYPES[kind], name, tuple(one.config for one in settings))
            for (kind, name), settings in _by_resource(group).items()
        )
    )
    kind, name, _ = group[0]
    connection = cluster.broker(int(name)) if kind == BROKER else cluster.any_broker()
    found: dict[Setting, str | None] = {}
    for result in connection.request(request).results:
        if result.error_code not in _GONE:
            _raise_for(result)
            own = {c.name: c.value for c in result.configs if c.config_source == _SOURCES[kind]}
            found |= {one: own.get(one.config) for one in group if one.name == result.resource_name}
    return found


def _write(
    cluster: Cluster, values: Mapping[Setting, str | None]
) -> tuple[AlterConfigsResourceResponse, ...]:
    """Set, or delete where the value is None, the settings of one group."""
    if not values:
        return ()
    request = IncrementalAlterConfigsRequest(
        resources=tuple(
            AlterConfigsResource(
                _TYPES[kind],
                name,
                tuple(
                    AlterableConfig(
                        one.config,
                        ConfigOperation.DELETE if values[one] is None else ConfigOperation.SET,
                        values[one],
                    )
                    for one in settings
                ),
            )
            for (kind, name), settings in _by_resource(values).items()
        )
    )
    kind, name, _ = next(iter(values))
    if kind == BROKER:
        return cluster.broker(int(name)).request(request).responses
    return cluster.ask_controller(request).responses


def _raise_for(answer: AlterConfigsResourceResponse | DescribeConfigsResult) -> None:
    if answer.error_code:
        what = "Broker" if answer.resource_type == ResourceType.BROKER else "Topic"
        verb = "set" if isinstance(answer, AlterConfigsResourceResponse) else "shown"
        said = f" ({answer.error_message})" if answer.error_message else ""
        raise RefusedError(
            f"The throttle of {what.lower()} {answer.resource_name} cannot be {verb}:"
            f" {error_text(answer.error_code)}{said}.",
            f"It takes the right to describe and alter configs of the"
            f" {'cluster' if what == 'Broker' else 'topic'}.",
        )
