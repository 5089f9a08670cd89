"""The tap's bad days: whatever comes from either side costs that connection, and no other."""

import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from raw_peers import (
    EXCHANGE,
    METADATA,
    Asked,
    HangUp,
    RawBroker,
    RawClient,
    produce_request,
    produced,
)

from kipctl.protocol.api import ApiKey
from kipctl.tap.process import RunningTap, running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.access import Access

MIB = 1 << 20
LENGTH = struct.Struct(">i")


class Tap:
    """A running tap, and how many of its messages were read."""

    def __init__(self, running: RunningTap) -> None:
        self.running = running
        self.bootstrap_server = running.bootstrap_server
        self._heard = 0

    def messages(self) -> tuple[str, ...]:
        """What it had to say since it was asked last."""
        outcome = self.running.show()
        before, self._heard = self._heard, outcome.dropped
        return outcome.messages[before:]


@contextmanager
def tapped(broker: RawBroker, directory: Path) -> Iterator[Tap]:
    with running_tap(TapSpec(access=Access(broker.address)), directory) as running:
        yield Tap(running)


def still_serves(tap: Tap) -> bool:
    """A client that comes now is served, from its first word on."""
    with RawClient(tap.bootstrap_server, "another") as client:
        answers = [client.ask(request, version) for request, version in EXCHANGE]
    return answers[-1] == produced(9)


def usual(asked: Asked, connection: socket.socket) -> None:
    return None


@pytest.fixture(scope="module")
def for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RawBroker, Tap]]:
    with RawBroker() as broker, tapped(broker, tmp_path_factory.mktemp("tap")) as tap:
        yield broker, tap


@pytest.fixture
def broker(for_all: tuple[RawBroker, Tap]) -> Iterator[RawBroker]:
    """A broker in its right mind, until a test gives it a script."""
    broker, _ = for_all
    yield broker
    broker.script = usual


@pytest.fixture
def tap(broker: RawBroker, for_all: tuple[RawBroker, Tap]) -> Tap:
    """The tap before that broker: what one test does to it must not matter to the next."""
    _, tap = for_all
    assert tap.messages() == ()
    return tap


def is_produce(asked: Asked) -> bool:
    return asked.api_key == ApiKey.PRODUCE


def is_metadata(asked: Asked) -> bool:
    return asked.api_key == ApiKey.METADATA


def complaint(tap: Tap) -> str:
    """The only line that the tap has to say."""
    (line,) = tap.messages()
    assert "\n" not in line
    return line


# Frames cut anywhere


def test_an_exchange_cut_in_two_at_any_byte_is_as_if_it_were_not(tmp_path: Path) -> None:
    """The tap has read the first part before it gets the second: it has answered another since."""
    with RawBroker() as broker, tapped(broker, tmp_path) as tap:
        with RawClient(tap.bootstrap_server) as client, RawClient(tap.bootstrap_server) as other:
            for request, version in EXCHANGE:
                expected = client.ask(request, version)
                for at in range(1, len(client.frame(request, version))):
                    frame = client.frame(request, version)
                    client.socket.sendall(frame[:at])
                    other.ask(METADATA, 12)
                    client.socket.sendall(frame[at:])
                    assert client.answer_to(type(request), version) == expected
        outcome = tap.running.stop()
        assert outcome.messages == ()
        passed = sum(sum(seen.counts.requests.values()) for seen in outcome.clients)
        assert passed == len(broker.asked) - 1  # the first was the tap's own


def test_an_exchange_in_single_bytes_from_both_sides_is_as_if_it_were_not(
    broker: RawBroker, tap: Tap
) -> None:
    def slowly(asked: Asked, connection: socket.socket) -> bytes:
        for byte in broker.usual(asked):
            connection.sendall(bytes([byte]))
        return b""

    with RawClient(tap.bootstrap_server) as client:
        expected = [client.ask(request, version) for request, version in EXCHANGE]
    broker.script = slowly
    with RawClient(tap.bootstrap_server) as client:
        for (request, version), answer in zip(EXCHANGE, expected, strict=True):
            for byte in client.frame(request, version):
                client.socket.sendall(bytes([byte]))
            assert client.answer_to(type(request), version) == answer
    assert tap.messages() == ()


# What is no frame of Kafka's


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (LENGTH.pack(-1), "a frame of -1 bytes was announced"),
        (LENGTH.pack(-(1 << 31)), "a frame of -2147483648 bytes was announced"),
        (LENGTH.pack((1 << 31) - 1), "a frame of 2147483647 bytes was announced"),
        (b"GET / HTTP/1.1\r\n\r\n", "it begins with 'GET '"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "it speaks TLS"),
        (LENGTH.pack(0), "a request of 0 bytes"),
        (LENGTH.pack(9) + b"123456789", "a request of 9 bytes"),
        (LENGTH.pack(10) + struct.pack(">hhih", 3, 12, 1, 500), "a client id of 500 bytes"),
    ],
)
def test_a_client_that_says_what_is_no_request_is_dropped_with_one_line(
    tap: Tap, said: bytes, told: str
) -> None:
    with RawClient(tap.bootstrap_server) as other, RawClient(tap.bootstrap_server) as client:
        before = other.ask(METADATA, 12)
        client.ask(METADATA, 12)
        client.socket.sendall(said)
        assert client.is_closed()
        line = complaint(tap)
        assert "from the client: " in line
        assert told in line
        assert other.ask(METADATA, 12) == before
    assert still_serves(tap)


def garbled_body(asked: Asked) -> bytes:
    return asked.answer(b"\xff" * 40)


def other_correlation_id(asked: Asked) -> bytes:
    return asked.answer(produced(asked.version), correlation_id=asked.correlation_id + 1)


def twice(asked: Asked) -> bytes:
    return asked.answer(produced(asked.version)) * 2


def cut_body(asked: Asked) -> bytes:
    whole = asked.answer(produced(asked.version))[4:]
    return LENGTH.pack(len(whole) - 5) + whole[:-5]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (lambda asked: LENGTH.pack(-1), "a frame of -1 bytes was announced"),
        (lambda asked: LENGTH.pack((1 << 31) - 1), "a frame of 2147483647 bytes was announced"),
        (lambda asked: b"HTTP/1.1 400 Bad Request\r\n\r\n", "it begins with 'HTTP'"),
        (lambda asked: LENGTH.pack(2) + b"ab", "an answer of 2 bytes"),
        (garbled_body, "ProduceResponse v10"),
        (cut_body, "ProduceResponse v10"),
        (other_correlation_id, "an answer to request"),
        (twice, "an answer that nobody asked for"),
    ],
)
def test_a_broker_that_answers_garbage_loses_that_connection_with_one_line(
    broker: RawBroker, tap: Tap, answer: Callable[[Asked], bytes], told: str
) -> None:
    with RawClient(tap.bootstrap_server) as other, RawClient(tap.bootstrap_server) as client:
        before = other.ask(METADATA, 12)
        client.ask(METADATA, 12)
        broker.script = lambda asked, _: answer(asked) if is_produce(asked) else None
        client.socket.sendall(client.frame(produce_request(), 10))
        while not client.is_closed():  # an answer may have come before what is wrong
            pass
        line = complaint(tap)
        assert "from the broker: " in line
        assert told in line
        assert "'raw'" in line
        assert other.ask(METADATA, 12) == before
    broker.script = usual
    assert still_serves(tap)


@pytest.mark.parametrize("answer", [garbled_body, cut_body])
def test_an_answer_that_cannot_be_read_and_names_no_broker_passes(
    broker: RawBroker, tap: Tap, answer: Callable[[Asked], bytes]
) -> None:
    """Produce 9 has no hints: a gateway's own form of its answer leads nobody around the tap."""
    with RawClient(tap.bootstrap_server) as client:
        client.ask(METADATA, 12)
        broker.script = lambda asked, _: answer(asked) if is_produce(asked) else None
        client.socket.sendall(client.frame(produce_request(), 9))
        assert client.read()
        seen = tap.running.show().clients
        assert any(client.counts.not_decoded for client in seen)
        assert tap.messages() == ()


def test_a_broker_whose_metadata_cannot_be_read_is_not_passed_on(
    broker: RawBroker, tap: Tap
) -> None:
    """Its endpoints would lead clients around the tap."""
    broker.script = lambda asked, _: garbled_body(asked) if is_metadata(asked) else None
    with RawClient(tap.bootstrap_server) as client:
        client.socket.sendall(client.frame(METADATA, 12))
        assert client.is_closed()
    assert "MetadataResponse v12" in complaint(tap)
    broker.script = usual
    assert still_serves(tap)


def test_a_broker_that_speaks_without_being_asked_is_dropped(broker: RawBroker, tap: Tap) -> None:
    with RawClient(tap.bootstrap_server) as client:
        client.ask(METADATA, 12)
        broker.send(broker.asked[-1].connection, LENGTH.pack(8) + b"\0" * 8)
        assert client.is_closed()
    assert "an answer that nobody asked for" in complaint(tap)
    assert still_serves(tap)


# Connections that end in the middle


def test_a_client_that_goes_in_the_middle_of_a_request_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    with RawBroker() as broker, tapped(broker, tmp_path) as tap:
        for at in (0, 3, 4, 11, 40):
            with RawClient(tap.bootstrap_server) as client:
                client.ask(METADATA, 12)
                client.socket.sendall(client.frame(produce_request(), 9)[:at])
        for _ in range(6):  # the tap's own look at the broker was one
            assert broker.ended.acquire(timeout=30)
        assert tap.messages() == ()
        assert [one.connections for one in tap.running.show().clients] == [0]
        assert still_serves(tap)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.99])
def test_a_broker_that_goes_in_the_middle_of_an_answer_ends_the_clients_connection(
    broker: RawBroker, tap: Tap, share: float
) -> None:
    def script(asked: Asked, connection: socket.socket) -> bytes | None:
        if not is_produce(asked):
            return None
        answer = broker.usual(asked)
        connection.sendall(answer[: int(len(answer) * share)])
        raise HangUp

    lost = times_lost(tap)
    broker.script = script
    with RawClient(tap.bootstrap_server) as client:
        client.ask(METADATA, 12)
        client.socket.sendall(client.frame(produce_request(), 9))
        assert client.is_closed()  # and not a byte of the cut answer came
    broker.script = usual
    assert still_serves(tap)
    assert times_lost(tap) == lost + 1


def times_lost(tap: Tap) -> int:
    return sum(one.counts.lost for one in tap.running.show().clients)


# Those who do not read


def resident(tap: Tap) -> int:
    """Bytes of memory that the tap's process has now."""
    pages = int(Path(f"/proc/{tap.running.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def settled(counted: Callable[[], int], tap: Tap) -> int:
    """The count, once it has stood still while the tap served a hundred requests of another's."""
    with RawClient(tap.bootstrap_server, "another") as other:
        while True:
            before = counted()
            for _ in range(100):
                other.ask(METADATA, 12)
            if counted() == before:
                return before


SOMETHING = 77
"""An API that the tap passes on unread."""
ANSWERS = 250
"""Of 1 MiB: far more than the tap may take, so it stops reading long before."""


def something(client: RawClient) -> bytes:
    frame = struct.pack(">hhih", SOMETHING, 0, client.next_id(), 3) + b"raw"
    return LENGTH.pack(len(frame)) + frame


def test_a_client_that_never_reads_costs_no_memory_and_slows_nobody(
    broker: RawBroker, tap: Tap
) -> None:
    sent = 0

    def script(asked: Asked, connection: socket.socket) -> bytes | None:
        nonlocal sent
        if asked.api_key != SOMETHING:
            return None
        answer = asked.answer(b"x" * MIB)
        for at in range(0, len(answer), 1 << 14):
            connection.sendall(answer[at : at + (1 << 14)])
            sent += 1 << 14
        return b""

    assert still_serves(tap)
    before = resident(tap)
    broker.script = script
    with RawClient(tap.bootstrap_server) as client:
        for _ in range(ANSWERS):
            client.socket.sendall(something(client))
        assert settled(lambda: sent, tap) < 40 * MIB
        assert resident(tap) - before < 32 * MIB
        for _ in range(ANSWERS):  # nothing is lost to one that reads after all
            assert len(client.read()) == MIB + 4
    assert tap.messages() == ()


def test_a_broker_that_never_reads_costs_no_memory_and_slows_nobody(
    broker: RawBroker, tap: Tap
) -> None:
    over = threading.Event()

    def script(asked: Asked, connection: socket.socket) -> bytes | None:
        if asked.api_key != SOMETHING:
            return None
        over.wait()
        return b""

    assert still_serves(tap)
    before = resident(tap)
    broker.script = script
    with RawClient(tap.bootstrap_server) as client:
        client.socket.sendall(something(client))
        client.socket.setblocking(False)
        frame = memoryview(client.frame(produce_request(b"x" * MIB), 9))
        sent = 0

        def push() -> int:
            nonlocal sent
            with suppress(BlockingIOError):
                while sent < 300 * MIB:
                    sent += client.socket.send(frame[sent % len(frame) :])
            return sent

        assert settled(push, tap) < 60 * MIB
        assert resident(tap) - before < 40 * MIB
    assert tap.messages() == ()
    over.set()
    assert still_serves(tap)
