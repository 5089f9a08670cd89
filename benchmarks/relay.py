"""What any proxy costs on this machine: a relay that reads nothing of what it passes on.

Beside it a broker that answers every Produce at once from a template, and a client that sends them
at a fixed rate: with both ends as cheap as that, the proxy's own CPU can be compared.
"""

import asyncio
import multiprocessing
import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection as Pipe

import uvloop

from kipctl.protocol.api import ApiKey, encode_request
from kipctl.protocol.api_versions import ApiVersionsResponse
from kipctl.protocol.message import encode
from kipctl.protocol.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kipctl.protocol.records import one_record_batch

HOST = "127.0.0.1"
CONNECTIONS = 3
_TOPIC = "bench"
_VERSION = 9
_HEAD, _INT32 = struct.Struct(">hh"), struct.Struct(">i")
_RECEIVED = 1 << 16


class _End(asyncio.Protocol):
    """One end; `other` gets what comes."""

    def __init__(self) -> None:
        self.other: asyncio.Transport | None = None
        self.early = b""

    def data_received(self, data: bytes) -> None:
        if self.other:
            self.other.write(data)
        else:
            self.early += data

    def connection_lost(self, error: Exception | None) -> None:
        if self.other:
            self.other.close()


class _ClientEnd(_End):
    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connecting = asyncio.ensure_future(self._connect(transport))

    async def _connect(self, transport: asyncio.BaseTransport) -> None:
        loop = asyncio.get_running_loop()
        self.other, end = await loop.create_connection(_End, HOST, self._port)
        end.other = transport  # type: ignore[assignment]  # uvloop's own class
        self.other.write(self.early)


def _relay(port: int, pipe: Pipe) -> None:
    """The child: says its port, and then its CPU seconds whenever it is asked."""

    def asked() -> None:
        pipe.recv()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send(usage.ru_utime + usage.ru_stime)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _ClientEnd(port), HOST, 0)
        loop.add_reader(pipe.fileno(), asked)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(serve())


class RunningRelay:
    """A relay in a process of its own, before a port."""

    def __init__(self, port: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=_relay, args=(port, theirs), daemon=True)
        self.process.start()
        self.port = self._pipe.recv()

    def cpu_s(self) -> float:
        self._pipe.send(None)
        return float(self._pipe.recv())


@contextmanager
def running_relay(port: int) -> Iterator[RunningRelay]:
    relay = RunningRelay(port)
    try:
        yield relay
    finally:
        relay.process.kill()
        relay.process.join()


@contextmanager
def answering() -> Iterator[int]:
    """The port of a broker that answers each Produce as done."""
    partition = PartitionProduceResponse(index=0, base_offset=0)
    topic = TopicProduceResponse(name=_TOPIC, partition_responses=(partition,))
    body = b"\0" + encode(ProduceResponse(responses=(topic,)), _VERSION)
    length = _INT32.pack(len(body) + 4)

    def serve(connection: socket.socket) -> None:
        waiting = b""
        with suppress(OSError), connection:
            while received := connection.recv(_RECEIVED):
                waiting += received
                answers = []
                while len(waiting) >= 4 and len(waiting) >= (
                    end := 4 + _INT32.unpack_from(waiting)[0]
                ):
                    api_key, version = _HEAD.unpack_from(waiting, 4)
                    if api_key == ApiKey.API_VERSIONS:  # as the tap starts
                        versions = encode(ApiVersionsResponse(), version)
                        answers += [_INT32.pack(len(versions) + 4), waiting[8:12], versions]
                    else:
                        answers += [length, waiting[8:12], body]
                    waiting = waiting[end:]
                connection.sendall(b"".join(answers))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server((HOST, 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def paced(port: int, rate: float, requests: int, record_size: int) -> list[float]:
    """Send so many Produce requests of one record at that rate; each one's latency, in us."""
    batch = one_record_batch(b"x" * record_size)
    data = (PartitionProduceData(index=0, records=batch),)
    topic = TopicProduceData(name=_TOPIC, partition_data=data)
    frame = encode_request(ProduceRequest(acks=1, topic_data=(topic,)), _VERSION, 0, "paced")
    head, tail = frame[:8], frame[12:]
    sockets = [socket.create_connection((HOST, port)) for _ in range(CONNECTIONS)]
    sent_ns = [0] * requests
    latencies = [0.0] * requests

    def read(connection: socket.socket, first: int) -> None:
        """Answers come in order, and all of them have the same size."""
        waiting = 0
        answer_size = 0
        for number in range(first, requests, CONNECTIONS):
            while not answer_size or waiting < answer_size:
                received = connection.recv(_RECEIVED)
                if not received:
                    raise ConnectionError("a connection of the paced client was closed")
                waiting += len(received)
                answer_size = answer_size or 4 + _INT32.unpack_from(received)[0]
            waiting -= answer_size
            latencies[number] = (time.monotonic_ns() - sent_ns[number]) / 1000

    readers = [
        threading.Thread(target=read, args=(connection, first))
        for first, connection in enumerate(sockets)
    ]
    for connection, reader in zip(sockets, readers, strict=True):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader.start()
    begun = time.monotonic()
    for number in range(requests):
        if (left := begun + number / rate - time.monotonic()) > 0:
            time.sleep(left)
        sent_ns[number] = time.monotonic_ns()
        sockets[number % CONNECTIONS].sendall(head + _INT32.pack(number) + tail)
    for connection, reader in zip(sockets, readers, strict=True):
        reader.join()
        connection.close()
    return latencies
