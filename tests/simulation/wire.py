"""What goes over a broker's connections: requests as they are read, answers as frames."""

import struct
from collections.abc import Generator
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from world import SimulatedSocket

from kipctl.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import FetchRequest
from kipctl.protocol.init_producer_id import InitProducerIdRequest
from kipctl.protocol.list_offsets import ListOffsetsRequest
from kipctl.protocol.message import Message, Request, Response, decode, encode
from kipctl.protocol.metadata import MetadataRequest
from kipctl.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kipctl.protocol.produce import ProduceRequest
from kipctl.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

if TYPE_CHECKING:
    from fake_kafka import Broker

T = TypeVar("T")
Versions = dict[int, tuple[int, int]]
"""The lowest and the highest by API key."""
Answer = Generator[None, None, Response | None]
"""An answer that is made: it yields as long as it has to wait, and returns what is said."""

_REQUESTS: dict[int, type[Request[Any]]] = {
    cls.api.key: cls
    for cls in (
        ApiVersionsRequest,
        FetchRequest,
        InitProducerIdRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetForLeaderEpochRequest,
        ProduceRequest,
        SaslAuthenticateRequest,
        SaslHandshakeRequest,
    )
}
_LAID_OUT_LIKE = {
    (ProduceRequest, 9): 10,
    **{(FetchRequest, version): 16 for version in (13, 14, 15)},
}
"""The version with hints that an answer differs from by their tags alone."""
_OBEYED = {ProduceRequest: 6, FetchRequest: 8, ListOffsetsRequest: 3}
"""Requests that brokers throttle, and from which version on clients obey (KIP-219)."""


class HangUp(Exception):  # noqa: N818
    """Raised by a script: close the connection instead of answering."""


class Silence(Exception):  # noqa: N818
    """Raised by a script: never answer, and read no further."""


class Garbage(Exception):  # noqa: N818
    """Raised by a script: send these bytes instead of an answer, after a right length."""


def said(script: T | Generator[None, None, T]) -> Generator[None, None, T]:
    """What a script answers, that may wait."""
    return (yield from script) if isinstance(script, Generator) else script


@dataclass(frozen=True)
class Call:
    """A request as a broker has read it from its connection of that number."""

    request: Any
    version: int
    correlation_id: int
    connection: int
    subject: Any = None
    """What the client has in mind with it, if it is simulated."""
    sent_us: int = 0

    @classmethod
    def read(cls, frame: bytes, versions: Versions, connection: int) -> "Call":
        """`versions` are those that the broker has announced."""
        key, version, correlation_id, client = struct.unpack_from(">hhih", frame)
        asked = _REQUESTS[key]
        first, last = versions.get(key, asked.api.versions)
        request = asked()
        if first <= version <= last:
            flexible = version >= asked.api.flexible_since
            request = decode(asked, frame[10 + client + flexible :], version)
        else:
            assert asked is ApiVersionsRequest, "a version that nobody has announced"
        return cls(request, version, correlation_id, connection)

    def frame(self, answer: Response, draft: bool) -> bytes:
        """The answer as it is sent; `draft`: versions before the first with hints have them too."""
        asked, version = type(self.request), self.version
        flexible = version >= asked.api.flexible_since
        if isinstance(answer, ApiVersionsResponse):
            flexible = False
            version = 0 if answer.error_code == ErrorCode.UNSUPPORTED_VERSION else version
        if draft:
            version = _LAID_OUT_LIKE.get((asked, version), version)
        return framed(
            struct.pack(">i", self.correlation_id) + b"\0" * flexible + encode(answer, version)
        )


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Connection:
    """A broker's side of a connection: one request at a time, as Kafka's channels have it.

    What it does not read, because it is busy or throttles the client, stays in the socket.
    """

    def __init__(self, broker: "Broker", socket: SimulatedSocket, number: int) -> None:
        self._broker = broker
        self._socket = socket
        self._number = number
        self._world = broker.cluster.world
        self._frame = b""
        """What has been read of the next request."""
        self._is_busy = False
        self._muted_until_us = 0

    @property
    def has_more(self) -> bool:
        """The client has sent something behind the request that is being answered."""
        return self._socket.unread > 0

    def arrived(self) -> None:
        """Read on, and take the next request when it is whole."""
        if self._is_busy or self._is_gone:
            return
        wait_us = max(self._muted_until_us, self._broker.paused_until_us) - self._world.now_us
        if wait_us > 0:
            self._is_busy = True
            self._world.after(wait_us, self._read_on)
            return
        for _ in ("length", "rest"):
            size = struct.unpack_from(">i", self._frame)[0] if len(self._frame) >= 4 else 0
            self._frame += self._socket.take(4 + size - len(self._frame))
            if len(self._frame) < 4:
                return
        if len(self._frame) == 4 + size:
            frame, self._frame, self._is_busy = self._frame[4:], b"", True
            thinks_us = self._world.chance.choice((20, 100, 1000))
            self._world.after(thinks_us, lambda: self._take(frame))

    @property
    def _is_gone(self) -> bool:
        return self._socket not in self._broker.connections

    def _read_on(self) -> None:
        self._is_busy = False
        self.arrived()

    def _take(self, frame: bytes) -> None:
        socket, cluster = self._socket, self._broker.cluster
        call = Call.read(frame, cluster.versions, self._number)
        number = call.correlation_id
        subject, sent_us = socket.subjects.get(number), socket.sent_us.get(number, 0)
        call = replace(call, subject=subject, sent_us=sent_us)
        self._go_on(call, self._broker.answer(call))

    def _go_on(self, call: Call, answer: Answer) -> None:
        """Look whether there is an answer by now."""
        world, broker = self._world, self._broker
        if self._is_gone:
            return
        wait_us = broker.paused_until_us - world.now_us
        response = None
        if wait_us <= 0:
            try:
                next(answer)
                wait_us = broker.cluster.look_again_us
            except StopIteration as over:
                response = over.value
            except HangUp:
                broker.hang_up(self._socket)
                return
            except Silence:
                return
            except Garbage as garbage:
                self._socket.answer(framed(garbage.args[0]))
                self._read_on()
                return
        if wait_us > 0:
            world.after(wait_us, lambda: self._go_on(call, answer))
            return
        if response is not None:
            self._say(call, response)
        self._read_on()

    def _say(self, call: Call, answer: Response) -> None:
        asked, cluster, throttle_us = type(call.request), self._broker.cluster, 0
        if asked in _OBEYED and self._broker.throttle_us:
            self._muted_until_us = self._world.now_us + self._broker.throttle_us
            throttle_us = self._broker.throttle_us if call.version >= _OBEYED[asked] else 0
            answer = replace(answer, throttle_time_ms=self._broker.throttle_us // 1000)
        id = self._broker.id
        self._world.tell(lambda: f"broker {id} answers {_told(answer)}"[:300])
        self._socket.answer(call.frame(answer, cluster.hints and cluster.draft), throttle_us)


def _told(value: Any) -> str:
    """An answer in words: what of it is not as always."""
    match value:
        case bytes():
            return f"{len(value)} B"
        case tuple():
            return f"[{', '.join(map(_told, value))}]"
        case Message():
            given = ((field, getattr(value, field.name)) for field in fields(value))
            told = [f"{field.name} {_told(at)}" for field, at in given if at != field.default]
            return f"{type(value).__name__}({', '.join(told)})"
    return str(value)
