"""Ctrl-C and the other signals to end, noted where what was begun has to be undone first."""

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

# A closed terminal sends SIGHUP, a service manager SIGTERM.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def noted_signals() -> Iterator[Callable[[float], bool]]:
    """While inside, SIGINT, SIGTERM and SIGHUP cut nothing off: they are noted.

    Yields a function that waits up to so many seconds for one of them, and tells whether one has
    come. A signal that is ignored (nohup) stays ignored. For the main thread only.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def note(number: int, frame: FrameType | None) -> None:
        with suppress(BlockingIOError):  # it is full of them already
            os.write(write_end, b"!")

    def has_come(seconds: float) -> bool:
        # Nobody reads from the pipe: once noted, a signal is told of each time.
        return bool(select.select([read_end], [], [], seconds)[0])

    before = {
        number: signal.signal(number, note)
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield has_come
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_end)
        os.close(write_end)
