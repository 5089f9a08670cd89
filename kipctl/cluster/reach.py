"""Whether a cluster can be reached, step by step, and what its ACLs let the client do."""

import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kipctl.errors import KipctlError
from kipctl.protocol.address import Address
from kipctl.protocol.describe_cluster import DescribeClusterRequest
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.metadata import MetadataRequest, MetadataRequestTopic
from kipctl.transport.access import Access
from kipctl.transport.blocking import BlockingConnection, TlsError
from kipctl.transport.request import Cluster
from kipctl.transport.rights import CLUSTER, TOPIC, Right

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
NEEDED: dict[str, tuple[Right, ...]] = {
    "inspect leaders, metadata": (Right("Describe", TOPIC),),
    "inspect hints": (Right("Write", TOPIC), Right("Read", TOPIC)),
    "inspect replica-selection": (Right("Read", TOPIC), Right("DescribeConfigs", CLUSTER)),
    "inspect brokers": (Right("Describe", CLUSTER), Right("DescribeConfigs", CLUSTER)),
    "reassign, elect, roll": (Right("Describe", CLUSTER), Right("Alter", CLUSTER)),
    "request-log": (Right("DescribeConfigs", CLUSTER), Right("AlterConfigs", CLUSTER)),
    "perf produce --topic": (Right("Write", TOPIC),),
    "perf consume --topic": (Right("Read", TOPIC),),
    "perf e2e --topic": (Right("Write", TOPIC), Right("Read", TOPIC)),
    "perf --during": (Right("Describe", CLUSTER), Right("Alter", CLUSTER)),
    "perf without --topic": (
        Right("Create", CLUSTER),
        *(Right(operation, TOPIC) for operation in ("Write", "Read", "Delete")),
    ),
}
"""What commands need; without --topic the topic is one of the run's own, kipctl-perf-... (Who may
write to any topic may be idempotent: KIP-679.)"""


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
    """What the client lacks for each command, on the cluster and on these topics.

    Without ACLs nothing is missing. Topics that it may not even see lack everything.
    """
    of_cluster = _of_cluster(cluster)
    of_topics = [_of_topic(cluster, topic) for topic in topics]
    found = []
    for command, needed in NEEDED.items():
        missing, not_known = [], []
        for right in needed:
            granted = [of_cluster] if right.resource == CLUSTER else of_topics
            if not granted or None in granted:
                not_known.append(right)
            elif not all(_holds(right, bits or 0) for bits in granted):
                missing.append(right)
        found.append(CommandRights(command, needed, tuple(missing), tuple(not_known)))
    return found


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
    request = MetadataRequest(
        topics=(MetadataRequestTopic(name=topic),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    found = cluster.any_broker().request(request).topics[0]
    if found.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return 0
    return None if found.error_code else found.topic_authorized_operations


def lacks(found: Iterable[CommandRights]) -> bool:
    """Whether anything is missing."""
    return any(one.missing for one in found)
