"""A table: each kind of connection in each way to connect; and what each wrong way ends in."""

import json
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from on_secured import Way, broker_ids, passwords, ran, topic_of

from kipctl import java_properties
from kipctl.clients.java import JavaClient
from kipctl.clients.librdkafka import Librdkafka
from kipctl.clients.load import Client, ConsumerLoad, ProducerLoad
from kipctl.lab.certificates import EXPIRED, Authority, Identity
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import find_java
from kipctl.lab.properties import LabSpec
from kipctl.lab.security import MECHANISMS, SCRAM_SHA_512, Security
from kipctl.state import write_private
from kipctl.tap.process import running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
JAVA = "4.3.1"
RECORDS = 20
PEM, PKCS12 = "PEM", "PKCS12"
WAYS = (*MECHANISMS, PEM, PKCS12)
TOPIC = "every-connection"
FetchedKafka = Callable[[str], KafkaJars]


@pytest.fixture(scope="module")
def certified_lab(guard: None) -> Iterator[Lab]:
    """1 broker that asks clients for a certificate."""
    spec = LabSpec(name="certified-table", brokers=1, c1_only=True, security=Security.SSL)
    lab = Lab.up(spec, lambda text: None)
    yield lab
    lab.down()


@pytest.fixture
def way(request: pytest.FixtureRequest) -> Way:
    """Of admin, by its name in WAYS."""
    name = request.param
    if name in MECHANISMS:
        lab: Lab = request.getfixturevalue("secured_lab")
        return Way(lab, lab.client_files[f"admin-{name.lower()}"])
    lab = request.getfixturevalue("certified_lab")
    return Way(lab, lab.client_files["admin" if name == PEM else "admin-pkcs12"])


@pytest.fixture
def topic(way: Way) -> Iterator[str]:
    with topic_of(way.lab, TOPIC, 2) as name:
        yield name


def document(*words: str, state: Path) -> dict[str, Any]:
    status, out, err = ran(*words, "-o", "json", state=state)
    assert status == 0, err
    parsed: dict[str, Any] = json.loads(out)
    return parsed


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_blocking_connections_to_every_broker(way: Way) -> None:
    with Cluster(way.access) as cluster:
        assert cluster.metadata(()).cluster_id == way.lab.cluster_id
        asked = {number for number in cluster.nodes if cluster.broker(number).api_versions}
        assert asked == broker_ids(way.lab)


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_non_blocking_connections_of_a_producer_and_a_consumer(way: Way, tmp_path: Path) -> None:
    load = ("--num-records", str(RECORDS), "--throughput", "100", "--partitions", "2")
    said = document("perf", "e2e", *load, *way.options, state=tmp_path)
    assert said["records"]["acknowledged"] == said["records"]["delivered"] == RECORDS


@pytest.mark.parametrize("way", [SCRAM_SHA_512], indirect=True)
def test_the_watch_sees_leaders_move(way: Way, topic: str, tmp_path: Path) -> None:
    rotate = ("reassign", "--rotate", "--topic", topic, "--yes")
    said = document(*rotate, *way.options, state=tmp_path)
    assert {one["outcome"] for one in said["partitions"]} == {"elected"}
    knew = {step for step in said["timeline_ms"] if "knew" in step}
    assert knew == {f"broker {number} knew every new leader" for number in broker_ids(way.lab)}


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_librdkafka_under_test(way: Way, topic: str) -> None:
    writes_and_reads(Librdkafka(), way, topic)


@pytest.mark.parametrize("way", [SCRAM_SHA_512, PKCS12], indirect=True)
def test_java_under_test(way: Way, topic: str, fetched_kafka: FetchedKafka) -> None:
    writes_and_reads(JavaClient(JAVA, find_java().path, fetched_kafka(JAVA).paths), way, topic)


def writes_and_reads(client: Client, way: Way, topic: str) -> None:
    load = ProducerLoad(topic=topic, num_records=RECORDS, throughput=0, record_size=10)
    with client.producer(load, way.access) as producer:
        assert producer.outcome().records == RECORDS
    wanted = ConsumerLoad(topic=topic, num_records=RECORDS, group=topic, timeout_s=120)
    with client.consumer(wanted, way.access) as consumer:
        assert consumer.outcome().records == RECORDS


@pytest.mark.parametrize("way", [SCRAM_SHA_512, PEM], indirect=True)
def test_the_taps_to_brokers_with_a_stock_client_behind_it(way: Way, topic: str) -> None:
    failed: list[object] = []
    with running_tap(TapSpec(access=way.access), None) as tap:
        behind = way.access.behind(tap.bootstrap_server)
        assert "SSL" not in behind.security.protocol
        producer = Producer({**behind.librdkafka(), "log_level": 0})
        for _ in range(RECORDS):
            producer.produce(topic, b"a record", on_delivery=lambda error, _: failed.append(error))
        producer.flush(30)
        outcome = tap.stop()
    assert failed == [None] * RECORDS
    assert outcome.messages == ()
    (seen,) = outcome.clients
    assert seen.counts.not_decoded == 0


COMMANDS = {
    "an admin command": ("reassign", "--list"),
    "a probe": (
        *("perf", "produce", "--num-records", "10", "--throughput", "-1"),
        *("--record-size", "10"),
    ),
}
WRONG_PASSWORD = "wrong-secret"
TO_TLS = "it speaks TLS: set security.protocol"
UNTRUSTED = "its certificate is of an authority that is not trusted"


def with_password(properties: dict[str, str], password: str) -> dict[str, str]:
    told = properties["sasl.jaas.config"]
    before, _, _ = told.partition("password=")
    return properties | {"sasl.jaas.config": f'{before}password="{password}";'}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_a_wrong_password_is_refused(
    secured_lab: Lab, mechanism: str, command: str, tmp_path: Path
) -> None:
    right = java_properties.read(secured_lab.client_files[f"admin-{mechanism.lower()}"])
    properties = with_password(right, WRONG_PASSWORD)
    said = "User 'admin' is refused by broker 127.0.0.1:"
    fails(secured_lab, command, properties, tmp_path, 4, said)


CLIENTS, INTERNAL = "clients", "internal"
"""The listeners of a broker: SASL over TLS, and plain text."""
PLAINTEXT, SSL, SASL_PLAINTEXT = (
    {"security.protocol": name} for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")
)
NO_TOKEN = {"sasl.oauthbearer.token.endpoint.url": "file://{folder}/no-token"}
OTHERS_CA = {"ssl.truststore.location": "{folder}/others-ca.pem"}
WRONG = {
    "no right": ("alice-plain", {}, CLIENTS, 4, "User:alice has no right to"),
    "no token": ("admin-oauthbearer", NO_TOKEN, CLIENTS, 4, "is refused by broker"),
    "unknown CA": ("admin-plain", OTHERS_CA, CLIENTS, 3, UNTRUSTED),
    "plain text to TLS": ("admin-plain", PLAINTEXT, CLIENTS, 3, TO_TLS),
    "login in plain text to TLS": ("admin-plain", SASL_PLAINTEXT, CLIENTS, 3, TO_TLS),
    "TLS without a login": ("admin-plain", SSL, CLIENTS, 3, "asks for a login (SASL)"),
    "TLS to plain text": ("admin-plain", SSL, INTERNAL, 3, "as a listener without TLS does"),
    "login where there is none": (
        *("admin-plain", SASL_PLAINTEXT, INTERNAL, 4),
        "takes no login over SASL",
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_a_listener_is_refused(
    secured_lab: Lab, wrong: str, command: str, tmp_path: Path
) -> None:
    file, changes, listener, status, said = WRONG[wrong]
    write_private(tmp_path / "no-token", b"none")
    write_private(tmp_path / "others-ca.pem", Authority().pem)
    properties = java_properties.read(secured_lab.client_files[file])
    properties |= {name: text.format(folder=tmp_path) for name, text in changes.items()}
    internal = f"127.0.0.1:{secured_lab.node(1).spec.plaintext_port}"
    server = internal if listener == INTERNAL else ""
    fails(secured_lab, command, properties, tmp_path, status, said, server)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("shown", ["nothing", "another authority's"])
def test_a_client_without_a_certificate_that_is_trusted_is_refused(
    certified_lab: Lab, shown: str, command: str, tmp_path: Path
) -> None:
    properties = java_properties.read(certified_lab.client_files["admin"])
    if shown == "nothing":
        del properties["ssl.keystore.location"]
    else:
        write_private(tmp_path / "admin.pem", Authority().for_user("admin").pem)
        properties["ssl.keystore.location"] = str(tmp_path / "admin.pem")
    said = "it asks for a client's certificate that it trusts (ssl.keystore.*)"
    fails(certified_lab, command, properties, tmp_path, 3, said)


class OneHandshake(socketserver.BaseRequestHandler):
    """A server that has a certificate to show, and no more to say."""

    context: ssl.SSLContext

    def handle(self) -> None:
        with suppress(OSError):  # it is not trusted
            self.context.wrap_socket(self.request, server_side=True).recv(1)


@contextmanager
def tls_server(identity: Identity, folder: Path) -> Iterator[str]:
    """It listens with that certificate; yields where."""
    write_private(folder / "server.pem", identity.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    handler = type("Handler", (OneHandshake,), {"context": context})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        serving.join()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("host", "validity", "said"),
    [
        ("127.0.0.1", EXPIRED, "its certificate has expired"),
        ("kafka.example.com", None, "its certificate is of another name"),
    ],
)
def test_a_server_that_may_be_another_is_not_trusted(
    secured_lab: Lab, host: str, validity: Any, said: str, command: str, tmp_path: Path
) -> None:
    authority = Authority()
    write_private(tmp_path / "ca.pem", authority.pem)
    properties = java_properties.read(secured_lab.client_files["admin-plain"])
    properties["ssl.truststore.location"] = str(tmp_path / "ca.pem")
    with tls_server(authority.for_hosts("broker", [host], validity), tmp_path) as server:
        fails(secured_lab, command, properties, tmp_path, 3, said, server)


def fails(
    lab: Lab,
    command: str,
    properties: dict[str, str],
    folder: Path,
    status: int,
    said: str,
    server: str = "",
) -> None:
    """It ends with one error of at most three lines, soon, and tells no password."""
    file = folder / "client.properties"
    write_private(file, java_properties.text(properties).encode())
    connecting = ("--bootstrap-server", server or lab.bootstrap_server, "--command-config")
    began = time.monotonic()
    ended, out, err = ran(*COMMANDS[command], *connecting, str(file), state=folder)
    assert time.monotonic() - began < 60  # nobody tries until delivery.timeout.ms is over
    assert (ended, out) == (status, ""), err
    error = err[err.index("kipctl: ") :]
    assert said in error
    assert len(error.splitlines()) <= 3
    assert error.count("kipctl: ") == 1
    secrets = {*passwords(lab), WRONG_PASSWORD.encode()}
    assert [secret for secret in secrets if secret in err.encode()] == []
