"""kipctl's own wire client on one side of a proxy, the scripted cluster on the other."""

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from kipctl.conform.cluster import Loopback
from kipctl.conform.proxy.passage import Endpoint, Passage
from kipctl.conform.proxy.upstream import Upstream, tagged
from kipctl.errors import KipctlError
from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey, decode_response, encode_request
from kipctl.protocol.api_versions import ApiVersionsResponse, own_api_versions_request
from kipctl.protocol.message import Request, Response
from kipctl.protocol.primitives import INT16, INT32
from kipctl.transport.access import Access
from kipctl.transport.blocking_connection import BlockingConnection

T = TypeVar("T")
_ANSWER_TIMEOUT_S = 5.0
_VERSION_AT = 6
"""Of a request's frame."""
_API_VERSIONS_VERSION = 3


class Session:
    """A proxy at work. `offered` are the versions that it announces."""

    def __init__(self, loopback: Loopback, upstream: Upstream, listen: Address) -> None:
        self.loopback, self.upstream, self.listen = loopback, upstream, listen
        self.offered: dict[int, tuple[int, int]] = {}
        self._clients = count(1)

    def greet(self) -> str:
        """Ask for the versions that it offers; what went wrong, if anything."""
        passage = self.ask(own_api_versions_request(), _API_VERSIONS_VERSION)
        if not isinstance(passage.came, ApiVersionsResponse):
            return passage.failure
        keys = passage.came.api_keys
        self.offered = {key.api_key: (key.min_version, key.max_version) for key in keys}
        return ""

    def version_of(self, request: type[Request[Any]]) -> int | None:
        """The highest that both know; None where there is none."""
        low, high = self.offered.get(request.api.key, (0, -1))
        first, last = request.api.versions
        return min(high, last) if max(low, first) <= min(high, last) else None

    def ask(self, request: Request[Any], version: int | None = None) -> Passage:
        """One request on a connection of its own, in the highest version if none is said."""
        return self.ask_all([request], version)[0]

    def ask_all(
        self, requests: Sequence[Request[Any]], version: int | None = None, slow: Any = None
    ) -> list[Passage]:
        """All of them on one connection, before the first is answered; `slow` is what the cluster
        does to the first. No answer is waited for to a Produce with acks=0.
        """
        client_id = f"conform-{next(self._clients)}"
        if slow is not None:
            self.upstream.slow[client_id] = slow
        passages = []
        for number, request in enumerate(requests, 100):
            chosen = self.version_of(type(request)) if version is None else version
            if chosen is not None:
                body = tagged(request) if chosen >= request.api.flexible_since else request
                passages.append(Passage(body, chosen, number, client_id))
        before = len(self.upstream.exchanges)
        passages = self._exchanged(passages)
        return self._matched(passages, before)

    def ask_in_unknown_version(self, request: Request[Any], version: int) -> Passage:
        """In a version that kipctl itself does not know; the body is that of version 3."""
        passage = Passage(request, version, 100, f"conform-{next(self._clients)}")
        return self._exchanged([passage])[0]

    def do(self, change: Callable[[], T]) -> T:
        """Change the cluster."""
        return self.loopback.do(change)

    def what_is_wrong(self, endpoint: Endpoint) -> str:
        """With where a client is sent for a broker; "" if it gets there, through the proxy."""
        broker, address = endpoint
        try:
            resolved = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][4]
        except OSError as error:
            return f"broker {broker} is at {address}: {error.strerror or error}"
        own = {(node.host, node.port): id for id, node in self.upstream.nodes.items()}
        if resolved[:2] in own:
            return f"broker {broker} is at {address}, the cluster's own address, past the proxy"
        passage = Passage(
            own_api_versions_request(),
            _API_VERSIONS_VERSION,
            1,
            f"conform-{next(self._clients)}",
        )
        before = len(self.upstream.exchanges)
        (passage,) = self._matched(self._exchanged([passage], address), before)
        if passage.arrived is None or passage.failure:
            return f"broker {broker} is at {address}: {passage.failure or 'no request arrives'}"
        if passage.arrived.broker != broker:
            return f"broker {broker} is at {address}, which leads to {passage.arrived.broker}"
        return ""

    def _exchanged(
        self, passages: Sequence[Passage], address: Address | None = None
    ) -> list[Passage]:
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        access, done = Access(str(address or self.listen)), list(passages)
        try:
            connection = BlockingConnection(address or self.listen, access, deadline)
        except OSError as error:
            return [replace(p, failure=_why(error)) for p in passages]
        unsent = b"".join(map(_frame, passages))
        with closing(connection):
            for index, passage in enumerate(passages):
                try:
                    if getattr(passage.asked, "acks", None) == 0:
                        continue
                    frame = connection.exchange(unsent, deadline)
                    unsent = b""
                    done[index] = _answered(passage, frame)
                except (OSError, KipctlError) as error:
                    done[index:] = [replace(p, failure=_why(error)) for p in passages[index:]]
                    break
        return done

    def _matched(self, passages: Sequence[Passage], before: int) -> list[Passage]:
        """With what arrived of them, and what was answered. A client id may have been changed."""
        new = self.upstream.exchanges[before:]
        mine = [e for e in new if passages and e.client_id == passages[0].client_id] or new
        frames = {id(call): frame for call, frame in self.upstream.frames}
        matched = []
        for passage in passages:
            arrived = next((e for e in mine if e.api == passage.asked.api.key), None)
            if arrived is None:
                matched.append(passage)
                continue
            mine = [e for e in mine if e is not arrived]
            sent = None
            if frame := frames.get(id(arrived)):
                _, sent = decode_response(type(passage.asked), arrived.version, frame[4:])
            matched.append(replace(passage, arrived=arrived, sent=sent))
        return matched


def _frame(passage: Passage) -> bytes:
    request, version = passage.asked, passage.version
    layout = _layout_version(request, version)
    frame = bytearray(encode_request(request, layout, passage.correlation_id, passage.client_id))
    frame[_VERSION_AT : _VERSION_AT + 2] = INT16.pack(version)
    return bytes(frame)


def _layout_version(request: Request[Any], version: int) -> int:
    is_newer = request.api.key == ApiKey.API_VERSIONS and version > request.api.versions[1]
    return _API_VERSIONS_VERSION if is_newer else version


def _answered(passage: Passage, frame: bytes) -> Passage:
    (correlation_id,) = INT32.unpack_from(frame)
    came: Response | None = None
    failure = ""
    try:
        layout = _layout_version(passage.asked, passage.version)
        _, came = decode_response(type(passage.asked), layout, frame)
    except KipctlError as error:
        failure = f"{passage.name} cannot be read: {error.what}"
    return replace(passage, came=came, came_correlation_id=correlation_id, failure=failure)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {_ANSWER_TIMEOUT_S:g} s"
    if isinstance(error, KipctlError):
        return error.what
    return getattr(error, "strerror", None) or str(error)
