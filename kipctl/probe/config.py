"""A client's configuration, under Kafka's own property names: what all clients have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, ClassVar, TypeVar

from kipctl.errors import UsageError

T = TypeVar("T")
INT_MAX = 2**31 - 1


def setting(default: T, parse: Callable[[str], object]) -> T:
    """A field of a configuration that a property of its name sets.

    `parse` reads the property's value; it raises ValueError, which says why not, or KeyError.
    """
    return field(default=default, metadata={"parse": parse})


def whole(least: int, most: float = inf) -> Callable[[str], int]:
    """Parses a whole number between these."""

    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError(f"it must be at least {least}")
        if value > most:
            raise ValueError(f"it must be at most {most}")
        return value

    return parse


def truth(text: str) -> bool:
    """Parses `true` or `false`."""
    return {"true": True, "false": False}[text.lower()]


def one_of(*names: str) -> Callable[[str], str]:
    """Takes one of these names."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"it is one of {', '.join(names)}")
        return text

    return parse


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Settings that Kafka's producer and consumer share, with their names and defaults.

    A field `retry_backoff_ms` is the property `retry.backoff.ms`. Times are in milliseconds, sizes
    in bytes. `receive.buffer.bytes` is left to the system (-1) unless it is given.
    """

    client: ClassVar[str]
    """What kind of client it is for."""
    fixed: ClassVar[Mapping[str, str]] = {
        "client.dns.lookup": "use_all_dns_ips",
        "metadata.recovery.strategy": "rebootstrap",
    }
    """Kafka's properties for which there is no choice, and what kipctl does."""

    client_id: str
    metadata_max_age_ms: int = setting(300_000, whole(0))
    metadata_recovery_rebootstrap_trigger_ms: int = setting(300_000, whole(0))
    receive_buffer_bytes: int = setting(-1, whole(-1, INT_MAX))
    reconnect_backoff_max_ms: int = setting(1_000, whole(0))
    reconnect_backoff_ms: int = setting(50, whole(0))
    request_timeout_ms: int = setting(30_000, whole(1, INT_MAX))
    retry_backoff_max_ms: int = setting(1_000, whole(0))
    retry_backoff_ms: int = setting(100, whole(0))
    socket_connection_setup_timeout_max_ms: int = setting(30_000, whole(1, INT_MAX))
    socket_connection_setup_timeout_ms: int = setting(10_000, whole(1, INT_MAX))

    @property
    def in_flight_limit(self) -> int:
        """Requests that may be in flight on a connection."""
        raise NotImplementedError


def parse_values(properties: Mapping[str, str], kind: type[ClientConfig]) -> dict[str, Any]:
    """The values of the settings that the properties name; how to connect is none of them.

    Raises UsageError for a property that the client of this kind does not have (it would be
    silently without effect), or a value that is wrong, or that it does not do.
    """
    from kipctl.security.settings import is_about_security

    parsers = {f.name: f.metadata["parse"] for f in fields(kind)}
    values: dict[str, Any] = {}
    for name, text in properties.items():
        if name == "bootstrap.servers" or is_about_security(name):
            continue
        if name in kind.fixed:
            if text.lower() != kind.fixed[name]:
                raise UsageError(
                    f"What {name}={text} says kipctl's {kind.client} does not do.",
                    f"It does what {name}={kind.fixed[name]} says.",
                )
            continue
        field_name = name.replace(".", "_")
        if field_name not in parsers or "_" in name:
            known = sorted(field.replace("_", ".") for field in parsers)
            raise UsageError(
                f"Property {name!r} is not one that kipctl's {kind.client} has.",
                "Known: " + ", ".join(known) + ".",
            )
        try:
            values[field_name] = parsers[field_name](text)
        except (ValueError, KeyError) as wrong:
            reason = f": {wrong}" if isinstance(wrong, ValueError) else ""
            raise UsageError(f"Property {name}={text!r} has a wrong value{reason}.") from None
    return values


def as_properties(config: ClientConfig) -> dict[str, str]:
    """The configuration as Kafka properties, for the record of a run."""
    shown = {f.name.replace("_", "."): getattr(config, f.name) for f in fields(config)}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in shown.items()
    }


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    """`name=value` words from the command line. Raises UsageError for a word without `=`."""
    properties = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"Property {pair!r} is not name=value.")
        properties[name] = value
    return properties
