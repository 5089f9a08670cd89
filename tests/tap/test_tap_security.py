"""TLS on either side of the tap, SASL through it, and nothing secret left behind."""

import io
import re
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from raw_peers import ALL_METADATA, Asked, RawBroker, RawClient, Tap, tapped
from tap_messages import framed

from kipctl import java_properties
from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.topics import create_topics, delete_topics
from kipctl.errors import UnreachableError
from kipctl.lab.cluster import Lab
from kipctl.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kipctl.tap.export import record_batches
from kipctl.tap.process import running_tap
from kipctl.tap.recorder import DATASETS
from kipctl.tap.spec import TapSpec, TlsFiles
from kipctl.transport.access import access_of

SECRET = "hunter2-is-my-secret"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """A certificate of this machine's loopback address, signed by itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        f"-subj /CN=tap -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}",
        shell=True,
        check=True,
        capture_output=True,
    )
    return TlsFiles(certificate=str(certificate), key=str(key))


@pytest.fixture(scope="module")
def broker() -> Iterator[RawBroker]:
    """It knows one mechanism, and takes any password."""

    def answer(asked: Asked, connection: socket.socket) -> bytes | None:
        match asked.api_key:
            case 17:
                return asked.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
            case 36:
                return asked.answer(SaslAuthenticateResponse(session_lifetime_ms=60_000))
        return None

    with RawBroker(answer) as broker:
        yield broker


@pytest.fixture(scope="module")
def tls_tap(broker: RawBroker, tls: TlsFiles) -> Iterator[Tap]:
    """A tap that speaks TLS with clients, and plainly with the broker."""
    with tapped(broker, tls=tls) as tap:
        yield tap


@pytest.fixture
def direct(broker: RawBroker) -> list[object]:
    """What the broker answers without a tap."""
    with RawClient(broker.address) as client:
        return client.exchange()


def in_tls(tap: Tap, tls: TlsFiles) -> RawClient:
    """A client that trusts the tap's certificate, and no other."""
    client = RawClient(tap.bootstrap_server)
    context = ssl.create_default_context(cafile=tls.certificate)
    client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
    return client


# TLS


def test_clients_speak_tls_with_the_tap_and_the_broker_stays_plain(
    direct: list[object], tls_tap: Tap, tls: TlsFiles
) -> None:
    with in_tls(tls_tap, tls) as client:
        versions, metadata, produced = client.exchange()
        assert client.socket.version() == "TLSv1.3"
    assert (versions, produced) == (direct[0], direct[2])
    (node,) = metadata.brokers
    with RawClient(f"{node.host}:{node.port}") as client:  # the broker's own port is TLS too
        client.send(ALL_METADATA, 12)
        assert client.is_closed()
    assert "TLS" in tls_tap.complaint()


def test_two_taps_in_a_row_speak_tls_with_each_other(
    direct: list[object], tls_tap: Tap, tls: TlsFiles
) -> None:
    trusting = {"security.protocol": "SSL", "ssl.truststore.location": tls.certificate}
    spec = TapSpec(access=access_of(tls_tap.bootstrap_server, trusting))
    with running_tap(spec, None) as outer:
        with RawClient(outer.bootstrap_server) as client:
            through = client.exchange()
            (node,) = through[1].brokers
        assert [through[0], through[2]] == [direct[0], direct[2]]
        with RawClient(f"{node.host}:{node.port}") as client:  # the leader, through both
            assert client.exchange() == through
        shown = outer.show()
    assert [*shown.ports.values()] == [node.port]
    assert shown.messages == tls_tap.messages() == ()


def test_a_plain_client_of_a_tls_tap_loses_its_connection_and_nobody_else_does(
    tls_tap: Tap, tls: TlsFiles
) -> None:
    with in_tls(tls_tap, tls) as other:
        before = other.exchange()
        with RawClient(tls_tap.bootstrap_server) as client:
            client.send(ALL_METADATA, 12)
            assert client.is_closed()
        assert other.exchange() == before
    assert "TLS" in tls_tap.complaint()


def test_a_tls_client_of_a_plain_tap_is_told_apart(broker: RawBroker) -> None:
    with tapped(broker) as tap, RawClient(tap.bootstrap_server) as client:
        context = ssl.create_default_context()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        line = tap.complaint()
    assert "dropped: from the client: it speaks TLS, and this side of the tap is plain" in line
    assert line.endswith(": set its security.protocol to PLAINTEXT or SASL_PLAINTEXT.")


def test_a_broker_whose_certificate_nobody_vouches_for_is_not_spoken_to(tls_tap: Tap) -> None:
    spec = TapSpec(access=access_of(tls_tap.bootstrap_server, {"security.protocol": "SSL"}))
    with (
        pytest.raises(UnreachableError, match="of an authority that is not trusted"),
        running_tap(spec, None),
    ):
        pass


LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'module required username="alice" password="{SECRET}";',
}


def test_tls_to_brokers_leaves_a_login_and_clients_are_told_the_advertised_address(
    tls_tap: Tap, tls: TlsFiles, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(java_properties.text(LOGIN))
    err = io.StringIO()
    words = (
        *("tap", "--bootstrap-server", tls_tap.bootstrap_server, "--command-config", str(file)),
        *("--tls-to-brokers", "--ca", tls.certificate, "--advertise", "kafka.example"),
        *("--for", "100ms"),
    )
    status = run([*words], Environment(io.StringIO(), io.StringIO(), err, {}))
    said = err.getvalue()
    assert status == 0, said
    told = re.search(
        r"connect to kafka\.example:(\d+) with security\.protocol=SASL_PLAINTEXT", said
    )
    assert told is not None, said
    assert f"The tap listens at 127.0.0.1:{told[1]}." in said
    assert SECRET not in said


# SASL

TOKEN = f"\0user\0{SECRET}".encode()


def said_of(tap: Tap, directory: Path) -> str:
    """All that the tap has to say, and what it wrote: its rows as they are and as they export."""
    outcome = tap.stop()
    files = [path.read_bytes() for path in directory.rglob("*") if path.is_file()]
    assert files
    exported = [
        repr(batch.to_pylist())
        for name in DATASETS
        for batch in record_batches(outcome, directory, name)
    ]
    assert "sent_us" in "".join(exported)
    return repr(outcome) + repr(files) + "".join(exported)


def test_sasl_is_passed_on_as_it_is_and_not_kept(broker: RawBroker, tmp_path: Path) -> None:
    with tapped(broker, tmp_path) as tap:
        for version in (0, 1, 2):
            with RawClient(tap.bootstrap_server) as client:
                for request, api_version in (
                    (SaslHandshakeRequest(mechanism="PLAIN"), 1),
                    (SaslAuthenticateRequest(auth_bytes=TOKEN), version),
                ):
                    frame = client.frame(request, api_version)
                    client.socket.sendall(frame)
                    assert client.answer_to(type(request), api_version).error_code == 0
                    assert framed(broker.asked[-1].frame) == frame
                client.exchange()
        said = said_of(tap, tmp_path)
    assert "SASL" not in said
    assert SECRET not in said
    assert SECRET.encode().hex() not in said


def test_a_token_without_a_request_around_it_is_refused_and_not_told(
    broker: RawBroker, tmp_path: Path
) -> None:
    before = len(broker.asked)
    with tapped(broker, tmp_path) as tap:
        # After SaslHandshake 0 tokens come bare: their first bytes would be taken for a request.
        with RawClient(tap.bootstrap_server) as client:
            client.ask(ALL_METADATA, 12)
            handshake = client.frame(SaslHandshakeRequest(mechanism="PLAIN"), 0)
            client.socket.sendall(handshake + framed(TOKEN))
            assert client.is_closed()
        assert "SaslHandshake 0" in tap.complaint()
        # As from a client that has lost count: a token where a request should begin.
        for cut in (9, 20, 30):
            with RawClient(tap.bootstrap_server) as client:
                client.ask(ALL_METADATA, 12)
                client.socket.sendall(framed(TOKEN)[: 4 + cut])
                client.socket.shutdown(socket.SHUT_WR)
                client.is_closed()
        assert SECRET not in said_of(tap, tmp_path)
    assert not any(SECRET.encode() in asked.frame for asked in broker.asked[before:])


# A real client of real brokers


@pytest.mark.kafka
def test_librdkafka_writes_and_reads_over_tls_what_plain_brokers_keep(
    lab: Lab, tls: TlsFiles, tmp_path: Path
) -> None:
    topic, values = "over-tls", [f"value-{number}".encode() * 50 for number in range(300)]
    create_topics(lab.bootstrap_server, [topic], 3, 1)
    spec = TapSpec(access=lab.access, tls=tls)
    with running_tap(spec, tmp_path) as tap:
        settings = {
            "bootstrap.servers": tap.bootstrap_server,
            "security.protocol": "ssl",
            "ssl.ca.location": tls.certificate,
            "log_level": 0,
        }
        producer = Producer(settings)
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(60) == 0
        consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        read: list[bytes] = []
        while len(read) < len(values):
            read += [message.value() for message in consumer.consume(100, 1.0)]
        consumer.close()
        seen = tap.show()
    delete_topics(lab.bootstrap_server, [topic])
    assert sorted(read) == sorted(values)
    assert seen.messages == ()
    assert len(seen.ports) == 3
    assert any("rdkafka" in client.identity.software_version for client in seen.clients)
