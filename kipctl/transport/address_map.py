"""Brokers' addresses, and those at which they are reached instead, as by a tunnel (`--map`).

Rules, pure. An address of a map may have `*` for any text, as in `*.demo.svc:9092`; a place whose
port is `*` (here 0) has the broker's own port.
"""

import re
from collections.abc import Collection, Mapping

from kipctl.protocol.address import Address

ANY = "*"
SAME_PORT = 0


def place_of(broker: Address, address_map: Mapping[str, Address]) -> Address:
    """Where a broker of this address is reached: by its own entry, else the first that fits."""
    place = address_map.get(str(broker))
    if place is None:
        fitting = (at for at in address_map if ANY in at and _fits(at, broker))
        place = next((address_map[at] for at in fitting), broker)
    return Address(place.host, broker.port) if place.port == SAME_PORT else place


def without_broker(
    address_map: Mapping[str, Address], brokers: Collection[Address]
) -> tuple[str, ...]:
    """The entries that are wrong, as far as the brokers tell: patterns that fit none of them.

    A whole address may be that of a broker which is down; if none of them is a broker's, all are
    wrong.
    """
    unused = [at for at in address_map if not any(_fits(at, broker) for broker in brokers)]
    whole = [at for at in address_map if ANY not in at]
    no_whole_fits = set(whole) <= set(unused)
    return tuple(at for at in unused if ANY in at or no_whole_fits)


def suggested_map(brokers: Collection[Address], server: Address) -> tuple[str, ...]:
    """Values of --map for brokers that are reached by tunnels where `server` is.

    One for all where each broker has a port of its own, which a tunnel can have too; else one for
    each broker, with a PORT to fill in.
    """
    ports = {broker.port for broker in brokers}
    if len(ports) < len(brokers):
        return tuple(f"{broker}={_at(server.host, 'PORT')}" for broker in brokers)
    hosts = {broker.host for broker in brokers}
    domains = {host.partition(".")[2] for host in hosts}
    if len(hosts) == 1:
        (host,) = hosts
    elif len(domains) == 1 and "" not in domains:
        host = f"{ANY}.{domains.pop()}"
    else:
        host = ANY
    return (f"{_at(host, ANY)}={_at(server.host, ANY)}",)


def _at(host: str, port: str) -> str:
    return f"{Address(host, SAME_PORT)}".removesuffix(str(SAME_PORT)) + port


def _fits(at: str, broker: Address) -> bool:
    pattern = ".*".join(map(re.escape, at.split(ANY)))
    return re.fullmatch(pattern, str(broker)) is not None
