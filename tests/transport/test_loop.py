"""The event loop's connection, with TLS and without: pieces, floods, silence and garbage."""

import random
import select
import ssl
import struct

import pytest
from campaigns import SEED, as_many, campaign
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from loop_peers import framed, pair, shake_hands, turn
from secure_peers import TLS

from kipctl.protocol.api import LARGEST_FETCH
from kipctl.security.tls import Tls
from kipctl.transport.loop_connection import ConnectionLostError
from kipctl.transport.tls_socket import ROOM

VERSIONS = ("TLSv1.2", "TLSv1.3")
KINDS = [None, *(Tls(TLS.authorities, versions=(version,)) for version in VERSIONS)]
"""TLS 1.2 has no tickets after the handshake, and another order of flights."""
each_kind = pytest.mark.parametrize("tls", KINDS, ids=["plain", *VERSIONS])

sizes = st.lists(
    st.integers(4, 60_000) | st.sampled_from([4, 16_384, 262_140, 700_000]), max_size=12
)


@campaign
@seed(SEED)
@settings(max_examples=as_many(40, 4000))
@given(
    tls=st.sampled_from(KINDS),
    ours=st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=5), max_size=6),
    theirs=sizes,
    buffers=st.sampled_from([0, 1, 5000, 40_000]),
    pieces=st.lists(st.sampled_from([1, 5, 1000, 16_408, 1 << 20]), min_size=1, max_size=5),
    content=st.integers(0, 1 << 30),
)
def test_every_byte_comes_out_as_it_went_in_both_ways_at_once(
    tls: Tls | None,
    ours: list[list[int]],
    theirs: list[int],
    buffers: int,
    pieces: list[int],
    content: int,
) -> None:
    """However little the sockets hold, and however few bytes come at a time."""
    chance = random.Random(content)
    to_send = [[chance.randbytes(size) for size in frame] for frame in ours]
    to_say = [chance.randbytes(size) for size in theirs]
    everything = b"".join(map(b"".join, to_send))
    least = sum(map(len, to_say)) // 2000  # a byte at a time takes too long for the large ones
    frames: list[bytes] = []
    with pair(buffers, tls) as (connection, peer):
        shake_hands(connection, peer)
        peer.say(b"".join(map(framed, to_say)))
        turns = 0
        while frames != to_say or peer.read != everything:
            if to_send and connection.takes_requests:
                connection.send([*to_send.pop(0)])
            most = max(pieces[turns % len(pieces)], least)
            went_on = turn(connection, frames)
            took = peer.take(max(most, 1000))
            sent = bool(peer.unsent) and bool(peer.put(most))
            turns += 1
            assert went_on or took or sent or to_send, "something is left where no poll tells of it"
        assert not connection.wants_write


# --- reading ---

MIXED = [4, 5, 100, 65_536, 262_139, 262_140, 262_141, 262_144, 700_000, 3_000_000, 17, 4] * 2
BURSTS = [
    *([size] * min(600, 2_000_000 // size) for size in (4, 100, 16_384, ROOM, 262_144, 262_145)),
    [5_000_000] * 2,
    MIXED,
]


@each_kind
@pytest.mark.parametrize("burst", BURSTS, ids=lambda sizes: f"{len(sizes)} of {max(sizes)}")
def test_a_burst_of_frames_is_read_whole_by_as_many_polls_as_tell_of_it(
    burst: list[int], tls: Tls | None
) -> None:
    """All of it is in the socket before the first is read, where it fits."""
    contents = [bytes([n % 256]) * size for n, size in enumerate(burst)]
    with pair(4_000_000, tls) as (connection, peer):
        shake_hands(connection, peer)
        for content in contents:
            peer.say(framed(content))
        frames: list[bytes] = []
        while len(frames) < len(contents):
            sent = bool(peer.unsent) and bool(peer.put())
            assert turn(connection, frames) or sent, f"{len(frames)} frames were read"
        assert frames == contents


@each_kind
def test_a_frame_that_comes_byte_by_byte_is_none_before_its_last(tls: Tls | None) -> None:
    with pair(tls=tls) as (connection, peer):
        shake_hands(connection, peer)
        assert connection.read() == []
        peer.say(framed(b"a whole frame"))
        while peer.unsent:
            assert connection.read() == []
            peer.put(1)
        assert connection.read() == [b"a whole frame"]
        assert connection.read() == []


@each_kind
def test_a_frame_that_was_handed_out_does_not_change_with_the_next(tls: Tls | None) -> None:
    with pair(tls=tls) as (connection, peer):
        shake_hands(connection, peer)
        connection.read()
        peer.say(framed(b"first frame") + framed(bytes(300_000))[:4])
        peer.put()
        (first,) = connection.read()
        peer.say(b"other bytes" + bytes(300_000 - 11))
        while not (frames := connection.read()):
            peer.put()
        assert bytes(frames[0][:11]) == b"other bytes"
        assert first == b"first frame"


@pytest.mark.parametrize("size", [-1, 0, 3, LARGEST_FETCH + 1, 0x48545450, -(1 << 31)])
def test_an_absurd_size_ends_the_connection(size: int) -> None:
    with pair(tls=None) as (connection, peer):
        shake_hands(connection, peer)
        peer.say(struct.pack(">i", size) + b"P/1.1 400")
        peer.put()
        with pytest.raises(ConnectionLostError, match=f"a frame of {size} bytes was announced"):
            connection.read()


@each_kind
@pytest.mark.parametrize("says_so", [True, False], ids=["close_notify", "abrupt"])
def test_what_came_before_the_end_is_read_first(tls: Tls | None, says_so: bool) -> None:
    with pair(tls=tls) as (connection, peer):
        shake_hands(connection, peer)
        peer.say(framed(b"complete") + framed(b"cut off")[:-1])
        if says_so and tls:
            peer.say_goodbye()
        peer.put()
        peer.end.close()
        assert connection.read() == [b"complete"]
        assert select.select([connection], [], [], 0)[0]
        with pytest.raises(ConnectionLostError, match="the broker closed the connection"):
            connection.read()


def test_a_close_notify_that_comes_with_data_is_answered() -> None:
    """A server may close the connection only then, and no poll tells of what was read before."""
    with pair(tls=TLS) as (connection, peer):
        shake_hands(connection, peer)
        peer.say(framed(b"hello"))
        peer.say_goodbye()
        peer.put()
        assert connection.read() == [b"hello"]
        with pytest.raises(ssl.SSLZeroReturnError):
            peer.take()
        peer.end.close()
        assert select.select([connection], [], [], 0)[0]
        with pytest.raises(ConnectionLostError, match="the broker closed the connection"):
            connection.read()


def test_a_connection_that_is_reset_is_lost() -> None:
    with pair(tls=None) as (connection, peer):
        shake_hands(connection, peer)
        connection.send([b"abc"])
        peer.end.close()  # it has not read that
        with pytest.raises(ConnectionLostError, match="reset"):
            connection.read()


# --- writing ---


@each_kind
def test_large_requests_are_written_in_partial_writes(tls: Tls | None) -> None:
    """Which end in the middle of buffers, and of the many that are written at a time."""
    chance = random.Random(3)
    many = [chance.randbytes(chance.randrange(2000)) for _ in range(2500)]
    requests = [[chance.randbytes(3_000_000), b"", memoryview(b"end")], many]
    whole = b"".join(b"".join(request) for request in requests)
    with pair(1, tls) as (connection, peer):
        shake_hands(connection, peer)
        for request in requests:
            connection.send([*request])
        turns = 0
        while connection.wants_write:
            assert not connection.takes_requests
            turns += 1
            assert turn(connection, []) or peer.take()
        while peer.take():
            pass
        assert turns > 10
        assert peer.read == whole


@each_kind
def test_a_small_frame_goes_out_at_once_empty_buffers_and_all(tls: Tls | None) -> None:
    with pair(tls=tls) as (connection, peer):
        shake_hands(connection, peer)
        connection.send([b"", b"ab", memoryview(b""), memoryview(b"cd"), b""])
        assert not connection.wants_write
        peer.take()
        assert peer.read == b"abcd"


@each_kind
@pytest.mark.parametrize("size", [5, 3_000_000])
def test_writing_to_a_broker_that_is_gone_ends_the_connection(tls: Tls | None, size: int) -> None:
    """Before the frame, or in the middle of it."""
    with pair(tls=tls) as (connection, peer):
        shake_hands(connection, peer)
        if size > 5:
            connection.send([bytes(size)])
            peer.take()
            assert connection.wants_write
        peer.end.close()
        with pytest.raises(ConnectionLostError):
            connection.send([framed(b"hello")]) if size == 5 else connection.write()


def test_correlation_ids_count_up_and_start_over_after_the_largest() -> None:
    with pair(tls=None) as (connection, _):
        assert [connection.next_correlation_id() for _ in range(3)] == [1, 2, 3]
        connection.correlation_id = 0x7FFFFFFF
        assert connection.next_correlation_id() == 0
