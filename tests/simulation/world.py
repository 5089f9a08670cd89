"""A world of one client and its peers: a clock that jumps, and connections that carry bytes late.

`SimulatedSockets` stands where `kipctl.transport.sockets.Sockets` does, and `SimulatedConnection`
where `BlockingConnection` does. Nothing happens but while the client waits: time goes on to the
next event, and what has arrived by then is ready. All that is left to chance comes from one
`random.Random`.
"""

import errno
import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from passing_clock import replaced_time

from kipctl.protocol.produce_frames import Buffer
from kipctl.transport.loop_connection import ConnectionLostError, LoopConnection
from kipctl.transport.sockets import READ, WRITE

_FIRST_US = 1_000_000
_POLLS = 200_000
_ALL = 1 << 30
EPOCH_US = 1_700_000_000_000_000
"""Wall clock (Unix epoch, microseconds) when the world's clock is 0."""


class Spins(AssertionError):  # noqa: N818
    """The client turns and turns and time does not go on."""


class World:
    """The clock, what is still to happen, and what has happened. Times: microseconds."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.now_us = _FIRST_US
        self._story: list[tuple[int, Callable[[], str]]] = []
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0

    def after(self, delay_us: float, happen: Callable[[], None]) -> int:
        """Let it happen so much later; returns when."""
        at_us = self.now_us + int(delay_us)
        self._number += 1
        heapq.heappush(self._events, (at_us, self._number, happen))
        return at_us

    def advance(self, until_us: int) -> None:
        """Go on to the next event, or until then if there is none before; all due then happens."""
        if self._events:
            until_us = min(until_us, self._events[0][0])
        self.now_us = max(self.now_us, until_us)
        while self._events and self._events[0][0] <= self.now_us:
            heapq.heappop(self._events)[2]()

    def sleep(self, seconds: float) -> None:
        """Stand still while everything else goes on."""
        until_us = self.now_us + round(seconds * 1e6)
        while self.now_us < until_us:
            self.advance(until_us)

    def tell(self, what: Callable[[], str]) -> None:
        """Add a line to the story, which is made up when somebody wants to hear it."""
        self._story.append((self.now_us, what))

    @property
    def story(self) -> str:
        return "\n".join(
            f"{(us - _FIRST_US) / 1000:10.3f} ms  {what()}" for us, what in self._story
        )

    @contextmanager
    def rules_time(self) -> Iterator[None]:
        """Whoever asks for the time is told the world's, and who sleeps lets it go on."""
        with replaced_time(
            monotonic=lambda: self.now_us / 1e6,
            monotonic_ns=lambda: self.now_us * 1000,
            time_ns=lambda: (EPOCH_US + self.now_us) * 1000,
            sleep=self.sleep,
        ):
            yield


class Peer(Protocol):
    """The other end of connections."""

    def opened(self, socket: "SimulatedSocket") -> bool:
        """The connection arrives; returns whether it is accepted."""

    def arrived(self, socket: "SimulatedSocket") -> None:
        """There is more for `SimulatedSocket.take`."""

    def closed(self, socket: "SimulatedSocket") -> None: ...


class SimulatedSocket:
    """A TCP socket as `LoopConnection` uses it: non-blocking, ordered, with a bounded buffer."""

    def __init__(
        self,
        world: World,
        number: int,
        delay_us: Callable[[], float],
        room: int,
        pieces: Sequence[int],
    ) -> None:
        """Both ways take `delay_us()` microseconds; the client can have `room` bytes unread, and
        is given at most as many at a time as chance picks of `pieces`.
        """
        self.world = world
        self.number = number
        self.peer: Peer | None = None
        self.connected = self.is_closed = False
        self.failed = 0
        self._inbox = bytearray()
        self._room = room
        self._pieces = pieces
        self._delay_us = delay_us
        self._unread = bytearray()
        """What has arrived at the peer."""
        self._there_us = self._back_us = 0
        self._given = self._taken = self._throttled_until_us = 0
        self._throttles: list[tuple[int, int]] = []
        """Bytes that have come when the client knows of them, and how long they are."""
        self.connection: LoopConnection | None = None
        self.subjects: dict[int, Any] = {}
        """What the client has in mind with each request, by its correlation id."""
        self.sent_us: dict[int, int] = {}
        """When each request was sent."""

    # --- as the client sees it ---

    def fileno(self) -> int:
        return self.number

    def getsockopt(self, level: int, optname: int, /) -> int:
        return self.failed

    def recv_into(self, buffer: memoryview, /) -> int:
        if not self._inbox:
            if self.failed:
                raise ConnectionResetError(errno.ECONNRESET, "reset")
            raise BlockingIOError
        count = min(len(self._inbox), len(buffer), self.world.chance.choice(self._pieces))
        buffer[:count] = self._inbox[:count]
        del self._inbox[:count]
        self._taken += count
        while self._throttles and self._throttles[0][0] <= self._taken:
            throttle_us = self._throttles.pop(0)[1]
            self._throttled_until_us = self.world.now_us + throttle_us
        return count

    def sendmsg(self, buffers: Sequence[Buffer], /) -> int:
        if self.failed:
            raise BrokenPipeError(errno.EPIPE, "broken")
        data = b"".join(buffers)[: self._room]
        if not data:
            raise BlockingIOError
        self._room -= len(data)
        for flight in self.connection.in_flight if self.connection else ():
            if flight.correlation_id not in self.subjects:
                self.subjects[flight.correlation_id] = flight.subject
                self.sent_us[flight.correlation_id] = self.world.now_us
                obeys = self.world.now_us >= self._throttled_until_us
                assert obeys, "a request to a broker that throttles the client, as it has said"
        self._there_us = self._later(self._there_us, lambda: self._arrive(data))
        return len(data)

    def close(self) -> None:
        self.is_closed = True
        if self.peer is not None:
            peer = self.peer
            self._there_us = self._later(self._there_us, lambda: peer.closed(self))

    @property
    def events(self) -> int:
        """What it is ready for."""
        if self.failed:
            return READ | WRITE
        writable = self.connected and self._room > 0
        return (READ if self._inbox else 0) | (WRITE if writable else 0)

    # --- as its peer sees it ---

    @property
    def unread(self) -> int:
        """How many bytes have arrived that were not taken: so much less can be sent."""
        return len(self._unread)

    def take(self, count: int) -> bytes:
        """At most so many bytes of what has arrived."""
        taken = bytes(self._unread[:count])
        del self._unread[: len(taken)]
        self._room += len(taken)
        return taken

    def answer(self, data: bytes, throttle_us: int = 0) -> None:
        """Send to the client, which the answer says is throttled for so long."""

        def arrive() -> None:
            if not self.failed:
                self._inbox += data
                self._given += len(data)
                if throttle_us:
                    self._throttles.append((self._given, throttle_us))

        self._back_us = self._later(self._back_us, arrive)

    def reset(self) -> None:
        """Break the connection, after what was sent before."""

        def arrive() -> None:
            self.failed = self.failed or errno.ECONNRESET

        self._back_us = self._later(self._back_us, arrive)

    # --- what happens ---

    def open(self, peer: Peer | None) -> None:
        """The client has begun to connect; no peer: nobody ever answers."""

        def arrive() -> None:
            if peer is None or self.is_closed:
                return
            if peer.opened(self):
                self.peer, self.connected = peer, True
            else:
                self.failed = errno.ECONNREFUSED

        self._there_us = self._later(0, arrive)

    def _arrive(self, data: bytes) -> None:
        self._unread += data
        if self.peer is not None and not self.failed:
            self.peer.arrived(self)

    def _later(self, not_before_us: int, happen: Callable[[], None]) -> int:
        """After the delay, and after what was sent before."""
        world = self.world
        return world.after(max(self._delay_us(), not_before_us - world.now_us), happen)


class SimulatedSockets:
    """`Sockets`, simulated. `listening` says who listens at a host and port."""

    def __init__(
        self,
        world: World,
        listening: Callable[[str, int], Peer | None],
        delay_us: Callable[[], float],
        on_poll: Callable[[], None] = lambda: None,
        rooms: Sequence[int] = (_ALL,),
        pieces: Sequence[int] = (_ALL,),
    ) -> None:
        """`on_poll` is called whenever the client has done what it could and polls. `rooms` are
        numbers of bytes that a connection may take before any of them is read, `pieces` those that
        come at once.
        """
        self.world = world
        self.open: dict[int, SimulatedSocket] = {}
        self._listening = listening
        self._delay_us = delay_us
        self._on_poll = on_poll
        self._rooms, self._pieces = rooms, pieces
        self._watched: dict[int, int] = {}
        self._number = 10
        self._polls = 0

    def now_us(self) -> int:
        return self.world.now_us

    def dial(self, host: str, port: int) -> SimulatedSocket:
        """Begin to connect. Raises ConnectionLostError."""
        peer = self._listening(host, port)
        if peer is None and self.world.chance.random() < 0.1:
            raise ConnectionLostError("no route")
        self._number += 1
        room = self.world.chance.choice(self._rooms)
        opened = SimulatedSocket(self.world, self._number, self._delay_us, room, self._pieces)
        opened.open(peer)
        return opened

    def connect(
        self, host: str, port: int, number: int, address: int = 0, receive_buffer_bytes: int = -1
    ) -> LoopConnection | None:
        opened = self.dial(host, port)
        self.open[opened.number] = opened
        self._watched[opened.number] = READ | WRITE
        opened.connection = LoopConnection(opened, number)
        return opened.connection

    def watch(self, connection: LoopConnection, events: int) -> None:
        self._watched[connection.fileno()] = events

    def poll(self, timeout_s: float) -> list[tuple[int, int]]:
        self._on_poll()
        self._polls += 1
        if self._polls > _POLLS:
            raise Spins(f"{_POLLS} turns")
        world = self.world
        until_us = world.now_us + round(timeout_s * 1e6)
        world.now_us += world.chance.choice((1, 5, 20))  # whatever the client does takes time
        world.advance(world.now_us)
        while not (ready := self._ready()) and world.now_us < until_us:
            world.advance(until_us)
        return ready

    def _ready(self) -> list[tuple[int, int]]:
        for socket in [socket for socket in self.open.values() if socket.is_closed]:
            del self.open[socket.number]
        ready = [
            (number, events)
            for number, socket in self.open.items()
            if (events := socket.events & self._watched[number])
        ]
        self.world.chance.shuffle(ready)
        return ready

    def close(self) -> None:
        """Nothing is held."""


class SimulatedConnection:
    """`BlockingConnection`, simulated: while it waits, time goes on."""

    def __init__(self, sockets: SimulatedSockets, host: str, port: int, deadline: float) -> None:
        """Raises OSError."""
        self._socket = sockets.dial(host, port)
        self._await(lambda: self._socket.connected, deadline)

    def exchange(self, frame: bytes, deadline: float) -> bytes:
        """Send a frame; returns the next that comes, without its length. Raises OSError."""
        self._socket.sendmsg([frame])
        size = int.from_bytes(self._receive(4, deadline), "big")
        return self._receive(size, deadline)

    def is_over(self) -> bool:
        """Whether the other side has closed it."""
        return bool(self._socket.failed)

    def close(self) -> None:
        self._socket.close()

    def _receive(self, size: int, deadline: float) -> bytes:
        received = bytearray(size)
        count = 0
        while count < size:
            self._await(lambda: self._socket.events & READ, deadline)
            count += self._socket.recv_into(memoryview(received)[count:])
        return bytes(received)

    def _await(self, is_there: Callable[[], object], deadline: float) -> None:
        world = self._socket.world
        while not is_there():
            if self._socket.failed:
                raise ConnectionResetError(self._socket.failed, "refused or reset")
            if world.now_us >= deadline * 1e6:
                raise TimeoutError
            world.advance(int(deadline * 1e6))
