"""The JSON of a request line, as far as it is used, read by a parser in C that makes no more of it.

All of the JSON is gone through, so damage is noticed wherever it is.
"""

import json
from typing import Annotated

import msgspec

from kipctl.protocol.api import ApiKey

_Int = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Json(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """Fields are named as Kafka's, in snake case; what is missing or null is None, or says
    nothing."""


class Header(_Json):
    request_api_key: _Int
    request_api_version: _Int
    correlation_id: _Int | None = None
    client_id: str | None = None
    request_api_key_name: str | None = None
    request_api_version_deprecated: bool | None = None


class ClientInformation(_Json):
    software_name: str | None = None
    software_version: str | None = None


class Request(_Json):
    """What is read of every request."""

    request_header: Header
    connection: str
    total_time_ms: float
    request_queue_time_ms: float = 0
    local_time_ms: float = 0
    remote_time_ms: float = 0
    throttle_time_ms: float = 0
    response_queue_time_ms: float = 0
    send_time_ms: float = 0
    is_forwarded: bool | None = None
    principal: str | None = None
    listener: str | None = None
    security_protocol: str | None = None
    client_information: ClientInformation | None = None


class Announced(_Json):
    client_software_name: str | None = None
    client_software_version: str | None = None


class ApiVersionsRequest(Request):
    request: Announced | None = None


class CurrentLeader(_Json):
    leader_id: _Int | None = None
    leader_epoch: _Int | None = None


class Partition(_Json):
    """A partition of an answer to Produce (`index`, `base_offset`) or to Fetch."""

    index: _Int | None = None
    partition_index: _Int | None = None
    error_code: _Int | None = 0
    base_offset: _Long | None = -1
    preferred_read_replica: _Int | None = -1
    records_size_in_bytes: _Long | None = 0
    current_leader: CurrentLeader | None = None


class Topic(_Json):
    """Produce up to 12 and Fetch up to 12 name topics (`name`, `topic`), later ones give ids."""

    name: str | None = None
    topic: str | None = None
    topic_id: str | None = None
    partition_responses: list[Partition] | None = None
    partitions: list[Partition] | None = None


class Node(_Json):
    node_id: _Int | None = None
    host: str | None = None
    port: _Int | None = None
    rack: str | None = None


class Answer(_Json):
    """The answer to Produce or to Fetch."""

    error_code: _Int | None = None
    responses: list[Topic] | None = None
    node_endpoints: list[Node] | None = None


class RecordsRequest(Request):
    """Produce or Fetch."""

    response: Answer | str | None = None  # "" with acks=0, which has no answer


class Written(_Json):
    records_size_in_bytes: _Long | None = 0


class WrittenTopic(_Json):
    partition_data: list[Written] | None = None


class ProduceAsked(_Json):
    topic_data: list[WrittenTopic] | None = None


class ProduceRequest(RecordsRequest):
    request: ProduceAsked | None = None


class FetchAsked(_Json):
    rack_id: str | None = None


class FetchRequest(RecordsRequest):
    request: FetchAsked | None = None


class MetadataPartition(_Json):
    error_code: _Int | None = None
    partition_index: _Int | None = None
    leader_id: _Int | None = None
    leader_epoch: _Int | None = None
    replica_nodes: list[_Int] | None = None
    isr_nodes: list[_Int] | None = None
    offline_replicas: list[_Int] | None = None


class MetadataTopic(_Json):
    error_code: _Int | None = None
    name: str | None = None
    topic_id: str | None = None
    partitions: list[MetadataPartition] | None = None


class MetadataAnswer(_Json):
    error_code: _Int | None = None
    cluster_id: str | None = None
    brokers: list[Node] | None = None
    topics: list[MetadataTopic] | None = None


class MetadataAsked(_Json):
    topics: list[MetadataTopic] | None = None


class MetadataRequest(Request):
    request: MetadataAsked | None = None
    response: MetadataAnswer | None = None


_BODIES: dict[int, type[Request]] = {
    int(ApiKey.PRODUCE): ProduceRequest,
    int(ApiKey.FETCH): FetchRequest,
    int(ApiKey.METADATA): MetadataRequest,
    int(ApiKey.API_VERSIONS): ApiVersionsRequest,
}
_head = msgspec.json.Decoder(Request).decode
_bodies = {str(api).encode(): msgspec.json.Decoder(body).decode for api, body in _BODIES.items()}
_KEY = b'"requestApiKey":'
_KEY_WITHIN = 120
_raw_decode = json.JSONDecoder().raw_decode


def request_of(text: bytes) -> Request | None:
    """The request whose JSON `text` begins with, as the class of its API; None if it is broken.

    What follows the JSON, the logger's name, stops nothing. Where the body is not of its API's
    types, the request is one without a body.
    """
    at = text.find(_KEY, 0, _KEY_WITHIN) + len(_KEY)  # where Kafka writes it
    decode = _bodies.get(text[at : text.find(b",", at)], _head)
    try:
        request: Request | None = decode(text[: text.rfind(b"}") + 1])
    except (msgspec.DecodeError, UnicodeDecodeError):
        request = _carefully(text)
    if request and type(request) is Request and request.request_header.request_api_key in _BODIES:
        return _carefully(text)
    return request


def _carefully(text: bytes) -> Request | None:
    """Of a line that is not as Kafka writes them."""
    whole = text.decode(errors="replace").lstrip()
    try:
        _, end = _raw_decode(whole)
        exact = whole[:end].encode()
        head: Request = _head(exact)
    except (ValueError, RecursionError):  # msgspec's are ValueErrors
        return None
    try:
        request: Request = _bodies[str(head.request_header.request_api_key).encode()](exact)
        return request
    except (KeyError, ValueError):
        return head
