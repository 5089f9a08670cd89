"""Files that were left for this process, in folders that others may write to.

Whoever can write there may have put something else into a file's place: a FIFO would hold its
reader up for ever, a link lead to another file, and a file of any size fill the memory.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from kipctl.typed_json import DamagedError

SHORT = 1 << 16
"""Bytes, at most, of a word, a sentence, or a handful of fields."""
_NO_FILE = (errno.ELOOP, errno.ENXIO)
"""What opening a link, and a socket, ends in."""


def open_left(path: Path, how: int = os.O_RDONLY) -> BinaryIO:
    """Open a regular file that is there under this very name; `how` is as in open(2).

    Raises DamagedError where it is something else, and OSError.
    """
    try:
        handle = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as failed:
        if failed.errno not in _NO_FILE:
            raise
    else:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            return os.fdopen(handle, "rb")
        os.close(handle)
    raise DamagedError.of(path, ValueError("it is no regular file"))


def read_left(path: Path, most: int) -> bytes:
    """What is in it: `most` bytes at most.

    Raises DamagedError where it is larger, or no regular file, and OSError.
    """
    with open_left(path) as file:
        # As many as are asked for are allotted first.
        content = file.read(min(most, os.fstat(file.fileno()).st_size) + 1)
    if len(content) > most:
        raise DamagedError.of(path, ValueError(f"it has more than {most:,} bytes"))
    return content
