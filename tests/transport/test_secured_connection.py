"""The event loop's secured connection: TLS, logins, and logins after those.

That frames go through it whole is in `test_loop`, for connections with TLS and without.
"""

import hashlib
import random
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from loop_client import LoopClient
from loop_peers import (
    BROKER,
    SERVER,
    TlsPeer,
    framed,
    half_shake_hands,
    nothing_beside,
    pair,
    shake_hands,
)
from scripted_broker import Answers, Asked, ScriptedBroker
from secure_peers import (
    AUTHORITY,
    FAILING_LOGINS,
    PASSWORD,
    PASSWORD_MECHANISMS,
    PLAIN,
    TLS,
    USER,
    Logins,
    access,
    loopback,
    server_context,
    wrapped,
)

from kipctl.lab.certificates import EXPIRED, Authority, Identity
from kipctl.protocol.address import Address
from kipctl.protocol.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kipctl.protocol.message import Response
from kipctl.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from kipctl.security.sasl import OAUTHBEARER, Sasl
from kipctl.security.tls import Tls
from kipctl.security.tokens import Token
from kipctl.transport.login import renewal_window_s
from kipctl.transport.loop_connection import ConnectionLostError, InFlight
from kipctl.transport.secured_connection import SecuredConnection
from kipctl.transport.sockets import SystemSockets
from kipctl.transport.tls_socket import ROOM, TlsSocket

STRANGERS = Authority("strangers")
OTHER_NAME = AUTHORITY.for_hosts("broker", ("kafka1.example",))
MECHANISMS = pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
VERSIONS = pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
"""TLS 1.2 has no tickets after the handshake, and another order of flights."""


# --- the handshake ---


@VERSIONS
def test_the_handshake_goes_on_byte_by_byte(version: str) -> None:
    with pair(tls=Tls(TLS.authorities, versions=(version,))) as (connection, peer):
        assert connection.wants_write
        assert not connection.takes_requests
        assert shake_hands(connection, peer, at_once=1) > 500
        assert connection.takes_requests
        connection.send([framed(b"hello")])
        peer.take()
        assert peer.read == framed(b"hello")


def test_while_the_server_thinks_nobody_is_woken_to_write() -> None:
    with pair() as (connection, _):
        connection.establish()
        assert not connection.wants_write
        assert not select.select([connection], [], [], 0)[0]
        connection.establish()  # as for an event that was old
        assert not connection.connected


@pytest.mark.parametrize(
    ("shown", "why", "told"),
    [
        (loopback(validity=EXPIRED), "its certificate has expired", "CERTIFICATE_EXPIRED"),
        (loopback(STRANGERS), "its certificate is of an authority that is not tr", "UNKNOWN_CA"),
        (OTHER_NAME, "its certificate is of another name", "BAD_CERTIFICATE"),
    ],
    ids=["expired", "of another authority", "of another name"],
)
def test_a_certificate_that_is_wrong_ends_the_connection_and_the_server_is_told_why(
    shown: Identity, why: str, told: str
) -> None:
    with pair(context=server_context(shown)) as (connection, peer):
        with pytest.raises(ConnectionLostError, match=why):
            shake_hands(connection, peer)
        with pytest.raises(ssl.SSLError, match=told):
            peer.take()


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x03", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_server_that_hangs_up_in_the_handshake_ends_the_connection(sent: bytes) -> None:
    with pair() as (connection, peer):
        connection.establish()
        peer.end.send(sent)
        peer.end.close()
        with pytest.raises(ConnectionLostError, match="without"):
            connection.establish()


def test_a_client_without_the_certificate_that_is_asked_for_is_told_so() -> None:
    """With TLS 1.3 only after it is connected."""
    with pair(context=server_context(loopback(), AUTHORITY)) as (connection, peer):
        half_shake_hands(connection, peer)
        with pytest.raises(ssl.SSLError):
            peer.take()
        peer.put()
        with pytest.raises(ConnectionLostError, match="asks for a client's certificate"):
            connection.read()


class Full(socket.socket):
    """A socket that may be too full to write to."""

    is_full = False

    def sendmsg(self, *arguments: Any) -> int:
        if self.is_full:
            raise BlockingIOError
        return super().sendmsg(*arguments)


@pytest.mark.parametrize("is_gone", [False, True], ids=["later", "never"])
def test_the_end_of_a_handshake_is_written_later_where_the_socket_is_full(is_gone: bool) -> None:
    ours, theirs = socket.socketpair()
    with theirs, Full(ours.family, ours.type, fileno=ours.detach()) as full:
        full.setblocking(False)
        theirs.setblocking(False)
        connection = SecuredConnection(full, 1, BROKER, TLS, None, lambda: 0, nothing_beside)
        peer = TlsPeer(theirs)
        connection.establish()
        peer.take()
        peer.put()
        full.is_full = True
        connection.establish()
        connection.write()
        assert connection.wants_write
        assert not peer.take()
        full.is_full = False
        if is_gone:
            theirs.close()
            with pytest.raises(ConnectionLostError, match="Broken pipe"):
                connection.write()
            return
        connection.write()
        assert not connection.wants_write
        assert peer.take()
        connection.send([framed(b"hello")])
        peer.take()
        assert peer.read == framed(b"hello")


# --- records ---


def test_all_that_was_received_is_handed_out_also_into_the_least_room() -> None:
    content = random.Random(5).randbytes(500_000)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for end in (ours, theirs):
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_000_000)
        tls, peer = TlsSocket(ours, TLS.context(), BROKER.host), TlsPeer(theirs)
        while not tls.handshake():
            peer.take()
            peer.put()
        peer.take()
        peer.say(content)
        read, room = bytearray(), memoryview(bytearray(ROOM))
        while peer.unsent or select.select([ours], [], [], 0)[0]:
            peer.put()
            with suppress(BlockingIOError):
                read += room[: tls.recv_into(room)]
        assert read == content


def test_records_that_carry_no_data_are_no_frame_and_no_end() -> None:
    """The session tickets that come after the handshake of TLS 1.3."""
    with pair() as (connection, peer):
        half_shake_hands(connection, peer)
        peer.take()
        assert peer.put() > 0
        assert connection.read() == []


def test_a_record_that_was_changed_on_its_way_ends_the_connection() -> None:
    with pair() as (connection, peer):
        shake_hands(connection, peer)
        peer.put()
        connection.read()
        peer.say(framed(b"hello"))
        peer.unsent = peer.unsent[:-1] + bytes([peer.unsent[-1] ^ 1])
        peer.put()
        with pytest.raises(ConnectionLostError, match="TLS failed"):
            connection.read()


# --- logins ---


def answer_offsets(asked: Asked) -> Response:
    assert isinstance(asked.request, ListOffsetsRequest)
    return ListOffsetsResponse()


@contextmanager
def client_of(
    script: Any, sasl: Sasl = PLAIN, tls: Tls | None = None, connects: bool = True
) -> Iterator[LoopClient]:
    """A client of a broker that answers so."""
    secure = wrapped(SERVER) if tls else lambda accepted: accepted
    with ScriptedBroker(script, secure=secure) as broker:
        address = Address("127.0.0.1", broker.port)
        with LoopClient(address, access(tls, sasl)) as client:
            yield client.connect() if connects else client


@MECHANISMS
@pytest.mark.parametrize("tls", [None, TLS], ids=["plaintext", "tls"])
def test_a_login_comes_before_everything_else(mechanism: str, tls: Tls | None) -> None:
    logins = Logins(answer_offsets)
    with client_of(logins, Sasl(mechanism, USER, PASSWORD), tls) as client:
        assert client.connection.takes_requests
        number = client.ask()
        assert client.answers(1) == [number]
        assert logins.count == 1


def answers_another(asked: Asked) -> bytes:
    return asked._replace(correlation_id=7).answer(SaslHandshakeRequest.response())


@pytest.mark.parametrize(
    ("script", "sasl", "words"),
    [*FAILING_LOGINS, (lambda: answers_another, PLAIN, "an answer to no request")],
)
def test_a_login_that_fails_ends_the_connection_with_the_reason(
    script: Callable[[], Answers], sasl: Sasl, words: str
) -> None:
    with (
        client_of(script(), sasl, connects=False) as client,
        pytest.raises(ConnectionLostError, match=words),
    ):
        client.connect()


@pytest.mark.parametrize("is_patient", [True, False], ids=["is waited for", "is given up"])
def test_a_broker_that_asks_for_a_million_iterations_stops_no_other_connection(
    is_patient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, others_served = threading.Event(), threading.Event()
    waited: SimpleQueue[bool] = SimpleQueue()

    def derive(name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        if iterations == 1_000_000:
            began.set()
            waited.put(others_served.wait(20))  # in the event loop it would wait for itself
        return hashlib.pbkdf2_hmac(name, password, salt, iterations)

    for_client = SimpleNamespace(pbkdf2_hmac=derive, new=hashlib.new)
    monkeypatch.setattr("kipctl.security.sasl.hashlib", for_client)
    logins = Logins(answer_offsets, iterations=1_000_000, salt=str(is_patient).encode())
    reached = access(None, Sasl("SCRAM-SHA-256", USER, PASSWORD))
    with (
        ScriptedBroker(logins) as demanding,
        ScriptedBroker(Logins(answer_offsets)) as usual,
        closing(SystemSockets(lambda: 0, reached)) as sockets,
        LoopClient(Address("127.0.0.1", demanding.port), reached, sockets) as slow,
        LoopClient(Address("127.0.0.1", usual.port), reached, sockets) as quick,
    ):
        while not began.is_set():
            if slow.connection.fileno() in dict(sockets.poll(0.01)):
                slow.connection.establish()
        number = quick.connect().ask()
        assert quick.answers(1) == [number]
        assert not slow.connection.connected
        if not is_patient:
            slow.connection.close()
        others_served.set()
        assert waited.get(timeout=30)
        if is_patient:
            number = slow.connect().ask()
            assert slow.answers(1) == [number]


# --- logins after the first (KIP-368) ---

SESSION_MS = 60_000
LATEST_US = round(SESSION_MS * 1000 * 0.9)


class InOrder:
    """Answers requests when a login follows or a fourth request, all at once: in Kafka's order."""

    def __init__(self) -> None:
        self.logins = Logins(session_ms=SESSION_MS)
        self.waiting: list[Asked] = []

    def __call__(self, asked: Asked) -> bytes | None:
        if isinstance(asked.request, ListOffsetsRequest):
            self.waiting.append(asked)
            if len(self.waiting) < 4:
                return None
            last = b""
        else:
            answer = self.logins(asked)
            assert isinstance(answer, Response)
            last = asked.answer(answer)
        answered, self.waiting = self.waiting, []
        return b"".join(request.answer(ListOffsetsResponse()) for request in answered) + last


@MECHANISMS
def test_while_requests_are_in_flight_a_session_is_renewed_and_their_answers_come(
    mechanism: str,
) -> None:
    script = InOrder()
    with client_of(script, Sasl(mechanism, USER, PASSWORD), TLS) as client:
        for renewals in range(1, 4):
            numbers = [client.ask() for _ in range(3)]
            client.pass_time(LATEST_US)
            assert client.connection.connected
            assert not client.connection.takes_requests
            assert client.answers(3) == numbers
            client.finish_login()
            assert script.logins.count == 1 + renewals
        assert [client.ask() for _ in range(4)] == client.answers(4)


class CountedToken:
    """A token that counts how often somebody asks whether it is there: then it is replaced."""

    subject = "owner"

    def __init__(self) -> None:
        self.asked = 0

    def current(self) -> Token:
        return Token("abc", None)

    def is_ready(self) -> bool:
        self.asked += 1
        return True


def test_a_token_is_replaced_before_the_session_is_to_be_renewed() -> None:
    """Else the login would be with the old one, and of a session as short as what is left of it."""
    token = CountedToken()
    with client_of(InOrder(), Sasl(OAUTHBEARER, token=token)) as client:
        at_login = token.asked
        client.pass_time(SESSION_MS * 100)
        assert client.connection.takes_requests  # its session is not over for long
        assert token.asked > at_login


def in_flight(number: int) -> InFlight:
    """As the owner of a connection notes it."""
    return InFlight(number, ListOffsetsRequest.api.key, 6, 0, 0, 0, None)


@pytest.mark.parametrize(
    ("share", "is_asked", "others_log_in", "logs_in"),
    [
        (0.79, False, False, False),
        # For 5 % of it, here from 80 % on, at a moment at which that holds nobody up.
        (0.82, False, False, True),
        (0.82, False, True, False),
        (0.82, True, False, False),
        (0.82, True, True, False),
        # At last whatever else goes on.
        (0.9, True, False, True),
        (0.9, True, True, True),
        (0.9, False, True, True),
    ],
)
def test_a_session_is_renewed_in_its_last_part(
    share: float,
    is_asked: bool,
    others_log_in: bool,
    logs_in: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(random, "random", lambda: 0.5)
    with client_of(InOrder()) as client:
        connection = client.connection
        numbers = [client.ask()] if is_asked else []
        connection.in_flight += [in_flight(number) for number in numbers]
        client.pass_time(round(SESSION_MS * 1000 * share), others_log_in)
        assert connection.is_logging_in is logs_in
        assert connection.takes_requests is not logs_in
        if logs_in:
            assert client.answers(len(numbers)) == numbers
            client.finish_login()


def test_a_login_is_not_charged_with_what_the_broker_answers_before_it() -> None:
    with client_of(InOrder()) as client:
        numbers = [client.ask() for _ in range(3)]
        client.pass_time(LATEST_US)
        client.clock.us += 400_000  # as a Fetch that has no records to answer with
        assert client.answers(3) == numbers
        client.clock.us += 10_000
        client.finish_login()
        assert client.connection.reauthentications_us == [10_000]


@pytest.mark.parametrize(
    ("chance", "window"), [(0.0, (7.5, 8.0)), (0.5, (8.0, 8.5)), (1.0, (8.5, 9.0))]
)
def test_a_session_is_renewed_so_early_that_what_is_in_flight_is_answered_within_it(
    chance: float, window: tuple[float, float]
) -> None:
    assert renewal_window_s(10_000, chance) == pytest.approx(window)
    assert renewal_window_s(0, chance) == (0, 0)


def test_a_session_without_an_end_is_never_renewed() -> None:
    with client_of(Logins()) as client:
        client.connection.keep_authenticated(1 << 62)
        assert client.connection.takes_requests


@pytest.mark.parametrize("answered", [0, 1], ids=["handshake", "authenticate"])
def test_a_broker_that_does_not_answer_a_login_is_given_up_in_time(answered: int) -> None:
    first = Logins(session_ms=SESSION_MS)
    silent = threading.Event()
    left = [2 + answered]

    def falls_silent(asked: Asked) -> Any:
        left[0] -= 1
        if left[0] < 0:
            silent.set()
        return first(asked) if left[0] >= 0 else None

    with client_of(falls_silent) as client:
        client.pass_time(LATEST_US)
        while not silent.wait(0.01):  # an answer may come in pieces
            if select.select([client.connection], [], [], 0)[0]:
                assert client.connection.read() == []
            client.connection.write()
        client.pass_time(30_000_000)
        assert not client.connection.takes_requests
        with pytest.raises(ConnectionLostError, match="does not answer a login"):
            client.pass_time(1)


def test_a_user_who_is_no_longer_known_is_refused_when_the_session_is_renewed() -> None:
    first = Logins(session_ms=SESSION_MS)

    def forgets(asked: Asked) -> Any:
        answer = first(asked)
        if first.count == 2 and isinstance(asked.request, SaslAuthenticateRequest):
            return SaslAuthenticateResponse(58, "User alice is gone")
        return answer

    with client_of(forgets) as client:
        client.pass_time(LATEST_US)
        with pytest.raises(ConnectionLostError, match="User alice is gone"):
            client.finish_login()
