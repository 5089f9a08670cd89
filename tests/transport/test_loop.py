"""The event loop's connection against a scripted peer: pieces, floods, silence and garbage."""

import random
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kipctl.protocol.api import LARGEST_FRAME
from kipctl.protocol.produce_frames import Buffer
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.loop_connection import ConnectionLostError, LoopConnection
from kipctl.transport.sockets import SystemSockets

Script = Callable[[socket.socket], None]


@contextmanager
def connected_to(script: Script) -> Iterator[LoopConnection]:
    """A connection to a peer that runs the script in a thread, and what it raises is raised."""
    failures: list[BaseException] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with listener.accept()[0] as accepted:
                try:
                    script(accepted)
                except BaseException as error:
                    failures.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        sockets = SystemSockets(now_us, Access(""))
        connection = sockets.connect("127.0.0.1", listener.getsockname()[1], number=1)
        assert connection
        try:
            assert connection.wants_write
            wait(connection, write=True)
            connection.establish()
            yield connection
        finally:
            connection.close()
            sockets.close()
            thread.join()
    assert not failures, failures


def wait(connection: LoopConnection, write: bool = False) -> None:
    """Until the socket can be read (or written); pytest's own timeout is the limit."""
    select.select([] if write else [connection], [connection] if write else [], [])


def frames_of(connection: LoopConnection, count: int) -> list[bytes]:
    """The next frames, read as they come; there must not be more."""
    frames: list[bytes] = []
    while len(frames) < count:
        wait(connection)
        frames += map(bytes, connection.read())
    assert len(frames) == count
    return frames


def flush(connection: LoopConnection) -> None:
    """Write until nothing is left."""
    while connection.wants_write:
        wait(connection, write=True)
        connection.write()


def deliver(connection: LoopConnection, frame: list[Buffer]) -> None:
    connection.send(frame)
    flush(connection)


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def receive(peer: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = peer.recv(min(65536, size - len(received)))
        assert chunk, f"the connection was closed after {len(received)} of {size} bytes"
        received += chunk
    return bytes(received)


# --- reading ---


def test_many_frames_in_one_read() -> None:
    contents = [bytes([n]) * (4 + n) for n in range(100)]
    with connected_to(lambda peer: peer.sendall(b"".join(map(framed, contents)))) as connection:
        assert frames_of(connection, 100) == contents


def test_one_frame_in_many_reads() -> None:
    content = random.Random(1).randbytes(40)
    go_on = threading.Semaphore(0)

    def drip(peer: socket.socket) -> None:
        for byte in framed(content):
            peer.sendall(bytes([byte]))
            go_on.acquire()

    with connected_to(drip) as connection:
        for _ in range(43):
            wait(connection)
            assert connection.read() == []
            go_on.release()
        wait(connection)
        assert connection.read() == [content]
        go_on.release()


def test_nothing_to_read_is_no_frame() -> None:
    over = threading.Event()
    with connected_to(lambda peer: over.wait(60) and None) as connection:
        assert connection.read() == []
        over.set()


def test_frames_of_all_sizes_cut_anywhere_also_larger_than_the_buffer() -> None:
    choose = random.Random(7)
    sizes = [4, 5, 100, 65536, 262_139, 262_140, 262_141, 262_144, 700_000, 3_000_000, 17, 4]
    contents = [choose.randbytes(size) for size in sizes * 2]
    stream = b"".join(map(framed, contents))

    def in_pieces(peer: socket.socket) -> None:
        at = 0
        while at < len(stream):
            size = choose.choice([1, 3, 4096, 262_144, 1_000_000])
            peer.sendall(stream[at : at + size])
            at += size

    with connected_to(in_pieces) as connection:
        assert frames_of(connection, len(contents)) == contents


def test_a_frame_that_was_handed_out_does_not_change_with_the_next() -> None:
    def two(peer: socket.socket) -> None:
        peer.sendall(framed(b"first frame"))
        receive(peer, 1)
        peer.sendall(framed(b"other bytes"))

    with connected_to(two) as connection:
        (first,) = frames_of(connection, 1)
        connection.send([b"!"])
        assert frames_of(connection, 1) == [b"other bytes"]
        assert first == b"first frame"


@pytest.mark.parametrize("size", [-1, 0, 3, LARGEST_FRAME + 1, 0x48545450, -(1 << 31)])
def test_an_absurd_size_ends_the_connection(size: int) -> None:
    with (
        connected_to(
            lambda peer: peer.sendall(struct.pack(">i", size) + b"P/1.1 400")
        ) as connection,
        pytest.raises(ConnectionLostError, match=f"a frame of {size} bytes was announced"),
    ):
        frames_of(connection, 1)


def test_what_came_before_the_end_is_read_first() -> None:
    over = threading.Event()

    def send_and_close(peer: socket.socket) -> None:
        peer.sendall(framed(b"complete") + framed(b"cut off")[:-1])
        peer.shutdown(socket.SHUT_WR)
        over.wait(60)

    with connected_to(send_and_close) as connection:
        assert frames_of(connection, 1) == [b"complete"]
        wait(connection)
        with pytest.raises(ConnectionLostError, match="the broker closed the connection"):
            connection.read()
        over.set()


def test_a_connection_that_is_reset_is_lost() -> None:
    def reset(peer: socket.socket) -> None:
        receive(peer, 3)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with connected_to(reset) as connection:
        connection.send([b"abc"])
        wait(connection)
        with pytest.raises(ConnectionLostError, match="reset"):
            connection.read()


# --- writing ---


@pytest.mark.parametrize("buffers_each", [1, 3, 2500])
def test_frames_reach_a_slow_reader_whole_and_in_order(buffers_each: int) -> None:
    """More than the sockets hold: writes are partial, and end in the middle of buffers."""
    choose = random.Random(buffers_each)
    frames = [
        [
            choose.randbytes(choose.randrange(1, 20_000_000 // buffers_each))
            for _ in range(buffers_each)
        ]
        for _ in range(3)
    ]
    stream = b"".join(b"".join(frame) for frame in frames)
    go_on = threading.Event()

    def read_late(peer: socket.socket) -> None:
        go_on.wait(60)
        assert receive(peer, len(stream)) == stream
        peer.sendall(framed(b"got it"))

    with connected_to(read_late) as connection:
        for frame in frames:
            connection.send([memoryview(buffer) if len(buffer) % 2 else buffer for buffer in frame])
        assert connection.wants_write
        go_on.set()
        flush(connection)
        assert frames_of(connection, 1) == [b"got it"]


def test_a_small_frame_goes_out_at_once_empty_buffers_and_all() -> None:
    with connected_to(lambda peer: peer.sendall(framed(receive(peer, 4)))) as connection:
        connection.send([b"", b"ab", memoryview(b""), memoryview(b"cd"), b""])
        assert not connection.wants_write
        assert frames_of(connection, 1) == [b"abcd"]


def test_a_peer_that_goes_away_in_the_middle_of_a_frame_is_noticed() -> None:
    with (
        connected_to(lambda peer: receive(peer, 10) and None) as connection,
        pytest.raises(ConnectionLostError),
    ):
        deliver(connection, [bytes(30_000_000)])


def test_correlation_ids_count_up_and_start_over_after_the_largest() -> None:
    with connected_to(lambda peer: None) as connection:
        assert [connection.next_correlation_id() for _ in range(3)] == [1, 2, 3]
        connection.correlation_id = 0x7FFFFFFF
        assert connection.next_correlation_id() == 0
