"""Requests as a broker reads them, and the record of what became of each. Times are microseconds
of the cluster's clock.
"""

import struct
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kipctl.conform.cluster.state import Place
from kipctl.probe.leadership import Leader
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import ZERO_UUID, Request, Response, decode_beginning, encode
from kipctl.protocol.primitives import MalformedFrame, Reader

_HEAD = struct.Struct(">hhih")
_UNANSWERED = -1
_LAID_OUT_LIKE = {(0, 9): 10, (1, 13): 16, (1, 14): 16, (1, 15): 16}
"""Versions of Produce and Fetch that draft hints are laid out as: they differ by tags alone."""


@dataclass(slots=True)
class Attempt:
    """One partition of a Produce, Fetch, ListOffsets or OffsetForLeaderEpoch, and what became of
    it; `error` is None without an answer.

    `epoch` is the leader's that the client knows. `offset` is the one to read from, of a Fetch,
    the one that was answered, of a Produce, and of the others the timestamp or the epoch that is
    asked about; `preferred` the replica that a reader was sent to. `content` is what was sent, of
    so many `records`; `sequence` that of an idempotent producer's first one, and `producer` its id
    and epoch.
    """

    place: Place
    call: "Exchange" = field(repr=False)
    topic_id: UUID = ZERO_UUID
    """Of requests that name topics by it."""
    epoch: int = -1
    offset: int = -1
    content: bytes = b""
    records: int = 0
    producer: tuple[int, int] = (-1, -1)
    sequence: int = -1
    error: int | None = None
    hint: Leader | None = None
    preferred: int = -1

    @property
    def partition(self) -> int:
        return self.place[1]

    @property
    def broker(self) -> int:
        return self.call.broker

    @property
    def connection(self) -> int:
        return self.call.connection

    @property
    def api(self) -> int:
        return self.call.api

    @property
    def version(self) -> int:
        return self.call.version

    @property
    def us(self) -> int:
        return self.call.us


@dataclass(slots=True)
class Exchange:
    """A request and its answer."""

    us: int
    """When the whole of the request had arrived."""
    broker: int
    connection: int
    api: int
    version: int
    correlation_id: int
    client_id: str
    request: Any = None
    """None where nobody knows its API or version."""
    answered_us: int = _UNANSWERED
    response: Response | None = None
    tried: dict[Place, Attempt] = field(default_factory=dict)
    """By partition."""
    left_over: int = 0
    """Bytes behind the request, which Kafka's brokers do not look at."""
    unknown: str = ""
    """What of it the cluster does not know."""

    @property
    def is_answered(self) -> bool:
        return self.answered_us != _UNANSWERED

    def attempt(self, place: Place, topic_id: UUID = ZERO_UUID) -> Attempt:
        """One more of its partitions."""
        self.tried[place] = Attempt(place, self, topic_id)
        return self.tried[place]


@dataclass(slots=True)
class Connection:
    """A connection that a client made to a broker; `closed_us` is -1 while it is open."""

    number: int
    broker: int
    opened_us: int
    closed_us: int = -1
    by_client: bool = False


def read_call(
    frame: bytes,
    us: int,
    broker: int,
    connection: int,
    known: dict[int, type[Request[Any]]],
    versions: dict[int, tuple[int, int]],
) -> Exchange:
    """The request in a frame without its length. Raises MalformedFrame for what is none."""
    try:
        api, version, correlation_id, size = _HEAD.unpack_from(frame)
        client_id = frame[_HEAD.size : _HEAD.size + max(0, size)].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise MalformedFrame(f"no header of a request: {error}") from None
    call = Exchange(us, broker, connection, api, version, correlation_id, client_id)
    asked = known.get(api)
    if asked is None or api not in versions:
        call.unknown = f"API {api}, version {version}"
        return call
    (low, high), (first, last) = versions[api], asked.api.versions
    low, high = max(low, first), min(high, last)
    if not low <= version <= high:
        name = asked.__name__.removesuffix("Request")
        call.unknown = f"{name} version {version} (served: {low} to {high})"
        return call
    body = Reader(frame)
    body.take(_HEAD.size + max(0, size))
    if version >= asked.api.flexible_since:
        body.skip_tags()
    # Brokers read past it: librdkafka (2.15.1, 2.16.0) counts the topics of a Metadata for none in
    # four bytes, where one is enough.
    call.request, call.left_over = decode_beginning(asked, frame[body.offset :], version)
    return call


def framed(
    exchange: Exchange, asked: type[Request[Any]], answer: Response, has_draft_hints: bool = False
) -> bytes:
    """The answer's frame with its length."""
    flexible, layout = exchange.version >= asked.api.flexible_since, exchange.version
    if has_draft_hints:
        layout = _LAID_OUT_LIKE.get((exchange.api, layout), layout)
    if asked.api.key == 18:  # (KIP-511)
        flexible = False
        if getattr(answer, "error_code", 0) == ErrorCode.UNSUPPORTED_VERSION:
            layout = 0
    body = struct.pack(">i", exchange.correlation_id) + b"\0" * flexible + encode(answer, layout)
    return struct.pack(">i", len(body)) + body
