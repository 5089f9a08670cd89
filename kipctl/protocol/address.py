"""How a place in a network is written."""

import re
from ipaddress import ip_address
from socket import inet_aton
from typing import NamedTuple

NO_HOST = "that is no name of a host"


def host_port(host: str, port: int) -> str:
    """`host:port`; an IPv6 address is put in brackets, as Kafka's own tools write and read it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def in_brief(servers: str) -> str:
    """A list of servers in a sentence: the first, and how many more there are."""
    first, *others = servers.split(",")
    return f"{first} and {len(others)} more" if others else first


def can_be_host(text: str) -> bool:
    """Whether it can be looked up: Python's resolver raises UnicodeError for what cannot."""
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return bool(text) and "\0" not in text


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to that address.

    It is read as connecting reads it, as 127.1 is an address too; no name is looked up.
    """
    if host.lower().removesuffix(".") == "localhost":
        return True
    try:
        # The C library's own reader takes anything behind a blank.
        short = re.fullmatch(r"[\w.]+", host, re.ASCII)
        address = ip_address(inet_aton(host) if short else host)
    except (OSError, ValueError):
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return host_port(self.host, self.port)
