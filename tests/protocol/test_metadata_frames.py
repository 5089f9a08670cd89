"""Metadata answers read in place against the full codec, on any answer in every version."""

from dataclasses import replace
from random import Random

import pytest
from campaigns import as_many, campaign, chance
from looped import looped, noted
from protocol_oracles import Fill, random_message
from spoilt import flipped, read_alike, with_absurd_counts

from kipctl.protocol.api import decode_response
from kipctl.protocol.message import encode
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

each_version = looped("version", VERSIONS)

# Partitions mostly name as many replicas, as they do in life. A count of 127 is one byte in compact
# form, or two; 199 plus one is 0xC8 0x01.
REPLICAS = [(1, 2, 3), (1, 2), (), *((5,) * n for n in (126, 127, 128, 199, 300))]
FEW = REPLICAS[:3]


def any_frame(version: int, choose: Random, fill: Fill = Fill.ANY) -> bytes:
    """Also with tags that nobody knows, where the version has any."""
    replicas, most = ([FEW, REPLICAS], 4) if fill is Fill.ANY else ([FEW], 1)

    def tags() -> tuple[tuple[int, bytes], ...]:
        numbers = sorted(choose.sample(range(300), choose.choice([0, 0, 1, 2])))
        sizes = [0, 1, 126, 127, 130]
        known = tuple((number, choose.randbytes(choose.choice(sizes))) for number in numbers)
        return known if version >= FLEXIBLE else ()

    def partition(like: MetadataResponsePartition) -> MetadataResponsePartition:
        return replace(
            like,
            replica_nodes=choose.choice(choose.choice(replicas)),
            isr_nodes=choose.choice(FEW),
            offline_replicas=choose.choice(FEW) if version >= 5 else (),
            unknown_tags=tags(),
        )

    def topic(like: MetadataResponseTopic) -> MetadataResponseTopic:
        partitions = tuple(map(partition, like.partitions * choose.randint(1, most)))
        return replace(like, partitions=partitions, unknown_tags=tags())

    response = random_message(MetadataResponse, version, choose, fill)
    response = replace(
        response,
        brokers=tuple(replace(broker, unknown_tags=tags()) for broker in response.brokers),
        topics=tuple(map(topic, response.topics)),
        unknown_tags=tags(),
    )
    return framed(response, version, choose.choice([b"\0", b"\x01\x05\x03abc"]))


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


def small_frame(version: int) -> bytes:
    """Of an answer with something in every field."""
    return any_frame(version, Random(version), Fill.FULL)


@campaign
@each_version
def test_an_answer_reads_as_the_codec_reads_it_and_cut_or_longer_it_is_malformed(
    version: int,
) -> None:
    choose = chance(f"metadata {version}")
    for fill in (Fill.FULL, Fill.NULLS, *[Fill.ANY] * as_many(5, 600)):
        frame = any_frame(version, choose, fill)
        assert read_metadata(version, frame) == as_read(version, frame)
        with pytest.raises(MalformedFrame):
            read_metadata(version, frame[: choose.randrange(len(frame))])
        with pytest.raises(MalformedFrame, match="left over"):
            read_metadata(version, frame + b"\0")


@looped("version", range(FLEXIBLE, LAST + 1))
def test_counts_of_two_bytes_do_not_pass_for_one(version: int) -> None:
    """199 replicas are announced by 0xC8 0x01, and 0xC8 is 200: as if all stood a byte earlier."""
    partition = MetadataResponsePartition(0, 1, 2, 3, (2,) * 199, (2,), (0,))
    topic = MetadataResponseTopic(name="topic", partitions=(partition,) * 3)
    frame = framed(MetadataResponse(topics=(topic,)), version)
    assert read_metadata(version, frame) == as_read(version, frame)


@each_version
def test_a_small_frame_cut_at_each_byte_is_malformed(version: int) -> None:
    frame = small_frame(version)
    for length in range(len(frame)):
        with pytest.raises(MalformedFrame):
            read_metadata(version, frame[:length])


@campaign
@each_version
def test_absurd_counts_are_malformed_where_they_are_for_the_codec(version: int) -> None:
    frame = small_frame(version)
    for spoilt in with_absurd_counts(frame, version >= FLEXIBLE, chance(f"metadata {version}")):
        read_alike(read_metadata, as_read, version, spoilt)


@campaign
def test_flipped_bytes_never_read_other_than_the_codec_reads_them() -> None:
    choose = chance("metadata flipped")
    were_read = 0
    for version in VERSIONS:
        frame = small_frame(version)
        for _ in range(as_many(50, 5000)):
            with noted(version):
                spoilt = flipped(frame, choose)
                were_read += read_alike(read_metadata, as_read, version, spoilt)
    assert were_read > 50


@pytest.mark.parametrize("version", [FIRST - 1, LAST + 1])
def test_a_version_that_is_not_known_is_refused(version: int) -> None:
    with pytest.raises(ValueError, match=f"{FIRST} to {LAST}"):
        read_metadata(version, b"")
