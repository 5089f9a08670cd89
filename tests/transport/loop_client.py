"""An event loop's owner of one connection, on a clock that goes on when a test says so."""

from typing import Self

from kipctl.protocol.address import Address
from kipctl.protocol.api import decode_response, encode_request
from kipctl.protocol.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kipctl.transport.access import Access
from kipctl.transport.sockets import READ, WRITE, SystemSockets

VERSION = 6


class Clock:
    """In microseconds; it stands unless it is set."""

    def __init__(self) -> None:
        self.us = 1_000_000

    def __call__(self) -> int:
        return self.us


class LoopClient:
    """Asks for no offsets; pytest's own timeout is the limit."""

    def __init__(
        self, broker: Address, access: Access, sockets: SystemSockets | None = None
    ) -> None:
        """`sockets` are those of several owners."""
        self.clock = Clock()
        self._sockets = sockets or SystemSockets(self.clock, access)
        self._closes_sockets = sockets is None
        connection = self._sockets.connect(*broker, number=1)
        assert connection
        self.connection = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.connection.close()
        if self._closes_sockets:
            self._sockets.close()

    def wait(self) -> None:
        writes = WRITE if self.connection.wants_write else 0
        self._sockets.watch(self.connection, READ | writes)
        while self.connection.fileno() not in dict(self._sockets.poll(60)):
            pass

    def connect(self) -> Self:
        while not self.connection.connected:
            self.wait()
            self.connection.establish()
        return self

    def turn(self) -> list[memoryview]:
        self.wait()
        self.connection.write()
        return self.connection.read()

    def pass_time(self, us: int, others_log_in: bool = False) -> None:
        """As its owner does at each turn, it sees to its session after that."""
        self.clock.us += us
        self.connection.keep_authenticated(self.clock.us, others_log_in)

    def ask(self) -> int:
        """Send a request; its correlation id."""
        number = self.connection.next_correlation_id()
        self.connection.send([encode_request(ListOffsetsRequest(), VERSION, number, "owner")])
        return number

    def answers(self, count: int) -> list[int]:
        """The correlation ids of the next answers that the owner sees; there are no more."""
        seen: list[int] = []
        while len(seen) < count:
            for frame in self.turn():
                number, response = decode_response(ListOffsetsRequest, VERSION, frame)
                assert response == ListOffsetsResponse()
                seen.append(number)
        assert len(seen) == count
        return seen

    def finish_login(self) -> None:
        while not self.connection.takes_requests:
            assert self.turn() == []
