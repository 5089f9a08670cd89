"""The cluster behind a proxy: as Kafka is, but newer than any there is, and with tags unknown."""

import dataclasses
from typing import Any, TypeVar

from kipctl.conform.cluster import Answer, Cluster, Exchange
from kipctl.conform.cluster.control import Control
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import Api, Message, Request, Response
from kipctl.tap.rewrite import WITH_ENDPOINTS

TOPIC = "conform-proxy"
UNSEEN = 4
"""A broker that no Metadata shows."""
UNKNOWN_API = 1000
UNKNOWN_VERSION = 99
_TAG = 9001, b"kipctl"

M = TypeVar("M", bound=Message)


class UnknownResponse(Response):
    content: bytes = b""


class UnknownRequest(Request[UnknownResponse]):
    """Of an API that no release has."""

    api = Api(UNKNOWN_API, versions=(0, 0), flexible_since=0)

    content: bytes = b""


class NewerResponse(Response):
    content: bytes = b""


class NewerRequest(Request[NewerResponse]):
    """ListOffsets, whose answers carry no endpoints, in a version that no release has."""

    api = Api(ApiKey.LIST_OFFSETS, versions=(UNKNOWN_VERSION, UNKNOWN_VERSION), flexible_since=0)

    content: bytes = b""


class Upstream(Cluster):
    """Four brokers, of which Metadata shows three. What it sends is in `frames`.

    It announces version 99 of each API whose answers carry endpoints, and of ListOffsets, and an
    API 1000. Each message has a tagged field more, where its version can have one.
    """

    def __init__(self) -> None:
        super().__init__({TOPIC: 4}, brokers=4, racks="abcd")
        self.frames: list[tuple[Exchange, bytes]] = []
        self.slow: dict[str, Control] = {}
        """What is done to the first request of a client, by its id."""
        for request in (UnknownRequest, NewerRequest):
            self.requests[request.api.key] = request
            low, _ = self.versions.get(request.api.key, (0, 0))
            self.versions[request.api.key] = low, request.api.versions[1]
        for key in WITH_ENDPOINTS & self.versions.keys():
            self.versions[key] = self.versions[key][0], UNKNOWN_VERSION
        for broker in self.brokers.values():
            broker.hidden = {UNSEEN}
        self.control = self._control

    def frame(self, call: Exchange, answer: Response) -> bytes:
        """With tags that no client knows."""
        is_refusal = getattr(answer, "error_code", 0) == ErrorCode.UNSUPPORTED_VERSION
        if call.version >= answer.api.flexible_since and not is_refusal:
            answer = tagged(answer)
        frame = super().frame(call, answer)
        self.frames.append((call, frame))
        return frame

    def _control(self, call: Exchange) -> Control | None:
        match call.request:
            case UnknownRequest(content=content):
                return Answer(UnknownResponse(content[::-1]))
            case NewerRequest(content=content):
                return Answer(NewerResponse(content[::-1]))
        return self.slow.pop(call.client_id, None)


def tagged(message: M) -> M:
    """It, and all messages in it, with one more tagged field; what is left at its default not."""
    changed: dict[str, Any] = {"unknown_tags": (*message.unknown_tags, _TAG)}
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if isinstance(value, Message) and value != field.default:
            changed[field.name] = tagged(value)
        elif isinstance(value, tuple) and value and isinstance(value[0], Message):
            changed[field.name] = tuple(map(tagged, value))
    return dataclasses.replace(message, **changed)
