"""A non-blocking connection to one broker, for an event loop that also has records to send."""

import errno
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kipctl.protocol.api import LARGEST_FETCH
from kipctl.protocol.produce_frames import Buffer

_RECEIVE_BYTES = 256 * 1024


@dataclass(slots=True)
class InFlight:
    """A request that waits for its answer. Times are in microseconds (monotonic)."""

    correlation_id: int
    api_key: int
    api_version: int
    size: int
    sent_us: int
    ahead: int
    """Requests that were in flight on the connection before it."""
    subject: Any
    """What the caller needs to handle the answer."""


class Socket(Protocol):
    """A non-blocking TCP socket, as far as a connection uses it."""

    def fileno(self) -> int: ...

    def getsockopt(self, level: int, optname: int, /) -> int: ...

    def sendmsg(self, buffers: Sequence[Buffer], /) -> int: ...

    def recv_into(self, buffer: memoryview, /) -> int: ...

    def close(self) -> None: ...


class ConnectionLostError(Exception):
    """The broker closed the connection, it broke, or it carried garbage."""


class LoopConnection:
    """One TCP connection: requests go out in order, answers come in order.

    The owner polls `fileno()` for reading, and for writing while `wants_write`, and calls
    `establish` until it is `connected`, then `write` and `read`; each raises ConnectionLostError
    when it is over.
    """

    def __init__(self, connecting: Socket, number: int, least_room: int = 1) -> None:
        """`connecting` is non-blocking and has begun to; `number` names it in the trace.

        It is given at least so much room to receive into.
        """
        self.number = number
        self.connected = False
        self._least_room = least_room
        self.in_flight: deque[InFlight] = deque()
        self.answered_us = 0
        """When the last answer came."""
        self.reauthentications_us: list[int] = []
        """How long each login took that was made while the connection was in use, counted from
        when the broker had answered what was sent before it."""
        self._unsent: list[Buffer] = []
        self.correlation_id = 0
        """Of the last request made."""
        self._received = bytearray(_RECEIVE_BYTES)
        self._start = self._end = 0
        self._socket = connecting

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def wants_write(self) -> bool:
        return bool(self._unsent) or not self.connected

    @property
    def takes_requests(self) -> bool:
        """It is connected, and everything given to it is written."""
        return self.connected and not self._unsent

    def establish(self) -> None:
        """Call when the socket has an event, the first one being that it is writable."""
        self._finish_connect()
        self.connected = True

    def _finish_connect(self) -> None:
        failed = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            raise ConnectionLostError(errno.errorcode.get(failed, str(failed)))

    @property
    def is_logging_in(self) -> bool:
        """It is in use, and takes no request until it has logged in again."""
        return False

    def keep_authenticated(self, now_us: int, others_log_in: bool = False) -> None:
        """Call now and then: a session that is about to end is renewed (KIP-368).

        As long as it can, it waits until nothing is in flight and no other connection logs in.
        """

    def next_correlation_id(self) -> int:
        self.correlation_id = (self.correlation_id + 1) & 0x7FFFFFFF
        return self.correlation_id

    def send(self, buffers: list[Buffer]) -> None:
        """Write a frame, as much of it as the socket takes; the rest goes with `write`."""
        if self._unsent:
            self._unsent += buffers
        else:
            self._unsent = buffers
            self.write()

    def write(self) -> None:
        """Write what is still unsent."""
        while self._unsent:
            batch = self._unsent[:1000]
            try:
                sent = self._socket.sendmsg(batch)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as lost:
                raise ConnectionLostError(str(lost)) from lost
            self._unsent = _after(batch, sent) + self._unsent[1000:]

    def read(self) -> list[memoryview]:
        """The whole frames that have arrived, without their length; empty if none is complete.

        They are views of what was received, good until the next call.
        """
        if len(self._received) - self._end < self._least_room:
            self._make_room()
        try:
            count = self._socket.recv_into(memoryview(self._received)[self._end :])
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as lost:
            raise ConnectionLostError(str(lost)) from lost
        if count == 0:
            raise ConnectionLostError("the broker closed the connection")
        self._end += count
        frames: list[memoryview] = []
        while self._end - self._start >= 4:
            size = int.from_bytes(self._received[self._start : self._start + 4], "big", signed=True)
            if not 4 <= size <= LARGEST_FETCH:
                raise ConnectionLostError(f"a frame of {size} bytes was announced")
            frame_end = self._start + 4 + size
            if frame_end > self._end:
                if self._start and frame_end > len(self._received):
                    self._make_room(in_place=not frames)
                break
            frames.append(memoryview(self._received)[self._start + 4 : frame_end])
            self._start = frame_end
        if self._start == self._end:
            self._start = self._end = 0
        return frames

    def _make_room(self, in_place: bool = True) -> None:
        """Move what is unread to the front; where it leaves no room there, more is made.

        There is as much as is announced only once so much has come: until then it is doubled. Not
        `in_place` when there are views of what was there before.
        """
        unread = memoryview(self._received)[self._start : self._end]
        before = len(self._received)
        if in_place and before - len(unread) >= self._least_room:
            self._received[: len(unread)] = bytes(unread)
        else:
            announced = 4 + int.from_bytes(unread[:4], "big")
            most = max(before, 2 * len(unread))
            room = max(min(announced, most), len(unread) + _RECEIVE_BYTES)
            self._received = bytearray(room)
            self._received[: len(unread)] = unread
        self._start, self._end = 0, len(unread)

    def close(self) -> None:
        self._socket.close()


def _after(buffers: Sequence[Buffer], sent: int) -> list[Buffer]:
    """What is left of the buffers when the first `sent` bytes are gone."""
    for i, buffer in enumerate(buffers):
        if sent < len(buffer):
            return [memoryview(buffer)[sent:], *buffers[i + 1 :]]
        sent -= len(buffer)
    return []
