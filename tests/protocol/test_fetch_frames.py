"""Fetch answers read in place against the full codec, on random answers in every version."""

from dataclasses import replace
from itertools import product
from random import Random
from uuid import UUID

import pytest
from campaigns import as_many, campaign, chance
from looped import looped, noted
from protocol_oracles import Fill, random_message
from spoilt import flipped, read_alike, with_absurd_counts

from kipctl.protocol.api import decode_response
from kipctl.protocol.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
    SnapshotId,
)
from kipctl.protocol.fetch_frames import FetchAnswer, Fetched, read_fetch
from kipctl.protocol.message import encode
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import LeaderIdAndEpoch, NodeEndpoint

VERSIONS = range(4, 19)
FLEXIBLE = range(12, 19)

each_version = looped("version", VERSIONS)
each_flexible_version = looped("version", FLEXIBLE)


def framed(response: FetchResponse, version: int, correlation_id: int = 77) -> bytes:
    header = correlation_id.to_bytes(4, "big") + (b"\0" if version >= 12 else b"")
    return header + encode(response, version)


def read(version: int, frame: bytes) -> FetchAnswer:
    return read_fetch(version, memoryview(frame))


def as_read(version: int, frame: bytes) -> FetchAnswer:
    """What the codec finds, in the form of `read_fetch`."""
    _, response = decode_response(FetchRequest, version, frame)
    return FetchAnswer(
        response.error_code,
        response.session_id,
        [
            Fetched(
                topic.topic_id.bytes if version >= 13 else topic.topic,
                p.partition_index,
                p.error_code,
                p.high_watermark,
                p.last_stable_offset,
                p.log_start_offset,
                tuple((a.producer_id, a.first_offset) for a in p.aborted_transactions or ()),
                p.preferred_read_replica,
                memoryview(p.records or b""),
                _unless_default((p.current_leader.leader_id, p.current_leader.leader_epoch)),
                _unless_default((p.diverging_epoch.epoch, p.diverging_epoch.end_offset)),
            )
            for topic in response.responses
            for p in topic.partitions
        ],
        response.node_endpoints,
        response.unknown_tags,
        response.throttle_time_ms,
    )


def _unless_default(pair: tuple[int, int]) -> tuple[int, int] | None:
    return None if pair == (-1, -1) else pair


def full_frame(version: int) -> bytes:
    """Of an answer with something in every field that is read."""
    response = random_message(FetchResponse, version, Random(version), Fill.FULL)
    topics = (
        replace(
            topic, partitions=tuple(replace(p, snapshot_id=SnapshotId()) for p in topic.partitions)
        )
        for topic in response.responses
    )
    return framed(replace(response, responses=tuple(topics)), version)


def hint_response(version: int) -> FetchResponse:
    """An answer that names a leader, and where it listens, as far as its version can."""
    partition = PartitionData(
        partition_index=3,
        current_leader=LeaderIdAndEpoch(2, 7) if version >= 12 else LeaderIdAndEpoch(),
    )
    topic = FetchableTopicResponse(
        topic="" if version >= 13 else "topic",
        topic_id=UUID(int=9) if version >= 13 else UUID(int=0),
        partitions=(partition, PartitionData(partition_index=4)),
    )
    endpoints = (NodeEndpoint(2, "host", 9092, "rack"),) if version >= 16 else ()
    return FetchResponse(responses=(topic,), node_endpoints=endpoints)


@campaign
@each_version
def test_an_answer_reads_as_the_codec_reads_it(version: int) -> None:
    choose = chance(f"fetch {version}")
    for fill in (Fill.FULL, Fill.NULLS, *[Fill.ANY] * as_many(3, 300)):
        response = random_message(FetchResponse, version, choose, fill)
        frame = framed(response, version, choose.randrange(1 << 31))
        assert read(version, frame) == as_read(version, frame)


def test_records_are_not_copied() -> None:
    frame = memoryview(full_frame(18))
    assert read_fetch(18, frame).partitions[0].records.obj is frame.obj


@each_version
def test_a_frame_cut_anywhere_or_too_long_is_malformed(version: int) -> None:
    frame = full_frame(version)
    for length in range(len(frame)):
        with pytest.raises(MalformedFrame):
            read(version, frame[:length])
    with pytest.raises(MalformedFrame, match="left over"):
        read(version, frame + b"\0")


@campaign
@each_version
def test_absurd_counts_are_malformed_where_they_are_for_the_codec(version: int) -> None:
    frame = full_frame(version)
    for spoilt in with_absurd_counts(frame, version in FLEXIBLE, chance(f"fetch {version}")):
        assert_read_alike(version, spoilt)


@campaign
def test_flipped_bytes_never_read_other_than_the_codec_reads_them() -> None:
    choose = chance("fetch flipped")
    were_read = 0
    for version in VERSIONS:
        frame = full_frame(version)
        for _ in range(as_many(50, 5000)):
            with noted(version):
                were_read += assert_read_alike(version, flipped(frame, choose))
    assert were_read > 50


def assert_read_alike(version: int, frame: bytes) -> bool:
    return read_alike(read, as_read, version, frame, without_empty_hints, ".snapshot_id")


def without_empty_hints(answer: FetchAnswer) -> FetchAnswer:
    """A hint that is there and says nothing is as good as none."""
    return answer._replace(
        partitions=[
            p._replace(
                leader=_unless_default(p.leader or (-1, -1)),
                diverging=_unless_default(p.diverging or (-1, -1)),
            )
            for p in answer.partitions
        ]
    )


@each_flexible_version
def test_tags_that_are_not_known_are_skipped_and_the_whole_answers_kept(version: int) -> None:
    plain = hint_response(version)
    (topic,) = plain.responses
    first, second = topic.partitions
    tag = ((9, b"what is this"),)
    tagged = replace(
        plain,
        unknown_tags=tag,
        responses=(
            replace(topic, unknown_tags=tag, partitions=(replace(first, unknown_tags=tag), second)),
        ),
    )
    frame = framed(tagged, version)
    assert len(frame) > len(framed(plain, version)) + 3 * len(tag[0][1])
    in_header = frame[:4] + b"\x01\x05\x03abc" + frame[5:]
    expected = read(version, framed(plain, version))._replace(unknown_tags=tag)
    assert read(version, frame) == read(version, in_header) == expected


@looped(
    "version, name", [(4, b"topic"), (12, b"topic"), *product((16, 17, 18), (b"host", b"rack"))]
)
def test_names_that_are_not_utf_8_are_malformed(version: int, name: bytes) -> None:
    frame = framed(hint_response(version), version)
    assert frame.count(name) == 1
    with pytest.raises(MalformedFrame, match="UTF-8"):
        read(version, frame.replace(name, b"\xff" + name[1:]))


@each_flexible_version
def test_a_tag_of_another_size_than_it_says_is_malformed(version: int) -> None:
    hint = b"\x01\x09" + (2).to_bytes(4, "big") + (7).to_bytes(4, "big") + b"\0"
    frame = framed(hint_response(version), version)
    assert frame.count(hint) == 1
    for size in (b"\x08", b"\x0a", b"\x00"):
        with pytest.raises(MalformedFrame):
            read(version, frame.replace(hint, b"\x01" + size + hint[2:]))
