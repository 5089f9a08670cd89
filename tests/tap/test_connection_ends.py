"""The two ends of a connection through the tap: what waits for what, and that both always close."""

import asyncio
from types import SimpleNamespace

import pytest

from kipctl.tap.connection import Connection

ONE_MIB = 1024 * 1024


class Transport:
    """One end's, which writes nothing anywhere."""

    def __init__(self) -> None:
        self.reads, self.is_open = True, True

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == ONE_MIB

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return not self.is_open

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        self.is_open = False

    abort = close


class Held:
    """An exchange whose answers are held for a second."""

    def answer(self, frame: bytes, now_us: int) -> SimpleNamespace:
        return frame, 1_000_000

    def lost(self, now_us: int, is_clients=False) -> None:
        pass


async def connected(exchange, connect=None):
    """A connection with two transports, and the list of what is said when it has ended, after what
    the client said where the broker cannot be reached."""
    ends, said = Transport(), []

    async def at_once(end) -> None:
        end.connection_made(broker)

    broker = Transport()
    connection = Connection(
        lambda: exchange, connect or at_once, lambda _, why: said.append(why), said.append
    )
    connection.client.connection_made(ends)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return connection, ends, broker, said


def test_a_broker_that_catches_up_lets_the_client_be_read_also_while_answers_are_held():
    async def run():
        connection, client, broker, _ = await connected(Held())
        connection.broker.pause_writing()
        assert not client.reads
        content = (ONE_MIB + 1).to_bytes(4, "big") + bytes(ONE_MIB + 1)
        connection.broker.data_received(content)
        assert not broker.reads  # so much is held
        connection.broker.resume_writing()
        assert client.reads
        connection.end("")

    asyncio.run(run())


def test_a_client_that_catches_up_does_not_let_more_come_while_an_answer_is_looked_through():
    async def run():
        connection, _, broker, _ = await connected(Held())
        connection.client.pause_writing()
        connection._looking = asyncio.get_running_loop().create_task(asyncio.sleep(0))
        connection.client.resume_writing()
        assert not broker.reads
        await connection._looking
        connection._looking = None
        connection.client.resume_writing()
        assert broker.reads
        connection.end("")

    asyncio.run(run())


def test_both_ends_close_also_when_the_exchange_fails():
    class Broken(Held):
        def lost(self, now_us: int, is_clients=False) -> None:
            raise RuntimeError("a fault")

    async def run():
        connection, client, broker, said = await connected(Broken())
        with pytest.raises(RuntimeError):
            connection.end("why")
        assert not client.is_open
        assert not broker.is_open
        assert said == ["why"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "problem", [OSError(111, "Connection refused"), UnicodeError("label too long")]
)
def test_a_broker_that_cannot_be_reached_ends_the_clients_connection(problem):
    async def refused(end) -> None:
        raise problem

    async def run():
        connection, client, _, said = await connected(Held(), refused)
        assert client.is_open  # who is it?
        connection.client.data_received(b"it is me")
        while client.is_open:
            await asyncio.sleep(0)
        who, why = said
        assert who == b"it is me"
        assert why.startswith("the broker cannot be reached: ")

    asyncio.run(run())
