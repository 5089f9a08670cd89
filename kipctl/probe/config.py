"""The producer's configuration, under Kafka's own property names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from math import inf
from pathlib import Path

from kipctl.errors import UsageError

_MAX_ORDERED = 5
"""Requests in flight that brokers can keep in order."""
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """Settings of the probe's producer; names and defaults are those of Kafka's producer.

    A field `linger_ms` is the property `linger.ms`. Times are in milliseconds, sizes in bytes.
    Differences from Java: `linger.ms` is 0 (5 since Kafka 4.0), `buffer.memory` bounds only an
    unthrottled run (late records of a schedule hold no memory), and `acks=all` is -1.
    """

    acks: int = -1
    batch_size: int = 16384
    buffer_memory: int = 32 * 1024 * 1024
    client_id: str = "kipctl-perf"
    compression_type: str = "none"
    delivery_timeout_ms: int = 120_000
    enable_idempotence: bool = True
    linger_ms: float = 0
    max_in_flight_requests_per_connection: int = 5
    max_request_size: int = 1_048_576
    metadata_max_age_ms: int = 300_000
    partitioner: str = "sticky"
    reconnect_backoff_ms: int = 50
    request_timeout_ms: int = 30_000
    retries: int = 2_147_483_647
    retry_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100

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


def _whole(least: int, most: float = inf) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError(f"it must be at least {least}")
        if value > most:
            raise ValueError(f"it must be at most {most}")
        return value

    return parse


def _acks(text: str) -> int:
    return {"all": -1, "-1": -1, "0": 0, "1": 1}[text]


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"it is one of {', '.join(names)}")
        return text

    return parse


def _linger(text: str) -> float:
    value = float(text)
    if not value >= 0:  # nan is neither
        raise ValueError("it must be at least 0")
    return value


_PARSERS: dict[str, Callable[[str], object]] = {
    "acks": _acks,
    "batch_size": _whole(0),
    "buffer_memory": _whole(0),
    "client_id": str,
    "compression_type": _one_of(*COMPRESSIONS),
    "delivery_timeout_ms": _whole(0),
    "enable_idempotence": _truth,
    "linger_ms": _linger,
    "max_in_flight_requests_per_connection": _whole(1),
    "max_request_size": _whole(1),
    "metadata_max_age_ms": _whole(0),
    "partitioner": _one_of("sticky", "round-robin"),
    "reconnect_backoff_ms": _whole(0),
    "request_timeout_ms": _whole(1, 2**31 - 1),
    "retries": _whole(0),
    "retry_backoff_max_ms": _whole(0),
    "retry_backoff_ms": _whole(0),
}

_JAVA_PARTITIONERS = {
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": ("partitioner", "round-robin"),
}
_SERIALIZERS = ("key.serializer", "value.serializer")


def parse_properties(properties: Mapping[str, str]) -> ProducerConfig:
    """The configuration that the properties describe.

    `enable.idempotence`, when it is not given, is on if `acks`, `retries` and
    `max.in.flight.requests.per.connection` allow it, as in Java. Raises UsageError for a property
    that kipctl does not know (it would be silently without effect) or a wrong value.
    """
    values: dict[str, object] = {}
    for name, text in properties.items():
        if name in _SERIALIZERS or name == "bootstrap.servers":
            continue
        if name == "partitioner.class":
            field_name, value = _JAVA_PARTITIONERS.get(text, ("", ""))
            if not field_name:
                raise UsageError(f"partitioner.class={text}: kipctl has no such partitioner.")
            values[field_name] = value
            continue
        field_name = name.replace(".", "_")
        if field_name not in _PARSERS or "_" in name:
            raise UsageError(
                f"Property {name!r} is not one that kipctl's producer has.",
                "Known: " + ", ".join(sorted(property_names())) + ".",
            )
        try:
            values[field_name] = _PARSERS[field_name](text)
        except (ValueError, KeyError) as wrong:
            reason = f": {wrong}" if isinstance(wrong, ValueError) else ""
            raise UsageError(f"Property {name}={text!r} has a wrong value{reason}.") from None
    config = replace(ProducerConfig(enable_idempotence=False), **values)  # type: ignore[arg-type]
    if "enable_idempotence" in values:
        return config
    allowed = (
        config.acks == -1
        and config.retries > 0
        and config.max_in_flight_requests_per_connection <= _MAX_ORDERED
    )
    return replace(config, enable_idempotence=allowed)


def property_names() -> list[str]:
    """Every property that the producer has, under Kafka's name."""
    return [field.name.replace("_", ".") for field in fields(ProducerConfig)]


def as_properties(config: ProducerConfig) -> dict[str, str]:
    """The configuration as Kafka properties, for the record of a run."""
    shown = {f.name.replace("_", "."): getattr(config, f.name) for f in fields(config)}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in shown.items()
    } | {"acks": "all" if config.acks == -1 else str(config.acks)}


def read_properties_file(path: Path) -> dict[str, str]:
    """A Java properties file: `name=value` lines, `#` and `!` comments.

    Raises UsageError for a file that cannot be read or a line that is no property.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as wrong:
        raise UsageError(f"The properties file {path} cannot be read: {wrong}.") from wrong
    properties = {}
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, equals, value = stripped.partition("=")
        if not equals:
            raise UsageError(f"{path}, line {number}: {stripped!r} is not name=value.")
        properties[name.strip()] = value.strip()
    return properties


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """`name=value` words from the command line. Raises UsageError for a word without `=`."""
    properties = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"Property {pair!r} is not name=value.")
        properties[name] = value
    return properties
