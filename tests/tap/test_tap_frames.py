"""A stream is cut into the same frames wherever its pieces end, and no length is believed."""

import struct
import tracemalloc

import pytest
from raw_peers import EXCHANGE

from kipctl.protocol.api import LARGEST_FETCH, encode_request
from kipctl.protocol.primitives import MalformedFrame
from kipctl.tap.frames import Frames

FRAMES = [encode_request(request, version, n, "c") for n, (request, version) in enumerate(EXCHANGE)]
FRAMES.append(bytes(4))  # of no bytes: what that means is for others to say
STREAM = b"".join(FRAMES)


def fed(pieces: list[bytes]) -> list[bytes]:
    frames = Frames()
    return [frame for piece in pieces for frame in frames.feed(piece)]


def test_a_stream_cut_in_two_anywhere_gives_the_same_frames() -> None:
    for at in range(len(STREAM) + 1):
        assert fed([STREAM[:at], STREAM[at:]]) == FRAMES


def test_a_stream_cut_in_three_anywhere_in_its_first_two_frames_gives_the_same_frames() -> None:
    stream = b"".join(FRAMES[:2])
    for first in range(len(stream)):
        for second in range(first, len(stream)):
            pieces = [stream[:first], stream[first:second], stream[second:]]
            assert fed(pieces) == FRAMES[:2]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11])
def test_a_stream_in_small_pieces_gives_the_same_frames(size: int) -> None:
    assert fed([STREAM[at : at + size] for at in range(0, len(STREAM), size)]) == FRAMES


def test_what_is_not_whole_is_kept_back_and_counted() -> None:
    frames = Frames()
    assert frames.feed(STREAM[: len(FRAMES[0]) + 7]) == FRAMES[:1]
    assert frames.waiting == 7
    assert frames.feed(STREAM[len(FRAMES[0]) + 7 :]) == FRAMES[1:]
    assert frames.waiting == 0


@pytest.mark.parametrize("length", [-1, -(1 << 31), LARGEST_FETCH + 1, (1 << 31) - 1])
@pytest.mark.parametrize("after", [b"", FRAMES[0]])
def test_an_absurd_length_is_refused_at_once(length: int, after: bytes) -> None:
    for cut in range(4):
        announced = struct.pack(">i", length)
        with pytest.raises(MalformedFrame, match="announced"):
            fed([after + announced[:cut], announced[cut:]])


def test_a_length_that_is_only_announced_takes_no_memory() -> None:
    frames = Frames()
    tracemalloc.start()
    try:
        assert frames.feed(struct.pack(">i", LARGEST_FETCH) + b"x" * 1000) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_a_large_frame_in_small_pieces_is_put_together_once() -> None:
    """Put together anew with every piece it would be 50 GB to copy."""
    frame = struct.pack(">i", 10_000_000) + b"x" * 10_000_000
    frames = Frames()
    received = [
        whole for at in range(0, len(frame), 1000) for whole in frames.feed(frame[at : at + 1000])
    ]
    assert received == [frame]
