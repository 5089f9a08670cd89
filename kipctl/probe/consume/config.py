"""The consumer's configuration, under Kafka's own property names."""

from collections.abc import Mapping
from dataclasses import dataclass

from kipctl.probe.config import (
    CLIENT_PARSERS,
    ClientConfig,
    Parser,
    changed,
    one_of,
    parse_values,
    truth,
    whole,
)
from kipctl.protocol.api import LARGEST_FRAME

READ_COMMITTED = "read_committed"
_INT_MAX = 2**31 - 1
_LARGEST_FETCH = LARGEST_FRAME - (16 << 20)
"""What else is in an answer: a first batch that is longer still, and each partition's head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Settings of the probe's consumer; names and defaults are those of Kafka's consumer.

    There is no group: partitions are assigned. `client.rack` is empty for none.
    """

    client_id: str = "kipctl-perf-consumer"
    auto_offset_reset: str = "latest"
    check_crcs: bool = True
    client_rack: str = ""
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    isolation_level: str = "read_uncommitted"
    max_partition_fetch_bytes: int = 1_048_576

    @property
    def in_flight_limit(self) -> int:
        return 100  # as Java's consumer has it (ConsumerUtils)

    @property
    def reads_committed(self) -> bool:
        """Whether records of aborted transactions are left out."""
        return self.isolation_level == READ_COMMITTED


def _fetch_max(text: str) -> int:
    size = whole(0, _INT_MAX)(text)
    if size > _LARGEST_FETCH:
        raise ValueError(
            f"kipctl takes answers of {LARGEST_FRAME >> 20} MiB, so it must be at most "
            f"{_LARGEST_FETCH}"
        )
    return size


_PARSERS: dict[str, Parser] = {
    **CLIENT_PARSERS,
    "auto_offset_reset": one_of("earliest", "latest", "none"),
    "check_crcs": truth,
    "client_rack": str,
    "fetch_max_bytes": _fetch_max,
    "fetch_max_wait_ms": whole(0, _INT_MAX),
    "fetch_min_bytes": whole(0, _INT_MAX),
    "isolation_level": one_of("read_uncommitted", READ_COMMITTED),
    "max_partition_fetch_bytes": whole(0, _INT_MAX),
}
_MEANINGLESS = ("group.id", "key.deserializer", "value.deserializer", "enable.auto.commit")
"""Settings that Kafka's tools are given and that say nothing where partitions are assigned and
records are counted."""


def parse_properties(properties: Mapping[str, str]) -> ConsumerConfig:
    """The configuration that the properties describe.

    Raises UsageError for a property that kipctl does not know or a wrong value.
    """
    named = {name: text for name, text in properties.items() if name not in _MEANINGLESS}
    return changed(ConsumerConfig(), parse_values(named, _PARSERS, "consumer"))
