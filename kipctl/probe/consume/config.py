"""The consumer's configuration, under Kafka's own property names."""

from collections.abc import Mapping
from dataclasses import dataclass

from kipctl.probe.config import INT_MAX, ClientConfig, one_of, parse_values, setting, truth, whole
from kipctl.protocol.api import LARGEST_FETCH

READ_COMMITTED = "read_committed"
_MOST_RECORDS = LARGEST_FETCH - (16 << 20)
"""What else is in an answer: a first batch that is longer still, and each partition's head."""


def _fetch_max(text: str) -> int:
    size = whole(0, INT_MAX)(text)
    if size > _MOST_RECORDS:
        raise ValueError(
            f"kipctl takes answers of {LARGEST_FETCH >> 20} MiB, so it must be at most "
            f"{_MOST_RECORDS}"
        )
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Settings of the probe's consumer; names and defaults are those of Kafka's consumer.

    There is no group: partitions are assigned. `client.rack` is empty for none.
    """

    client = "consumer"

    client_id: str = setting("kipctl-perf-consumer", str)
    auto_offset_reset: str = setting("latest", one_of("earliest", "latest", "none"))
    check_crcs: bool = setting(True, truth)
    client_rack: str = setting("", str)
    fetch_max_bytes: int = setting(52_428_800, _fetch_max)
    fetch_max_wait_ms: int = setting(500, whole(0, INT_MAX))
    fetch_min_bytes: int = setting(1, whole(0, INT_MAX))
    isolation_level: str = setting("read_uncommitted", one_of("read_uncommitted", READ_COMMITTED))
    max_partition_fetch_bytes: int = setting(1_048_576, whole(0, INT_MAX))

    @property
    def in_flight_limit(self) -> int:
        return 100  # as Java's consumer has it (ConsumerUtils)

    @property
    def reads_committed(self) -> bool:
        """Whether records of aborted transactions are left out."""
        return self.isolation_level == READ_COMMITTED


_MEANINGLESS = ("group.id", "key.deserializer", "value.deserializer", "enable.auto.commit")
"""Settings that Kafka's tools are given and that say nothing where partitions are assigned and
records are counted."""


def parse_properties(properties: Mapping[str, str]) -> ConsumerConfig:
    """The configuration that the properties describe.

    Raises UsageError for a property that kipctl does not know or a wrong value.
    """
    named = {name: text for name, text in properties.items() if name not in _MEANINGLESS}
    return ConsumerConfig(**parse_values(named, ConsumerConfig))
