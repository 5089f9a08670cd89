"""The producer's configuration, under Kafka's own property names."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from kipctl.errors import UsageError
from kipctl.probe.config import (
    ClientConfig,
    as_properties,
    one_of,
    parse_values,
    setting,
    truth,
    whole,
)

_MAX_ORDERED = 5
"""Requests in flight that brokers can keep in order."""
LEAST_IDLE_MS = 5_000
"""The least that Kafka's producer takes for metadata.max.idle.ms."""
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def _acks(text: str) -> int:
    return {"all": -1, "-1": -1, "0": 0, "1": 1}[text]


def _linger(text: str) -> float:
    value = float(text)
    if not value >= 0:  # nan is neither
        raise ValueError("it must be at least 0")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Settings of the probe's producer; names and defaults are those of Kafka's producer.

    Differences from Java: `linger.ms` is 0 (5 since Kafka 4.0), `buffer.memory` bounds only an
    unthrottled run (late records of a schedule hold no memory), `acks=all` is -1, and no partition
    gets fewer records because its broker is slow (KIP-794's `partitioner.adaptive`). A topic is
    idle for `metadata.max.idle.ms` (KIP-526) only where there are many: in `perf metadata`.
    """

    client = "producer"
    fixed: ClassVar[Mapping[str, str]] = {
        **ClientConfig.fixed,
        "partitioner.adaptive.partitioning.enable": "false",
        "partitioner.availability.timeout.ms": "0",
    }

    client_id: str = setting("kipctl-perf", str)
    acks: int = setting(-1, _acks)
    batch_size: int = setting(16384, whole(0))
    buffer_memory: int = setting(32 * 1024 * 1024, whole(0))
    compression_type: str = setting("none", one_of(*COMPRESSIONS))
    delivery_timeout_ms: int = setting(120_000, whole(0))
    enable_idempotence: bool = setting(True, truth)
    linger_ms: float = setting(0, _linger)
    max_in_flight_requests_per_connection: int = setting(5, whole(1))
    max_request_size: int = setting(1_048_576, whole(1))
    metadata_max_idle_ms: int = setting(300_000, whole(LEAST_IDLE_MS))
    partitioner: str = setting("sticky", one_of("sticky", "round-robin"))
    retries: int = setting(2_147_483_647, whole(0))

    @property
    def in_flight_limit(self) -> int:
        return self.max_in_flight_requests_per_connection

    def __post_init__(self) -> None:
        if self.enable_idempotence and self.acks != -1:
            raise UsageError(
                "enable.idempotence needs acks=all.", "Set enable.idempotence=false, or acks=all."
            )
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > _MAX_ORDERED:
            raise UsageError(
                "enable.idempotence allows at most 5 for max.in.flight.requests.per.connection."
            )
        if self.enable_idempotence and self.retries == 0:
            raise UsageError("enable.idempotence needs retries: it is 0.")
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise UsageError(
                "delivery.timeout.ms must be at least linger.ms + request.timeout.ms.",
                "Lower request.timeout.ms, or raise delivery.timeout.ms.",
            )


_JAVA_PARTITIONERS = {
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": "round-robin",
}
_SERIALIZERS = ("key.serializer", "value.serializer")


def parse_properties(properties: Mapping[str, str]) -> ProducerConfig:
    """The configuration that the properties describe.

    `enable.idempotence`, when it is not given, is on if `acks`, `retries` and
    `max.in.flight.requests.per.connection` allow it, as in Java. Raises UsageError for a property
    that kipctl does not know or a wrong value.
    """
    named = {name: text for name, text in properties.items() if name not in _SERIALIZERS}
    of_java = named.pop("partitioner.class", None)
    if of_java is not None:
        if of_java not in _JAVA_PARTITIONERS:
            raise UsageError(f"partitioner.class={of_java}: kipctl has no such partitioner.")
        named["partitioner"] = _JAVA_PARTITIONERS[of_java]
    values = parse_values(named, ProducerConfig)
    config = ProducerConfig(**{"enable_idempotence": False, **values})
    if "enable_idempotence" in values:
        return config
    allowed = (
        config.acks == -1
        and config.retries > 0
        and config.max_in_flight_requests_per_connection <= _MAX_ORDERED
    )
    return replace(config, enable_idempotence=allowed)


def producer_properties(config: ProducerConfig) -> dict[str, str]:
    """The configuration as Kafka properties, for the record of a run."""
    return as_properties(config) | {"acks": "all" if config.acks == -1 else str(config.acks)}
