"""What a script may do to a request, and to one partition of it."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from kipctl.probe.leadership import Leader, Node
from kipctl.protocol.message import Response

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with this, in place of what the broker would say."""

    response: Response


@dataclass(frozen=True, slots=True)
class Delay:
    """Answer so many microseconds later; what stands behind it on its connection waits too."""

    us: int


class Drop:
    """Never answer it, nor anything behind it on its connection."""


class Cut:
    """Close the connection instead of answering."""


Control = Answer | Delay | Drop | Cut


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error for one partition, in place of appending to it or reading it.

    `hint` is the leader that is named with it (KIP-951), `endpoint` where that one listens,
    `throttle_ms` how long the client is asked to be silent (KIP-219), and `offset` where its
    batch is said to be in the log. Error 0 says that all is well, and appends nothing.
    """

    error: int
    hint: Leader | None = None
    endpoint: Node | None = None
    throttle_ms: int = 0
    offset: int = -1


@dataclass(frozen=True, slots=True)
class Handout:
    """Records for one partition of a Fetch, or the replica to read, in place of the log's."""

    records: bytes = b""
    high_watermark: int = 0
    preferred: int = -1


Scripted = Refusal | Handout
Waiting = Generator[None, None, Scripted | None]
"""What a script is that waits before it says something: it yields until it need not any more."""


def said(script: T | Generator[None, None, T]) -> Generator[None, None, T]:
    """What a script says, that may wait."""
    return (yield from script) if isinstance(script, Generator) else script
