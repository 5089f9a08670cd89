"""`fake_kafka.SimulatedCluster` on loopback: real sockets, threads, and the machine's clock.

For what takes sockets of the operating system, as TLS does, or processes of kipctl.
"""

import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Self

from fake_kafka import TOPIC, VERSIONS, Broker, Reply, Script, SimulatedCluster
from logs import Produced
from wire import Call, Garbage, HangUp, Silence, Versions, framed
from world import World

from kipctl.protocol.message import Response
from kipctl.trace.clock import now_us

__all__ = ["TOPIC", "VERSIONS", "FakeCluster", "HangUp", "Produced", "Reply", "Silence"]

_LOOK_AGAIN_S = 0.001


class _ThisMachine(World):
    """A world whose clock nobody stops; what happens later is waited for by who waits for it."""

    @property
    def now_us(self) -> int:
        return now_us()

    @now_us.setter
    def now_us(self, us: int) -> None:
        """It goes on by itself."""


class FakeCluster(SimulatedCluster):
    """See `SimulatedCluster`; scripts run in the threads of brokers, one at a time."""

    def __init__(
        self,
        brokers: int = 2,
        partitions: int = 1,
        script: Script = lambda _: None,
        versions: Versions = VERSIONS,
        topics: Sequence[str] = (TOPIC,),
        secure: Callable[[socket.socket], socket.socket] = lambda accepted: accepted,
        log_in: Callable[[tuple[int, int], Any], Response | None] = lambda connection, asked: None,
    ) -> None:
        """`secure` makes of a socket another, as that of TLS. `log_in` answers requests of a login
        on a broker's connection, and None to others.
        """
        self.secure = secure
        self.log_in = log_in
        self.failures: list[BaseException] = []
        self.lock = threading.RLock()
        world = _ThisMachine(random.Random(0))
        super().__init__(brokers, partitions, script, versions, topics, world)

    def _new_broker(self, id: int) -> Broker:
        return LoopbackBroker(self, id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for broker in self.brokers.values():
            broker.close()
        assert not self.failures, self.failures


class LoopbackBroker(Broker):
    """A listener with a thread per connection: one request at a time on each, as in Kafka."""

    cluster: FakeCluster

    def __init__(self, cluster: FakeCluster, id: int) -> None:
        super().__init__(cluster, id)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop listening, close every connection, and wait for that."""
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for connection in self._sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = self.cluster.secure(connection)
                number = len(self._sockets)
                thread = threading.Thread(target=self._serve, args=(connection, number))
                self._sockets.append(connection)
                self._threads.append(thread)
                thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        silent = False
        with suppress(OSError, HangUp), connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                (length,) = struct.unpack(">i", size)
                frame = stream.read(length)
                if len(frame) < length:
                    break  # the client has hung up in the midst of it
                if silent:
                    continue  # a broker that hangs still takes what its socket buffers hold
                try:
                    answer = self._framed_answer(number, frame)
                except Silence:
                    silent = True
                    continue
                except Garbage as garbage:
                    answer = framed(garbage.args[0])
                except (HangUp, OSError):
                    raise
                except BaseException as failure:
                    self.cluster.failures.append(failure)
                    raise HangUp from failure
                connection.sendall(answer)

    def _framed_answer(self, number: int, frame: bytes) -> bytes:
        """Empty where there is none."""
        call, cluster = Call.read(frame, self.cluster.versions, number), self.cluster
        answer = cluster.log_in((self.id, number), call.request)
        answering = self.answer(call)
        while answer is None:
            try:
                with cluster.lock:
                    next(answering)
            except StopIteration as over:
                answer = over.value
                break
            time.sleep(_LOOK_AGAIN_S)  # a script may wait for anything: there is no event to it
        return call.frame(answer, cluster.draft) if answer else b""
