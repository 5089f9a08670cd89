"""Whether a cluster can be reached, step by step, and what its ACLs let the client do."""

import socket
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kipctl.cluster.snapshot import is_glob
from kipctl.errors import KipctlError
from kipctl.own_names import OWN_MANY, OWN_ONE, OWN_TOPICS, new_name
from kipctl.protocol.address import Address
from kipctl.protocol.describe_cluster import DescribeClusterRequest
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic
from kipctl.transport.access import Access
from kipctl.transport.acl_errors import CLUSTER, TOPIC, Right
from kipctl.transport.blocking_connection import BlockingConnection, TlsError
from kipctl.transport.request import Cluster

LOGIN = "login"
_TIMEOUT_S = 10.0
_OPERATIONS = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
}
"""Bits of authorized operations: the codes of Kafka's `AclOperation`."""
_UNSEEN = -1
"""Of a topic that the client may not Describe: what else it may is not told."""
_SHOW = ("Describe", "Read", "Write", "Delete", "Alter")
"""Who may one of these may Describe (Kafka's documentation, "Operations in Kafka")."""
_MOVES_LEADERS = (Right("Describe", CLUSTER), Right("Alter", CLUSTER))


def _on_own(prefix: str, *operations: str) -> tuple[Right, ...]:
    """On topics that kipctl makes, whose names begin with this, and removes again."""
    return tuple(Right(one, TOPIC, prefix) for one in ("Create", *operations, "Delete"))


NEEDED: dict[str, tuple[Right, ...]] = {
    "inspect leaders, metadata": (Right("Describe", TOPIC),),
    "inspect metadata --measure-convergence": (*_on_own(OWN_MANY), *_MOVES_LEADERS),
    "inspect hints": (Right("Write", TOPIC), Right("Read", TOPIC)),
    "inspect replica-selection": (Right("Read", TOPIC), Right("DescribeConfigs", CLUSTER)),
    "inspect brokers": (
        Right("Describe", TOPIC),
        Right("DescribeConfigs", TOPIC),
        Right("DescribeConfigs", CLUSTER),
    ),
    "reassign, elect": _MOVES_LEADERS,
    "roll": (*_MOVES_LEADERS, Right("Describe", TOPIC), Right("DescribeConfigs", TOPIC)),
    "request-log": (Right("DescribeConfigs", CLUSTER), Right("AlterConfigs", CLUSTER)),
    "perf produce --topic": (Right("Write", TOPIC),),
    "perf consume --topic": (Right("Read", TOPIC),),
    "perf e2e --topic": (Right("Write", TOPIC), Right("Read", TOPIC)),
    "perf --during": _MOVES_LEADERS,
    "perf without --topic": _on_own(OWN_ONE, "Write", "Read"),
    "perf metadata": (*_on_own(OWN_MANY, "Write"), *_MOVES_LEADERS),
    "tap": (),
}
"""What commands need. A tap asks for nothing itself: what passes it are its clients' requests, with
their rights. (Who may write to any topic may be idempotent: KIP-679.)"""


@dataclass(frozen=True, slots=True)
class Step:
    """One step on the way to a server. `ms` is None for what took no time of its own."""

    server: Address
    name: str
    is_good: bool
    detail: str
    ms: float | None = None


@dataclass(frozen=True, slots=True)
class CommandRights:
    """What a command needs, and what of it is missing; what cannot be known is in neither."""

    command: str
    needed: tuple[Right, ...]
    missing: tuple[Right, ...]
    not_known: tuple[Right, ...]


def steps_to(access: Access) -> list[Step]:
    """Name, TCP, TLS, login and versions, of each bootstrap server, up to the step that fails."""
    found: list[Step] = []
    for server in access.bootstrap:
        found += _steps(access, server)
    return found


def _steps(access: Access, server: Address) -> list[Step]:
    place = access.mapped(server)
    mapped = f"at {place}" if place != server else ""
    began = time.monotonic()
    try:
        addresses = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)
    except OSError as error:
        return [Step(server, "name", False, f"{place.host}: {error.strerror}")]
    listed = ", ".join(dict.fromkeys(str(address[4][0]) for address in addresses))
    name = Step(server, "name", True, f"{listed} {mapped}".strip(), _ms(time.monotonic() - began))
    try:
        connection = BlockingConnection(server, access, time.monotonic() + _TIMEOUT_S)
    except TlsError as failed:
        return [name, Step(server, "TCP", True, ""), Step(server, "TLS", False, str(failed))]
    except KipctlError as refused:
        passed = ["TCP", "TLS"] if access.security.tls else ["TCP"]
        done = [Step(server, step, True, "") for step in passed]
        return [name, *done, Step(server, LOGIN, False, refused.what)]
    except OSError as failed:
        return [name, Step(server, "TCP", False, failed.strerror or str(failed))]
    taken = connection.steps
    found = [name, Step(server, "TCP", True, "", _ms(taken.tcp))]
    if access.security.tls:
        found.append(Step(server, "TLS", True, _certificate(connection), _ms(taken.tls)))
    if access.security.sasl:
        sasl = access.security.sasl
        told = f"{access.security.principal} ({sasl.mechanism})"
        if connection.ends < float("inf"):
            told += f", again in {connection.ends - time.monotonic():.0f} s"
        found.append(Step(server, LOGIN, True, told, _ms(taken.login)))
    connection.close()
    return [*found, _versions(access, server)]


def _versions(access: Access, server: Address) -> Step:
    began = time.monotonic()
    alone = Access(str(server), access.security, access.address_map)
    try:
        with Cluster(alone, timeout_s=_TIMEOUT_S) as cluster:
            ranges = cluster.any_broker().api_versions
            brokers = len(cluster.nodes)
    except KipctlError as failed:
        return Step(server, "versions", False, failed.what)
    told = f"{len(ranges)} APIs, Produce to version {ranges.get(0, (0, 0))[1]}; {brokers} brokers"
    return Step(server, "versions", True, told, _ms(time.monotonic() - began))


def _certificate(connection: BlockingConnection) -> str:
    shown = connection.certificate
    names = ", ".join(name for _, name in shown.get("subjectAltName", ()))
    issuer = "/".join(value for part in shown.get("issuer", ()) for _, value in part)
    return f"{connection.tls_version}; {names}; until {shown.get('notAfter')}; by {issuer}"


def _ms(seconds: float) -> float:
    return 1000 * seconds


def rights(cluster: Cluster, topics: Sequence[str]) -> list[CommandRights]:
    """What the client lacks for each command, on the cluster, on these topics, and on kipctl's own.

    Without ACLs nothing is missing. Those of kipctl's own are asked for by a name of that kind,
    which no topic has. Topics that the client may not even see lack everything that lets it see
    them.
    """
    of_cluster = _of_cluster(cluster)
    of_topics = [_of_topic(cluster, topic) for topic in topics]
    of_own = {prefix: _of_topic(cluster, new_name(prefix)) for prefix in OWN_TOPICS}

    def is_held(right: Right) -> bool | None:
        if right.resource == CLUSTER:
            return _held_by_all(right, [of_cluster])
        if right.operation == "Create" and of_cluster and _holds(right, of_cluster):
            return True  # on the cluster: of any topic
        return _held_by_all(right, [of_own[right.prefix]] if right.prefix else of_topics)

    found = []
    for command, needed in NEEDED.items():
        held = {right: is_held(right) for right in needed}
        missing = tuple(right for right in needed if held[right] is False)
        not_known = tuple(right for right in needed if held[right] is None)
        found.append(CommandRights(command, needed, missing, not_known))
    return found


def _held_by_all(right: Right, granted: Sequence[int | None]) -> bool | None:
    """Whether the right is among the bits granted on each resource; None if that is not known."""
    if any(bits is not None and bits != _UNSEEN and not _holds(right, bits) for bits in granted):
        return False
    if _UNSEEN in granted and right.operation in _SHOW:
        return False
    return None if not granted or None in granted or _UNSEEN in granted else True


_OF_WHO_SEES_ALL = ("Create", "Alter", "Describe", "DescribeConfigs", "AlterConfigs")
"""On the cluster. Without an authorizer everybody has them, and super users do."""


def may_be_hidden(cluster: Cluster, topics: Collection[str], named: Sequence[str] = ()) -> str:
    """What a look at `topics` may not have shown, as a sentence; "" for nothing.

    A cluster shows the topics that the client may Describe, and is silent about others. Who holds
    every operation on the cluster is taken to see them all. Topics that are `named` themselves, not
    by a glob, are not passed over in silence: they are refused.
    """
    security = cluster.access.security
    if not security.is_authenticated or (named and not any(map(is_glob, named))):
        return ""
    if not topics:
        return f"No topic is shown: there is none, or none that {security.principal} may Describe."
    bits = _of_cluster(cluster)
    if bits is None or all(_holds(Right(one, CLUSTER), bits) for one in _OF_WHO_SEES_ALL):
        return ""
    return f"Topics that {security.principal} may not Describe are not among these."


def none_shown(cluster: Cluster, topics: Collection[str]) -> str:
    """That there may be no `topics` because the client may not Describe any; "" if not.

    Who holds every operation on the cluster is taken to see them all: then there are none.
    """
    if topics or not cluster.access.security.is_authenticated:
        return ""
    bits = _of_cluster(cluster)
    if bits is not None and all(_holds(Right(one, CLUSTER), bits) for one in _OF_WHO_SEES_ALL):
        return ""
    return may_be_hidden(cluster, topics)


def _holds(right: Right, bits: int) -> bool:
    return bool(bits >> _OPERATIONS[right.operation] & 1)


def _of_cluster(cluster: Cluster) -> int | None:
    """Bits; None if the cluster does not say."""
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    try:
        answer = cluster.any_broker().request(asked)
    except KipctlError:
        return None
    if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return 0
    return None if answer.error_code else answer.cluster_authorized_operations


def _of_topic(cluster: Cluster, topic: str) -> int | None:
    """Bits, also of a topic that does not exist; None if the cluster does not say."""
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    found = cluster.any_broker().request(request).topics[0]
    if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return _UNSEEN
    bits = found.topic_authorized_operations
    return bits if bits >= 0 else None
