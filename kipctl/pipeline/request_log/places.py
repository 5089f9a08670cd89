"""Where the lines of a log were written: which cluster and which broker a file and an address are.

A request line does not name the broker that wrote it, nor its cluster, but the address at which the
broker was asked. Metadata answers name clusters and brokers, and those by the addresses that they
advertise, which need not be those that lines have.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kipctl.errors import UsageError

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as a Metadata answer names it."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What the lines of one file at one address show of where they were written.

    `served`: requests of clients to produce or to fetch, which only brokers answer. `metadata`: the
    nodes of the clusters that answers named here, by cluster id. `followers`: ids of brokers that
    fetched here, and from which host.
    """

    file: str
    address: str
    served: int = 0
    metadata: Mapping[str, frozenset[Node]] = field(default_factory=dict)
    followers: frozenset[tuple[int, str]] = frozenset()
    lines: int = 0
    first_us: int = -1
    last_us: int = -1
    """Microseconds since the epoch; -1 where no line tells a time."""


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster and the broker that a file and an address are; None where it is not known."""

    file: str
    address: str
    cluster: str | None
    broker: int | None
    rack: str | None = None


Votes = Mapping[tuple[str | None, str], Mapping[int, int]]
"""By cluster and address: how often a partition was written there that this broker leads."""


def nodes_of(seen: Iterable[Seen]) -> dict[str, frozenset[Node]]:
    """The brokers of each cluster, by its id."""
    by_cluster: dict[str, frozenset[Node]] = {}
    for source in seen:
        for cluster, nodes in source.metadata.items():
            by_cluster[cluster] = by_cluster.get(cluster, frozenset()) | nodes
    return dict(sorted(by_cluster.items()))


def places_of(
    seen: Sequence[Seen], broker_at: Mapping[str, int] | None = None, votes: Votes | None = None
) -> list[Place]:
    """The cluster and the broker of each file and address.

    The cluster is what Metadata answers there name; failing that, the only one that they name in
    the file, or at the address in other files; where all name one, it is that.

    The broker is, whatever says so first: `broker_at`, by host:port or host; the only broker that
    Metadata names with that address; with that port; the only one that fetched from others from
    that host as a follower does; the one that leads most of the partitions written there (`votes`),
    which has to be more than half. A log belongs to one broker: at other addresses where clients
    were served, it is the one that the rest of the file tells.
    """
    nodes = nodes_of(seen)
    clusters = _clusters(seen)
    followers: dict[str | None, set[tuple[int, str]]] = defaultdict(set)
    for source in seen:
        followers[clusters[source.file, source.address]] |= source.followers
    brokers: dict[tuple[str, str], int] = {}
    for source in seen:
        cluster = clusters[source.file, source.address]
        broker = _broker(
            source.address,
            nodes.get(cluster or "", frozenset()),
            followers[cluster],
            broker_at or {},
            (votes or {}).get((cluster, source.address), {}),
        )
        if broker is not None:
            brokers[source.file, source.address] = broker
    of_file = _only((file, broker) for (file, _), broker in brokers.items())
    racks = {(cluster, node.id): node.rack for cluster, of_one in nodes.items() for node in of_one}
    places = []
    for source in seen:
        at = (source.file, source.address)
        cluster = clusters[at]
        broker = brokers.get(at, of_file.get(source.file) if source.served else None)
        rack = racks.get((cluster or "", broker)) if broker is not None else None
        places.append(Place(*at, cluster, broker, rack))
    return places


def unknown(seen: Sequence[Seen], places: Sequence[Place]) -> list[Seen]:
    """Where clients were served, by a broker that is not known."""
    placed = zip(seen, places, strict=True)
    return [source for source, at in placed if source.served and at.broker is None]


def parse_broker_at(options: Iterable[str]) -> dict[str, int]:
    """`--broker-at ADDRESS=ID`, by address. Raises UsageError."""
    brokers = {}
    for text in options:
        address, equals, number = text.rpartition("=")
        if not (equals and address and number.isdigit() and len(number) < 10):
            raise UsageError(
                f"--broker-at {text!r} names no broker.",
                "Give ADDRESS=ID, such as 10.0.0.7:9092=3, or 10.0.0.7=3 for any port.",
            )
        brokers[address] = int(number)
    return brokers


def _clusters(seen: Sequence[Seen]) -> dict[tuple[str, str], str | None]:
    named = [(source, cluster) for source in seen for cluster in source.metadata]
    every = {cluster for _, cluster in named}
    of_all = next(iter(every)) if len(every) == 1 else None
    here = _only(((source.file, source.address), cluster) for source, cluster in named)
    of_file = _only((source.file, cluster) for source, cluster in named)
    at_address = _only((source.address, cluster) for source, cluster in named)
    return {
        (source.file, source.address): here.get((source.file, source.address))
        or of_file.get(source.file)
        or at_address.get(source.address)
        or of_all
        for source in seen
    }


def _broker(
    address: str,
    nodes: frozenset[Node],
    followers: set[tuple[int, str]],
    broker_at: Mapping[str, int],
    votes: Mapping[int, int],
) -> int | None:
    host, _, port = address.rpartition(":")
    for chosen in (address, host):
        if chosen in broker_at:
            return broker_at[chosen]
    for key, ids in (
        (address, _only((node.address, node.id) for node in nodes)),
        (port, _only((str(node.port), node.id) for node in nodes)),
        (host, _only((at, broker) for broker, at in followers)),
    ):
        if key in ids:
            return ids[key]
    most = Counter(votes).most_common(1)
    return most[0][0] if most and 2 * most[0][1] > sum(votes.values()) else None


def _only(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, Value]:
    """By key the value, where it has one alone."""
    values: dict[Key, set[Value]] = defaultdict(set)
    for key, value in pairs:
        values[key].add(value)
    return {key: next(iter(distinct)) for key, distinct in values.items() if len(distinct) == 1}
