"""The frames around the messages: API keys, request and response headers.

Header rules (KIP-482, and Kafka's ApiMessageType): a flexible version has request header 2 and
response header 1, any other 1 and 0. The client id is always in the old form. The response header
of ApiVersions is always 0, and its body is in version 0 when the error is 35, because it answers
clients whose version the broker does not know (KIP-511).
"""

from enum import IntEnum
from typing import Any, cast

from kipctl.protocol.error_codes import ErrorCode
from kipctl.protocol.message import R, Request, decode, encode
from kipctl.protocol.primitives import INT16, INT32, EncodeError, MalformedFrame, Reader

LARGEST_FRAME = 100 << 20
"""Bytes, without the length: brokers take no more (`socket.request.max.bytes`). What announces a
longer one is no Kafka, but text or TLS where a length should be."""
LARGEST_FETCH = 256 << 20
"""Where answers to Fetch come, which are as long as their client allows (`fetch.max.bytes`)."""


class ApiKey(IntEnum):
    """The API keys that kipctl speaks."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    DESCRIBE_QUORUM = 55
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_DESCRIBE = 69
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79


def encode_request(
    request: Request[Any], version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """The whole frame of a request: its 4-byte length, header and body.

    Raises `EncodeError` when a value does not fit, `ValueError` when there is no such version.
    """
    body = encode(request, version)
    name = (client_id or "").encode()
    if len(name) > 0x7FFF:
        raise EncodeError(f"client id of {len(name)} bytes is longer than 32767")
    header = b"".join(
        (
            INT16.pack(request.api.key),
            INT16.pack(version),
            INT32.pack(correlation_id),
            INT16.pack(-1 if client_id is None else len(name)),
            name,
            b"\0" if version >= request.api.flexible_since else b"",  # no tagged fields
        )
    )
    return INT32.pack(len(header) + len(body)) + header + body


def decode_response(
    request_class: type[Request[R]], version: int, frame: bytes | memoryview
) -> tuple[int, R]:
    """The correlation id and the body of the answer to a `request_class` sent in `version`.

    `frame` comes without its 4-byte length. Raises `MalformedFrame`.
    """
    response_class = cast(type[R], request_class.response)
    frame = bytes(frame)
    reader = Reader(frame)
    try:
        correlation_id = reader.int32()
        if request_class.api.key == ApiKey.API_VERSIONS:
            if frame[4:6] == INT16.pack(ErrorCode.UNSUPPORTED_VERSION):
                version = 0
        elif version >= request_class.api.flexible_since:
            reader.skip_tags()
    except MalformedFrame as error:
        raise error.within(f"{response_class.__name__} v{version} header") from None
    body = decode(response_class, frame[reader.offset :], version, base=reader.offset)
    return correlation_id, body
