"""The tap: a listener for the bootstrap servers, and one for each broker that answers name."""

import asyncio
import random
import socket
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kipctl.errors import KipctlError, UnreachableError, UsageError
from kipctl.protocol.address import Address, host_port
from kipctl.security.settings import Security
from kipctl.tap.addresses import Addresses
from kipctl.tap.connection import BrokerEnd, Connection
from kipctl.tap.exchange import Exchange
from kipctl.tap.observer import Observer
from kipctl.tap.peer_user import is_of_this_user
from kipctl.tap.spec import EVERYWHERE, Lend, TapSpec
from kipctl.tap.tls import accept, handshake
from kipctl.tap.watch import LOOK_US
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.request import BrokerConnection

_BACKLOG = 1024
_CONNECT_TIMEOUT_S = 10.0
_FLUSH_S = 0.25


def _check_answers(broker: Address, access: Access) -> None:
    """Ask for its API versions, which needs no login. Raises KipctlError."""
    alone = Access(str(broker), Security(access.security.tls), access.address_map)
    with BrokerConnection(*broker, "kipctl", _CONNECT_TIMEOUT_S, alone) as connection:
        _ = connection.api_versions


@dataclass(slots=True)
class Tap:
    """A running tap; it lives in one event loop. `message` is told what goes wrong, in a line."""

    spec: TapSpec
    directory: Path | None
    wall_offset_us: int
    message: Callable[[str], None]
    observer: Observer = field(init=False)
    connections: set[Connection] = field(default_factory=set)
    bootstrap: Address = field(init=False)
    """Where clients connect."""
    _servers: list[asyncio.Server] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _sockets: list[socket.socket] = field(default_factory=list)
    _made: int = 0
    _inside: ssl.SSLContext | None = field(init=False)
    _outside: ssl.SSLContext | None = field(init=False)
    _candidates: list[Address] = field(init=False)
    _next_port: int = field(init=False)

    def __post_init__(self) -> None:
        """Raises UsageError, as `TapSpec.check`."""
        self.spec.check()
        self._inside, tls = self.spec.tls.for_clients(), self.spec.access.security.tls
        self._outside = tls.context() if tls else None
        self._candidates = list(self.spec.access.bootstrap)
        self._next_port = self.spec.listen_address[1]
        self.observer = Observer(
            self.spec, self.directory, Addresses(self._listen_for), self.wall_offset_us
        )

    async def start(self) -> None:
        """Listen. Raises UnreachableError when no bootstrap server answers, UsageError when the
        port is taken.
        """
        await self._find_bootstrap()
        host, _ = self.spec.listen_address
        self.bootstrap = Address(
            "127.0.0.1" if host in EVERYWHERE else host, self._listen_for(None)
        )
        self._run(self._flushing())
        self._run(self._watching())
        if self.spec.resets_per_s:
            self._run(self._resetting())

    async def stop(self) -> None:
        """Close all connections and listeners; the record is whole after it."""
        self.observer.is_ending = True
        for task in list(self._tasks):
            task.cancel()
        for server in self._servers:
            server.close()
        for listening in self._sockets:
            listening.close()
        for connection in list(self.connections):
            connection.end("")
        await asyncio.sleep(0)
        self.observer.close()

    async def _find_bootstrap(self) -> None:
        """Find a bootstrap server that answers, and ask it first from now on."""
        reported = ""
        for candidate in list(self._candidates):
            try:
                await asyncio.to_thread(_check_answers, candidate, self.spec.access)
            except KipctlError as error:
                reported = error.what
                continue
            self._candidates.remove(candidate)
            self._candidates.insert(0, candidate)
            return
        raise UnreachableError(
            f"No bootstrap server of {self.spec.access} answers. {reported}",
            "Check --bootstrap-server, and --command-config.",
        )

    def _listen_for(self, broker: Address | None) -> int:
        """Listen for a broker (None: the bootstrap servers); returns the port, at once."""
        host = self.spec.listen_address[0]
        port, self._next_port = self._next_port, self._next_port and self._next_port + 1
        try:
            resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listening = socket.socket(resolved[0], socket.SOCK_STREAM)
        except OSError as error:
            raise UsageError(f"The tap cannot listen at {host}: {error.strerror}.") from None
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(resolved[4])
            listening.listen(_BACKLOG)
        except OSError as error:
            listening.close()
            raise UsageError(
                f"The tap cannot listen at {host_port(host, port)}: {error.strerror}.",
                "Brokers get the ports after that of --listen; name another one, or port 0.",
            ) from None
        listening.setblocking(False)
        self._sockets.append(listening)
        self._run(self._serve(listening, broker))
        port = listening.getsockname()[1]
        return int(port)

    async def _serve(self, listening: socket.socket, broker: Address | None) -> None:
        loop = asyncio.get_running_loop()
        while self._inside:
            accepted = await accept(listening)
            self._run(handshake(accepted, self._inside, self._connection(broker)))
        server = await loop.create_server(
            lambda: self._connection(broker).client, sock=listening, backlog=_BACKLOG
        )
        self._servers.append(server)

    def _connection(self, broker: Address | None) -> Connection:
        self._made += 1
        at = [broker or self._candidates[0]]
        number = self._made
        is_own_users_alone = self.spec.identity and self.spec.lends is Lend.THIS_USER

        def exchange() -> Exchange:
            host, add = self.spec.advertised or (self.spec.listen_address[0], 0)
            if host in EVERYWHERE:
                host = connection.client.local.host
            came_from = connection.client.remote.host
            began = now_us()
            return Exchange(
                self.observer, number, at[0], host, began, add, came_from, broker is None
            )

        async def connect(end: BrokerEnd) -> None:
            client = connection.client
            if is_own_users_alone and not is_of_this_user(client.remote, client.local):
                raise PermissionError("it is another user's")
            at[0] = await self._connect(broker, end)

        def not_reached(first: bytes) -> None:
            host = connection.client.remote.host
            self.observer.not_reached(first, broker, host, now_us())

        ended = partial(self._ended, number, at)
        connection = Connection(exchange, connect, ended, not_reached)
        self.connections.add(connection)
        return connection

    async def _connect(self, broker: Address | None, end: BrokerEnd) -> Address:
        """Connect to the broker, or to the first bootstrap server that takes it."""
        loop = asyncio.get_running_loop()
        refused: OSError = OSError("no bootstrap server")
        for place in [broker] if broker else self._candidates:
            try:
                await asyncio.wait_for(
                    loop.create_connection(lambda: end, **self._connect_options(place)),
                    _CONNECT_TIMEOUT_S,
                )
            except TimeoutError:
                refused = OSError(f"no answer within {_CONNECT_TIMEOUT_S:g} s")
            except OSError as error:
                refused = error
            else:
                return place
        raise refused

    def _connect_options(self, broker: Address) -> dict[str, Any]:
        """How asyncio is told to connect to a broker."""
        place = self.spec.access.mapped(broker)
        name = broker[0] if self._outside else None
        return {
            "host": place.host,
            "port": place.port,
            "ssl": self._outside,
            "server_hostname": name,
        }

    def _ended(self, number: int, at: list[Address], connection: Connection, why: str) -> None:
        self.connections.discard(connection)
        if why:
            client = connection.exchange.client if connection.exchange else None
            who = f" of {client.identity.client_id!r}" if client else ""
            self.message(f"Connection {number}{who} to {at[0][0]}:{at[0][1]} is dropped: {why}.")

    async def _flushing(self) -> None:
        before = ""
        while True:
            await asyncio.sleep(_FLUSH_S)
            try:
                problem = self.observer.tick(now_us())
            except Exception as fault:  # what it forgets can wait, what it writes cannot
                problem = f"A fault in kipctl: {fault!r}."
            if problem and problem != before:
                self.message(problem)
            before = problem

    async def _watching(self) -> None:
        due_us = now_us() + LOOK_US
        while True:
            await asyncio.sleep(max(0, due_us - now_us()) / 1e6)
            now = now_us()
            self.observer.watch.look(now - due_us)
            due_us = now + LOOK_US

    async def _resetting(self) -> None:
        """Reset connections at random, so many a second over time (a Poisson process)."""
        chance = random.Random()
        while True:
            await asyncio.sleep(chance.expovariate(self.spec.resets_per_s))
            able = [
                connection for connection in self.connections if connection.exchange is not None
            ]
            if able:
                connection = chance.choice(able)
                client = connection.exchange.client if connection.exchange else None
                if client:
                    client.counts.resets += 1
                connection.reset()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()):
            self.message(f"A fault in kipctl: {fault!r}.")
