"""TLS on either side of the tap, SASL through it, and nothing secret left behind."""

import io
import re
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from raw_peers import EXCHANGE, METADATA, Asked, RawBroker, RawClient

from kipctl import java_properties
from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.topics import await_topic, create_topics, delete_topics
from kipctl.errors import UnreachableError
from kipctl.lab.cluster import Lab
from kipctl.tap.export import record_batches
from kipctl.tap.process import RunningTap, running_tap
from kipctl.tap.recorder import DATASETS
from kipctl.tap.spec import TapSpec, TlsFiles
from kipctl.transport.access import Access, access_of
from kipctl.transport.request import Cluster

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
SECRET = "hunter2-is-my-secret"
LENGTH = struct.Struct(">i")


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


@pytest.fixture
def broker() -> Iterator[RawBroker]:
    with RawBroker() as broker:
        yield broker


@contextmanager
def outside(broker: RawBroker, tls: TlsFiles, directory: Path | None) -> Iterator[RunningTap]:
    """A tap that speaks TLS with clients, and plainly with the broker."""
    with running_tap(TapSpec(access=Access(broker.address), tls=tls), directory) as tap:
        yield tap


def in_tls(tap: RunningTap, tls: TlsFiles) -> RawClient:
    """A client that trusts the tap's certificate, and no other."""
    client = RawClient(tap.bootstrap_server)
    context = ssl.create_default_context(cafile=tls.certificate)
    client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
    return client


def exchanged(client: RawClient) -> list[object]:
    return [client.ask(request, version) for request, version in EXCHANGE]


# TLS


def test_clients_speak_tls_with_the_tap_and_the_broker_stays_plain(
    broker: RawBroker, tls: TlsFiles, tmp_path: Path
) -> None:
    with RawClient(broker.address) as client:
        direct = exchanged(client)
    with outside(broker, tls, tmp_path) as tap:
        with in_tls(tap, tls) as client:
            versions, metadata, produced = exchanged(client)
        assert (versions, produced) == (direct[0], direct[2])
        (node,) = metadata.brokers
        with in_tls(tap, tls) as client:
            assert client.socket.version() == "TLSv1.3"
        with RawClient(f"{node.host}:{node.port}") as client:  # the broker's own port is TLS too
            client.socket.sendall(client.frame(METADATA, 12))
            assert client.is_closed()


def test_two_taps_in_a_row_speak_tls_with_each_other(
    broker: RawBroker, tls: TlsFiles, tmp_path: Path
) -> None:
    trusting = {"security.protocol": "SSL", "ssl.truststore.location": tls.certificate}
    with outside(broker, tls, None) as inner:
        spec = TapSpec(access=access_of(inner.bootstrap_server, trusting))
        with running_tap(spec, tmp_path) as outer:
            with RawClient(broker.address) as client:
                direct = exchanged(client)
            with RawClient(outer.bootstrap_server) as client:
                through = exchanged(client)
                (node,) = through[1].brokers
            assert [through[0], through[2]] == [direct[0], direct[2]]
            with RawClient(f"{node.host}:{node.port}") as client:  # the leader, through both
                assert exchanged(client) == through
            (port,) = outer.show().ports.values()
            assert port == node.port
            assert outer.show().messages == inner.show().messages == ()


def test_a_plain_client_of_a_tls_tap_loses_its_connection_and_nobody_else_does(
    broker: RawBroker, tls: TlsFiles, tmp_path: Path
) -> None:
    with outside(broker, tls, tmp_path) as tap, in_tls(tap, tls) as other:
        before = exchanged(other)
        with RawClient(tap.bootstrap_server) as client:
            client.socket.sendall(client.frame(METADATA, 12))
            assert client.is_closed()
        assert exchanged(other) == before
        (line,) = tap.show().messages
        assert "TLS" in line
        assert "\n" not in line


def test_a_tls_client_of_a_plain_tap_is_told_apart(broker: RawBroker, tmp_path: Path) -> None:
    with (
        running_tap(TapSpec(access=Access(broker.address)), tmp_path) as tap,
        RawClient(tap.bootstrap_server) as client,
    ):
        context = ssl.create_default_context()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(client.socket, server_hostname="127.0.0.1")
        (line,) = tap.show().messages
        assert "dropped: from the client: it speaks TLS, and this side of the tap is plain" in line
        assert line.endswith(": set its security.protocol to PLAINTEXT or SASL_PLAINTEXT.")


def test_a_broker_whose_certificate_nobody_vouches_for_is_not_spoken_to(
    broker: RawBroker, tls: TlsFiles, tmp_path: Path
) -> None:
    with outside(broker, tls, None) as inner:
        spec = TapSpec(access=access_of(inner.bootstrap_server, {"security.protocol": "SSL"}))
        with (
            pytest.raises(UnreachableError, match="of an authority that is not trusted"),
            running_tap(spec, tmp_path),
        ):
            pass


LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'module required username="alice" password="{SECRET}";',
}


def test_tls_to_brokers_leaves_a_login_and_clients_are_told_the_advertised_address(
    broker: RawBroker, tls: TlsFiles, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(java_properties.text(LOGIN))
    err = io.StringIO()
    with outside(broker, tls, None) as inner:
        words = (
            *("tap", "--bootstrap-server", inner.bootstrap_server, "--command-config", str(file)),
            *("--tls-to-brokers", "--ca", tls.certificate, "--advertise", "kafka.example"),
            *("--for", "1s"),
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


def sasl_frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    flexible = api_key == SASL_AUTHENTICATE and version >= 2
    head = struct.pack(">hhih", api_key, version, correlation_id, 3) + b"raw" + b"\0" * flexible
    return LENGTH.pack(len(head) + len(body)) + head + body


def handshake(version: int, correlation_id: int) -> bytes:
    return sasl_frame(SASL_HANDSHAKE, version, correlation_id, struct.pack(">h", 5) + b"PLAIN")


def authenticate(version: int, correlation_id: int, token: bytes) -> bytes:
    size = bytes([len(token) + 1]) if version >= 2 else LENGTH.pack(len(token))
    tags = b"\0" if version >= 2 else b""
    return sasl_frame(SASL_AUTHENTICATE, version, correlation_id, size + token + tags)


def sasl_broker(asked: Asked, connection: socket.socket) -> bytes | None:
    """Knows one mechanism, and takes any password."""
    match asked.api_key:
        case 17:
            return asked.answer(struct.pack(">hih", 0, 1, 5) + b"PLAIN")
        case 36 if asked.version >= 2:
            return asked.answer(struct.pack(">hBB", 0, 0, 1) + struct.pack(">q", 60_000) + b"\0")
        case 36:
            return asked.answer(struct.pack(">hhi", 0, -1, 0) + bytes(8 * asked.version))
    return None


TOKEN = f"\0user\0{SECRET}".encode()


def said_of(tap: RunningTap, directory: Path) -> str:
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


@pytest.mark.parametrize("version", [0, 1, 2])
def test_sasl_is_passed_on_as_it_is_and_not_kept(
    broker: RawBroker, tmp_path: Path, version: int
) -> None:
    broker.script = sasl_broker
    spec = TapSpec(access=Access(broker.address))
    with running_tap(spec, tmp_path) as tap:
        with RawClient(tap.bootstrap_server) as client:
            frames = [
                handshake(1, client.next_id()),
                authenticate(version, client.next_id(), TOKEN),
            ]
            for frame in frames:
                client.socket.sendall(frame)
                error_at = 5 if version >= 2 and frame is frames[1] else 4
                assert client.read()[error_at : error_at + 2] == b"\0\0"
            assert [LENGTH.pack(len(a.frame)) + a.frame for a in broker.asked[-2:]] == frames
            exchanged(client)
        said = said_of(tap, tmp_path)
    assert "SASL" not in said
    assert SECRET not in said
    assert SECRET.encode().hex() not in said


def test_a_token_without_a_request_around_it_is_refused_before_it_is_sent(
    broker: RawBroker, tmp_path: Path
) -> None:
    """After SaslHandshake 0 tokens come bare: their first bytes would be taken for a request."""
    broker.script = sasl_broker
    with running_tap(TapSpec(access=Access(broker.address)), tmp_path) as tap:
        with RawClient(tap.bootstrap_server) as client:
            client.ask(METADATA, 12)
            client.socket.sendall(handshake(0, client.next_id()) + LENGTH.pack(len(TOKEN)) + TOKEN)
            assert client.is_closed()
            (line,) = tap.show().messages
            assert "SaslHandshake 0" in line
        assert SECRET not in said_of(tap, tmp_path)
    assert not any(SECRET.encode() in asked.frame for asked in broker.asked)


@pytest.mark.parametrize("cut", [9, 20, 30])
def test_a_password_in_a_request_that_cannot_be_read_is_not_told(
    broker: RawBroker, tmp_path: Path, cut: int
) -> None:
    with running_tap(TapSpec(access=Access(broker.address)), tmp_path) as tap:
        with RawClient(tap.bootstrap_server) as client:
            client.ask(METADATA, 12)
            # As from a client that has lost count: a token where a request should begin.
            client.socket.sendall(LENGTH.pack(len(TOKEN)) + TOKEN[:cut])
            client.socket.shutdown(socket.SHUT_WR)
            client.is_closed()
        assert SECRET not in said_of(tap, tmp_path)


# A real client of real brokers


@pytest.mark.kafka
def test_librdkafka_writes_and_reads_over_tls_what_plain_brokers_keep(
    lab: Lab, tls: TlsFiles, tmp_path: Path
) -> None:
    topic, values = "over-tls", [f"value-{number}".encode() * 50 for number in range(300)]
    create_topics(lab.bootstrap_server, [topic], 3, 1)
    with Cluster(lab.bootstrap_server, timeout_s=30) as cluster:
        await_topic(cluster, topic, 3)
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
    assert any("rdkafka" in one.identity.software_version for one in seen.clients)
