"""The configs of replication throttles (KIP-73), by their names in Kafka, and what they hold back.

A rate is a broker's, in bytes per second; which replicas it holds for is a topic's.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
RATES = (LEADER_RATE, FOLLOWER_RATE)
DISK_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
"""Of what a broker copies between its own log directories (KIP-113)."""
ALL_RATES = (*RATES, DISK_RATE)
REPLICAS = (LEADER_REPLICAS, FOLLOWER_REPLICAS)

UNLIMITED = 2**63 - 1
"""What a broker reports of a rate that is not set."""
ALL_REPLICAS = "*"
"""The list of all replicas of a topic."""
ALL_BROKERS = ""
"""Stands for a broker's id where something is set for all of them (`--entity-default`)."""
BROKER, TOPIC = "broker", "topic"


class Setting(NamedTuple):
    """A config of a broker or a topic: `kind` says of which, `name` is its id or name."""

    kind: str
    name: str
    config: str

    def __str__(self) -> str:
        return f"{self.config} of {self.whose}"

    @property
    def whose(self) -> str:
        """The broker or topic, or all of them."""
        return f"{self.kind} {self.name}" if self.name else f"all {self.kind}s"


@dataclass(frozen=True, slots=True)
class KnownThrottles:
    """What kipctl here has set, by its journal: who has set a setting to which value.

    `running` are those that are at work now, `left` those that were cut off: each as a sentence
    names it.
    """

    running: Mapping[tuple[Setting, str], str] = field(default_factory=dict)
    left: Mapping[tuple[Setting, str], str] = field(default_factory=dict)


def lists_replica(listed: str | None, partition: int, replica: int) -> bool:
    """Whether a topic's list has this replica of this partition."""
    entries = [entry.strip() for entry in (listed or "").split(",")]
    return ALL_REPLICAS in entries or f"{partition}:{replica}" in entries


def removals(
    settings: Iterable[Setting], bootstrap_server: str, *, is_secured: bool
) -> Iterator[str]:
    """Kafka's own commands that take these off: a line for each broker and topic."""
    tool = f"kafka-configs --bootstrap-server {shlex.quote(bootstrap_server)}"
    if is_secured:
        tool += " --command-config ADMIN.properties"
    configs: dict[tuple[str, str], list[str]] = {}
    for setting in settings:
        configs.setdefault((setting.kind, setting.name), []).append(setting.config)
    for (kind, name), resource_configs in sorted(configs.items()):
        entity = f"--entity-name {shlex.quote(name)}" if name else "--entity-default"
        yield (
            f"{tool} --alter --entity-type {kind}s {entity} --delete-config"
            f" {','.join(sorted(resource_configs))}"
        )
