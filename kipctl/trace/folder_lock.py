"""Whether a folder of rows is still being written to."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kipctl.errors import UsageError
from kipctl.left_files import open_left
from kipctl.typed_json import DamagedError

_LOCK_FILE = "lock"


@contextmanager
def in_use(folder: Path, *, alone: bool = False) -> Iterator[None]:
    """While inside, say that somebody works in the folder, as long as this process lives.

    Raises UsageError when it is to be used `alone`, and others do, and DamagedError.
    """
    with open_left(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT) as lock:
        try:
            # Who only looks holds it for a moment: that is waited for.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
        except BlockingIOError:
            raise UsageError(
                f"Rows are still being written to {folder}.", "Wait until that has ended."
            ) from None
        yield


def is_in_use(folder: Path) -> bool:
    """Whether somebody says so; nothing is changed."""
    try:
        with open_left(folder / _LOCK_FILE) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, DamagedError):  # nobody has said so, or it is over by now
        return False
    return False
