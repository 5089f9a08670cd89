"""Many asked at once, with one deadline: one that hangs delays neither the others nor the end."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

from kipctl.errors import KipctlError, TimedOutError

T = TypeVar("T")
R = TypeVar("R")
AT_ONCE = 32
"""Threads that ask at the same time."""


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """These in their order, so many at a time: as many as go into one request."""
    return (items[start : start + size] for start in range(0, len(items), size))


class LateError(TimedOutError):
    """The deadline for all passed first; what was to be asked may still be in use."""


def at_once(ask: Callable[[T], R], items: Sequence[T], deadline_s: float) -> list[R | KipctlError]:
    """What `ask` returns for each of these, or the KipctlError that it raised, in their order.

    After `deadline_s` seconds no other is begun with, and who has not answered is a LateError. What
    is raised that is no KipctlError is raised here too. Neither Ctrl-C nor the end of the process
    waits for a thread that hangs.
    """
    begins: SimpleQueue[tuple[int, T]] = SimpleQueue()
    ends: SimpleQueue[tuple[int, R | BaseException]] = SimpleQueue()
    results: dict[int, R | KipctlError] = {}
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                place, item = begins.get_nowait()
            except Empty:
                return
            try:
                ends.put((place, ask(item)))
            except BaseException as error:
                ends.put((place, error))

    for begin in enumerate(items):
        begins.put(begin)
    until = time.monotonic() + deadline_s
    try:
        for _ in range(min(AT_ONCE, len(items))):
            threading.Thread(target=work, daemon=True).start()
        while len(results) < len(items):
            place, answer = ends.get(timeout=max(0.0, until - time.monotonic()))
            if isinstance(answer, BaseException) and not isinstance(answer, KipctlError):
                raise answer
            results[place] = answer
    except Empty:
        pass
    finally:
        over.set()
    late = LateError(
        f"It did not answer before the {deadline_s:g} s for all brokers were over.",
        "Check that it is not overloaded or paused.",
    )
    return [results.get(place, late) for place in range(len(items))]
