"""docs/security.md has a table: each way to log in by each kind of connection, right and wrong.

Each of its rows is made anew here, and compared. KIPCTL_REMEASURE_PAGES=1 writes them down.
"""

import base64
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import aws
import pytest
from asked_lab import COMPILER, TokensAuthority, asked_lab, signed
from confluent_kafka import Producer
from kerberos_here import MISSING
from loop_client import LoopClient
from on_secured import Program, Way, files_with, topic_of
from py4j.java_gateway import JavaGateway
from token_endpoint import Answer, Endpoint

from kipctl import java_properties
from kipctl.errors import KipctlError
from kipctl.lab.certificates import Authority
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import find_java
from kipctl.lab.properties import LabSpec
from kipctl.lab.security import Security
from kipctl.load.clients.client import ProducerLoad
from kipctl.load.clients.java import JavaClient
from kipctl.load.clients.librdkafka import Librdkafka
from kipctl.load.metadata.java import JavaSender
from kipctl.load.metadata.phases import PhaseLoad
from kipctl.load.metadata.plan import Phase
from kipctl.measure import worker as workers
from kipctl.measure.worker import Answer as WorkersAnswer
from kipctl.measure.worker import SharedFolder, WorkOrder, work
from kipctl.probe.produce.many_topics import Segment
from kipctl.probe.produce.run import ProduceSpec
from kipctl.security import tokens
from kipctl.security.dialects import as_javas
from kipctl.security.jaas import jaas_options, jaas_text
from kipctl.tap.process import running_tap
from kipctl.tap.spec import Lend, TapSpec
from kipctl.transport.access import Access, access_of
from kipctl.transport.loop_connection import ConnectionLostError
from kipctl.transport.reachable import require_reachable
from kipctl.transport.request import Cluster
from kipctl.typed_json import decoded, encoded

pytestmark = pytest.mark.kafka
PAGE = Path(__file__).parents[2] / "docs" / "security.md"
HEAD = """\
| login | blocking | event loop | worker | tap | librdkafka | Java |
|---|---|---|---|---|---|---|
"""
JAVA = "4.3.1"
RECORDS = 5
TOPIC = "every-login"
IN, NONE = "in", "-"
BASIC = "Basic " + base64.b64encode(f"me:{aws.SECRET}".encode()).decode()

Properties = dict[str, str]


class Login(NamedTuple):
    """The fixture of a lab, and a client's properties: those that are right, and wrong ones."""

    lab: str
    properties: Callable[[Lab, Path], tuple[Properties, Properties | None]]


# --- ways to log in ---


def plaintext(lab: Lab, folder: Path) -> tuple[Properties, None]:
    internal = f"127.0.0.1:{lab.node(1).spec.plaintext_port}"
    return {"bootstrap.servers": internal, "security.protocol": "PLAINTEXT"}, None


def of_file(lab: Lab, name: str) -> Properties:
    return java_properties.read(lab.client_files[name])


def one_sided(lab: Lab, folder: Path) -> tuple[Properties, Properties]:
    """TLS without a certificate of the client's; then with another authority's to trust."""
    right = {n: t for n, t in of_file(lab, "admin").items() if not n.startswith("ssl.keystore.")}
    (folder / "others.pem").write_bytes(Authority().pem)
    return right, right | {"ssl.truststore.location": str(folder / "others.pem")}


def pem(lab: Lab, folder: Path) -> tuple[Properties, Properties]:
    right = of_file(lab, "admin")
    (folder / "others.pem").write_bytes(Authority().for_user("admin").pem)
    return right, right | {"ssl.keystore.location": str(folder / "others.pem")}


def pkcs12(lab: Lab, folder: Path) -> tuple[Properties, Properties]:
    """The wrong one has no certificate."""
    right = of_file(lab, "admin-pkcs12")
    return right, {n: t for n, t in right.items() if not n.startswith("ssl.keystore.")}


def jks(lab: Lab, folder: Path) -> tuple[Properties, Properties]:
    right = of_file(lab, "admin-pkcs12")
    for store in ("keystore", "truststore"):
        location, password = f"ssl.{store}.location", right[f"ssl.{store}.password"]
        made = folder / f"{store}.jks"
        keytool = ["keytool", "-importkeystore", "-srckeystore", right[location], "-noprompt"]
        keytool += ["-srcstorepass", password, "-deststorepass", password]
        keytool += ["-destkeystore", str(made), "-deststoretype", "JKS"]
        subprocess.run(keytool, check=True, capture_output=True)
        right |= {location: str(made), f"ssl.{store}.type": "JKS"}
    return right, {n: t for n, t in right.items() if not n.startswith("ssl.keystore.")}


def password(mechanism: str) -> Callable[[Lab, Path], tuple[Properties, Properties]]:
    def properties(lab: Lab, folder: Path) -> tuple[Properties, Properties]:
        right = of_file(lab, f"admin-{mechanism.lower()}")
        jaas = right["sasl.jaas.config"]
        wrong = jaas_text(jaas.split()[0], jaas_options(jaas) | {"password": "wrong"})
        return right, right | {"sasl.jaas.config": wrong}

    return properties


def unsigned(lab: Lab, folder: Path) -> tuple[Properties, None]:
    """Whoever writes one is who he says."""
    right = of_file(lab, "admin-oauthbearer")
    del right["sasl.oauthbearer.token.endpoint.url"]
    return right, None


OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"


def with_token(lab: Lab, url: str, **options: str) -> Properties:
    return of_file(lab, "admin-oauthbearer") | {
        "sasl.jaas.config": jaas_text(f"{OAUTH}LoginModule", options),
        "sasl.login.callback.handler.class": f"{OAUTH}LoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": url,
    }


def token_file(lab: Lab, folder: Path) -> tuple[Properties, Properties]:
    files = (folder / "token", folder / "others-token")
    for file, token in zip(files, (signed("admin"), signed("admin") + "x"), strict=True):
        file.write_text(token)
    right, wrong = (with_token(lab, file.as_uri()) for file in files)
    return right, wrong


def token_endpoint(lab: Lab, folder: Path) -> tuple[Properties, Properties]:
    """See `endpoint`: the test's own, which knows one secret."""
    url = os.environ["TOKEN_ENDPOINT"]
    right, wrong = (
        with_token(lab, url, clientId="me", clientSecret=text) for text in (aws.SECRET, "wrong")
    )
    return right, wrong


def iam(lab: Lab, folder: Path) -> tuple[Properties, Properties]:
    """As AWS's documentation has it; the wrong one is somebody else's key."""
    (folder / "aws-credentials").write_text(
        f"[others]\naws_access_key_id={aws.KEY_ID}\naws_secret_access_key=wrong\n"
    )
    theirs = "software.amazon.msk.auth.iam.IAM"
    module = f"{theirs}LoginModule"
    right = of_file(lab, "admin-oauthbearer") | {
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f"{module} required;",
        "sasl.client.callback.handler.class": f"{theirs}ClientCallbackHandler",
    }
    del right["sasl.oauthbearer.token.endpoint.url"]
    return right, right | {"sasl.jaas.config": f'{module} required awsProfileName="others";'}


def gssapi(lab: Lab, folder: Path) -> tuple[Properties, Properties]:
    """The wrong key is alice's."""
    right = of_file(lab, "admin-gssapi")
    keytab = folder / "admin.keytab"
    alices = jaas_options(of_file(lab, "alice-gssapi")["sasl.jaas.config"])["keyTab"]
    keytab.write_bytes(Path(alices).read_bytes().replace(b"alice", b"admin"))
    jaas = right["sasl.jaas.config"]
    wrong = jaas_text(jaas.split()[0], jaas_options(jaas) | {"keyTab": str(keytab)})
    return right, right | {"sasl.jaas.config": wrong}


LOGINS = {
    "PLAINTEXT": Login("secured_lab", plaintext),
    "SSL": Login("one_sided_lab", one_sided),
    "SSL, certificate in PEM": Login("certified_lab", pem),
    "SSL, certificate in PKCS #12": Login("certified_lab", pkcs12),
    "SSL, certificate in JKS": Login("certified_lab", jks),
    **{
        f"{protocol}, {mechanism}": Login(lab, password(mechanism))
        for protocol, lab in (("SASL_PLAINTEXT", "unencrypted_lab"), ("SASL_SSL", "secured_lab"))
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    },
    "SASL_PLAINTEXT, OAUTHBEARER, unsigned": Login("unencrypted_lab", unsigned),
    "SASL_SSL, OAUTHBEARER, unsigned": Login("secured_lab", unsigned),
    "SASL_SSL, OAUTHBEARER, a file": Login("lab_of_authority", token_file),
    "SASL_SSL, OAUTHBEARER, an endpoint": Login("lab_of_authority", token_endpoint),
    "SASL_SSL, AWS_MSK_IAM": Login("lab_of_authority", iam),
    "SASL_SSL, GSSAPI": Login("secured_lab", gssapi),
}


# --- kinds of connections ---


class Place(NamedTuple):
    """What a connection is tried with."""

    topic: str
    folder: Path
    java: JavaGateway


def blocking(access: Access, place: Place) -> None:
    with Cluster(access) as cluster:
        assert [topic.name for topic in cluster.metadata((place.topic,)).topics] == [place.topic]
        asked = {number for number in cluster.nodes if cluster.broker(number).api_versions}
        assert asked == cluster.nodes.keys()


def event_loop(access: Access, place: Place) -> None:
    """It does not wait for a token: its owner tries again when there is one."""
    if access.security.sasl and not access.security.sasl.is_ready():
        for thread in threading.enumerate():
            if thread.name == tokens.REFRESHING:
                thread.join(30)
    for broker in access.bootstrap:
        with LoopClient(broker, access) as client:
            number = client.connect().ask()
            assert client.answers(1) == [number]


def worker(access: Access, place: Place) -> None:
    """A producer of kipctl's, told by an order as it goes to Spark's machines."""
    shared = SharedFolder.prepare(Path(mkdtemp(dir=place.folder)), 1)
    order = WorkOrder.of([ProduceSpec(access, place.topic, RECORDS, 1000)], shared, None)
    said = work(encoded(order), 0, lambda word: [word])
    if error := decoded(said, WorkersAnswer, "It").error:
        raise error


def tap(access: Access, place: Place) -> None:
    """A client behind it, of whom it understands all: librdkafka, or Java where that has no such
    login."""
    failed: list[object] = []
    with running_tap(TapSpec(access=access, lends=Lend.THIS_USER), None) as running:
        behind = access.behind(running.bootstrap_server)
        assert "SSL" not in behind.security.protocol
        require_reachable(replace(behind, is_behind_tap=False))
        if behind.security.sasl and behind.security.sasl.kerberos:
            java(behind, place)
        else:
            producer = Producer({**behind.librdkafka(), "log_level": 0})
            for _ in range(RECORDS):
                producer.produce(
                    place.topic, b"a", on_delivery=lambda error, _: failed.append(error)
                )
            producer.flush(30)
            assert failed == [None] * RECORDS
        outcome = running.stop()
    assert outcome.messages == ()
    assert {client.counts.not_decoded for client in outcome.clients} == {0}


def librdkafka(access: Access, place: Place) -> None:
    load = ProducerLoad(topic=place.topic, num_records=RECORDS, throughput=0, record_size=10)
    with Librdkafka().producer(load, access) as running:
        assert running.outcome().records == RECORDS


def java(access: Access, place: Place) -> None:
    require_reachable(access)
    sender = JavaSender(place.java, JAVA, access, [place.topic], 10, {"max.block.ms": "30000"})
    assert sender.send(PhaseLoad(Phase.STARTUP, (Segment(range(1), RECORDS, 1000),))) == {}
    sender.close()


KINDS = (blocking, event_loop, worker, tap, librdkafka, java)


def outcome(kind: Callable[[Access, Place], None], access: Access, place: Place) -> str:
    """What it ends in: IN, or the status of the error."""
    try:
        kind(access, place)
    except ConnectionLostError as lost:  # the owner of a loop says it, and tries again
        why = lost.__cause__
        return str(int(why.status if isinstance(why, KipctlError) else 3))
    except KipctlError as error:
        return str(int(error.status))
    return IN


# --- the table ---


@pytest.fixture(scope="module")
def gateway(fetched_kafka: Callable[[str], KafkaJars]) -> Iterator[JavaGateway]:
    paths = (*fetched_kafka(JAVA).paths, *COMPILER)
    with JavaClient(JAVA, find_java().path, paths).gateway() as (gateway, _):
        yield gateway


OWN_LABS: dict[str, tuple[Security, tuple[tuple[str, str], ...]]] = {
    "certified_lab": (Security.SSL, ()),
    "one_sided_lab": (Security.SSL, (("ssl.client.auth", "none"),)),
    "unencrypted_lab": (Security.SASL_PLAINTEXT, ()),
}


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest, guard: None) -> Iterator[Lab]:
    """That of a login: one of its own has 1 broker, and ends with the last login that names it."""
    if request.param not in OWN_LABS:
        yield request.getfixturevalue(request.param)
        return
    security, config = OWN_LABS[request.param]
    name = request.param.replace("_lab", "-logins")
    spec = LabSpec(name=name, brokers=1, c1_only=True, security=security, config=config)
    lab = Lab.up(spec, lambda text: None)
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def tokens_authority() -> Iterator[TokensAuthority]:
    opened = TokensAuthority()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def lab_of_authority(
    guard: None,
    gateway: JavaGateway,
    tokens_authority: TokensAuthority,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lab]:
    with asked_lab(gateway, tmp_path_factory.mktemp("asked"), tokens_authority) as lab:
        yield lab


@pytest.fixture(autouse=True)
def who_has_awss_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, text in {**aws.environment(tmp_path), "AWS_REGION": aws.REGION}.items():
        monkeypatch.setenv(variable, text)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened = Endpoint()

    def give() -> Answer:
        authorization, _ = opened.asked[-1]
        if authorization != BASIC:
            return Answer(401, {"error": "invalid_client"})
        return Answer(200, {"access_token": signed("admin"), "expires_in": 900})

    opened.give = give
    monkeypatch.setenv("TOKEN_ENDPOINT", opened.url)
    yield
    opened.close()


@pytest.mark.parametrize(
    ("lab", "name"),
    [
        pytest.param(login.lab, name, id=name)
        for name, login in sorted(LOGINS.items(), key=lambda item: item[1].lab)
        if not (MISSING and "GSSAPI" in name)
    ],
    indirect=["lab"],
    scope="module",
)
def test_each_login_by_each_kind_of_connection(
    lab: Lab,
    name: str,
    gateway: JavaGateway,
    endpoint: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the right login it works; with the wrong one it ends as what can be told apart."""
    # The wall clock of workers stands still: none hears too late of a start that is soon.
    now_us = time.time_ns() // 1000
    monkeypatch.setattr(workers, "START_DELAY_US", 100_000)
    monkeypatch.setattr(workers, "_wall_us", lambda: now_us)
    login = LOGINS[name]
    if lab.kdc:
        monkeypatch.setenv("KRB5_CONFIG", str(lab.kdc.configuration))
    right, wrong = (given and access(lab, given) for given in login.properties(lab, tmp_path))
    with topic_of(lab, TOPIC, 1) as topic:
        place = Place(topic, tmp_path, gateway)
        cells = [
            f"{outcome(kind, right, place)} / {outcome(kind, wrong, place) if wrong else NONE}"
            for kind in KINDS
        ]
    row = f"| {' | '.join((name, *cells))} |"
    if "KIPCTL_REMEASURE_PAGES" in os.environ:
        write(rows() | {name: row})
    assert rows().get(name) == row


def test_the_table_has_these_rows_and_no_others() -> None:
    assert [*rows()] == [*LOGINS]


def rows() -> dict[str, str]:
    """Those that the page shows, by their first cell."""
    lines = PAGE.read_text().partition(HEAD)[2].partition("\n\n")[0].splitlines()
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def write(known: Mapping[str, str]) -> None:
    before, head, rest = PAGE.read_text().partition(HEAD)
    _, _, after = rest.partition("\n\n")
    table = "".join(f"{known[name]}\n" for name in LOGINS if name in known)
    PAGE.write_text(f"{before}{head}{table}\n{after}")


def access(lab: Lab, properties: Properties) -> Access:
    servers = properties.pop("bootstrap.servers", lab.bootstrap_server)
    return access_of(servers, as_javas(properties).properties)


def test_a_run_by_iam_logs_in_again_and_tells_no_secret(
    lab_of_authority: Lab, tokens_authority: TokensAuthority, tmp_path: Path
) -> None:
    """In processes of their own: the client's, and that of the probe that it starts."""
    properties, _ = iam(lab_of_authority, tmp_path)
    file, folder = tmp_path / "pasted.properties", tmp_path / "kipctl"
    file.write_text(java_properties.text(properties))
    folder.mkdir()
    before, kipctl = len(tokens_authority.asked), Program(folder)
    connecting = Way(lab_of_authority, file).options
    load = ("--num-records", "325", "--throughput", "50", "--partitions", "2", "-o", "json")
    said = json.loads(kipctl("perf", "e2e", *load, "--record", str(folder / "run"), *connecting))
    assert (said["records"]["delivered"], said["records"]["failed"]) == (325, 0)
    for client in ("producer", "consumer"):
        assert said["health"][client]["reauthentications"]["count"] >= 1
    given = {form["token"].encode() for _, form in tokens_authority.asked[before:]}
    assert given
    assert files_with({aws.SECRET.encode(), *given}, folder) == []
