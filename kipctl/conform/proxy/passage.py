"""A request's way through a proxy, as both ends have it."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kipctl.conform.cluster import Exchange
from kipctl.counts import counted
from kipctl.protocol.address import Address
from kipctl.protocol.describe_cluster import DescribeClusterResponse
from kipctl.protocol.fetch import FetchResponse
from kipctl.protocol.find_coordinator import FindCoordinatorResponse
from kipctl.protocol.message import Message, Request, Response, decode, encode
from kipctl.protocol.metadata import MetadataResponse
from kipctl.protocol.produce import ProduceResponse

_LONGEST = 60
"""Characters of a value that are shown."""


class Endpoint(NamedTuple):
    """Where an answer says that a broker listens."""

    broker: int
    address: Address


@dataclass(frozen=True)
class Passage:
    """What kipctl's client asked, what of it arrived, what was answered, and what came back.

    `failure` says what went wrong where nothing came.
    """

    asked: Request[Any]
    version: int
    correlation_id: int
    client_id: str
    arrived: Exchange | None = None
    sent: Response | None = None
    came: Response | None = None
    came_correlation_id: int = -1
    failure: str = ""

    @property
    def name(self) -> str:
        return f"{type(self.asked).__name__.removesuffix('Request')} v{self.version}"

    @property
    def as_sent(self) -> Request[Any]:
        """What was asked, as its version can say it."""
        return decode(type(self.asked), encode(self.asked, self.version), self.version)


def endpoints(answer: Response) -> tuple[Endpoint, ...]:
    """All that are in it; in a version of FindCoordinator that has one key, the one."""
    named: tuple[tuple[int, Any], ...] = ()
    match answer:
        case MetadataResponse():
            named = tuple((broker.node_id, broker) for broker in answer.brokers)
        case DescribeClusterResponse():
            named = tuple((broker.broker_id, broker) for broker in answer.brokers)
        case FindCoordinatorResponse(coordinators=()):
            named = ((answer.node_id, answer),)
        case FindCoordinatorResponse():
            named = tuple((coordinator.node_id, coordinator) for coordinator in answer.coordinators)
        case ProduceResponse() | FetchResponse():
            named = tuple((node.node_id, node) for node in answer.node_endpoints)
    return tuple(Endpoint(id, Address(at.host, at.port)) for id, at in named)


def differences(
    sent: Any, came: Any, is_compared: Callable[[str], bool], path: str = ""
) -> Iterator[str]:
    """Where two messages differ, a line each; of the fields alone whose path `is_compared`."""
    if isinstance(sent, Message) and isinstance(came, Message):
        for name in (field.name for field in dataclasses.fields(sent)):
            under = f"{path}.{name}" if path else name
            yield from differences(getattr(sent, name), getattr(came, name), is_compared, under)
    elif _has_messages(sent) and _has_messages(came) and len(sent) == len(came):
        for index, (sent_part, came_part) in enumerate(zip(sent, came, strict=True)):
            yield from differences(sent_part, came_part, is_compared, f"{path}[{index}]")
    elif sent != came and is_compared(path):
        yield f"{path} is {_shown(came)}, sent was {_shown(sent)}"


def is_tag(path: str) -> bool:
    return path.endswith("unknown_tags")


def is_hint(path: str) -> bool:
    """The leader that an answer names: its id and epoch."""
    return "current_leader" in path and not is_tag(path)


def is_endpoint(path: str) -> bool:
    """Where brokers listen, which a proxy has to change; whether hints have that at all."""
    return path.rpartition(".")[2] in ("host", "port", "node_endpoints")


def is_content(path: str) -> bool:
    """All else, which no proxy has any business with."""
    return not (is_tag(path) or is_hint(path) or is_endpoint(path))


def _has_messages(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], Message)


def _shown(value: Any) -> str:
    text = counted(len(value), "entry") if _has_messages(value) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
