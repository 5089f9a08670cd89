"""TLS with clients: a handshake that fails is reported, and delays no other client."""

import asyncio
import socket
import ssl

from kipctl.tap.connection import Connection

_TIMEOUT_S = 10.0
_PAUSE_S = 1.0


async def accept(listening: socket.socket) -> socket.socket:
    """The next client, before a word was said. Out of file descriptors, it is waited for some."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            accepted, _ = await loop.sock_accept(listening)
        except OSError:
            await asyncio.sleep(_PAUSE_S)
        else:
            return accepted


async def handshake(
    accepted: socket.socket, context: ssl.SSLContext, connection: Connection
) -> None:
    """Agree on TLS with a client that was accepted; then it is the connection's.

    A server of asyncio's would keep to itself why a client did not agree.
    """
    loop = asyncio.get_running_loop()
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        await loop.connect_accepted_socket(
            lambda: connection.client, accepted, ssl=context, ssl_handshake_timeout=_TIMEOUT_S
        )
    except ConnectionResetError:  # it went away without a word
        connection.end("")
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or error
        connection.end(f"from the client: TLS is not agreed upon ({reason})")
