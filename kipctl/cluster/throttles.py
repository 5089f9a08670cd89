"""The throttles of a whole cluster (KIP-73, KIP-113): what is set where, and who needs it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kipctl.at_once import chunks
from kipctl.cluster.reassignments import Reassignment, adding_of, topics_and_brokers
from kipctl.cluster.recoveries import catching_up
from kipctl.cluster.snapshot import PartitionId, Snapshot
from kipctl.cluster.throttle_configs import (
    ALL_BROKERS,
    ALL_RATES,
    BROKER,
    DISK_RATE,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATES,
    REPLICAS,
    TOPIC,
    Setting,
    lists_replica,
)
from kipctl.errors import KipctlError, RefusedError
from kipctl.protocol.describe_configs import (
    ConfigSource,
    DescribeConfigsResponse,
    ResourceType,
    configs_request,
)
from kipctl.protocol.error_codes import ErrorCode, error_text
from kipctl.transport.each_broker import ask_each
from kipctl.transport.request import BrokerConnection, Cluster

_TOPICS_AT_ONCE = 500
_DEADLINE_S = 30.0
"""For all brokers together."""

Values = Mapping[Setting, str]
"""What is set, each where it is set: a broker's name is ALL_BROKERS for what holds for all."""


@dataclass(frozen=True, slots=True)
class HeldBack:
    """What a broker copies under a throttle while it catches up, and the bytes per second that this
    lets through: its own rate, or what all leaders may send together."""

    partitions: tuple[PartitionId, ...]
    rate: int


def ask_throttles(cluster: Cluster, snapshot: Snapshot) -> dict[Setting, str]:
    """All that is set. Raises RefusedError, and what a broker that does not answer raises."""

    def ask(broker: int, connection: BrokerConnection) -> DescribeConfigsResponse:
        asked = configs_request(
            ResourceType.BROKER, [str(broker)], ALL_RATES, include_synonyms=True
        )
        return connection.request(asked)

    values: dict[Setting, str] = {}
    for broker, answer in ask_each(cluster, snapshot.broker_ids, ask, _DEADLINE_S).items():
        if isinstance(answer, KipctlError):
            raise answer
        _require_shown(answer)
        for config, source, rate in _set(answer):
            name = ALL_BROKERS if source == ConfigSource.ALL_BROKERS else str(broker)
            values[Setting(BROKER, name, config)] = rate
    for topics in chunks(snapshot.topics, _TOPICS_AT_ONCE):
        asked = configs_request(ResourceType.TOPIC, topics, REPLICAS)
        shown = cluster.any_broker().request(asked)
        _require_shown(shown)
        for result in shown.results:
            for config in REPLICAS:
                if value := result.values.get(config):
                    values[Setting(TOPIC, result.resource_name, config)] = value
    return values


def _require_shown(answer: DescribeConfigsResponse) -> None:
    """Raise RefusedError where configs may not be described; a topic that is gone has none."""
    for result in answer.results:
        if result.error_code and result.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            is_broker = result.resource_type == ResourceType.BROKER
            what, whose = ("broker", "cluster") if is_broker else ("topic", "topic")
            raise RefusedError(
                f"Throttles of {what} {result.resource_name} are not shown:"
                f" {error_text(result.error_code)}.",
                f"It takes the right to describe configs of the {whose}.",
            )


def _set(answer: DescribeConfigsResponse) -> Iterator[tuple[str, int, str]]:
    """Each rate wherever it is set while brokers run."""
    for result in answer.results:
        for config in result.configs:
            for synonym in config.synonyms:
                if (
                    synonym.source in (ConfigSource.BROKER, ConfigSource.ALL_BROKERS)
                    and synonym.value
                ):
                    yield config.name, synonym.source, synonym.value


def rate_of(values: Values, broker: int, config: str) -> int | None:
    """The rate that holds for a broker: its own, or that of all; None where there is none."""
    value = values.get(Setting(BROKER, str(broker), config)) or values.get(
        Setting(BROKER, ALL_BROKERS, config)
    )
    return int(value) if value and value.isdecimal() else None


def held_back(
    values: Values, snapshot: Snapshot, busy: Iterable[Reassignment] = ()
) -> dict[int, HeldBack]:
    """The brokers that catch up under a throttle: their replicas, or the leaders', are listed, and
    there is a rate. A pure function."""
    by_broker = {}
    for broker, partitions in catching_up(snapshot, adding_of(busy)).items():
        takes = rate_of(values, broker, FOLLOWER_RATE)
        sends: dict[int, int] = {}
        held: list[PartitionId] = []
        is_held_there = False
        for partition in partitions:
            leader = snapshot.by_id[partition].leader
            rate = rate_of(values, leader, LEADER_RATE)
            is_sent_so = rate is not None and _lists(values, LEADER_REPLICAS, partition, leader)
            is_taken_so = takes is not None and _lists(values, FOLLOWER_REPLICAS, partition, broker)
            if rate is not None and is_sent_so:
                sends[leader] = rate
            if is_sent_so or is_taken_so:
                held.append(partition)
            is_held_there |= is_taken_so
        if held:
            limits = [takes] if takes is not None and is_held_there else []
            limits += [sum(sends.values())] if sends else []
            by_broker[broker] = HeldBack(tuple(held), min(limits))
    return by_broker


def _lists(values: Values, replicas: str, partition: PartitionId, broker: int) -> bool:
    listed = values.get(Setting(TOPIC, partition.topic, replicas))
    return lists_replica(listed, partition.partition, broker)


def needed(
    values: Values,
    snapshot: Snapshot,
    busy: Sequence[Reassignment],
    between_disks: Collection[int] = (),
) -> frozenset[Setting]:
    """What something needs now: of topics and brokers that are being reassigned, of partitions
    that catch up under it, or of the brokers that copy `between_disks`. A pure function."""
    topics, brokers = topics_and_brokers(busy)
    for held in held_back(values, snapshot, busy).values():
        topics |= {partition.topic for partition in held.partitions}
        # Each of the partition's brokers may lead it next.
        brokers |= {r for partition in held.partitions for r in snapshot.by_id[partition].replicas}
    return frozenset(
        setting
        for setting in values
        if (
            setting.name in topics
            if setting.kind == TOPIC
            else _is_of(setting.name, between_disks if setting.config == DISK_RATE else brokers)
        )
    )


def waiting_for(values: Values, snapshot: Snapshot) -> tuple[int, ...]:
    """The brokers that are away and will catch up under these throttles when they come back: of
    topics with a list, where any rate is set. A pure function."""
    if not any(setting.config in RATES for setting in values):
        return ()
    listed = {setting.name for setting in values if setting.kind == TOPIC}
    lacking = (p for p in snapshot.partitions if p.id.topic in listed)
    away = {broker for p in lacking for broker in {*p.replicas} - {*p.isr}}
    return tuple(sorted(away - {*snapshot.broker_ids}))


def _is_of(name: str, brokers: Collection[int]) -> bool:
    return bool(brokers) if name == ALL_BROKERS else int(name) in brokers
