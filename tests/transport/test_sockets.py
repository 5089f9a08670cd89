"""Connections begun: refused, out of reach, by names that are looked up slowly or not at all."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.loop_connection import ConnectionLostError, LoopConnection
from kipctl.transport.sockets import WRITE, SystemSockets

_STREAM = (socket.AF_INET, socket.SOCK_STREAM, 6, "")


@pytest.fixture
def sockets() -> Iterator[SystemSockets]:
    opened = SystemSockets(now_us, Access(""))
    yield opened
    opened.close()


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """Bound, and not listening: it refuses."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


def connect(sockets: SystemSockets, host: str, port: int, address: int = 0) -> LoopConnection:
    """A connection that may be written to, or has failed; pytest's own timeout is the limit."""
    while (connection := sockets.connect(host, port, 1, address)) is None:
        sockets.poll(60)
    while not any(event & WRITE for _, event in sockets.poll(60)):
        pass
    return connection


def test_a_connection_that_is_refused_is_lost(sockets: SystemSockets, bound: socket.socket) -> None:
    connection = connect(sockets, *bound.getsockname())
    with pytest.raises(ConnectionLostError, match="ECONNREFUSED"):
        connection.establish()
    connection.close()


def test_an_address_that_cannot_be_reached_is_lost_at_once(sockets: SystemSockets) -> None:
    with pytest.raises(ConnectionLostError):
        sockets.connect("255.255.255.255", 9, number=1)


def test_the_addresses_of_a_host_are_taken_in_turn(
    sockets: SystemSockets, bound: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where localhost is ::1 first and the broker listens on 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        both = [(*_STREAM, where.getsockname()) for where in (bound, listener)]
        _resolve(monkeypatch, lambda: both)
        for address, refused in enumerate([True, False, True, False]):
            connection = connect(sockets, "two.example", 9092, address)
            if refused:
                with pytest.raises(ConnectionLostError):
                    connection.establish()
            else:
                connection.establish()
            connection.close()


def test_a_resolver_that_hangs_stops_neither_the_loop_nor_what_is_known(
    sockets: SystemSockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def resolve() -> list[object]:
            assert answering.wait(60)
            return [(*_STREAM, listener.getsockname())]

        _resolve(monkeypatch, resolve)
        assert sockets.connect("slow.example", 9092, number=1) is None
        assert sockets.poll(0.001) == []
        answering.set()
        connect(sockets, "slow.example", 9092).close()
        answering.clear()
        connect(sockets, "slow.example", 9092).close()  # by what was answered last
        answering.set()


def test_a_name_that_nobody_knows_is_said_once_and_looked_up_again(
    sockets: SystemSockets, bound: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[object] = [
        socket.gaierror(-2, "Name or service not known"),
        [(*_STREAM, bound.getsockname())],
    ]

    def resolve() -> object:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

    _resolve(monkeypatch, resolve)
    assert sockets.connect("none.example", 9092, number=1) is None
    sockets.poll(60)
    with pytest.raises(ConnectionLostError, match=r"none\.example: Name or service not known"):
        sockets.connect("none.example", 9092, number=1)
    connect(sockets, "none.example", 9092).close()


def _resolve(monkeypatch: pytest.MonkeyPatch, resolve: Callable[[], object]) -> None:
    """Names are looked up by this, numbers as ever."""
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, **how: int) -> object:
        if host == "127.0.0.1":
            return real(host, port, **how)
        return resolve()

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
