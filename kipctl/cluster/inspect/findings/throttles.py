"""Findings about replication throttles (KIP-73): whose they are, who needs them, who left them."""

from collections.abc import Iterator, Mapping

from kipctl.cluster.inspect.findings.facts import ClusterFacts
from kipctl.cluster.inspect.findings.finding import Finding, note
from kipctl.cluster.throttle_configs import (
    ALL_BROKERS,
    BROKER,
    DISK_RATE,
    TOPIC,
    Setting,
    removals,
)
from kipctl.cluster.throttles import HeldBack, held_back, needed, waiting_for
from kipctl.counts import broker_list, counted, first_few, format_bytes, format_duration
from kipctl.next_step import Command
from kipctl.protocol.describe_configs import ConfigSource
from kipctl.severity import Severity

_SHOWN_REMOVALS = 5


def throttles(facts: ClusterFacts) -> Iterator[Finding]:
    """Those that something needs (a kipctl at work, replicas that catch up), and those left behind.

    A rate holds back nothing without a topic's list of replicas, and the other way round.
    """
    if facts.copying.error:
        return  # nobody knows what is needed
    values = _values(facts)
    running = facts.known_throttles.running
    in_use = {item[0]: who for item in values.items() if (who := running.get(item))}
    if in_use:
        yield note(
            "throttle-in-use",
            f"Replication is throttled by {first_few(sorted({*in_use.values()}))}:"
            f" {first_few(sorted(map(str, in_use)))}.",
            "It is removed at the end.",
            "See how far it is: " + Command("changes list"),
        )
    of_running = {setting.name for setting in in_use if setting.kind == BROKER}
    for broker, held in held_back(values, facts.snapshot, facts.copying.busy).items():
        if str(broker) not in of_running:
            yield _catches_up(broker, held, facts.bytes_to_go.get(broker))
    between_disks = [broker.id for broker in facts.brokers if broker.may_copy_between_disks]
    used = needed(values, facts.snapshot, facts.copying.busy, between_disks) | in_use.keys()
    left = {
        setting: value
        for setting, value in values.items()
        if setting not in used and not (of_running and setting.name == ALL_BROKERS)
    }
    of_disks = {setting: int(rate) for setting, rate in left.items() if setting.config == DISK_RATE}
    if of_disks:
        yield _left_of_disks(facts, of_disks)
    if left := {setting: value for setting, value in left.items() if setting not in of_disks}:
        yield _left(facts, values, left)


def _values(facts: ClusterFacts) -> dict[Setting, str]:
    """All that is set; a broker's rates where they are set for it alone, or those of all."""
    values = {}
    for broker in facts.brokers:
        for config, rate in broker.throttles.items():
            first = next(iter(broker.throttles_from.get(config, ())), ConfigSource.BROKER)
            of_all = first == ConfigSource.ALL_BROKERS
            values[Setting(BROKER, ALL_BROKERS if of_all else str(broker.id), config)] = str(rate)
    for topic, settings in sorted(facts.topics.items()):
        for config, listed in settings.throttled.items():
            values[Setting(TOPIC, topic, config)] = listed
    return values


def _catches_up(broker: int, held: HeldBack, bytes_left: int | None) -> Finding:
    to_go = "" if bytes_left is None else f", {format_bytes(bytes_left)} to go"
    if bytes_left and held.rate > 0:
        to_go += f", about {format_duration(bytes_left / held.rate)} left at that rate"
    return note(
        "throttle-in-use",
        f"Broker {broker} catches up under a throttle of {held.rate:,} B/s:"
        f" {counted(len(held.partitions), 'partition')} out of sync"
        f" ({first_few(held.partitions)}){to_go}.",
        "Until then its replicas are out of sync. Without the throttle they would copy as fast as"
        " brokers can, beside what clients do.",
        "Watch: "
        + Command("wait --until in-sync")
        + ". When all are in sync: "
        + Command("changes clear-throttles --all"),
    )


def _left(
    facts: ClusterFacts, values: Mapping[Setting, str], left: Mapping[Setting, str]
) -> Finding:
    rates = {setting: int(value) for setting, value in left.items() if setting.kind == BROKER}
    topics = sorted({setting.name for setting in left if setting.kind == TOPIC})
    parts = list(_rates(rates))
    if topics:
        parts.append(f"replicas of {counted(len(topics), 'topic')} ({first_few(topics)})")
    other_half = "replicas are listed" if rates else "a rate is set"
    holds = topics and any(setting.kind == BROKER for setting in values)
    by_kipctl = {facts.known_throttles.left.get(throttle) for throttle in left.items()}
    names = sorted(who for who in by_kipctl if who)
    clear = Command("changes clear-throttles", all=None in by_kipctl)
    commands = tuple(removals(left, facts.bootstrap_server, is_secured=facts.is_secured))
    is_short = len(commands) <= _SHOWN_REMOVALS
    away = waiting_for(values, facts.snapshot) if holds else ()
    return Finding(
        "throttle-left-behind",
        Severity.WARNING if holds and not away else Severity.NOTE,
        f"A replication throttle is still set, and nothing that needs it is being reassigned:"
        f" {' and '.join(parts)}." + (f" Set by {first_few(names)}." if names else ""),
        f"{broker_list(away, 'are').capitalize()} away, and will catch up no faster."
        if away
        else "Replicas that fall behind, as in a restart, catch up no faster, and stay out of sync"
        " longer."
        if holds
        else f"It holds back nothing until {other_half} too.",
        ("Leave it if that is meant. If not, take it off: " if away else "Take it off: ")
        + clear
        + (
            ". Or by Kafka's own tool, all of these:"
            if is_short
            else "; with --dry-run it shows the lines of Kafka's own tool"
        ),
        commands if is_short else (),
    )


def _left_of_disks(facts: ClusterFacts, left: Mapping[Setting, int]) -> Finding:
    known = facts.known_throttles.left
    is_known = all((setting, str(rate)) in known for setting, rate in left.items())
    return note(
        "throttle-left-behind",
        "Copies between disks are still throttled, and there are none:"
        f" {' and '.join(_rates(left))}.",
        "Replicas that are moved to another disk of their broker are copied no faster.",
        "Take it off: " + Command("changes clear-throttles", all=not is_known),
    )


def _rates(rates: Mapping[Setting, int]) -> Iterator[str]:
    of_all = {setting for setting in rates if setting.name == ALL_BROKERS}
    for settings in (rates.keys() - of_all, of_all):
        if settings:
            limits = [rates[setting] for setting in settings]
            lowest, highest = min(limits), max(limits)
            shown = f"{lowest:,} B/s" if lowest == highest else f"{lowest:,} to {highest:,} B/s"
            where = "all brokers, set as their default"
            if settings is not of_all:
                where = broker_list({int(setting.name) for setting in settings})
            yield f"a rate on {where} ({shown})"
