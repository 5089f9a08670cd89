"""Answers as clients get them: the tap's endpoints for brokers', hints taken out.

An answer is decoded, changed and encoded again: tagged fields that kipctl does not know are kept.
Of Metadata, which may be long, the brokers alone are replaced. All else passes as it came.
Endpoints are in Metadata, DescribeCluster and FindCoordinator, with hints in Produce, Fetch,
ShareFetch and ShareAcknowledge, and in DescribeQuorum (Kafka 4.3).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from struct import Struct
from typing import Any

from kipctl.protocol import values
from kipctl.protocol.api import ApiKey
from kipctl.protocol.api_versions import (
    ApiVersionsRequest,
)
from kipctl.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kipctl.protocol.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.fetch import FetchRequest, FetchResponse
from kipctl.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from kipctl.protocol.leader_hints import with_endpoints
from kipctl.protocol.list_offsets import ListOffsetsRequest
from kipctl.protocol.message import Request, decode, encode
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse
from kipctl.protocol.metadata_frames import MetadataFrame
from kipctl.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kipctl.protocol.primitives import INT32, Reader
from kipctl.protocol.produce import ProduceRequest, ProduceResponse
from kipctl.protocol.share_groups import ShareAcknowledgeRequest, ShareFetchRequest
from kipctl.tap.frames import body_at

Translate = Callable[[str, int], tuple[str, int]]
"""From a broker's host and port to the tap's that stand for them."""

_LENGTH = Struct(">i")
_DRAFT_TAG = 0
REQUESTS: Mapping[int, type[Request[Any]]] = {
    int(request.api.key): request
    for request in (
        ApiVersionsRequest,
        DescribeClusterRequest,
        DescribeQuorumRequest,
        FetchRequest,
        FindCoordinatorRequest,
        ListOffsetsRequest,
        MetadataRequest,
        OffsetForLeaderEpochRequest,
        ProduceRequest,
        ShareAcknowledgeRequest,
        ShareFetchRequest,
    )
}
"""The APIs whose answers are read here."""
POSITIONS = frozenset((int(ApiKey.LIST_OFFSETS), int(ApiKey.OFFSET_FOR_LEADER_EPOCH)))
"""Those that ask leaders where to read."""
WITH_ENDPOINTS = frozenset(REQUESTS) - POSITIONS - {int(ApiKey.API_VERSIONS)}
"""Those whose answers can carry endpoints: of versions unknown here clients are not told."""


@cache
def is_known(api_key: int, version: int) -> bool:
    """Whether answers of that version can be read here."""
    request = REQUESTS.get(api_key)
    return request is not None and request.api.versions[0] <= version <= request.api.versions[1]


def read_request(api_key: int, version: int, frame: bytes) -> Any:
    """The body of a request, whose frame begins with its length. Raises MalformedFrame."""
    request = REQUESTS[api_key]
    at = body_at(frame, version >= request.api.flexible_since)
    return decode(request, frame[at:], version)


def read_answer(api_key: int, version: int, frame: bytes) -> Any:
    """The body of an answer, whose frame begins with its length. Raises MalformedFrame."""
    version, at = _layout(api_key, version, frame)
    response: type[Any] = REQUESTS[api_key].response
    return decode(response, frame[at:], version, base=at)


def with_body(api_key: int, version: int, frame: bytes, body: Any) -> bytes:
    """The frame of an answer with another body. Raises EncodeError."""
    version, at = _layout(api_key, version, frame)
    content = encode(body, version)
    return _LENGTH.pack(at - 4 + len(content)) + frame[4:at] + content


def _layout(api_key: int, version: int, frame: bytes) -> tuple[int, int]:
    """The version that the body is in, and where it begins; see `kipctl.protocol.api`."""
    if api_key == ApiKey.API_VERSIONS:
        unsupported = frame[8:10] == Struct(">h").pack(ErrorCode.UNSUPPORTED_VERSION)
        return (0 if unsupported else version), 8
    if version < REQUESTS[api_key].api.flexible_since:
        return version, 8
    reader = Reader(frame)
    reader.offset = 8
    reader.skip_tags()
    return version, reader.offset


def with_brokers_translated(answer: MetadataFrame, translate: Translate) -> bytes:
    """The frame of an answer to Metadata with its brokers' endpoints replaced, all else as it came.

    Raises EncodeError.
    """
    write_host = values.string(
        answer.version >= MetadataResponse.api.flexible_since, nullable=False
    ).write
    out, at = bytearray(4), 0
    for broker, (begin, end) in zip(answer.brokers, answer.places, strict=True):
        host, port = translate(broker.host, broker.port)
        out += answer.buffer[at:begin]
        write_host(out, host)
        out += INT32.pack(port)
        at = end
    out += answer.buffer[at:]
    _LENGTH.pack_into(out, 0, len(out) - 4)
    return bytes(out)


def translated(body: Any, translate: Translate) -> Any:
    """Any other answer with every endpoint in it replaced."""
    match body:
        case DescribeClusterResponse():
            return replace(body, brokers=_all(body.brokers, translate))
        case FindCoordinatorResponse():
            return _find_coordinator(body, translate)
        case DescribeQuorumResponse():
            nodes = (
                replace(node, listeners=_all(node.listeners, translate)) for node in body.nodes
            )
            return replace(body, nodes=tuple(nodes))
        case ProduceResponse() | FetchResponse():
            tags = with_endpoints(body.unknown_tags, lambda node: _translated(node, translate))
            endpoints = _all(body.node_endpoints, translate)
            return replace(body, node_endpoints=endpoints, unknown_tags=tags)
        case _:  # ShareFetch, ShareAcknowledge
            return replace(body, node_endpoints=_all(body.node_endpoints, translate))


def _find_coordinator(
    body: FindCoordinatorResponse, translate: Translate
) -> FindCoordinatorResponse:
    coordinators = tuple(
        _translated(coordinator, translate) if coordinator.host else coordinator
        for coordinator in body.coordinators
    )
    body = replace(body, coordinators=coordinators)
    return _translated(body, translate) if body.host else body


def _all(endpoints: Sequence[Any], translate: Translate) -> tuple[Any, ...]:
    return tuple(_translated(endpoint, translate) for endpoint in endpoints)


def _translated(endpoint: Any, translate: Translate) -> Any:
    host, port = translate(endpoint.host, endpoint.port)
    return replace(endpoint, host=host, port=port)


def without_hints(body: Any) -> Any:
    """An answer to Produce, Fetch, ShareFetch or ShareAcknowledge that names no leader and no
    endpoint (KIP-951).

    That goes for hints in the form of the KIP's early draft too.
    """
    name = "partition_responses" if isinstance(body, ProduceResponse) else "partitions"
    topics = tuple(
        replace(topic, **{name: tuple(map(_without_hint, getattr(topic, name)))})
        for topic in body.responses
    )
    tags = _without_drafts(body.unknown_tags)
    return replace(body, responses=topics, node_endpoints=(), unknown_tags=tags)


def _without_hint(partition: Any) -> Any:
    tags = _without_drafts(partition.unknown_tags)
    nobody = type(partition.current_leader)()
    return replace(partition, current_leader=nobody, unknown_tags=tags)


def _without_drafts(tags: Sequence[tuple[int, bytes]]) -> tuple[tuple[int, bytes], ...]:
    return tuple((tag, content) for tag, content in tags if tag != _DRAFT_TAG)
