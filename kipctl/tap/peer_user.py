"""Whose a connection is whose both ends are on this machine, by the kernel's table of them."""

import os
import socket
from pathlib import Path
from struct import iter_unpack

_ESTABLISHED = "01"


def is_of_this_user(remote: tuple[str, int], local: tuple[str, int]) -> bool:
    """Whether the other end of a connection (host and port of both) is a process of this user.

    False where there is none on this machine. The table of all connections is read.
    """
    ends = [_as_listed(*remote), _as_listed(*local)]
    table = "/proc/net/tcp6" if ":" in remote[0] else "/proc/net/tcp"
    for line in Path(table).read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == ends and fields[3] == _ESTABLISHED:
            return int(fields[7]) == os.getuid()
    return False


def _as_listed(host: str, port: int) -> str:
    """An address as the kernel lists it: words of this machine's byte order, in hexadecimal."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    return "".join(f"{word:08X}" for (word,) in iter_unpack("=I", packed)) + f":{port:04X}"
