"""Names of the topics that kipctl makes: no two runs have the same, and each says whose it is."""

import os
import re
import secrets
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass

OWN_ONE, OWN_MANY = "kipctl-perf", "kipctl-metadata"
"""With these they begin: the one topic of a run that measures, and those of what many cost."""
OWN_TOPICS = (OWN_ONE, OWN_MANY)

_SHAPE = re.compile(
    rf"(?:{'|'.join(OWN_TOPICS)})-(?P<host>[A-Za-z0-9-]+)-(?P<pid>\d+)-[0-9a-f]{{6}}\b"
)
"""Names of many topics go on behind it."""
_LONGEST_HOST = 40


def own_host() -> str:
    """This machine's name, as far as it can be a part of a topic's."""
    name = re.sub("[^A-Za-z0-9-]", "-", socket.gethostname().partition(".")[0])
    return name[:_LONGEST_HOST].strip("-") or "host"


def new_name(prefix: str) -> str:
    """`kipctl-perf-HOST-PID-` and six random digits: nobody else's, whatever host and pid are."""
    return f"{prefix}-{own_host()}-{os.getpid()}-{secrets.token_hex(3)}"


def is_own(topic: str) -> bool:
    """Whether a run of kipctl has made it for itself: this one, or another."""
    return _SHAPE.match(topic) is not None


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Topics that kipctl made: `dead` by processes of this host that are gone, `others` elsewhere.

    In `others` runs may be under way.
    """

    dead: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def leftovers(topics: Iterable[str], host: str, is_running: Callable[[int], bool]) -> Leftovers:
    """Of all topics those that other runs of kipctl made; none of a process that still runs."""
    dead, others = [], []
    for topic in sorted(topics):
        match = _SHAPE.match(topic)
        if match is None:
            continue
        if match["host"] != host:
            others.append(topic)
        elif not is_running(int(match["pid"])):
            dead.append(topic)
    return Leftovers(tuple(dead), tuple(others))
