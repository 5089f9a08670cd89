"""Where and when rows begin: kept beside them, should no process live to say it."""

import socket
import time
from dataclasses import dataclass
from pathlib import Path

from kipctl.left_files import SHORT, read_left
from kipctl.trace.clock import now_us
from kipctl.typed_json import decoded, encoded

_BEGUN_FILE = "begun"


def write_whole(path: Path, content: bytes) -> None:
    """Write the file so that who sees it sees it whole, through no link that others laid there."""
    unfinished = path.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    with unfinished.open("xb") as file:
        file.write(content)
    unfinished.replace(path)


@dataclass(frozen=True, slots=True)
class RunStart:
    """Where and when a probe or a tap started: `start_us` on its machine's monotonic clock."""

    host: str
    start_us: int
    wall_start_us: int

    @classmethod
    def on_this_machine(cls, start_us: int) -> "RunStart":
        """Of one on this machine that starts then."""
        wall_start_us = time.time_ns() // 1000 + start_us - now_us()
        return cls(socket.gethostname(), start_us, wall_start_us)

    def write(self, directory: Path) -> None:
        """Leave it beside the rows."""
        write_whole(directory / _BEGUN_FILE, encoded(self))

    @classmethod
    def read(cls, directory: Path) -> "RunStart | None":
        """What was left there; None when it did not start, yet or ever. Raises DamagedError."""
        left = directory / _BEGUN_FILE
        try:
            return decoded(read_left(left, SHORT), cls, str(left))
        except FileNotFoundError:
            return None
