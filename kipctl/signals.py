"""Ctrl-C and the other signals to end: what was begun is undone first, whatever command it is.

A closed terminal sends SIGHUP, a service manager or `timeout` SIGTERM. A signal that is ignored
(nohup) stays ignored. All of this is for the main thread only.
"""

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Received:
    """The first signal to end that has come, since a command began; None before."""

    first: int | None = None

    @classmethod
    def note(cls, number: int) -> None:
        """Keep the first one."""
        cls.first = cls.first or number


@contextmanager
def as_keyboard_interrupts() -> Iterator[None]:
    """While inside, SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does."""
    if not is_main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        Received.note(number)
        raise KeyboardInterrupt

    with handled_by(interrupt):
        yield


@contextmanager
def noted_signals(*, then_raises: bool = False) -> Iterator[Callable[[float], bool]]:
    """While inside, signals to end cut nothing off: they are noted. If it `then_raises`, each after
    the first raises KeyboardInterrupt.

    Yields a function that waits up to so many seconds for one of them, and tells whether one has
    come.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def note(number: int, frame: FrameType | None) -> None:
        Received.note(number)
        if then_raises and has_come(0):
            raise KeyboardInterrupt
        with suppress(BlockingIOError):  # it is full of them already
            os.write(write_end, b"!")

    def has_come(seconds: float) -> bool:
        # Nobody reads from the pipe: once noted, a signal is reported each time.
        return bool(select.select([read_end], [], [], seconds)[0])

    try:
        with handled_by(note):
            yield has_come
    finally:
        os.close(read_end)
        os.close(write_end)


class Cut:
    """What signals to end do to a load at work, and to what is left to do after it.

    The first one cuts the load off: it raises KeyboardInterrupt. The next is noted in `again`: what
    is left is done with less patience. Another one raises again. When the load has ended by itself,
    `put_off` has the first one noted, too.
    """

    def __init__(self) -> None:
        self.again = False
        self._is_put_off = False

    def put_off(self) -> None:
        """From now on note the next one, too."""
        self._is_put_off = not self.again

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        Received.note(number)
        if self._is_put_off:
            self.again, self._is_put_off = True, False
        else:
            self._is_put_off = not self.again
            raise KeyboardInterrupt


@contextmanager
def cut_in_order() -> Iterator[Cut]:
    """While inside, signals to end do what a `Cut` says; in the main thread."""
    cut = Cut()
    if not is_main_thread():
        yield cut
        return
    with handled_by(cut.take):
        yield cut


def leave_to_starter() -> None:
    """Take no signal to end in this process: a terminal, or `timeout`, sends it to all of a group.

    Whoever started it hears it too, and ends it in good order.
    """
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def is_main_thread() -> bool:
    """Python handles signals in this thread alone."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """While inside, the handler takes the signals to end, but for those that are ignored."""
    before = {
        number: signal.signal(number, handler)
        for number in ENDING
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
