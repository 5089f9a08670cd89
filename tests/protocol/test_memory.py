"""What the worst frames of a peer cost in memory: a few times what was sent."""

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest
from loop_peers import pair, shake_hands

from kipctl.protocol.api_versions import ApiVersionsResponse
from kipctl.protocol.message import decode
from kipctl.protocol.metadata import MetadataResponse
from kipctl.protocol.primitives import MalformedFrame, write_unsigned_varint
from kipctl.protocol.produce import ProduceResponse

MIB = 1 << 20
SLACK = MIB // 5
DECODED = 28
"""Times the frame: numbers of two bytes become objects of 28."""
NO_TAGS = b"\0"


def varint(value: int) -> bytes:
    out = bytearray()
    write_unsigned_varint(out, value)
    return bytes(out)


def array(items: list[bytes]) -> bytes:
    return varint(len(items) + 1) + b"".join(items)


EMPTY_TAGS = varint(10_000) + b"".join(varint(tag) + b"\0" for tag in range(100, 10_100))
"""As many as one message may have."""


def produce_answer(topics: list[bytes]) -> bytes:
    return array(topics) + bytes(4) + NO_TAGS


def partitions(count: int, tags: bytes = NO_TAGS) -> bytes:
    """A Metadata answer that has so many, without replicas, in one topic."""
    partition = struct.pack(">hiii", 7, 1000, 2000, 3000) + b"\1\1\1" + tags
    topic = b"\0\0\2t" + bytes(17) + array([partition] * count) + bytes(4) + NO_TAGS
    return bytes(4) + b"\1" + b"\0" + bytes(4) + array([topic]) + NO_TAGS


WORST: dict[str, tuple[type, int, Callable[[], bytes]]] = {
    "tags of topics": (*(ProduceResponse, 9), lambda: produce_answer([b"\1\1" + EMPTY_TAGS] * 8)),
    "tags of partitions": (*(MetadataResponse, 12), lambda: partitions(8, EMPTY_TAGS)),
    "tags within a tag": (
        *(ApiVersionsResponse, 3),
        lambda: (
            bytes(2)
            + b"\1"
            + bytes(4)
            + b"\1\0"
            + (lambda features: varint(len(features)) + features)(
                array([b"\2f" + bytes(4) + EMPTY_TAGS] * 8)
            )
        ),
    ),
    "empty topics": (ProduceResponse, 9, lambda: produce_answer([b"\1\1\0"] * 80_000)),
    "versions": (
        *(ApiVersionsResponse, 3),
        lambda: (
            bytes(2)
            + array([struct.pack(">hhh", 999, 999, 999) + b"\0"] * 32_000)
            + bytes(4)
            + NO_TAGS
        ),
    ),
    "partitions": (MetadataResponse, 12, lambda: partitions(12_000)),
}


@contextmanager
def peak_bytes() -> Iterator[list[int]]:
    """The most that was allocated inside, beyond what was there before."""
    peaks: list[int] = []
    tracemalloc.start()
    try:
        yield peaks
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", WORST)
def test_no_frame_costs_more_than_a_few_times_its_size(name: str) -> None:
    cls, version, make = WORST[name]
    frame = make()
    assert len(frame) > SLACK
    refused = pytest.raises(MalformedFrame, match="tagged fields")
    with peak_bytes() as peak, refused if name.startswith("tags") else nullcontext():
        decode(cls, frame, version)
    assert peak[0] < DECODED * len(frame) + SLACK


def test_tags_that_a_version_does_not_know_may_be_as_many_as_the_frame_is_long() -> None:
    """As of a broker that says something of each partition."""
    said = varint(1) + varint(99) + b"\3abc"
    assert (
        len(decode(MetadataResponse, partitions(20_000, said), 12).topics[0].partitions) == 20_000
    )


def test_four_bytes_of_a_peer_cost_nothing() -> None:
    with pair(tls=None) as (connection, peer):
        shake_hands(connection, peer)
        with peak_bytes() as peak:
            peer.say(struct.pack(">i", 99 * MIB))
            peer.put()
            assert connection.read() == []
    assert peak[0] < MIB


@pytest.mark.parametrize("announced", [9 * MIB, 99 * MIB])
def test_a_long_frame_costs_a_few_times_what_has_come(announced: int) -> None:
    came, chunk = 8 * MIB, bytes(64 * 1024)
    with pair(tls=None) as (connection, peer), peak_bytes() as peak:
        shake_hands(connection, peer)
        peer.say(struct.pack(">i", announced))
        for _ in range(came // len(chunk)):
            peer.say(chunk)
            while peer.unsent:
                peer.put()
                assert connection.read() == []
    assert peak[0] < 4 * came + MIB
