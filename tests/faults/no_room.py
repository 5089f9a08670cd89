"""Files that cannot be changed any more, as on a disk that is full or was mounted anew."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.chmod", "os.utime", "os.truncate")


class _Disk:
    """One hook for all: Python has no way to take one back."""

    folder: Path | None = None
    left = 0
    """Changes until it is full."""
    refused = 0

    def saw(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        writes = event == "open" and (arguments[2] or 0) & _WRITES
        path = arguments[0] if writes or event in _CHANGES else None
        if not isinstance(path, str | Path) or self.folder not in Path(path).absolute().parents:
            return
        self.left -= 1
        if self.left < 0:
            self.refused += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


_disk = _Disk()
sys.addaudithook(_disk.saw)


@contextmanager
def no_room(folder: Path, after: int) -> Iterator[list[int]]:
    """In the block nothing below the folder can be made, written to or removed after so many times;
    the list has how often that was refused, once it is over.
    """
    refused: list[int] = []
    _disk.folder, _disk.left, _disk.refused = folder.absolute(), after, 0
    try:
        yield refused
    finally:
        _disk.folder = None
        refused.append(_disk.refused)
