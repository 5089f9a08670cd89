"""The two ends of a connection through the tap, and the bytes between them.

What comes faster than it can go is not read: each end's reading stops while the other end's
writing is behind, so that a slow client slows only itself.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Protocol

from kipctl.protocol.address import Address
from kipctl.protocol.primitives import EncodeError, MalformedFrame
from kipctl.tap.exchange import Exchange
from kipctl.tap.frames import Frames
from kipctl.trace.clock import now_us

_RESET = Struct("ii").pack(1, 0)
"""SO_LINGER for no time."""
_NOWHERE = Address("", 0)
_LONG_ANSWER = 64 * 1024
_SPEAKS_S = 1.0
"""A client whose broker is away says who it is within this time, or is not known."""
_BUFFERED_BYTES = 1024 * 1024
"""At each end: when so much waits to be written, the other end is not read."""


class Connect(Protocol):
    """Opens the broker's end. Raises PermissionError for a client that is not to be served."""

    async def __call__(self, end: "BrokerEnd", /) -> None: ...


class Connection:
    """A client's connection and the broker's that stands behind it.

    `ended` is called once, with what is to be said of it ("" for a connection that was closed in
    good order); before it `not_reached` of one whose broker cannot be reached, with what the client
    has said first.
    """

    def __init__(
        self,
        exchange: Callable[[], Exchange],
        connect: Connect,
        ended: Callable[["Connection", str], None],
        not_reached: Callable[[bytes], None],
    ) -> None:
        self._make_exchange = exchange
        self._connect = connect
        self._ended, self._not_reached = ended, not_reached
        self.exchange: Exchange | None = None
        self.client = ClientEnd(self)
        self.broker = BrokerEnd(self)
        self._from_client, self._from_broker = Frames(), Frames()
        self._early = b""
        """What the client sent before there was a broker's end."""
        self._has_spoken = asyncio.Event()
        self._connecting: asyncio.Task[None] | None = None
        self._arrived: deque[bytes] = deque()
        """Answers behind one that is being looked through."""
        self._looking: asyncio.Task[None] | None = None
        self._held: deque[tuple[int, bytes]] = deque()
        """Answers that wait for their time (monotonic microseconds), or behind one that does."""
        self._held_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closing_broker = False
        self.is_over = False

    # --- the client's end ---

    def client_connected(self) -> None:
        self._connecting = asyncio.get_running_loop().create_task(self._connect_broker())

    async def _connect_broker(self) -> None:
        try:
            await self._connect(self.broker)
        except PermissionError as refused:
            self.end(f"from the client: {refused}")
            return
        except (OSError, ValueError) as error:  # ValueError: what it is called is no host's name
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_spoken.wait(), _SPEAKS_S)
            self._not_reached(self._early)
            self.end(f"the broker cannot be reached: {getattr(error, 'strerror', '') or error}")
            return
        if not self.is_over:
            self.exchange = self._make_exchange()
            if self._early:
                self.requests(self._early)
                self._early = b""
            self.client.resume()

    def requests(self, data: bytes) -> None:
        """Bytes came from the client: on they go, once it is clear what they are."""
        exchange = self.exchange
        if exchange is None:  # the broker's end is not there yet
            self._early += data
            self._has_spoken.set()
            self.client.pause()
            return
        now = now_us()
        try:
            for frame in self._from_client.feed(data):
                exchange.request(frame, now)
        except MalformedFrame as error:
            self.end(f"from the client: {error.what.removeprefix(': ')}")
            return
        self.broker.write(data)

    # --- the broker's end ---

    def answers(self, data: bytes) -> None:
        """Bytes came from the broker: whole answers go on, as clients are to see them."""
        exchange = self.exchange
        if exchange is None:
            self.end("the broker spoke first")
            return
        try:
            self._arrived += self._from_broker.feed(data)
        except MalformedFrame as error:
            self._end_broken(error)
        else:
            if self._looking is None:
                self._pass_on(exchange)

    def _pass_on(self, exchange: Exchange, is_looked_through: bool = False) -> None:
        """Pass on what has arrived; one that takes long is looked through first, in a task."""
        now = now_us()
        ready: list[bytes] = []
        try:
            while self._arrived:
                if len(self._arrived[0]) > _LONG_ANSWER and not is_looked_through:
                    self.broker.pause()
                    self._looking = asyncio.get_running_loop().create_task(self._look(exchange))
                    break
                is_looked_through = False
                frame, delay_us = exchange.answer(self._arrived.popleft(), now)
                if delay_us or self._held:
                    self._hold(frame, now + delay_us)
                else:
                    ready.append(frame)
        except (MalformedFrame, EncodeError) as error:
            self.client.write_all(ready)
            self._end_broken(error)
        else:
            self.client.write_all(ready)

    async def _look(self, exchange: Exchange) -> None:
        """Look through an answer beside other connections, and go on with it."""
        try:
            for _ in exchange.look_through(self._arrived[0]):
                await asyncio.sleep(0)
            self._looking = None
            self._pass_on(exchange, is_looked_through=True)
            self._go_on()
        except Exception as fault:
            self.end(f"a fault in kipctl: {fault!r}")

    def _go_on(self) -> None:
        """Read the broker's end again, or close, if nothing is in the way any more."""
        if self._looking is not None:
            return
        if self._closing_broker and not self._held:
            self.end("")
        elif self._held_bytes <= _BUFFERED_BYTES and not self.client.is_behind:
            self.broker.resume()

    def _end_broken(self, error: MalformedFrame | EncodeError) -> None:
        self.end(f"from the broker: {error.what.removeprefix(': ')}")

    def _hold(self, frame: bytes, until_us: int) -> None:
        """Answers stay in order: what comes behind one that is held waits too."""
        self._held.append((until_us, frame))
        self._held_bytes += len(frame)
        if self._held_bytes > _BUFFERED_BYTES:
            self.broker.pause()
        if self._timer is None:
            self._wait_for_first()

    def _wait_for_first(self) -> None:
        wait_s = max(0, self._held[0][0] - now_us()) / 1e6
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._release)

    def _release(self) -> None:
        self._timer = None
        now = now_us()
        while self._held and self._held[0][0] <= now + 500:  # timers are of whole milliseconds
            _, frame = self._held.popleft()
            self._held_bytes -= len(frame)
            self.client.write(frame)
        if self._held:
            self._wait_for_first()
        self._go_on()

    def broker_lost(self, why: str) -> None:
        """The broker closed; the client gets what was answered before."""
        if (self._held or self._looking) and not why:
            self._closing_broker = True
            return
        self.end(why)

    # --- both ---

    def writable(self, end: "End", is_writable: bool) -> None:
        """An end's writing has fallen behind, or has caught up."""
        if not is_writable:
            (self.broker if end is self.client else self.client).pause()
        elif self.exchange is None:
            return
        elif end is self.broker:
            self.client.resume()
        else:
            self._go_on()

    def end(self, why: str, is_clients: bool = False) -> None:
        """Close both ends; what was written before still goes out in good order. `is_clients`: the
        client has closed its end."""
        if self.is_over:
            return
        self.is_over = True
        if self._timer:
            self._timer.cancel()
        for task in (self._connecting, self._looking):
            if task and not task.done():
                task.cancel()
        try:
            if self.exchange:
                self.exchange.lost(now_us(), is_clients)
        finally:
            for end in (self.client, self.broker):
                end.close(at_once=bool(why))
            self._ended(self, why)

    def reset(self) -> None:
        """Break the client's end, as a network does."""
        self.client.abort()
        self.end("")


class End(asyncio.Protocol):
    """One end of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self.is_behind = False
        """More waits to be written than there should."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's own class
        transport.set_write_buffer_limits(high=_BUFFERED_BYTES)  # type: ignore[attr-defined]

    @property
    def local(self) -> Address:
        """The address that the other side came to."""
        return self._address("sockname")

    @property
    def remote(self) -> Address:
        """The address that the other side came from."""
        return self._address("peername")

    def _address(self, name: str) -> Address:
        return Address(*self._transport.get_extra_info(name)[:2]) if self._transport else _NOWHERE

    def write(self, data: bytes) -> None:
        if self._transport:
            self._transport.write(data)

    def write_all(self, frames: list[bytes]) -> None:
        """Write them as one: each write is a system call, which is most of what a tap costs."""
        if self._transport and frames:
            self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))

    def pause(self) -> None:
        """Read no more for the time being."""
        if self._transport and not self._is_paused and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport and self._is_paused and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def close(self, at_once: bool) -> None:
        """Close in good order, or at once."""
        if self._transport is None:
            return
        if at_once:
            self._transport.abort()
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, with a reset instead of the end of the stream."""
        if self._transport is None:
            return
        if plain := self._transport.get_extra_info("socket"):
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def pause_writing(self) -> None:
        self.is_behind = True
        self._connection.writable(self, False)

    def resume_writing(self) -> None:
        self.is_behind = False
        self._connection.writable(self, True)


class ClientEnd(End):
    """What the client is connected to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection.client_connected()

    def data_received(self, data: bytes) -> None:
        self._connection.requests(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.end("", is_clients=True)


class BrokerEnd(End):
    """What is connected to the broker."""

    def data_received(self, data: bytes) -> None:
        self._connection.answers(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.broker_lost("")
