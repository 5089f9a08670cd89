"""Many brokers asked at once, with one deadline: a broker that hangs does not delay the others."""

import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import TypeVar

from kipctl.errors import KipctlError, TimedOutError
from kipctl.transport.request import BrokerConnection, Cluster

T = TypeVar("T")
AT_ONCE = 32
"""Brokers that are asked at the same time."""


class LateError(TimedOutError):
    """The deadline for all brokers passed first; its connection may still be in use."""


def ask_each(
    cluster: Cluster,
    brokers: Iterable[int],
    ask: Callable[[int, BrokerConnection], T],
    deadline_s: float,
) -> dict[int, T | KipctlError]:
    """What each of these brokers answers, or why it did not, in their order.

    `ask` gets a broker's id and the connection to it, and runs in a thread of its own; no broker
    is asked twice at the same time. After `deadline_s` seconds no other is begun with, and who has
    not answered is a TimedOutError. What is raised that is no KipctlError is raised here too.
    """
    brokers = list(brokers)
    begins: SimpleQueue[tuple[int, BrokerConnection]] = SimpleQueue()
    ends: SimpleQueue[tuple[int, T | BaseException]] = SimpleQueue()
    found: dict[int, T | KipctlError] = {}
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                broker, connection = begins.get_nowait()
            except Empty:
                return
            try:
                ends.put((broker, ask(broker, connection)))
            except BaseException as error:
                ends.put((broker, error))

    for broker in brokers:
        try:
            begins.put((broker, cluster.broker(broker)))
        except KipctlError as error:
            found[broker] = error
    for _ in range(min(AT_ONCE, len(brokers) - len(found))):
        threading.Thread(target=work, daemon=True).start()
    until = time.monotonic() + deadline_s
    try:
        while len(found) < len(brokers):
            broker, answer = ends.get(timeout=max(0.0, until - time.monotonic()))
            if isinstance(answer, BaseException) and not isinstance(answer, KipctlError):
                raise answer
            found[broker] = answer
    except Empty:
        pass
    finally:
        over.set()
    late = LateError(
        f"It did not answer before the {deadline_s:g} s for all brokers were over.",
        "Check that it is not overloaded or paused.",
    )
    return {broker: found.get(broker, late) for broker in brokers}
