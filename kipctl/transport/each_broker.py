"""Many brokers asked at once, with one deadline: a broker that hangs does not delay the others."""

from collections.abc import Callable, Iterable
from threading import Lock
from typing import TypeVar

from kipctl.at_once import at_once
from kipctl.errors import KipctlError
from kipctl.transport.request import BrokerConnection, Cluster

T = TypeVar("T")


def ask_each(
    cluster: Cluster,
    brokers: Iterable[int],
    ask: Callable[[int, BrokerConnection], T],
    deadline_s: float,
) -> dict[int, T | KipctlError]:
    """What each of these brokers answers, or why it did not, in their order.

    `ask` gets a broker's id and the connection to it, and runs in a thread of its own, as
    `at_once` says; no broker is asked twice at the same time. A late one's connection may still be
    in use.
    """
    brokers = list(brokers)
    connections: dict[int, BrokerConnection] = {}
    results: dict[int, T | KipctlError] = {}
    for broker in brokers:
        try:
            connections[broker] = cluster.broker(broker)
        except KipctlError as error:
            results[broker] = error
    alone = {connection: Lock() for connection in connections.values()}

    def ask_alone(entry: tuple[int, BrokerConnection]) -> T:
        with alone[entry[1]]:  # brokers behind one address have one connection
            return ask(*entry)

    answers = at_once(ask_alone, list(connections.items()), deadline_s)
    results |= dict(zip(connections, answers, strict=True))
    return {broker: results[broker] for broker in brokers}
