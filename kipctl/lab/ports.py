"""Ports for a lab: consecutive, free, and out of the range that outgoing connections take."""

import random
import socket

from kipctl.errors import RefusedError
from kipctl.lab.properties import HOST
from kipctl.next_step import Command

# Below 32768 (Linux) and 49152 (elsewhere), where the kernel takes ports for connections: a port
# of a stopped broker must still be free when it starts again.
RANGE = range(20_000, 32_000)


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now, as Java's servers do (SO_REUSEADDR)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def first_of_free_ports(count: int, taken: frozenset[int] = frozenset()) -> int:
    """The first of `count` consecutive free ports, none of them in `taken`.

    Where to look first is random, so that two who look at once rarely find the same.
    """
    tries = (random.randrange(RANGE.start, RANGE.stop - count) for _ in range(1000))
    for first in tries:
        ports = range(first, first + count)
        if taken.isdisjoint(ports) and all(map(is_free, ports)):
            return first
    raise RefusedError(
        f"There are no {count} free ports in a row from {RANGE.start} to {RANGE.stop}.",
        "Choose them: " + Command("lab up --port PORT"),
    )
