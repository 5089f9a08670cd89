"""How a cluster is reached: made once, and the same for every connection."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kipctl.errors import RefusedError, UsageError
from kipctl.next_step import Command
from kipctl.protocol.address import Address, can_be_host, is_loopback
from kipctl.security import msk
from kipctl.security.librdkafka import librdkafka_properties
from kipctl.security.settings import Security, is_about_security, security_of
from kipctl.transport.address_map import ANY, SAME_PORT, place_of, without_broker
from kipctl.transport.clusters import NamedCluster
from kipctl.transport.product import Product

UNSECURED = Security()
_PATHS = ("ssl.truststore.location", "ssl.keystore.location")


@dataclass(frozen=True)
class Access:
    """Where to ask first, how connections are secured, and which addresses stand for others.

    `bootstrap_servers` is Kafka's `host:port,host:port`. `address_map` has brokers' addresses, as
    text, that are to be reached at another one (`kipctl.transport.address_map`); a broker's
    certificate is still to be of its own name. `properties` are those of Java's clients that its
    security was read from, for other clients under test. `name` is what the user calls the cluster
    ("" for nothing), `expected_id` the id that it has to have ("" for any). A cluster is protected
    by its name, or by its id wherever it is reached.
    """

    bootstrap_servers: str
    security: Security = UNSECURED
    address_map: Mapping[str, Address] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    name: str = ""
    expected_id: str = ""
    is_behind_tap: bool = False
    is_protected_name: bool = False
    protected_ids: frozenset[str] = frozenset()
    ids: set[str] = field(default_factory=set, repr=False, compare=False)
    """Of the cluster, once it has answered."""
    brokers: dict[int, Address] = field(default_factory=dict, repr=False, compare=False)
    """As the cluster has listed them last, by id."""
    products: set[Product] = field(default_factory=set, repr=False, compare=False)
    """What it is, likewise."""
    consent: set[str] = field(default_factory=set, repr=False, compare=False)
    """By what the user has agreed to change a protected cluster; empty if he has not."""

    def __str__(self) -> str:
        return self.bootstrap_servers

    @property
    def is_secured(self) -> bool:
        """Whether Kafka's own tools need a file to connect with."""
        return self.security.protocol != "PLAINTEXT"

    @property
    def bootstrap(self) -> list[Address]:
        """The servers to ask first. Raises UsageError."""
        return parse_bootstrap_servers(self.bootstrap_servers)

    @property
    def is_protected(self) -> bool:
        """Whether changes need the user's consent, as far as the cluster's id is known."""
        return self.is_protected_name or bool(self.ids & self.protected_ids)

    def require_consent(self, what: str) -> None:
        """Raise RefusedError for a change of a protected cluster that nobody has agreed to."""
        if self.is_protected and not self.consent:
            which = self.name or f"at {self}"
            raise RefusedError(
                f"The cluster {which} is protected: {what} is refused.",
                "Give --expect-cluster ID, the cluster's own, if that is what you want.",
            )

    def identify(self, cluster_id: str) -> None:
        """The cluster has said its id. Raises RefusedError if it is another than it has to be."""
        self.ids.add(cluster_id)
        if self.expected_id and cluster_id != self.expected_id:
            raise RefusedError(
                f"The cluster at {self} is {cluster_id or 'of no id'}, not {self.expected_id}.",
                "Check --bootstrap-server, --cluster and --expect-cluster."
                if self.consent or not self.name
                else f"clusters.toml has that id of {self.name}: see "
                + Command("clusters list")
                + ".",
            )

    def librdkafka(self) -> dict[str, Any]:
        """The properties that a client of confluent-kafka connects with."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            **librdkafka_properties(self.security),
        }

    def java(self) -> dict[str, str]:
        """The properties that Java's clients connect with.

        Raises UsageError for a login that needs more than Kafka's own jars.
        """
        if self.security.is_iam and not msk.java_library():
            raise UsageError(
                "Java's clients log in by IAM with aws-msk-iam-auth, AWS's own library, which"
                " CLASSPATH does not name.",
                "Set CLASSPATH to its aws-msk-iam-auth-VERSION-all.jar, as for Kafka's own tools.",
            )
        return {**self.properties, "bootstrap.servers": self.bootstrap_servers}

    def behind(self, servers: str) -> "Access":
        """The same behind a tap, which speaks plainly to its clients: a login passes it.

        Raises UsageError for one by Kerberos where a broker would not take the tap's tickets.
        """
        if self.security.sasl and self.security.sasl.kerberos:
            of_tap, of_brokers = (
                {"this machine" if is_loopback(host) else host for host, _ in addresses}
                for addresses in (parse_bootstrap_servers(servers), self.bootstrap)
            )
            if others := of_tap - of_brokers:
                raise UsageError(
                    f"Through a tap on {', '.join(sorted(others))} a client's tickets are of that"
                    " host, and the brokers' principals are of their own.",
                    "Use another mechanism: Kerberos looks at whom a client connects to.",
                )
        about_tls = tuple(name for name in self.properties if name.startswith("ssl."))
        properties = {name: text for name, text in self.properties.items() if name not in about_tls}
        security = Security(None, self.security.sasl)
        if "security.protocol" in properties:
            properties["security.protocol"] = security.protocol
        return Access(servers, security, properties=properties, is_behind_tap=True)

    def mapped(self, broker: Address) -> Address:
        """Where a broker of this address is reached."""
        return place_of(broker, self.address_map)

    @property
    def useless_maps(self) -> tuple[str, ...]:
        """Addresses that a broker was to be reached at elsewhere, and that none of them has."""
        listed = self.brokers.values()
        return without_broker(self.address_map, [*listed, *self.bootstrap]) if listed else ()


def access_of(
    servers: str,
    properties: Mapping[str, str],
    address_map: Mapping[str, Address] | None = None,
    cluster: NamedCluster | None = None,
    expected_id: str = "",
    protected_ids: Iterable[str] = (),
) -> Access:
    """How these servers are reached, with properties of Java's clients.

    Who says which cluster he expects agrees to changes. Raises UsageError.
    """
    pairs = [f"{at}={to}" for at, to in cluster.map] if cluster else []
    access = Access(
        servers,
        security_of(properties, servers),
        parse_map(pairs) | dict(address_map or {}),
        {
            # Other clients under test run in folders of their own.
            name: str(Path(text).expanduser().absolute()) if name in _PATHS else text
            for name, text in properties.items()
            if is_about_security(name)
        },
        cluster.name if cluster else "",
        expected_id or (cluster.id if cluster else ""),
        is_protected_name=cluster is not None and cluster.protected,
        protected_ids=frozenset(protected_ids),
        consent={"--expect-cluster"} if expected_id else set(),
    )
    _ = access.bootstrap  # what is no address is said now
    return access


def as_access(access: Access | str) -> Access:
    """Bootstrap servers alone are an unsecured cluster's."""
    return Access(access) if isinstance(access, str) else access


def parse_bootstrap_servers(text: str) -> list[Address]:
    """The addresses in `host:port,host:port`; IPv6 in brackets. Raises `UsageError`."""
    return [parse_address(part.strip(), text, several=True) for part in text.split(",")]


def parse_address(part: str, text: str = "", least_port: int = 1, several: bool = False) -> Address:
    """One address; `text` is what it is a part of, for the message, and whether there may be
    `several`. Raises UsageError."""
    host, colon, port = part.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    is_port = port.isascii() and port.isdigit() and least_port <= int(port) < 65536
    is_host = can_be_host(host) and (bracketed or not set(host) & set(":/[]"))
    if not (colon and is_port and is_host):
        raise UsageError(
            f"{part!r} is no address."
            if text in ("", part)
            else f"{part!r} in {text!r} is no address.",
            f"Write HOST:PORT{', several separated by commas' if several else ''};"
            " an IPv6 address as [::1]:9092.",
        )
    return Address(host, int(port))


def parse_map(pairs: list[str]) -> dict[str, Address]:
    """`kafka1:9092=127.0.0.1:19092` words: addresses as text, and where they are reached.

    An address may have `*` for any text, and the port of where it is reached may be `*`, for the
    broker's own. Raises UsageError.
    """
    address_map = {}
    for pair in pairs:
        broker, equals, reached_at = pair.partition("=")
        if not equals:
            raise UsageError(
                f"--map {pair!r} is not HOST:PORT=HOST:PORT.", "As in kafka1:9092=127.0.0.1:19092."
            )
        address = _parse_pattern(broker.strip(), pair)
        if address in address_map:
            raise UsageError(f"--map says twice where {address} is.", "Give each address once.")
        host, colon, port = reached_at.strip().rpartition(":")
        place = parse_address(f"{host}{colon}{1 if port == ANY else port}", pair)
        address_map[address] = Address(place.host, SAME_PORT) if port == ANY else place
    return address_map


def _parse_pattern(broker: str, pair: str) -> str:
    """The address, which may have a `*` for any text. Raises UsageError."""
    host, colon, port = broker.rpartition(":")
    is_any_port = ANY in port and all(part.isdigit() or not part for part in port.split(ANY))
    address = parse_address(f"{host}{colon}{1 if is_any_port else port}", pair)
    return f"{str(address).rpartition(':')[0]}:{port}" if is_any_port else str(address)
