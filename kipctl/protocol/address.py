"""How a place in a network is written."""

from ipaddress import ip_address
from typing import NamedTuple


def host_port(host: str, port: int) -> str:
    """`host:port`; an IPv6 address is put in brackets, as Kafka's own tools write and read it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to that address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return host_port(self.host, self.port)
