"""A client's connections: opened when needed, polled together, given up when silent."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from typing import Generic, TypeVar

from kipctl.probe.broker_link import BrokerLink
from kipctl.probe.leadership import Node
from kipctl.probe.metadata_refresh import NEVER_US
from kipctl.protocol.address import host_port
from kipctl.protocol.api import ApiKey
from kipctl.protocol.primitives import MalformedFrame
from kipctl.transport.loop_connection import ConnectionLostError, InFlight
from kipctl.transport.sockets import WRITE, Sockets

AnyLink = TypeVar("AnyLink", bound=BrokerLink)
_CLIENT_THROTTLES = {
    ApiKey.PRODUCE: 6,
    ApiKey.FETCH: 8,
    ApiKey.LIST_OFFSETS: 3,
    ApiKey.METADATA: 6,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: inf,
}
"""From which version on the client is to wait, by `shouldClientThrottle` of Java's responses."""

OnAnswer = Callable[[AnyLink, InFlight, memoryview, int, int], None]
"""Called with the link, the request, the answer's frame, when it came, and how long (in
microseconds) the request stood behind earlier ones on its connection. The frame's bytes are good
for this call only. If it raises MalformedFrame the connection is lost, and the request with it."""
OnDisconnect = Callable[[AnyLink, int, list[InFlight], int], None]
"""Called with the link, its connection's number, the requests in flight on it, and when."""
OnWritten = Callable[[AnyLink, InFlight], None]
"""Called with the link and a request without an answer (acks=0) that had to wait for the socket."""


class Network(Generic[AnyLink]):
    """One link per broker. What arrives is handed to `on_answer`, what breaks to `on_lost`, and
    what needs no answer to `on_written`, if it was not written when it was sent.
    """

    def __init__(
        self,
        sockets: Sockets,
        make_link: Callable[[Node], AnyLink],
        on_answer: OnAnswer[AnyLink],
        on_lost: OnDisconnect[AnyLink],
        on_written: OnWritten[AnyLink] = lambda *_: None,
    ) -> None:
        self._sockets = sockets
        self._clock = sockets.now_us
        self._make_link = make_link
        self._on_answer = on_answer
        self._on_lost = on_lost
        self._on_written = on_written
        self._links: dict[int, AnyLink] = {}
        self._link_of_socket: dict[int, AnyLink] = {}
        self._connections = 0
        self._poll_until_us = NEVER_US
        self.throttle_ms = 0
        """The sum of the throttle times that brokers have announced."""
        self.lags_us: Counter[int] = Counter()
        """How much later than it should have, by a clock, the client went on, to three digits; how
        often each."""
        self.failures: Counter[str] = Counter()
        """Why connections did not come about, with the broker's address; how often each."""
        self.reauthentications_us: list[int] = []
        """How long each took (KIP-368), once all before it was answered: so long that connection
        was held up by it."""
        self._throttled_until_us = NEVER_US
        self.wake_us = NEVER_US
        """When the next throttled link may be written to again, or the next that somebody has
        wanted connected may be tried again."""

    def update_timers(self, now_us: int) -> None:
        """To be called at every turn, before anything is sent."""
        if now_us >= self._poll_until_us:
            self.lags_us[_three_digits(now_us - self._poll_until_us)] += 1
        if now_us >= self._throttled_until_us:
            for link in self._links.values():
                link.is_throttled = link.is_throttled and link.throttled_until_us > now_us
            self._throttled_until_us = min(
                (link.throttled_until_us for link in self._links.values() if link.is_throttled),
                default=NEVER_US,
            )
        self.wake_us = self._throttled_until_us

    def begin_run(self) -> None:
        """The run begins: how late the client went on before does not count."""
        self.lags_us.clear()
        self._poll_until_us = NEVER_US

    def throttle(self, link: BrokerLink, flight: InFlight, throttle_ms: int, now_us: int) -> None:
        """An answer says for how long the broker does not read from this connection.

        Brokers that answer earlier versions wait before they answer (KIP-219).
        """
        if throttle_ms > 0 and flight.api_version >= _CLIENT_THROTTLES[ApiKey(flight.api_key)]:
            self.throttle_ms += throttle_ms
            until_us = now_us + throttle_ms * 1000
            link.throttled_until_us = max(link.throttled_until_us, until_us)
            link.is_throttled = True
            self._throttled_until_us = min(self._throttled_until_us, until_us)
            self.wake_us = min(self.wake_us, until_us)

    @property
    def links(self) -> list[AnyLink]:
        """All links, as they are now: handling one may add another."""
        return list(self._links.values())

    def link(self, node: Node) -> AnyLink:
        """The link to a broker, which is connected to at this address from now on.

        A connection that is ready is kept, whatever the address is called by now: one broker may
        be named in more than one way, as where a proxy rewrites Metadata and not hints (Java's
        `NetworkClient` knows connections by node id alone).
        """
        link = self._links.get(node.id)
        if link is None:
            link = self._links[node.id] = self._make_link(node)
        elif link.node is not node:
            moved = (link.node.host, link.node.port) != (node.host, node.port)
            link.node = node
            if moved and link.connection is not None and not link.ready:
                self.disconnect(link)
        return link

    def update_addresses(self, nodes: Mapping[int, Node]) -> None:
        """Connect the links that there are to these addresses from now on: what waits on one that
        is not connected, for a broker that has moved, would wait for ever.
        """
        for id in self._links.keys() & nodes.keys():
            self.link(nodes[id])

    def ensure_connected(self, link: AnyLink) -> bool:
        """True when the link is ready; begins to connect when it is not and may be."""
        if link.connection is None and self._clock() < link.reconnect_us:
            self.wake_us = min(self.wake_us, link.reconnect_us)
        elif link.connection is None:
            try:
                connection = link.connect(self._connections + 1)
            except (ConnectionLostError, OSError):
                self.disconnect(link)
            else:
                if connection is not None:
                    self._connections += 1
                    self._link_of_socket[connection.fileno()] = link
        return link.ready

    def least_loaded(self) -> AnyLink | None:
        """A link that can take a request, with the fewest in flight (Java's leastLoadedNode)."""
        usable = [link for link in self._links.values() if link.may_send]
        if not usable:
            return None
        fewest = min(link.load for link in usable)
        return random.choice([link for link in usable if link.load == fewest])

    def are_unreachable(self, nodes: Iterable[Node]) -> bool:
        """Each has been tried, and none is connected."""
        return all(not link.ready and link.has_failed for link in map(self.link, nodes))

    def connect_one_more(self, nodes: Iterable[Node]) -> None:
        """Connect to a broker that there is no connection to, unless one is being opened.

        So it is where every connection is full, and a request is due that any broker can answer
        (Java's leastLoadedNode). Where none is ready, all are tried.
        """
        links = [self.link(node) for node in nodes]
        ready = any(link.ready for link in self._links.values())
        if ready and any(link.connection and not link.ready for link in links):
            return
        closed = [link for link in links if link.connection is None]
        random.shuffle(closed)
        for link in closed:
            self.ensure_connected(link)
            if ready and link.connection is not None:
                return

    def poll(self, until_us: int) -> None:
        """Handle what the sockets have; wait until then, to the microsecond, if nothing."""
        now = self._clock()
        self._poll_until_us = max(
            until_us, now
        )  # it is not late for a moment that had passed already
        for socket, mask in self._sockets.poll(max(0, until_us - now) / 1e6):
            link = self._link_of_socket[socket]
            if link.connection is None or link.connection.fileno() != socket:
                continue
            try:
                self._handle(link, mask)
            except (ConnectionLostError, MalformedFrame) as lost:
                if not link.ready:
                    self.failures[f"{host_port(link.node.host, link.node.port)}: {lost}"] += 1
                self.disconnect(link)

    def _handle(self, link: AnyLink, mask: int) -> None:
        connection = link.connection
        assert connection is not None
        if not connection.connected:
            link.establish(self._clock())
            if not connection.connected:
                return
        elif mask & WRITE:
            connection.write()
            link.watch()
            if not connection.wants_write:
                link.window_open_us = self._clock()
            if written := link.pop_written():
                self._on_written(link, written)
        if not mask & ~WRITE:
            return
        frames = connection.read()
        link.watch()  # a login that is answered goes on
        now = self._clock()
        for frame in frames:
            flight, behind_us = link.answered(frame, now)
            try:
                self._on_answer(link, flight, frame, now, behind_us)
            except MalformedFrame:
                connection.in_flight.appendleft(flight)  # it is unanswered, and lost with the rest
                raise
            if link.connection is not connection:
                return

    def disconnect(self, link: AnyLink) -> None:
        """Close the link's connection and say what was in flight on it."""
        number = link.connection.number if link.connection else 0
        self._on_lost(link, number, link.disconnect(), self._clock())

    def disconnect_timed_out(self) -> None:
        """Give up connections that are silent for too long (`BrokerLink.has_timed_out`).

        What has come by now is read before: it may be the client that stood still, not the broker.
        """
        now = self._clock()
        if any(link.has_timed_out(now) for link in self.links):
            self.poll(now)
        for link in self.links:
            if link.has_timed_out(now):
                self.disconnect(link)

    def keep_authenticated(self) -> None:
        """Log in again where a session is about to end (KIP-368); one after the other if there is
        time for it, so that some brokers can be written to at any moment.
        """
        now = self._clock()
        logging_in = {id for id, link in self._links.items() if link.is_logging_in}
        for link in self.links:
            if link.ready and link.connection is not None:
                self.reauthentications_us += link.connection.reauthentications_us
                link.connection.reauthentications_us.clear()
                try:
                    others = logging_in - {link.node.id}
                    link.connection.keep_authenticated(now, bool(others))
                    link.watch()
                except ConnectionLostError:
                    self.disconnect(link)
                if link.is_logging_in:
                    logging_in.add(link.node.id)

    def finish(self, links: Collection[AnyLink], until_us: int) -> None:
        """Wait, until then at most, for what is in flight on these links; nobody hears of it."""
        self._on_answer, self._on_lost = lambda *_: None, lambda *_: None
        while self._clock() < until_us and any(link.load for link in links):
            self.poll(until_us)

    def close(self) -> None:
        for link in self._links.values():
            link.disconnect()
        self._sockets.close()


def _three_digits(value: int) -> int:
    """The value, rounded down: there are few of them, however long they are counted."""
    step = 1
    while value >= 1000 * step:
        step *= 10
    return value - value % step
