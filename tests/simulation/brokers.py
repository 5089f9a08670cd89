"""Brokers of the scripted cluster in a simulated world: what they have heard, their connections,
and what is wrong with them just now.
"""

import struct
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from world import SimulatedSocket

from kipctl.conform.cluster import Broker, Exchange, HungUpError, Image, SilentError
from kipctl.conform.cluster import Connection as Seen
from kipctl.conform.cluster.apis import Answering
from kipctl.conform.cluster.cluster import HOST
from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import Message, Response

if TYPE_CHECKING:
    from fake_kafka import SimulatedCluster

_OBEYED = {ApiKey.PRODUCE: 6, ApiKey.FETCH: 8, ApiKey.LIST_OFFSETS: 3}
"""Requests that brokers throttle, and from which version on clients obey (KIP-219)."""


class Garbage(Exception):  # noqa: N818
    """Raised by a script: send these bytes instead of an answer, after a right length."""


class Nobody:
    """A `Peer` at whose port nobody listens."""

    def opened(self, socket: SimulatedSocket) -> bool:
        return False

    def arrived(self, socket: SimulatedSocket) -> None: ...

    def closed(self, socket: SimulatedSocket) -> None: ...


class SimulatedBroker(Broker):
    """A `Peer`. It hears late of what changes."""

    def __init__(self, cluster: "SimulatedCluster", id: int) -> None:
        super().__init__(id, cluster.image)
        self.cluster = cluster
        self.port = 9000 + id
        self.is_up = True
        self.paused_until_us = 0
        self.deaf_until_us = 0
        """Until then it hears nothing of the controller."""
        self.throttle_us = 0
        """How long it does not read after an answer, and says so (KIP-219)."""
        self.is_empty = False
        """It shows no brokers at all, as one that starts up."""
        self.refusal: Callable[[], int] = lambda: 0
        """An error for a batch or a reader, instead of appending or reading."""
        self.regret: Callable[[], int] = lambda: 0
        """An error for a batch after it is appended."""
        self.connections: dict[SimulatedSocket, Connection] = {}
        self._heard, self.heard_us = 0, 0

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def hear(self, image: Image) -> None:
        super().hear(image)
        host, told = self.cluster.own_host, self.cluster.endpoints
        self.endpoints.maps[1] = {
            id: replace(node, host=host) for id, node in image.nodes.items() if told
        }

    def will_hear(self, number: int, image: Image) -> None:
        """Of the image of that number, when it gets there; older ones are nothing to it then."""
        now_us = self.cluster.now_us()
        self.heard_us = max(self.heard_us, self.deaf_until_us, now_us + int(self.cluster.lag_us()))

        def hear() -> None:
            if number > self._heard:
                self._heard = number
                self.hear(image)

        if self.heard_us <= now_us:
            hear()
        else:
            self.cluster.world.after(self.heard_us - now_us, hear)

    def close(self) -> None:
        """It does not listen any more; nobody else hears of that."""
        self.is_up = False
        self.hang_up()

    # --- connections (`world.Peer`) ---

    def opened(self, socket: SimulatedSocket) -> bool:
        if self.is_up:
            self.connections[socket] = Connection(self, socket, self.cluster.connected(self.id))
        return self.is_up

    def arrived(self, socket: SimulatedSocket) -> None:
        if socket in self.connections:
            self.connections[socket].arrived()

    def closed(self, socket: SimulatedSocket) -> None:
        """By the client. What has arrived is read to its end, as by Kafka."""
        if socket in self.connections:
            self.connections[socket].ends(by_client=True)

    def hang_up(self, *sockets: SimulatedSocket) -> None:
        """Break these connections, or all."""
        for socket in sockets or tuple(self.connections):
            socket.reset()
            if socket in self.connections:
                self.connections.pop(socket).ends(by_client=False)


class Connection:
    """A broker's side of a connection: one request at a time, as Kafka's channels have it.

    What it does not read, because it is busy or throttles the client, stays in the socket.
    """

    def __init__(self, broker: SimulatedBroker, socket: SimulatedSocket, seen: Seen) -> None:
        self.seen = seen
        self._broker = broker
        self._socket = socket
        self._cluster = broker.cluster
        self._world = broker.cluster.world
        self._calls: list[Exchange] = []
        """What has been read ahead."""
        self._frame = b""
        """What has been read of the next request."""
        self._is_busy = False
        self._muted_until_us = 0

    @property
    def has_more(self) -> bool:
        """The client has sent something behind the request that is being answered."""
        return self._socket.unread > 0

    def ends(self, by_client: bool) -> None:
        if self.seen.closed_us < 0:
            self.seen.closed_us, self.seen.by_client = self._world.now_us, by_client

    def arrived(self) -> None:
        """Read on, and take the next request when it is whole."""
        while self._cluster.reads_ahead and (frame := self._next_frame()):
            self._calls.append(self._cluster.arrived(frame, self.seen))
        if self._is_busy or self._is_gone:
            return
        wait_us = max(self._muted_until_us, self._broker.paused_until_us) - self._world.now_us
        if wait_us > 0:
            self._is_busy = True
            self._world.after(wait_us, self._read_on)
            return
        if self._calls:
            self._is_busy = True
            self._take(self._calls.pop(0))
        elif frame := self._next_frame():
            self._is_busy, whole = True, frame
            thinks_us = self._world.chance.choice((20, 100, 1000))
            self._world.after(
                thinks_us, lambda: self._take(self._cluster.arrived(whole, self.seen))
            )

    def _next_frame(self) -> bytes:
        """Without its length; empty while it is not whole."""
        for _ in ("length", "rest"):
            size = struct.unpack_from(">i", self._frame)[0] if len(self._frame) >= 4 else 0
            self._frame += self._socket.take(4 + size - len(self._frame))
            if len(self._frame) < 4 + size or not size:
                continue
            frame, self._frame = self._frame[4:], b""
            return frame
        return b""

    @property
    def _is_gone(self) -> bool:
        return self._socket not in self._broker.connections

    def _read_on(self) -> None:
        self._is_busy = False
        self.arrived()

    def _take(self, call: Exchange) -> None:
        socket, number = self._socket, call.correlation_id
        self._cluster.minds[call.connection, number] = socket.subjects.get(number)
        self._cluster.sent_us[call.connection, number] = socket.sent_us.get(number, 0)
        self._go_on(call, self._cluster.answer(call))

    def _go_on(self, call: Exchange, answering: Answering) -> None:
        """Look whether there is an answer by now."""
        world, broker = self._world, self._broker
        if self._is_gone:
            return
        wait_us = broker.paused_until_us - world.now_us
        response = None
        if wait_us <= 0:
            try:
                next(answering)
                wait_us = self._cluster.look_again_us
            except StopIteration as over:
                response = over.value
            except HungUpError:
                broker.hang_up(self._socket)
                return
            except SilentError:
                return
            except Garbage as garbage:
                (body,) = garbage.args
                self._socket.answer(struct.pack(">i", len(body)) + body)
                self._read_on()
                return
        if wait_us > 0:
            world.after(wait_us, lambda: self._go_on(call, answering))
            return
        if response is not None:
            self._say(call, response)
        self._read_on()

    def _say(self, call: Exchange, answer: Response) -> None:
        throttle_us, id = 0, self._broker.id
        if call.api in _OBEYED and self._broker.throttle_us:
            self._muted_until_us = self._world.now_us + self._broker.throttle_us
            obeys = call.version >= _OBEYED[ApiKey(call.api)]
            throttle_us = self._broker.throttle_us if obeys else 0
            answer = replace(answer, throttle_time_ms=self._broker.throttle_us // 1000)  # type: ignore[call-arg]
        self._world.tell(lambda: f"broker {id} answers {_told(answer)}"[:300])
        self._socket.answer(self._cluster.frame(call, answer), throttle_us)


def _told(value: Any) -> str:
    """An answer in words: what of it is not as always."""
    match value:
        case bytes():
            return f"{len(value)} B"
        case tuple():
            return f"[{', '.join(map(_told, value))}]"
        case Message():
            given = ((field, getattr(value, field.name)) for field in fields(value))
            told = [f"{field.name} {_told(at)}" for field, at in given if at != field.default]
            return f"{type(value).__name__}({', '.join(told)})"
    return str(value)
