"""Programs of their own in each way to connect, and what each wrong way ends in for commands.

Connections themselves, of each kind, are in `test_every_login_kafka`.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from on_secured import Way, passwords, ran, topic_of

from kipctl import java_properties
from kipctl.lab.certificates import Authority
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import find_java
from kipctl.lab.properties import LabSpec
from kipctl.lab.security import MECHANISMS, SCRAM_SHA_512, Security
from kipctl.load.clients.client import Client, ConsumerLoad, ProducerLoad
from kipctl.load.clients.java import JavaClient
from kipctl.load.clients.librdkafka import Librdkafka
from kipctl.state import write_private

pytestmark = pytest.mark.kafka
JAVA = "4.3.1"
RECORDS = 20
PKCS12 = "PKCS12"
WAYS = (SCRAM_SHA_512, PKCS12)
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
    if request.param == PKCS12:
        lab: Lab = request.getfixturevalue("certified_lab")
        return Way(lab, lab.client_files["admin-pkcs12"])
    lab = request.getfixturevalue("secured_lab")
    return Way(lab, lab.client_files["admin-scram-sha-512"])


@pytest.fixture
def topic(way: Way) -> Iterator[str]:
    with topic_of(way.lab, TOPIC, 2) as name:
        yield name


@pytest.mark.parametrize("way", [PKCS12], indirect=True)
def test_a_probe_connects_with_a_certificate(way: Way, tmp_path: Path) -> None:
    """In a process of its own; those that log in do so in `test_main_ways_kafka`."""
    load = ("--num-records", str(RECORDS), "--throughput", "100", "--partitions", "2")
    status, out, err = ran("perf", "e2e", *load, *way.options, "-o", "json", state=tmp_path)
    assert status == 0, err
    records = json.loads(out)["records"]
    assert records["acknowledged"] == records["delivered"] == RECORDS


@pytest.mark.parametrize("way", WAYS, indirect=True)
def test_stock_clients_under_test(
    way: Way, topic: str, request: pytest.FixtureRequest, fetched_kafka: FetchedKafka
) -> None:
    """Kafka's own tools with Java's clients, which read the same properties: each in one way."""
    java: Client = JavaClient(JAVA, find_java().path, fetched_kafka(JAVA).paths)
    is_pkcs12 = request.node.callspec.params["way"] == PKCS12
    producing, consuming = (java, Librdkafka()) if is_pkcs12 else (Librdkafka(), java)
    load = ProducerLoad(topic=topic, num_records=RECORDS, throughput=0, record_size=10)
    with producing.producer(load, way.access) as producer:
        assert producer.outcome().records == RECORDS
    wanted = ConsumerLoad(topic=topic, num_records=RECORDS, group=topic, timeout_s=120)
    with consuming.consumer(wanted, way.access) as consumer:
        assert consumer.outcome().records == RECORDS


# Somebody who tried until delivery.timeout.ms is over would do so for longer than a test may last.
COMMANDS = {
    "an admin command": ("reassign", "--list"),
    "a probe": (
        *("perf", "produce", "--num-records", "10", "--throughput", "-1", "--record-size", "10"),
        *("--command-property", "delivery.timeout.ms=3600000"),
    ),
}
CLIENTS, INTERNAL, CERTIFIED = "clients", "internal", "certified"
"""The listeners: SASL over TLS, plain text, and TLS that asks clients for a certificate."""
WRONG_PASSWORD = {"sasl.jaas.config": '{login}password="wrong-secret";'}
PLAINTEXT, SSL, SASL_PLAINTEXT = (
    {"security.protocol": name} for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")
)
NO_TOKEN = {"sasl.oauthbearer.token.endpoint.url": "file://{folder}/no-token"}
OTHERS_CA = {"ssl.truststore.location": "{folder}/others-ca.pem"}
OTHERS_KEY = {"ssl.keystore.location": "{folder}/others-admin.pem"}
NO_KEY = {"ssl.keystore.location": ""}

TO_TLS = "it speaks TLS: set security.protocol"
REFUSED = "User 'admin' is refused by broker 127.0.0.1:"
UNTRUSTED = "its certificate is of an authority that is not trusted"
NO_CERTIFICATE = "it asks for a client's certificate that it trusts (ssl.keystore.*)"
WRONG = {
    **{
        f"wrong password by {name}": (f"admin-{name.lower()}", WRONG_PASSWORD, CLIENTS, 4, REFUSED)
        for name in MECHANISMS[:3]
    },
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
    "no certificate": ("admin", NO_KEY, CERTIFIED, 3, NO_CERTIFICATE),
    "another authority's certificate": ("admin", OTHERS_KEY, CERTIFIED, 3, NO_CERTIFICATE),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_a_listener_is_refused(
    wrong: str, command: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It ends with one error of at most three lines, at once, and tells no password."""
    name, changes, listener, status, said = WRONG[wrong]
    fixture = "certified_lab" if listener == CERTIFIED else "secured_lab"
    lab: Lab = request.getfixturevalue(fixture)
    others = Authority()
    write_private(tmp_path / "no-token", b"none")
    write_private(tmp_path / "others-ca.pem", others.pem)
    write_private(tmp_path / "others-admin.pem", others.for_user("admin").pem)
    properties = java_properties.read(lab.client_files[name])
    login = properties.get("sasl.jaas.config", "").partition("password=")[0]
    properties |= {n: text.format(folder=tmp_path, login=login) for n, text in changes.items()}
    file = tmp_path / "client.properties"
    write_private(file, java_properties.text({n: v for n, v in properties.items() if v}).encode())
    internal = f"127.0.0.1:{lab.node(1).spec.plaintext_port}"
    server = internal if listener == INTERNAL else lab.bootstrap_server
    connecting = ("--bootstrap-server", server, "--command-config", str(file))
    ended, out, err = ran(*COMMANDS[command], *connecting, state=tmp_path)
    assert (ended, out) == (status, ""), err
    error = err[err.index("kipctl: ") :]
    assert said in error
    assert len(error.splitlines()) <= 3
    assert error.count("kipctl: ") == 1
    secrets = {*passwords(lab), b"wrong-secret"}
    assert [secret for secret in secrets if secret in err.encode()] == []
