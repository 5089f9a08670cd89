"""Being alone with a folder, among all kipctl processes."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kipctl.state import make_private


@contextmanager
def locked(folder: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[int]:
    """Be alone with a folder; `waiting` is called if that takes time.

    The kernel lets go of the lock when its holder ends, however it ends, and with it every child
    that the file descriptor, which is yielded, was passed on to.
    """
    make_private(folder)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)
