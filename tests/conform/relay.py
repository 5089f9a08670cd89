"""A small proxy of Kafka with faults to choose: `relay.py UPSTREAM LISTEN [FAULT...]`.

A listener for each broker's address; a thread for each direction of a connection. Without a fault
it does all that is asked of proxies.
"""

import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from kipctl.protocol.address import Address
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsResponse
from kipctl.protocol.fetch import FetchResponse
from kipctl.protocol.message import Message
from kipctl.protocol.metadata import MetadataResponse
from kipctl.protocol.produce import LeaderIdAndEpoch, ProduceResponse
from kipctl.tap.rewrite import (
    WITH_ENDPOINTS,
    is_known,
    read_answer,
    read_request,
    translated,
    with_body,
    without_hints,
)
from kipctl.tap.version_caps import capped
from kipctl.transport.access import parse_address

_UNKNOWN_API = 1000


class Relay:
    def __init__(self, upstream: Address, listen: Address, faults: Collection[str]) -> None:
        self.faults = faults
        self._listeners: dict[Address, Address] = {}
        self._by_broker: dict[int, Address] = {}
        self._lock = threading.Lock()
        self._listen(upstream, listen.port)

    def _listen(self, broker: Address, port: int = 0) -> Address:
        listening = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(listening, broker), daemon=True).start()
        return Address(*listening.getsockname())

    def place(self, host: str, port: int) -> tuple[str, int]:
        """Its own that stands for a broker's."""
        with self._lock:
            broker = Address(host, port)
            if broker not in self._listeners:
                self._listeners[broker] = self._listen(broker)
            return self._listeners[broker]

    def of_broker(self, node: Any) -> Any:
        """A broker whose place was found once, and is never looked for again."""
        at = self._by_broker.setdefault(node.node_id, Address(*self.place(node.host, node.port)))
        return replace(node, host=at.host, port=at.port)

    def _accept(self, listening: socket.socket, broker: Address) -> None:
        while True:
            client, _ = listening.accept()
            with suppress(OSError):
                Connection(self, client, socket.create_connection(broker))
                continue
            client.close()


class Connection:
    def __init__(self, relay: Relay, client: socket.socket, broker: socket.socket) -> None:
        self._relay, self._client, self._broker = relay, client, broker
        self._asked: deque[tuple[int, int]] = deque()
        self._kept: list[bytes] = []
        for work in (self._requests, self._answers):
            threading.Thread(target=self._until_closed, args=(work,), daemon=True).start()

    def _until_closed(self, work: Any) -> None:
        with suppress(OSError, EOFError):
            work()
        for end in (self._client, self._broker):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _requests(self) -> None:
        while True:
            frame = _frame(self._client)
            api, version = struct.unpack_from(">hh", frame, 4)
            faults = self._relay.faults
            if "new-api-versions" in faults and api == ApiKey.API_VERSIONS and version > 4:
                raise EOFError
            if "client-id" in faults:
                frame = frame.replace(b"conform-", b"relayed-", 1)
            if not self._is_silent(api, version, frame) or "acks-0" in faults:
                self._asked.append((api, version))
            self._broker.sendall(frame)

    def _is_silent(self, api: int, version: int, frame: bytes) -> bool:
        return (
            api == ApiKey.PRODUCE
            and is_known(api, version)
            and read_request(api, version, frame).acks == 0
        )

    def _answers(self) -> None:
        while True:
            frame = _frame(self._broker)
            api, version = self._asked.popleft()
            if api == _UNKNOWN_API and "unknown" in self._relay.faults:
                frame = frame.replace(b"\x1f\x1e", b"\0\0")
            if is_known(api, version):
                body = read_answer(api, version, frame)
                frame = with_body(api, version, frame, self._changed(api, body))
            self._kept.append(frame)
            # Answers change places two by two while more are due, as the slower way ends later.
            if "order" not in self._relay.faults or len(self._kept) > 1 or not self._asked:
                self._client.sendall(b"".join(reversed(self._kept)))
                self._kept = []

    def _changed(self, api: int, body: Any) -> Any:
        relay, faults = self._relay, self._relay.faults
        if isinstance(body, ApiVersionsResponse):
            return body if "versions" in faults else _with_unknown(capped(body, {}))
        if isinstance(body, MetadataResponse) and "rack" in faults:
            body = replace(body, brokers=tuple(replace(b, rack=None) for b in body.brokers))
        if isinstance(body, ProduceResponse | FetchResponse):
            if "no-hints" in faults:
                return without_hints(body)
            if "epochs" in faults:
                body = _each(body, lambda m: isinstance(m, LeaderIdAndEpoch), leader_epoch=7)
        if "tags" in faults:
            body = _each(body, lambda message: True, unknown_tags=())
        if ApiKey(api).name in faults or api not in WITH_ENDPOINTS:
            return body
        if isinstance(body, MetadataResponse) and "static" in faults:
            return replace(body, brokers=tuple(map(relay.of_broker, body.brokers)))
        return translated_all(body, relay)


def translated_all(body: Any, relay: Relay) -> Any:
    """With the relay's own endpoints, Metadata's too."""
    if not isinstance(body, MetadataResponse):
        return translated(body, relay.place)
    brokers = []
    for broker in body.brokers:
        host, port = relay.place(broker.host, broker.port)
        brokers.append(replace(broker, host=host, port=port))
    return replace(body, brokers=tuple(brokers))


def _with_unknown(body: ApiVersionsResponse) -> ApiVersionsResponse:
    """An API that it does not know it offers too."""
    return replace(body, api_keys=(*body.api_keys, ApiVersion(_UNKNOWN_API, 0, 0)))


def _each(message: Any, wanted: Any, **changes: Any) -> Any:
    """A message in which all that are wanted are changed."""
    inner: dict[str, Any] = {}
    for field in fields(message):
        value = getattr(message, field.name)
        if isinstance(value, Message) and value != field.default:
            inner[field.name] = _each(value, wanted, **changes)
        elif isinstance(value, tuple) and value and isinstance(value[0], Message):
            inner[field.name] = tuple(_each(item, wanted, **changes) for item in value)
    return replace(message, **inner, **(changes if wanted(message) else {}))


def _frame(end: socket.socket) -> bytes:
    """The next, with its length. Raises EOFError at the end."""
    head = _exactly(end, 4)
    return head + _exactly(end, struct.unpack(">i", head)[0])


def _exactly(end: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        if not (part := end.recv(size - len(received))):
            raise EOFError
        received += part
    return received


if __name__ == "__main__":
    Relay(parse_address(sys.argv[1]), parse_address(sys.argv[2]), sys.argv[3:])
    threading.Event().wait()
