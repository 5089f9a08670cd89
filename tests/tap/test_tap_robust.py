"""The tap's bad days: whatever comes from either side costs that connection, and no other."""

import resource
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from raw_peers import (
    ALL_METADATA,
    EXCHANGE,
    ONE_RECORD,
    Asked,
    HangUp,
    RawBroker,
    RawClient,
    Tap,
    tapped,
)
from tap_messages import METADATA, PRODUCE, framed, produce, produced, records, request_frame

from kipctl.process import wait_until
from kipctl.tap.process import ClientSeen

MIB = 1 << 20
LENGTH = struct.Struct(">i")


def usual(asked: Asked, connection: socket.socket) -> None:
    return None


@pytest.fixture(scope="module")
def for_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RawBroker, Tap]]:
    with RawBroker() as broker, tapped(broker, tmp_path_factory.mktemp("tap")) as tap:
        yield broker, tap


@pytest.fixture
def broker(for_all: tuple[RawBroker, Tap]) -> RawBroker:
    """A broker in its right mind, until a test gives it a script."""
    return for_all[0]


@pytest.fixture
def tap(for_all: tuple[RawBroker, Tap]) -> Iterator[Tap]:
    """The tap before that broker. Whatever a test does, others are served: one that was there, and
    one that comes then. And the tap has no more to say than the test has asked about."""
    broker, tap = for_all
    with RawClient(tap.bootstrap_server, "another") as other:
        _, before, _ = other.exchange()
        yield tap
        broker.script = usual
        assert other.ask(ALL_METADATA, 12) == before
    assert tap.still_serves()
    assert tap.messages() == ()


@pytest.fixture
def client(tap: Tap) -> Iterator[RawClient]:
    """One that has been served."""
    with RawClient(tap.bootstrap_server) as client:
        client.ask(ALL_METADATA, 12)
        yield client


def answers_to(api_key: int, answer: Callable[[Asked], bytes]):
    """A script of a broker that answers this one API otherwise."""
    return lambda asked, _: answer(asked) if asked.api_key == api_key else None


def counted(tap: Tap, count: Callable[[ClientSeen], int]) -> int:
    return sum(map(count, tap.show().clients))


# Frames cut anywhere


def test_an_exchange_cut_in_two_at_any_byte_is_as_if_it_were_not(
    broker: RawBroker, tap: Tap
) -> None:
    """The tap has read the first part before it gets the second: it has answered another since."""

    def passed() -> int:
        return counted(tap, lambda client: client.counts.requests.total())

    before = passed() - len(broker.asked)
    with RawClient(tap.bootstrap_server) as client, RawClient(tap.bootstrap_server) as other:
        for request, version in EXCHANGE:
            expected = client.ask(request, version)
            for at in range(1, len(client.frame(request, version))):
                frame = client.frame(request, version)
                client.socket.sendall(frame[:at])
                other.ask(ALL_METADATA, 12)
                client.socket.sendall(frame[at:])
                assert client.answer_to(type(request), version) == expected
    assert passed() - len(broker.asked) == before


def test_an_exchange_in_single_bytes_from_both_sides_is_as_if_it_were_not(
    broker: RawBroker, tap: Tap
) -> None:
    def slowly(asked: Asked, connection: socket.socket) -> bytes:
        for byte in broker.usual(asked):
            connection.sendall(bytes([byte]))
        return b""

    with RawClient(tap.bootstrap_server) as client:
        expected = client.exchange()
    broker.script = slowly
    with RawClient(tap.bootstrap_server) as client:
        for (request, version), answer in zip(EXCHANGE, expected, strict=True):
            for byte in client.frame(request, version):
                client.socket.sendall(bytes([byte]))
            assert client.answer_to(type(request), version) == answer


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
    tap: Tap, client: RawClient, said: bytes, told: str
) -> None:
    client.socket.sendall(said)
    assert client.is_closed()
    line = tap.complaint()
    assert "from the client: " in line
    assert told in line


def garbled_body(asked: Asked) -> bytes:
    return asked.answer(b"\0" + b"\xff" * 40)


def other_correlation_id(asked: Asked) -> bytes:
    return asked._replace(correlation_id=asked.correlation_id + 1).answer(produced((0, 0)))


def twice(asked: Asked) -> bytes:
    return asked.answer(produced((0, 0))) * 2


def cut_body(asked: Asked) -> bytes:
    return framed(asked.answer(produced((0, 0)))[4:-5])


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
    broker: RawBroker, tap: Tap, client: RawClient, answer: Callable[[Asked], bytes], told: str
) -> None:
    broker.script = answers_to(PRODUCE, answer)
    client.send(ONE_RECORD, 10)
    while not client.is_closed():  # an answer may have come before what is wrong
        pass
    line = tap.complaint()
    assert "from the broker: " in line
    assert told in line
    assert "'raw'" in line


@pytest.mark.parametrize("answer", [garbled_body, cut_body])
def test_an_answer_that_cannot_be_read_and_names_no_broker_passes(
    broker: RawBroker, tap: Tap, client: RawClient, answer: Callable[[Asked], bytes]
) -> None:
    """Produce 9 has no hints: a gateway's own form of its answer leads nobody around the tap."""
    broker.script = answers_to(PRODUCE, answer)
    client.send(ONE_RECORD, 9)
    assert client.read()
    assert counted(tap, lambda seen: seen.counts.not_decoded) > 0


def test_a_broker_whose_metadata_cannot_be_read_is_not_passed_on(
    broker: RawBroker, tap: Tap, client: RawClient
) -> None:
    """Its endpoints would lead clients around the tap."""
    broker.script = answers_to(METADATA, garbled_body)
    client.send(ALL_METADATA, 12)
    assert client.is_closed()
    assert "MetadataResponse v12" in tap.complaint()


def test_a_broker_that_speaks_without_being_asked_is_dropped(
    broker: RawBroker, tap: Tap, client: RawClient
) -> None:
    broker.send(broker.asked[-1].connection, LENGTH.pack(8) + b"\0" * 8)
    assert client.is_closed()
    assert "an answer that nobody asked for" in tap.complaint()


# Connections that end in the middle


def test_a_client_that_goes_in_the_middle_of_a_request_leaves_nothing_behind(tap: Tap) -> None:
    for at in (0, 3, 4, 11, 40):
        with RawClient(tap.bootstrap_server, "gone") as client:
            client.ask(ALL_METADATA, 12)
            client.socket.sendall(client.frame(ONE_RECORD, 9)[:at])

    def connections() -> list[int]:
        seen = tap.show().clients
        return [client.connections for client in seen if client.identity.client_id == "gone"]

    assert wait_until(lambda: connections() == [0], 30)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.99])
def test_a_broker_that_goes_in_the_middle_of_an_answer_ends_the_clients_connection(
    broker: RawBroker, tap: Tap, client: RawClient, share: float
) -> None:
    def script(asked: Asked, connection: socket.socket) -> bytes | None:
        if asked.api_key != PRODUCE:
            return None
        answer = broker.usual(asked)
        connection.sendall(answer[: int(len(answer) * share)])
        raise HangUp

    def times_lost() -> int:
        return counted(tap, lambda seen: seen.counts.lost)

    before = times_lost()
    broker.script = script
    client.send(ONE_RECORD, 9)
    assert client.is_closed()  # and not a byte of the cut answer came
    assert times_lost() == before + 1


# Those who do not read


def resident(tap: Tap) -> int:
    """Bytes of memory that the tap's process has now."""
    pages = int(Path(f"/proc/{tap.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def settled(counted: Callable[[], int], tap: Tap) -> int:
    """The count, once it has stood still while the tap served a hundred requests of another's."""
    with RawClient(tap.bootstrap_server, "another") as other:
        while True:
            before = counted()
            for _ in range(100):
                other.ask(ALL_METADATA, 12)
            if counted() == before:
                return before


SOMETHING = 77
"""An API that the tap passes on unread."""
ANSWERS = 80
"""Of 1 MiB: far more than the tap may take, so it stops reading long before."""


def something(client: RawClient) -> bytes:
    return request_frame(SOMETHING, 0, b"", client.next_id())


def test_a_client_that_never_reads_costs_no_memory_and_slows_nobody(
    broker: RawBroker, tap: Tap, client: RawClient
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

    before = resident(tap)
    broker.script = script
    for _ in range(ANSWERS):
        client.socket.sendall(something(client))
    assert settled(lambda: sent, tap) < 40 * MIB
    assert resident(tap) - before < 32 * MIB
    for _ in range(ANSWERS):  # nothing is lost to one that reads after all
        assert len(client.read()) == MIB + 4


def test_a_broker_that_never_reads_costs_no_memory_and_slows_nobody(
    broker: RawBroker, tap: Tap, client: RawClient
) -> None:
    over = threading.Event()

    def script(asked: Asked, connection: socket.socket) -> bytes | None:
        if asked.api_key != SOMETHING:
            return None
        over.wait()
        return asked.answer(b"")

    before = resident(tap)
    broker.script = script
    client.socket.sendall(something(client))
    client.socket.setblocking(False)
    frame = memoryview(client.frame(produce((0, records(1, b"x" * MIB))), 9))
    sent = 0

    def push() -> int:
        nonlocal sent
        with suppress(BlockingIOError):
            while sent < 300 * MIB:
                sent += client.socket.send(frame[sent % len(frame) :])
        return sent

    try:
        assert settled(push, tap) < 60 * MIB
        assert resident(tap) - before < 40 * MIB
    finally:
        over.set()
