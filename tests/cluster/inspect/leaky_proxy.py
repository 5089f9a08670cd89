"""A proxy that rewrites the brokers' addresses in Metadata alone, as some in the field do.

What a hint names (`NodeEndpoints`, KIP-951) is passed on as it is, so that who follows it goes past
the proxy.
"""

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress

from kipctl.protocol.api import ApiKey

_REWRITTEN = (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER)


def _frames(connection: socket.socket) -> Iterator[bytes]:
    with connection.makefile("rb") as stream:
        while len(size := stream.read(4)) == 4:
            yield size + stream.read(int.from_bytes(size, "big"))


class LeakyProxy:
    """In front of brokers on 127.0.0.1, each at a port of its own."""

    def __init__(self, brokers: list[int]) -> None:
        self._listening = {port: socket.create_server(("127.0.0.1", 0)) for port in brokers}
        self.ports: Mapping[int, int] = {
            port: listener.getsockname()[1] for port, listener in self._listening.items()
        }
        """Those of the proxy, by those of the brokers."""
        self._open: list[socket.socket] = []
        for port in brokers:
            threading.Thread(target=self._accept, args=(port,), daemon=True).start()

    @property
    def bootstrap_server(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def close(self) -> None:
        for open_socket in (*self._listening.values(), *self._open):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()

    def _accept(self, port: int) -> None:
        with suppress(OSError):  # it is closed
            while True:
                client, _ = self._listening[port].accept()
                broker = socket.create_connection(("127.0.0.1", port))
                self._open += (client, broker)
                asked: dict[bytes, int] = {}
                for pump in (self._requests, self._responses):
                    threading.Thread(target=pump, args=(client, broker, asked), daemon=True).start()

    def _requests(
        self, client: socket.socket, broker: socket.socket, asked: dict[bytes, int]
    ) -> None:
        with suppress(OSError), closing(broker):
            for frame in _frames(client):
                asked[frame[8:12]] = int.from_bytes(frame[4:6], "big")
                broker.sendall(frame)

    def _responses(
        self, client: socket.socket, broker: socket.socket, asked: dict[bytes, int]
    ) -> None:
        with suppress(OSError), closing(client):
            for frame in _frames(broker):
                if asked.pop(frame[4:8], None) in _REWRITTEN:
                    for real, own in self.ports.items():
                        there, here = (b"127.0.0.1" + struct.pack(">i", p) for p in (real, own))
                        frame = frame.replace(there, here)
                client.sendall(frame)


@contextmanager
def leaky_proxy(brokers: list[int]) -> Iterator[LeakyProxy]:
    """In the block it is there."""
    with closing(LeakyProxy(brokers)) as proxy:
        yield proxy
