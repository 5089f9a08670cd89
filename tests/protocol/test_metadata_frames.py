"""Metadata answers read in place against the full codec, on any answer in every version."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kipctl.protocol.api import decode_response
from kipctl.protocol.message import ZERO_UUID, encode
from kipctl.protocol.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kipctl.protocol.metadata_frames import (
    MetadataAnswer,
    PartitionMetadata,
    TopicMetadata,
    read_metadata,
)
from kipctl.protocol.primitives import MalformedFrame

FIRST, LAST = MetadataResponse.api.versions
FLEXIBLE = MetadataResponse.api.flexible_since
VERSIONS = range(FIRST, LAST + 1)

each_version = pytest.mark.parametrize("version", VERSIONS)
quickly = settings(
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)

_int16 = st.integers(-(1 << 15), (1 << 15) - 1)
_int32 = st.integers(-(1 << 31), (1 << 31) - 1)
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def _tags(version: int) -> st.SearchStrategy[tuple[tuple[int, bytes], ...]]:
    if version < FLEXIBLE:
        return st.just(())
    tag = st.tuples(st.integers(0, 300), st.binary(max_size=130))
    few = st.lists(tag, max_size=2, unique_by=lambda t: t[0]).map(sorted).map(tuple)
    return st.one_of(st.just(()), few)


def _tuples(items: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(items, max_size=most).map(tuple)


def _since(version: int, first: int, values: st.SearchStrategy[Any], else_: Any) -> Any:
    return values if version >= first else st.just(else_)


def responses(version: int) -> st.SearchStrategy[MetadataResponse]:
    """Any answer of that version; partitions mostly name as many replicas, as they do in life."""
    tags = _tags(version)
    few = st.sampled_from([(), (1, 2), (1, 2, 3)])
    # A count of 127 is one byte in compact form, or two; 199 plus one is 0xC8 0x01.
    replicas = st.one_of(few, st.sampled_from([(5,) * n for n in (126, 127, 128, 199, 300)]))
    partition = st.builds(
        MetadataResponsePartition,
        _int16,
        _int32,
        _int32,
        _since(version, 7, _int32, -1),
        replicas,
        few,
        _since(version, 5, few, ()),
        unknown_tags=tags,
    )
    topic = st.builds(
        MetadataResponseTopic,
        _int16,
        st.one_of(st.none(), _text) if version >= 12 else _text,
        _since(version, 10, st.uuids(), ZERO_UUID),
        _since(version, 1, st.booleans(), False),
        _tuples(partition, 9),
        _since(version, 8, _int32, -(1 << 31)),
        unknown_tags=tags,
    )
    rack = _since(version, 1, st.one_of(st.none(), _text), None)
    broker = st.builds(MetadataResponseBroker, _int32, _text, _int32, rack, unknown_tags=tags)
    return st.builds(
        MetadataResponse,
        _since(version, 3, _int32, 0),
        _tuples(broker, 3),
        _since(version, 2, st.one_of(st.none(), _text), None),
        _since(version, 1, _int32, -1),
        _tuples(topic, 3),
        _int32 if 8 <= version <= 10 else st.just(-(1 << 31)),
        _since(version, 13, _int16, 0),
        unknown_tags=tags,
    )


any_response = st.sampled_from(VERSIONS).flatmap(
    lambda version: st.tuples(st.just(version), responses(version))
)


def framed(response: MetadataResponse, version: int, header_tags: bytes = b"\0") -> bytes:
    return b"\0\0\0\x4d" + (header_tags if version >= FLEXIBLE else b"") + encode(response, version)


def as_read(version: int, frame: bytes) -> MetadataAnswer:
    """What the codec finds, in the form of `read_metadata`."""
    _, response = decode_response(MetadataRequest, version, frame)
    return MetadataAnswer(
        response.error_code,
        response.throttle_time_ms,
        [MetadataResponseBroker(b.node_id, b.host, b.port, b.rack) for b in response.brokers],
        response.cluster_id,
        [
            TopicMetadata(
                topic.error_code,
                topic.name or "",
                topic.topic_id.bytes,
                [
                    PartitionMetadata(p.error_code, p.partition_index, p.leader_id, p.leader_epoch)
                    for p in topic.partitions
                ],
            )
            for topic in response.topics
        ],
    )


def small_response(version: int) -> MetadataResponse:
    """An answer with something in every field, and a broker that is down."""
    offline = (3,) if version >= 5 else ()
    epoch = 7 if version >= 7 else -1
    partitions = (
        MetadataResponsePartition(0, 0, 1, epoch, (1, 2, 3), (1, 2), offline),
        MetadataResponsePartition(0, 1, 2, epoch, (2, 1), (2, 1)),
        MetadataResponsePartition(5, 2, -1, epoch, (3,), (3,), offline),
    )
    return MetadataResponse(
        throttle_time_ms=9 if version >= 3 else 0,
        brokers=(
            MetadataResponseBroker(1, "host", 9092, "rack" if version >= 1 else None),
            MetadataResponseBroker(2, "host", 9093),
        ),
        cluster_id="cluster" if version >= 2 else None,
        topics=(MetadataResponseTopic(name="topic", partitions=partitions),),
        error_code=129 if version >= 13 else 0,
    )


@quickly
@given(any_response)
def test_an_answer_reads_as_the_codec_reads_it(drawn: tuple[int, MetadataResponse]) -> None:
    version, response = drawn
    frame = framed(response, version)
    assert read_metadata(version, frame) == as_read(version, frame)


@pytest.mark.parametrize("version", range(FLEXIBLE, LAST + 1))
def test_counts_of_two_bytes_do_not_pass_for_one(version: int) -> None:
    """199 replicas are announced by 0xC8 0x01, and 0xC8 is 200: as if all stood a byte earlier."""
    partition = MetadataResponsePartition(0, 1, 2, 3, (2,) * 199, (2,), (0,))
    topic = MetadataResponseTopic(name="topic", partitions=(partition,) * 3)
    frame = framed(MetadataResponse(topics=(topic,)), version)
    assert read_metadata(version, frame) == as_read(version, frame)


@each_version
def test_every_field_is_where_it_belongs(version: int) -> None:
    frame = framed(small_response(version), version, b"\x01\x05\x03abc")
    answer = read_metadata(version, memoryview(frame))
    assert answer == as_read(version, frame)
    epoch = 7 if version >= 7 else -1
    (topic,) = answer.topics
    assert topic.partitions == [(0, 0, 1, epoch), (0, 1, 2, epoch), (5, 2, -1, epoch)]
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "topic", bytes(16))
    assert answer.brokers[0].rack == ("rack" if version >= 1 else None)
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (1, "host", 9092),
        (2, "host", 9093),
    ]
    assert answer.cluster_id == ("cluster" if version >= 2 else None)
    assert answer.error_code == (129 if version >= 13 else 0)
    assert answer.throttle_time_ms == (9 if version >= 3 else 0)


@quickly
@given(any_response, st.data())
def test_a_frame_cut_anywhere_or_too_long_is_malformed(
    drawn: tuple[int, MetadataResponse], data: st.DataObject
) -> None:
    version, response = drawn
    frame = framed(response, version)
    with pytest.raises(MalformedFrame):
        read_metadata(version, frame[: data.draw(st.integers(0, len(frame) - 1))])
    with pytest.raises(MalformedFrame, match="left over"):
        read_metadata(version, frame + b"\0")


@each_version
def test_a_small_frame_cut_at_each_byte_is_malformed(version: int) -> None:
    frame = framed(small_response(version), version)
    for length in range(len(frame)):
        with pytest.raises(MalformedFrame):
            read_metadata(version, frame[:length])


@each_version
def test_absurd_lengths_are_malformed_and_cost_nothing(version: int) -> None:
    """A count of two thousand million, or one below null, wherever a count may stand."""
    frame = framed(small_response(version), version)
    absurd = [b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f"]
    if version < FLEXIBLE:
        absurd = [b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xfe"]
    for at in range(4, len(frame)):
        for length in absurd:
            for spoilt in (frame[:at] + length, frame[:at] + length + frame[at + len(length) :]):
                assert_read_alike(version, spoilt)


@settings(quickly, max_examples=1500)
@given(
    st.sampled_from(VERSIONS),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_flipped_bytes_never_read_other_than_the_codec_reads_them(
    version: int, flips: list[tuple[int, int]]
) -> None:
    flipped = bytearray(framed(small_response(version), version))
    for at, byte in flips:
        flipped[at % len(flipped)] = byte
    assert_read_alike(version, bytes(flipped))


def assert_read_alike(version: int, frame: bytes) -> None:
    try:
        expected = as_read(version, frame)
    except MalformedFrame:
        with pytest.raises(MalformedFrame):
            read_metadata(version, frame)
    else:
        assert read_metadata(version, frame) == expected


@pytest.mark.parametrize("version", [FIRST - 1, LAST + 1])
def test_a_version_that_is_not_known_is_refused(version: int) -> None:
    with pytest.raises(ValueError, match=f"{FIRST} to {LAST}"):
        read_metadata(version, b"")
