"""Whether a cluster can be reached, step by step: name, TCP, TLS, login, versions; each broker."""

import socket
import time
from dataclasses import dataclass, replace

from kipctl.at_once import at_once
from kipctl.counts import counted
from kipctl.errors import KipctlError
from kipctl.protocol.address import Address
from kipctl.transport.access import Access
from kipctl.transport.blocking_connection import BlockingConnection, TlsError
from kipctl.transport.product import Product
from kipctl.transport.request import Cluster

LOGIN = "login"
_TIMEOUT_S = 10.0
_ALL_TIMEOUT_S = 30.0
"""For all brokers together."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step on the way to a server. `ms` is None for what took no time of its own.

    `broker` is the id of one that the cluster lists elsewhere than at its bootstrap servers.
    """

    server: Address
    name: str
    is_good: bool
    detail: str
    ms: float | None = None
    broker: int | None = None


def connection_steps(access: Access) -> list[Step]:
    """Name, TCP, TLS, login and versions, of each bootstrap server, up to the step that fails."""
    steps: list[Step] = []
    for server in access.bootstrap:
        steps += _steps(access, server)
    return steps


def broker_steps(access: Access) -> list[Step]:
    """Whether each broker is reached where the cluster, which has answered, lists it: clients go
    there. Those at bootstrap servers are left out; of others the step that fails, or the last."""
    listed = [(id, at) for id, at in access.brokers.items() if at not in access.bootstrap]
    steps = at_once(lambda broker: _steps(access, broker[1])[-1], listed, _ALL_TIMEOUT_S)
    return [
        replace(step, name=f"broker {id}", broker=id, detail=_why(step))
        if isinstance(step, Step)
        else Step(at, f"broker {id}", False, step.what, broker=id)
        for (id, at), step in zip(listed, steps, strict=True)
    ]


def _why(step: Step) -> str:
    return step.detail if step.is_good else f"{step.name}: {step.detail}"


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
        return [
            name,
            *done,
            Step(server, LOGIN, False, f"{refused.what} {refused.next_step}".strip()),
        ]
    except OSError as failed:
        return [name, Step(server, "TCP", False, failed.strerror or str(failed))]
    taken = connection.steps
    steps = [name, Step(server, "TCP", True, "", _ms(taken.tcp))]
    if access.security.tls:
        steps.append(Step(server, "TLS", True, _certificate(connection), _ms(taken.tls)))
    if access.security.sasl:
        sasl = access.security.sasl
        detail = f"{access.security.principal} ({sasl.mechanism})"
        if connection.ends < float("inf"):
            detail += f", again in {connection.ends - time.monotonic():.0f} s"
        steps.append(Step(server, LOGIN, True, detail, _ms(taken.login)))
    connection.close()
    return [*steps, _versions(access, server)]


def _versions(access: Access, server: Address) -> Step:
    began = time.monotonic()
    alone = Access(str(server), access.security, access.address_map)
    try:
        with Cluster(alone, timeout_s=_TIMEOUT_S) as cluster:
            ranges = cluster.any_broker().api_versions
            brokers = len(cluster.nodes)
            access.products.update(alone.products)
    except KipctlError as failed:
        return Step(server, "versions", False, failed.what)
    detail = (
        f"{len(ranges)} APIs, Produce to version {ranges.get(0, (0, 0))[1]};"
        f" {counted(brokers, 'broker')}"
    )
    detail += "".join(f" of {other}" for other in alone.products - {Product.KAFKA})
    return Step(server, "versions", True, detail, _ms(time.monotonic() - began))


def _certificate(connection: BlockingConnection) -> str:
    shown = connection.certificate
    names = ", ".join(name for _, name in shown.get("subjectAltName", ()))
    issuer = "/".join(value for part in shown.get("issuer", ()) for _, value in part)
    return f"{connection.tls_version}; {names}; until {shown.get('notAfter')}; by {issuer}"


def _ms(seconds: float) -> float:
    return 1000 * seconds
