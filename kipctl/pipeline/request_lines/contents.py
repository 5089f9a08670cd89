"""What of a request is counted, and told from the whole of it."""

import re
from hashlib import blake2b
from typing import Any

import msgspec

from kipctl.pipeline.request_lines.metadata_size import metadata_answer_bytes
from kipctl.pipeline.request_lines.requests import (
    Answer,
    ApiVersionsRequest,
    MetadataAnswer,
    MetadataRequest,
    ProduceRequest,
    Request,
)

REPLICA = re.compile(r"broker-\d+-fetcher-\d+|raft-client-\d+", re.ASCII)
"""Client ids of followers, and of nodes that read the cluster's metadata log."""
UNKNOWN = "unknown"
"""What Kafka writes for a client's software until ApiVersions told it (KIP-511)."""
_LONGEST_MS = 1e10
_MOST_BYTES = 1_000_000_000_000
"""More than a request can take, or an answer hold: what is above is damage."""
_LOCAL_AND_REMOTE = re.compile(r"([^-]*):(\d+)-([^-]*):(\d+)-", re.ASCII)

Answers = tuple[tuple[int, bool, bool, bool, int], ...]
"""Of partitions: the error, whether it names a leader, a base offset, a replica; how many."""


def ends_of(connection: str) -> tuple[str, str]:
    """The broker's `host:port` in `connection`, which is local address, remote one, and what
    numbers it; and the client's host."""
    ends = _LOCAL_AND_REMOTE.match(connection)
    return (f"{ends[1]}:{ends[2]}", ends[3]) if ends else (":", "")


def software_of(request: Request) -> tuple[str, str | None] | None:
    """What the line says of the client's software; ApiVersions may announce it."""
    told = request.client_information
    if told and told.software_name not in (None, UNKNOWN):
        return told.software_name, told.software_version
    asked = request.request if isinstance(request, ApiVersionsRequest) else None
    if asked and asked.client_software_name not in (None, UNKNOWN):
        return asked.client_software_name, asked.client_software_version
    return None


def took_us(request: Request) -> int:
    """How long the broker took, in microseconds."""
    milliseconds = request.total_time_ms
    return int(1000 * milliseconds + 0.5) if 0 <= milliseconds <= _LONGEST_MS else 0


def times_of(request: Request) -> tuple[float, ...]:
    """Milliseconds, as `times.TIMES` has them."""
    return (
        request.total_time_ms,
        request.request_queue_time_ms,
        request.local_time_ms,
        request.remote_time_ms,
        request.throttle_time_ms,
        request.response_queue_time_ms,
        request.send_time_ms,
    )


def written_bytes(request: ProduceRequest) -> int:
    """Of the records that it brings."""
    topics = (request.request and request.request.topic_data) or ()
    partitions = (partition for topic in topics for partition in topic.partition_data or ())
    return sum(_size(partition.records_size_in_bytes) for partition in partitions)


def _size(told: int | None) -> int:
    return told if told and 0 < told <= _MOST_BYTES else 0


def answers_of(answer: Answer) -> tuple[Answers, int]:
    """What partitions were answered that is counted, and the bytes of the records in it."""
    counts: dict[tuple[int, bool, bool, bool], int] = {}
    size = 0
    for topic in answer.responses or ():
        for partition in topic.partition_responses or topic.partitions or ():
            size += _size(partition.records_size_in_bytes)
            named = _is_set(partition.preferred_read_replica)
            if partition.error_code or named:
                leader = partition.current_leader
                hinted = leader is not None and _is_set(leader.leader_id)
                key = (partition.error_code or 0, hinted, _is_set(partition.base_offset), named)
                counts[key] = counts.get(key, 0) + 1
    if answer.error_code:
        key = (answer.error_code, False, False, False)
        counts[key] = counts.get(key, 0) + 1
    return tuple((*key, count) for key, count in counts.items()), size


def _is_set(number: int | None) -> bool:
    return number is not None and number >= 0


def metadata_of(request: MetadataRequest, version: int) -> dict[str, Any]:
    """What was asked for, and what the answer says, but for what it names."""
    asked = request.request.topics if request.request else None
    answer = request.response or MetadataAnswer()
    errors = (answer.error_code, *(topic.error_code for topic in answer.topics or ()))
    told = blake2b(msgspec.msgpack.encode(answer.topics), digest_size=8).digest()
    return {
        "asked": None if asked is None else [topic.name or topic.topic_id for topic in asked],
        "error": next((error for error in errors if error), 0),
        "bytes": metadata_answer_bytes(answer, version),
        "cluster": answer.cluster_id,
        "answer": int.from_bytes(told, signed=True),
    }
