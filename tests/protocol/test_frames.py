"""Frames as they come from the network: headers, unknown tags, and everything that can be wrong."""

import tracemalloc
from contextlib import suppress
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from all_requests import ALL_REQUESTS
from campaigns import as_many, campaign, chance
from looped import looped
from protocol_oracles import (
    ALL_VERSIONS,
    KAFKA_PYTHON,
    Fill,
    from_kafka_python,
    kafka_python_class,
    random_message,
    to_kafka_python,
)
from spoilt import with_absurd_counts

from kipctl.protocol.api import decode_response, encode_request
from kipctl.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kipctl.protocol.message import decode, encode
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import ProduceRequest, ProduceResponse

each_message = looped("cls, version", ALL_VERSIONS)
each_request = looped("cls, version", [known for known in KAFKA_PYTHON if known[0] in ALL_REQUESTS])


@cache
def small_message(cls, version):
    """One that is short enough for many tries, and has something in every array."""
    return random_message(cls, version, Random(f"small {cls.__name__} {version}"), Fill.FULL)


# Headers


@each_request
def test_a_request_frame_is_what_kafka_python_sends(cls, version):
    for client_id in ("kipctl", "", None):
        ours = small_message(cls, version)
        theirs = to_kafka_python(ours, version)
        theirs.API_VERSION = version
        theirs.with_header(correlation_id=77, client_id=client_id)
        frame = encode_request(ours, version, correlation_id=77, client_id=client_id)
        assert frame == bytes(theirs.encode(version=version, header=True, framed=True))


@each_request
def test_a_response_frame_of_kafka_python_is_read(cls, version):
    ours = small_message(cls.response, version)
    if cls is ApiVersionsRequest:
        ours = replace(ours, error_code=0)
    theirs = to_kafka_python(ours, version)
    theirs.with_header(correlation_id=-5)
    frame = bytes(theirs.encode(header=True))
    assert decode_response(cls, version, frame) == (-5, ours)
    again = type(theirs).decode(frame, version=version, header=True)
    assert from_kafka_python(again, cls.response, version) == ours


def test_api_versions_that_the_broker_does_not_know_is_answered_in_version_0():
    answer = ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(18, 0, 3),))
    frame = b"\0\0\0\x09" + encode(answer, 0)
    assert decode_response(ApiVersionsRequest, 4, frame) == (9, answer)


def test_any_other_error_of_api_versions_is_in_the_version_that_was_asked():
    answer = ApiVersionsResponse(error_code=42, throttle_time_ms=7)
    frame = b"\0\0\0\x09" + encode(answer, 4)
    assert decode_response(ApiVersionsRequest, 4, frame) == (9, answer)


def test_tags_in_a_response_header_are_skipped():
    frame = b"\0\0\0\x01" + b"\x02\x00\x02ab\x07\x00" + encode(MetadataResponse(), 12)
    assert decode_response(MetadataRequest, 12, frame) == (1, MetadataResponse())


# Unknown tagged fields


@looped("cls, version", [(cls, v) for cls, v in ALL_VERSIONS if v >= cls.api.flexible_since])
def test_unknown_tags_are_kept_and_written_back_in_order(cls, version):
    message = small_message(cls, version)
    if cls is ApiVersionsResponse:
        message = replace(message, error_code=0)  # kafka-python reads others as version 0
    tagged = replace(message, unknown_tags=((40, b""), (300, b"\x00" * 200)))
    frame = encode(tagged, version)
    assert decode(cls, frame, version) == tagged
    assert encode(decode(cls, frame, version), version) == frame
    if (cls, version) in KAFKA_PYTHON:
        theirs = kafka_python_class(cls).decode(frame, version=version)
        assert set(theirs.unknown_tags) == {"_40", "_300"}


# Malformed frames


def refusal(cls, frame, version):
    with pytest.raises(MalformedFrame, match=f"^{cls.__name__} v{version}") as caught:
        decode(cls, frame, version)
    return str(caught.value)


@campaign
@each_message
def test_every_cut_frame_is_malformed(cls, version):
    frame = encode(small_message(cls, version), version)
    cuts = range(len(frame))
    few = chance(f"cut {cls.__name__} {version}").sample(cuts, min(len(cuts), as_many(20, 10_000)))
    for size in few:
        refusal(cls, frame[:size], version)


@each_message
def test_bytes_left_over_are_malformed(cls, version):
    frame = encode(small_message(cls, version), version)
    assert f"2 bytes left over (byte {len(frame)})" in refusal(cls, frame + b"xy", version)


@campaign
@looped("version", [3, 12])
def test_announced_lengths_allocate_nothing(version):
    frame = encode(small_message(MetadataResponse, version), version)
    tracemalloc.start()
    for spoilt in with_absurd_counts(frame, version == 12, chance(f"allocate {version}")):
        with suppress(MalformedFrame):
            decode(MetadataResponse, spoilt, version)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


TWO_PARTITIONS = b"\2\2t\3" + bytes(30) + b"\1\0\0" + bytes(4) + b"\0"
API_VERSIONS = b"\0\0\1" + bytes(4)
WRONG = [
    (MetadataRequest, 1, b"\xff\xff\xff\xfe", "topics: length -2 (byte 4)"),
    (MetadataRequest, 1, b"\0\0\0\1\xff\xf0", "topics[0].name: length -16 (byte 6)"),
    (
        *(MetadataRequest, 4, (1_000_001).to_bytes(4, "big") + bytes(1_000_001)),
        "topics: 1000001 elements; 1000000 are the most (byte 4)",
    ),
    (
        *(MetadataRequest, 9, b"\2\0\0\1\0\0\0"),
        "topics[0].name: null, which is not allowed here (byte 2)",
    ),
    (
        *(MetadataRequest, 12, b"\2" + bytes(16) + b"\3\xc3(\0\1\0\0"),
        "topics[0].name: not UTF-8 (byte 18)",
    ),
    (MetadataRequest, 12, b"\xff\xff\xff\xff\x7f", "topics: varint of more than 32 bits (byte 0)"),
    (MetadataRequest, 12, b"\xff\xff", "topics: varint cut off (byte 0)"),
    (
        *(MetadataRequest, 12, b"\xff\xff\xff\xff\x07"),
        "topics: 2147483646 items announced, 0 bytes left (byte 5)",
    ),
    (
        *(
            ProduceRequest,
            3,
            bytes.fromhex("ffff0001000000000000000100017400000001000000007fffffff"),
        ),
        "topic_data[0].partition_data[0].records: 2147483647 bytes announced, 0 left (byte 27)",
    ),
    (
        *(ProduceResponse, 10, TWO_PARTITIONS),
        "responses[0].partition_responses[1].error_code: 2 bytes announced, 1 left (byte 41)",
    ),
    (
        *(ApiVersionsResponse, 3, API_VERSIONS + b"\1\1\x09" + bytes(9)),
        "finalized_features_epoch: 1 bytes left over in tag 1 (byte 18)",
    ),
    (
        *(ApiVersionsResponse, 3, API_VERSIONS + b"\x91\x4e" + bytes(30_000)),
        "tagged_fields: 10001 tagged fields; 10000 are the most (byte 9)",
    ),
    (
        *(ApiVersionsResponse, 3, API_VERSIONS + b"\1\0\2\5\0"),
        "supported_features: 4 items announced, 1 bytes left (byte 11)",
    ),
    (
        *(ApiVersionsResponse, 3, API_VERSIONS + b"\1\x63\5ab"),
        "tagged_fields: 5 bytes announced, 2 left (byte 10)",
    ),
]


@pytest.mark.parametrize(("cls", "version", "frame", "says"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_and_where(cls, version, frame, says):
    assert refusal(cls, frame, version) == f"{cls.__name__} v{version} {says}"


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (b"\0\0", "MetadataResponse v12 header: 4 bytes announced, 2 left (byte 0)"),
        (b"\0\0\0\1\x01\x00", "MetadataResponse v12 header: varint cut off (byte 6)"),
        (b"\0\0\0\1\x00\0\0", "MetadataResponse v12 throttle_time_ms: 4 bytes announced, 2 left"),
    ],
    ids=["correlation id", "tags", "body"],
)
def test_offsets_count_from_the_frame(frame, says):
    with pytest.raises(MalformedFrame) as caught:
        decode_response(MetadataRequest, 12, frame)
    assert str(caught.value).startswith(says)


def test_a_metadata_frame_is_read_from_any_kind_of_buffer():
    message = MetadataResponse(brokers=(MetadataResponseBroker(1, "h", 9092, "r"),))
    frame = encode(message, 12)
    assert decode(MetadataResponse, memoryview(frame), 12) == message
    assert decode(MetadataResponse, bytearray(frame), 12) == message
