"""Refuses connections to other machines, in this process and for those that it starts."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

_CLOSED = "http://127.0.0.1:9"
NOWHERE = {
    # Where programs in other processes (pip, curl, Python's own clients) would go.
    **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), _CLOSED),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,::1"),
    "PIP_NO_INDEX": "1",
}
"""Environment variables; Java has its own, and is not started by such tests but as a stand-in."""


_BROADCAST = ip_address("255.255.255.255")


class AnotherMachineError(Exception):
    """A test was about to speak to another machine."""


class _Watch:
    """One hook for all: Python has no way to take one back."""

    is_on = False

    def saw(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_on:
            return
        match event, arguments:
            case (("socket.connect" | "socket.sendto" | "socket.bind"), (_, (str(host), *_))):
                pass
            case "socket.getaddrinfo", (str(host), *_):
                pass
            case _:
                return
        if host.endswith(".invalid"):  # which no resolver finds (RFC 6761): it is not asked
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if not _is_here(host):
            raise AnotherMachineError(f"{event} {host}")


_watch = _Watch()
sys.addaudithook(_watch.saw)


@contextmanager
def loopback_only() -> Iterator[None]:
    """In the block every other address is refused, and every name but localhost."""
    _watch.is_on = True
    try:
        yield
    finally:
        _watch.is_on = False


def _is_here(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return host in ("", "localhost")
    # TCP to the broadcast address fails in this machine's kernel.
    return address.is_loopback or address.is_unspecified or address == _BROADCAST
