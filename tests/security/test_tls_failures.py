"""Handshakes on loopback that fail, each in its own way: one clear sentence, in bounded time."""

import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest
from scripted_broker import ScriptedBroker
from secure_peers import AUTHORITY, TLS, access, loopback, server_context, wrapped

from kipctl.errors import TimedOutError, UnreachableError
from kipctl.lab.certificates import EXPIRED, Authority, Identity, Validity
from kipctl.protocol.address import Address
from kipctl.protocol.describe_cluster import DescribeClusterRequest
from kipctl.security.tls import Tls
from kipctl.transport.access import Access
from kipctl.transport.blocking_connection import BlockingConnection
from kipctl.transport.request import BrokerConnection

NOT_YET = Validity(since=timedelta(days=1))
STRANGERS = Authority("strangers")
OTHER_NAME = AUTHORITY.for_hosts("broker", ("kafka1.example",))
PATIENCE_S = 20.0
"""Nothing here comes near it, but a server that hangs."""


def connection_to(port: int, access: Access, timeout_s: float = PATIENCE_S) -> BrokerConnection:
    return BrokerConnection("127.0.0.1", port, "test", timeout_s, access)


def api_versions(port: int, access: Access, timeout_s: float = PATIENCE_S) -> dict[int, object]:
    with connection_to(port, access, timeout_s) as connection:
        return dict(connection.api_versions)


def failure(port: int, access: Access) -> str:
    """What the user reads; it is no more than a sentence and what to do."""
    with pytest.raises(UnreachableError) as failed:
        api_versions(port, access)
    assert len(str(failed.value).splitlines()) == 2
    return failed.value.what


def showing(identity: Identity, clients_of: Authority | None = None) -> ScriptedBroker:
    return ScriptedBroker(secure=wrapped(server_context(identity, clients_of)))


def as_user(identity: Identity) -> Tls:
    pem = identity.pem.decode()
    at = pem.index("-----BEGIN CERTIFICATE")
    return Tls(authorities=TLS.authorities, key=pem[:at], chain=pem[at:])


@contextmanager
def serving(script: Callable[[socket.socket], object]) -> Iterator[int]:
    """A port where one connection is served by the script."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError), listener.accept()[0] as accepted:
                script(accepted)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def test_a_right_certificate_lets_requests_through_again_and_again() -> None:
    with showing(loopback()) as broker, connection_to(broker.port, access()) as connection:
        assert connection.api_versions[18] == (0, 4)
        first = connection.api_versions
        assert connection.api_versions is first  # the session tickets of TLS 1.3 are no end of it
        assert len(broker.asked) == 1


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_each_enabled_version_is_spoken_alone(version: str) -> None:
    tls = Tls(authorities=TLS.authorities, versions=(version,))
    with showing(loopback()) as broker:
        connection = BlockingConnection(
            Address("127.0.0.1", broker.port), access(tls), time.monotonic() + PATIENCE_S
        )
        assert isinstance(connection._socket, ssl.SSLSocket)
        assert connection._socket.version() == version
        assert connection.steps.tls > 0
        connection.close()


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        (loopback(validity=EXPIRED), "its certificate has expired"),
        (loopback(validity=NOT_YET), "its certificate is not valid yet"),
        (OTHER_NAME, "its certificate is of another name"),
        (loopback(STRANGERS), "its certificate is of an authority that is not trusted"),
    ],
    ids=["expired", "not yet valid", "other name", "unknown authority"],
)
def test_a_certificate_that_is_wrong_is_said_to_be(shown: Identity, sentence: str) -> None:
    with showing(shown) as broker:
        what = failure(broker.port, access())
    assert what.startswith(f"Broker 127.0.0.1:{broker.port} cannot be reached for ApiVersions: ")
    assert sentence in what


def test_another_name_is_taken_where_names_are_not_checked() -> None:
    with showing(OTHER_NAME) as broker:
        assert api_versions(broker.port, access(Tls(TLS.authorities, checks_name=False)))


def test_the_name_is_that_of_the_broker_where_it_is_reached_elsewhere() -> None:
    """As through a tunnel: the certificate is of the broker, not of the tunnel's end."""
    with showing(OTHER_NAME) as broker:
        kafka1 = Address("kafka1.example", 9092)
        tunnel = Access(
            "", access().security, address_map={str(kafka1): Address("127.0.0.1", broker.port)}
        )
        with BrokerConnection(*kafka1, "test", PATIENCE_S, tunnel) as connection:
            assert connection.api_versions


def test_a_broker_whose_own_certificate_is_in_the_truststore_is_trusted() -> None:
    """As in Java, for which the authority need not be there too."""
    identity = loopback(STRANGERS)
    own = identity.pem.decode().partition("-----END PRIVATE KEY-----\n")[2]
    own = own[: own.index("-----END CERTIFICATE-----") + len("-----END CERTIFICATE-----\n")]
    with showing(identity) as broker:
        assert api_versions(broker.port, access(Tls(authorities=own)))


def answering(content: bytes, taking: int = 65536) -> Callable[[socket.socket], object]:
    return lambda peer: (peer.recv(taking), peer.sendall(content))


@pytest.mark.parametrize(
    ("script", "client", "sentence"),
    [
        (
            *(answering(b"\x15\x03\x03\x00\x02\x02\x0a"), Access("")),
            "it speaks TLS: set security.protocol to SSL",
        ),
        # As Kafka takes TLS: a frame's length that is too much, and it hangs up.
        (answering(b"", taking=4), access(), "as a listener without TLS does"),
        (answering(b""), access(), "as a listener without TLS does"),
        (answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"), access(), "it does not answer in TLS"),
        (answering(b"\0\0\0\x0a" + bytes(10)), access(), "it does not answer in TLS"),
    ],
    ids=["TLS to plain text", "hangs up at once", "hangs up", "in text", "in Kafka's frames"],
)
def test_a_listener_that_speaks_otherwise_is_known_for_one(
    script: Callable[[socket.socket], object], client: Access, sentence: str
) -> None:
    with serving(script) as port:
        assert sentence in failure(port, client)


@pytest.mark.parametrize("drops", [b"", b"\x16\x03\x03\x40\x00" + bytes(0x4000)])
def test_a_server_that_never_answers_or_drop_by_drop_is_given_up_at_the_deadline(
    drops: bytes,
) -> None:
    """Each drop comes in time; the whole does not."""
    over = threading.Event()

    def drip(peer: socket.socket) -> None:
        for byte in drops:
            if over.wait(0.05):
                return
            peer.sendall(bytes([byte]))
        over.wait(60)

    with serving(drip) as port:
        with pytest.raises(UnreachableError, match="no answer to the TLS handshake"):
            api_versions(port, access(), timeout_s=1.0)
        over.set()


def test_a_server_that_shakes_hands_and_answers_no_request_is_given_up() -> None:
    with showing(loopback()) as broker, connection_to(broker.port, access()) as connection:
        assert connection.api_versions
        connection.timeout_s = 0.2
        with pytest.raises(TimedOutError, match=r"did not answer DescribeCluster in 0.2 s"):
            connection.request(DescribeClusterRequest())


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    "shown", [TLS, as_user(STRANGERS.for_user("mallory"))], ids=["none", "unknown"]
)
def test_a_broker_that_asks_for_a_clients_certificate_names_what_is_missing(
    version: str, shown: Tls
) -> None:
    """With TLS 1.3 the broker says so after the client's handshake is over."""
    tls = Tls(TLS.authorities, shown.chain, shown.key, versions=(version,))
    with showing(loopback(), clients_of=AUTHORITY) as broker:
        what = failure(broker.port, access(tls))
    assert re.search(r"asks? for a client's certificate.* \(ssl\.keystore\.\*\)\.$", what)


def test_what_a_broker_said_before_it_hung_up_is_read_though_nothing_can_be_written() -> None:
    over = threading.Event()

    def refuse_and_reset(peer: socket.socket) -> None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with suppress(ssl.SSLError):
            server_context(loopback(), AUTHORITY).wrap_socket(peer, server_side=True)
        over.set()

    with serving(refuse_and_reset) as port:
        deadline = time.monotonic() + PATIENCE_S
        connection = BlockingConnection(Address("127.0.0.1", port), access(), deadline)
        assert over.wait(60)
        with pytest.raises(OSError, match="asks for a client's certificate"):
            connection.exchange(b"\0\0\0\4abcd", deadline)
        connection.close()


def test_a_clients_certificate_lets_it_in() -> None:
    with showing(loopback(), clients_of=AUTHORITY) as broker:
        assert api_versions(broker.port, access(as_user(AUTHORITY.for_user("alice"))))


def test_versions_that_do_not_meet_are_said_to_fail() -> None:
    context = server_context(loopback())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    only = Tls(authorities=TLS.authorities, versions=("TLSv1.3",))
    with ScriptedBroker(secure=wrapped(context)) as broker:
        assert "protocol version" in failure(broker.port, access(only))
