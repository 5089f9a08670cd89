"""The scripted cluster on loopback: asyncio in a thread of its own."""

import asyncio
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from socket import SHUT_RDWR, socket
from ssl import SSLContext
from typing import Any, TypeVar

from kipctl.conform.cluster.call import Connection, Exchange
from kipctl.conform.cluster.cluster import HOST, Cluster, HungUpError, SilentError
from kipctl.errors import KipctlError
from kipctl.protocol.api import LARGEST_FRAME
from kipctl.protocol.primitives import MalformedFrame

T = TypeVar("T")
_LOOK_AGAIN_S = 0.002


class Loopback:
    """Brokers that listen on ports of 127.0.0.1 while the context is open.

    What is done to the cluster from elsewhere than its scripts goes through `do`, in its thread.
    """

    def __init__(self, cluster: Cluster, tls: SSLContext | None = None) -> None:
        """`tls` is a server's; without it connections are plain."""
        self.cluster = cluster
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted cluster")
        self._listeners: dict[int, socket] = {}
        self._serving: dict[asyncio.Task[None], int] = {}
        self.malformed: list[KipctlError] = []
        """What came that is no request; the connection is closed then."""
        self.failures: list[BaseException] = []
        """Faults of scripts; the context raises the first when it closes."""

    def __enter__(self) -> Cluster:
        self.cluster.open_listener, self.cluster.close_listener = self._open, self._close
        self._thread.start()
        try:
            self._run(self._start())
        except BaseException:
            self._end()
            raise
        return self.cluster

    def __exit__(self, *exception: object) -> None:
        self._end()
        if self.failures and not any(exception):
            raise self.failures[0]

    def do(self, change: Callable[[], T]) -> T:
        """Change the cluster, in its thread: stop a broker, move a leader, make a topic anew."""

        async def changed() -> T:
            return change()

        return self._run(changed())

    def _end(self) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> None:
        self.cluster.start()

    async def _stop(self) -> None:
        for broker in tuple(self._listeners):
            self._close(broker)
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _open(self, broker: int) -> int:
        self._close(broker)
        listener = socket()
        try:
            listener.bind((HOST, 0))
            listener.listen()
        except BaseException:
            listener.close()
            raise
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept, broker, listener)
        self._listeners[broker] = listener
        port: int = listener.getsockname()[1]
        return port

    def _close(self, broker: int) -> None:
        if broker not in self._listeners:
            return
        listener = self._listeners.pop(broker)
        self._loop.remove_reader(listener)
        with suppress(OSError):
            listener.shutdown(SHUT_RDWR)
        listener.close()
        for serving, at in tuple(self._serving.items()):
            if at == broker:
                serving.cancel()

    def _accept(self, broker: int, listener: socket) -> None:
        try:
            accepted, _ = listener.accept()
        except OSError:  # the client has gone already
            return
        accepted.setblocking(False)
        serving = self._loop.create_task(self._serve(broker, accepted))
        self._serving[serving] = broker
        serving.add_done_callback(lambda task: self._served(task, accepted))

    def _served(self, serving: asyncio.Task[None], accepted: socket) -> None:
        del self._serving[serving]
        if serving.cancelled():  # before it had begun
            accepted.close()

    async def _opened(self, accepted: socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=self._tls
            )
        except BaseException:
            accepted.close()
            raise
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def _serve(self, broker: int, accepted: socket) -> None:
        cluster, calls = self.cluster, asyncio.Queue[Exchange | None]()
        try:
            reader, writer = await self._opened(accepted)
        except OSError:  # the client has gone, or has not made TLS of it
            return
        connection = cluster.connected(broker)
        reading = self._loop.create_task(self._read(connection, reader, calls))
        try:
            # One at a time, as Kafka answers a connection.
            while (call := await calls.get()) is not None:
                await self._answer(call, writer)
            connection.by_client = True
        except (HungUpError, MalformedFrame, OSError):
            pass
        except SilentError:
            await reading
            connection.by_client = True
        except asyncio.CancelledError:
            writer.transport.abort()
        except Exception as failure:
            self.failures.append(failure)
        finally:
            reading.cancel()
            connection.closed_us = cluster.now_us()
            writer.close()

    async def _read(
        self,
        connection: Connection,
        reader: asyncio.StreamReader,
        calls: "asyncio.Queue[Exchange | None]",
    ) -> None:
        """Requests are taken off at once, so that the time of each is that of its arrival."""
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                if not 0 < size <= LARGEST_FRAME:
                    break
                frame = await reader.readexactly(size)
                try:
                    calls.put_nowait(self.cluster.arrived(frame, connection))
                except KipctlError as malformed:
                    self.malformed.append(malformed)
                    break
        calls.put_nowait(None)

    async def _answer(self, call: Exchange, writer: asyncio.StreamWriter) -> None:
        answering = self.cluster.answer(call)
        while True:
            try:
                next(answering)
            except StopIteration as over:
                answer = over.value
                break
            await asyncio.sleep(_LOOK_AGAIN_S)
        if answer is not None:
            writer.write(self.cluster.frame(call, answer))
            await writer.drain()
