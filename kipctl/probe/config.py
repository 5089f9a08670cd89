"""A client's configuration, under Kafka's own property names: what all clients have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from kipctl.errors import UsageError

AnyConfig = TypeVar("AnyConfig", bound="ClientConfig")
Parser = Callable[[str], object]
"""The value of a property; raises ValueError, which says why not, or KeyError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Settings that Kafka's producer and consumer share, with their names and defaults.

    A field `retry_backoff_ms` is the property `retry.backoff.ms`. Times are in milliseconds, sizes
    in bytes. `receive.buffer.bytes` is left to the system (-1) unless it is given.
    """

    client_id: str
    metadata_max_age_ms: int = 300_000
    metadata_recovery_rebootstrap_trigger_ms: int = 300_000
    receive_buffer_bytes: int = -1
    reconnect_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    request_timeout_ms: int = 30_000
    retry_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    socket_connection_setup_timeout_max_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000

    @property
    def in_flight_limit(self) -> int:
        """Requests that may be in flight on a connection."""
        raise NotImplementedError


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


CLIENT_PARSERS: dict[str, Parser] = {
    "client_id": str,
    "metadata_max_age_ms": whole(0),
    "metadata_recovery_rebootstrap_trigger_ms": whole(0),
    "receive_buffer_bytes": whole(-1, 2**31 - 1),
    "reconnect_backoff_max_ms": whole(0),
    "reconnect_backoff_ms": whole(0),
    "request_timeout_ms": whole(1, 2**31 - 1),
    "retry_backoff_max_ms": whole(0),
    "retry_backoff_ms": whole(0),
    "socket_connection_setup_timeout_max_ms": whole(1, 2**31 - 1),
    "socket_connection_setup_timeout_ms": whole(1, 2**31 - 1),
}


def parse_values(
    properties: Mapping[str, str], parsers: Mapping[str, Parser], client: str
) -> dict[str, object]:
    """The values of the fields that the properties name; `bootstrap.servers` is none of them.

    Raises UsageError for a property that kipctl's `client` does not know (it would be silently
    without effect), or a wrong value.
    """
    values: dict[str, object] = {}
    for name, text in properties.items():
        if name == "bootstrap.servers":
            continue
        field_name = name.replace(".", "_")
        if field_name not in parsers or "_" in name:
            known = sorted(field.replace("_", ".") for field in parsers)
            raise UsageError(
                f"Property {name!r} is not one that kipctl's {client} has.",
                "Known: " + ", ".join(known) + ".",
            )
        try:
            values[field_name] = parsers[field_name](text)
        except (ValueError, KeyError) as wrong:
            reason = f": {wrong}" if isinstance(wrong, ValueError) else ""
            raise UsageError(f"Property {name}={text!r} has a wrong value{reason}.") from None
    return values


def changed(config: AnyConfig, values: Mapping[str, object]) -> AnyConfig:
    """The configuration with other values."""
    return replace(config, **dict[str, Any](values))


def as_properties(config: ClientConfig) -> dict[str, str]:
    """The configuration as Kafka properties, for the record of a run."""
    shown = {f.name.replace("_", "."): getattr(config, f.name) for f in fields(config)}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in shown.items()
    }


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
