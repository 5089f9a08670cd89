"""What is done again and again beside a block of work, in a thread."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def every(seconds: float, act: Callable[[], None]) -> Iterator[None]:
    """Call `act` every so many seconds while inside; it has ended when the block is left."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(seconds):
            act()

    thread = threading.Thread(target=work, name="kipctl-every", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
