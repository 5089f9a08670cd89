"""The Produce frames laid out by hand against the full codec, byte for byte."""

from dataclasses import replace
from random import Random
from uuid import UUID

from campaigns import as_many, campaign, chance
from looped import looped, noted
from record_batches import Record, encode_batch
from spoilt import flipped

from kipctl.protocol.api import decode_response, encode_request
from kipctl.protocol.compression import Compression, compress
from kipctl.protocol.message import encode
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kipctl.protocol.produce_frames import PartitionRecords, ProduceEncoder, Topic, read_success
from kipctl.protocol.records import batch_header, encode_record

VERSIONS = range(3, 14)
FLEXIBLE = range(9, 14)
each_version = looped("version", VERSIONS)
each_flexible_version = looped("version", FLEXIBLE)

# --- requests ---


def a_topic(choose: Random) -> Topic:
    name = "".join(choose.choices("abcXYZ._-0ü", k=choose.choice([1, 9, 126, 127, 128, 200])))
    return Topic(name, UUID(int=choose.getrandbits(128)))


def some_records(choose: Random) -> PartitionRecords:
    size = choose.choice([0, 1, 62, 66, 67, 200, 16_200, 16_322, 16_323, 70_000])
    content = memoryview(choose.randbytes(size))
    return PartitionRecords(choose.randrange(1 << 31), choose.randbytes(61), content)


@campaign
@each_version
def test_a_request_is_what_the_codec_writes(version: int) -> None:
    choose = chance(f"produce {version}")
    for _ in range(as_many(10, 500)):
        acks, timeout_ms = choose.choice([-1, 0, 1]), choose.randrange(1 << 31)
        client_id = "".join(choose.choices("abc-é", k=choose.choice([0, 1, 20, 200])))
        correlation_id = choose.randrange(1 << 31)
        topics = [
            (a_topic(choose), [some_records(choose) for _ in range(partitions)])
            for partitions in choose.choices([1, 2, 5, 126, 127, 130], [9, 9, 9, 1, 1, 1], k=2)
        ][: choose.choice([1, 1, 2])]
        encoder = ProduceEncoder(version, client_id, acks, timeout_ms)
        buffers, size = encoder.encode(correlation_id, topics)
        by_id = version >= 13
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=tuple(
                TopicProduceData(
                    name="" if by_id else topic.name,
                    topic_id=topic.id if by_id else UUID(int=0),
                    partition_data=tuple(
                        PartitionProduceData(p.partition, p.header + bytes(p.content))
                        for p in partitions
                    ),
                )
                for topic, partitions in topics
            ),
        )
        frame = b"".join(buffers)
        assert frame == encode_request(request, version, correlation_id, client_id)
        assert size == len(frame)


def test_the_records_are_not_copied_into_the_frame() -> None:
    records = some_records(Random(1))
    topic = Topic("t", UUID(int=1))
    buffers, _ = ProduceEncoder(11, "c", 1, 1000).encode(1, [(topic, [records])])
    assert any(buffer is records.content for buffer in buffers)


@campaign
@looped("compression", Compression)
def test_a_batch_header_is_what_the_codec_writes(compression: Compression) -> None:
    choose = chance(f"batch header {compression}")
    for _ in range(as_many(10, 1000)):
        values = [choose.randbytes(choose.randrange(300)) for _ in range(choose.randint(1, 40))]
        timestamp_ms = choose.randrange(1 << 45)
        producer = choose.choice(
            [(-1, -1, -1), (choose.getrandbits(63), choose.randrange(1 << 15), (1 << 31) - 1)]
        )
        content = compress(
            compression,
            b"".join(encode_record(i, 0, None, value) for i, value in enumerate(values)),
        )
        header = batch_header(
            compression, len(values), timestamp_ms, *producer, memoryview(content)
        )
        records = [Record(value, timestamp_ms=timestamp_ms) for value in values]
        assert header + content == encode_batch(records, compression, *producer)


# --- responses ---


def success(choose: Random, partitions: int, name: str | None = None) -> TopicProduceResponse:
    """A topic's answer without any error."""
    return TopicProduceResponse(
        name="t" * choose.choice([1, 5, 100, 126]) if name is None else name,
        topic_id=UUID(int=choose.getrandbits(128)),
        partition_responses=tuple(
            PartitionProduceResponse(
                index=choose.randrange(1 << 31),
                base_offset=choose.randrange(1 << 62),
                log_append_time_ms=choose.choice([-1, choose.randrange(1 << 45)]),
                log_start_offset=choose.choice([-1, choose.randrange(1 << 62)]),
            )
            for _ in range(partitions)
        ),
    )


def framed(response: ProduceResponse, version: int, correlation_id: int = 77) -> bytes:
    header = correlation_id.to_bytes(4, "big") + (b"\0" if version >= 9 else b"")
    return header + encode(response, version)


def decoded(version: int, frame: bytes) -> list[tuple[int, int]] | None:
    """What the full decoder finds, if it is one topic without errors or hints."""
    _, response = decode_response(ProduceRequest, version, frame)
    if len(response.responses) != 1 or response.node_endpoints or response.unknown_tags:
        return None
    (topic,) = response.responses
    for p in topic.partition_responses:
        if p != PartitionProduceResponse(
            p.index, 0, p.base_offset, p.log_append_time_ms, p.log_start_offset
        ):
            return None
    partitions = [(p.index, p.base_offset) for p in topic.partition_responses]
    return None if topic.unknown_tags else partitions


@each_version
def test_success_reads_as_the_codec_reads_it(version: int) -> None:
    choose = chance(f"success {version}")
    for partitions in (0, 1, 2, 12, 126, 127, 128, 300):
        topic = success(choose, partitions)
        frame = framed(ProduceResponse((topic,)), version)
        expected = [(p.index, p.base_offset) for p in topic.partition_responses]
        assert read_success(version, frame) == expected == decoded(version, frame)


HINT = {"current_leader": LeaderIdAndEpoch(2, 7)}
REFUSED = {"error_code": 6, "base_offset": -1}
IN_A_PARTITION = [
    *((3, fields) for fields in (REFUSED, REFUSED | {"base_offset": 12}, {"error_code": -1})),
    (8, {"record_errors": (BatchIndexAndErrorMessage(0, "no"),)}),
    (8, {"error_message": "no"}),
    (8, {"error_message": ""}),
    (9, {"unknown_tags": ((7, b"tag"),)}),
    (10, HINT),
    (10, REFUSED | HINT),
]
"""What one partition may say besides plain success, and since which version."""


def spoilt(choose: Random, version: int) -> list[ProduceResponse]:
    """Responses that are not plain success, each for one reason."""
    topic = success(choose, 5)
    responses = [ProduceResponse(()), ProduceResponse((topic, success(choose, 2)))]
    for since, fields in IN_A_PARTITION:
        if version >= since:
            partitions = [*topic.partition_responses]
            bad = PartitionProduceResponse(index=3, **fields)
            partitions.insert(choose.randrange(6), bad)
            responses.append(
                ProduceResponse((replace(topic, partition_responses=tuple(partitions)),))
            )
    if version >= 9:
        responses += [
            ProduceResponse((topic,), unknown_tags=((7, b""),)),
            ProduceResponse((replace(topic, unknown_tags=((3, b"x"),)),)),
        ]
    if version >= 10:
        endpoints = (NodeEndpoint(1, "host", 9092),)
        responses.append(ProduceResponse((topic,), node_endpoints=endpoints))
    return responses


@each_version
def test_whatever_is_not_plain_success_is_left_to_the_codec(version: int) -> None:
    for response in spoilt(chance(f"no success {version}"), version):
        frame = framed(response, version)
        decode_response(ProduceRequest, version, frame)  # it is well formed
        assert read_success(version, frame) is None


@each_flexible_version
def test_tags_in_the_response_header_are_left_to_the_codec(version: int) -> None:
    frame = framed(ProduceResponse((success(Random(1), 3),)), version)
    tagged = frame[:4] + b"\x01\x05\x01x" + frame[5:]
    assert decoded(version, tagged) is not None
    assert read_success(version, tagged) is None


@looped("version", FLEXIBLE[:-1])
def test_a_long_topic_name_is_read_or_left_to_the_codec(version: int) -> None:
    for length in (126, 127, 249):
        topic = success(Random(1), 3, name="n" * length)
        frame = framed(ProduceResponse((topic,)), version)
        assert read_success(version, frame) in (decoded(version, frame), None)


@campaign
@each_version
def test_a_frame_cut_anywhere_is_no_success(version: int) -> None:
    choose = chance(f"cut success {version}")
    for partitions in (1, 3, 130):
        frame = framed(ProduceResponse((success(choose, partitions),)), version)
        cuts = range(len(frame))
        for length in choose.sample(cuts, min(len(cuts), as_many(100, 10_000))):
            assert read_success(version, frame[:length]) is None
        assert read_success(version, frame + b"\0") is None


@campaign
def test_flipped_bytes_never_raise_nor_read_other_than_the_codec() -> None:
    choose = chance("success flipped")
    were_read = 0
    for version in VERSIONS:
        frame = framed(ProduceResponse((success(choose, 4, name="topic"),)), version)
        for _ in range(as_many(200, 40_000)):
            spoilt = flipped(frame, choose)
            if (read := read_success(version, spoilt)) is None:
                continue
            were_read += 1
            with noted(version):
                try:
                    assert read == decoded(version, spoilt)
                except MalformedFrame as malformed:
                    # Only the name may be wrong, which nobody needs to read.
                    assert "not UTF-8" in malformed.what  # noqa: PT017
        for size in range(80):
            for _ in range(as_many(1, 300)):
                read_success(version, choose.randbytes(size))
    assert were_read > 500
