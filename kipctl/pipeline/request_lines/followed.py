"""Requests by which clients are followed after leader errors: small enough to be kept."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from kipctl.pipeline.request_lines.requests import (
    Answer,
    MetadataAnswer,
    MetadataPartition,
    MetadataRequest,
    MetadataTopic,
    RecordsRequest,
    Request,
)
from kipctl.pipeline.request_lines.rows import fields
from kipctl.protocol.api import ApiKey

Rows = list[dict[str, Any]]

_Followed = tuple[int | None, int, int | None, Answer | None]
_Shown = tuple[int | None, int, int | None, MetadataAnswer | None]
_encode = msgspec.msgpack.encode
_decode_followed = msgspec.msgpack.Decoder(list[_Followed]).decode
_decode_shown = msgspec.msgpack.Decoder(list[_Shown]).decode

_OF_ALL = (
    "file string, address string, host string, client string, connection string, api_key int32"
)
_OF_ONE = "received_us int64, took_us int64, correlation int32"
_PARTITION = fields(
    "topic_name string, topic_id string, partition int32, error int32, base_offset int64,"
    "hint_leader int32, hint_epoch int32"
)
_NAMES = [name for name, _ in _PARTITION]
FOLLOWED_COLUMNS = (*(name for name, _ in fields(_OF_ALL)), "packed")
FOLLOWED_REQUESTS = pa.schema(
    [
        *fields(f"{_OF_ALL}, {_OF_ONE}"),
        ("partitions", pa.list_(pa.struct(_PARTITION))),
        ("leaders", pa.list_(pa.int32())),
        ("endpoints", pa.list_(pa.struct(fields("nodeId int32, host string, port int32")))),
    ]
)
"""A request in a row: the `partitions` of its answer (of a topic's name and id one may be null),
with hints, of Metadata with the leaders that it names; `leaders`, those of the hints, a null for
each partition without one, and the `endpoints` given for them; all null of a Produce request that
has no answer."""


def encoded(us: int | None, took_us: int, request: Request) -> bytes:
    """What is kept of a request of Produce, Fetch or Metadata."""
    answer: Answer | MetadataAnswer | None = None
    if isinstance(request, RecordsRequest):
        answer = None if isinstance(request.response, str) else request.response
    elif isinstance(request, MetadataRequest) and request.response:
        answer = MetadataAnswer(topics=list(map(_leaders_of, request.response.topics or ())))
    return _encode((us, took_us, request.request_header.correlation_id, answer))


def _leaders_of(topic: MetadataTopic) -> MetadataTopic:
    """Of Metadata nearly all bytes are replicas."""
    partitions = [
        MetadataPartition(part.error_code, part.partition_index, part.leader_id, part.leader_epoch)
        for part in topic.partitions or ()
    ]
    return MetadataTopic(topic.error_code, topic.name, topic.topic_id, partitions)


def chunk_of(requests: Sequence[bytes]) -> bytes:
    """Several of one connection and API."""
    return _encode([msgspec.Raw(request) for request in requests])


def followed_requests(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of FOLLOWED_REQUESTS out of those of kind FOLLOWED."""
    for batch in batches:
        rows = [row for chunk in batch.to_pylist() for row in _rows_of(chunk)]
        columns = {name: [row[name] for row in rows] for name in FOLLOWED_REQUESTS.names}
        yield pa.RecordBatch.from_pydict(columns, schema=FOLLOWED_REQUESTS)


def _rows_of(chunk: dict[str, Any]) -> Iterator[dict[str, Any]]:
    is_metadata = chunk["api_key"] == ApiKey.METADATA
    decode = _decode_shown if is_metadata else _decode_followed
    for us, took_us, correlation, answer in decode(chunk.pop("packed")):
        told = _of_metadata(answer) if isinstance(answer, MetadataAnswer) else _of_answer(answer)
        request = {"received_us": us, "took_us": took_us, "correlation": correlation}
        yield chunk | request | dict(zip(("partitions", "leaders", "endpoints"), told, strict=True))


def _partition(*values: Any) -> dict[str, Any]:
    return dict(zip(_NAMES, values, strict=True))


def _of_metadata(answer: MetadataAnswer) -> tuple[Rows, None, None]:
    partitions = [
        _partition(
            *(topic.name, topic.topic_id, partition.partition_index, partition.error_code, None),
            *(partition.leader_id, partition.leader_epoch),
        )
        for topic in answer.topics or ()
        for partition in topic.partitions or ()
    ]
    return partitions, None, None


def _of_answer(answer: Answer | None) -> tuple[Rows | None, list[int | None] | None, Rows | None]:
    if answer is None:
        return None, None, None
    partitions = []
    for topic in answer.responses or ():
        topic_of = (topic.name or topic.topic, topic.topic_id)
        is_produced = topic.partition_responses is not None
        for partition in topic.partition_responses or topic.partitions or ():
            index = partition.index if is_produced else partition.partition_index
            offset = partition.base_offset if is_produced else None
            leader = partition.current_leader
            hint = (leader.leader_id, leader.leader_epoch) if leader else (None, None)
            partitions.append(_partition(*topic_of, index, partition.error_code, offset, *hint))
    endpoints = None
    if answer.node_endpoints is not None:
        endpoints = [
            {"nodeId": at.node_id, "host": at.host, "port": at.port} for at in answer.node_endpoints
        ]
    return partitions, [row["hint_leader"] for row in partitions], endpoints
