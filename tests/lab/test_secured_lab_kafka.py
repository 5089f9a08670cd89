"""Secured labs: whom their brokers let in, with the lab's own files, and what those may do."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from lab_tools import kipctl_lab

from kipctl import java_properties
from kipctl.lab.certificates import Authority
from kipctl.lab.cluster import Lab
from kipctl.lab.security import Security
from kipctl.state import write_private

pytestmark = pytest.mark.kafka
FILES = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "pkcs12")
TOPIC = "secured-topic"


def in_librdkafkas_words(lab: Lab, name: str) -> dict[str, Any]:
    """A client file of the lab, with PEM, for confluent_kafka."""
    told = java_properties.read(lab.client_files[name])
    given: dict[str, Any] = {
        "bootstrap.servers": lab.bootstrap_server,
        "security.protocol": told["security.protocol"],
        "ssl.ca.location": told["ssl.truststore.location"],
        "log_level": 0,
    }
    if keystore := told.get("ssl.keystore.location"):
        given |= {"ssl.certificate.location": keystore, "ssl.key.location": keystore}
    if mechanism := told.get("sasl.mechanism"):
        given["sasl.mechanism"] = mechanism
        options = dict(re.findall(r' (\w+)="([^"]*)"', told["sasl.jaas.config"]))
        if mechanism == "OAUTHBEARER":
            file = Path(told["sasl.oauthbearer.token.endpoint.url"].removeprefix("file://"))
            given["oauth_cb"] = lambda _: (file.read_text(), time.time() + 3600)
        else:
            given |= {
                "sasl.username": options["username"],
                "sasl.password": options["password"],
            }
    return given


def nodes_that_answer(brokers: Sequence[int], settings: dict[str, Any]) -> list[str]:
    """By the configuration of each, which only those may read who have DescribeConfigs on the
    cluster. Raises KafkaException."""
    admin = AdminClient(settings)
    admin.poll(0)  # asks for a token
    answered = []
    for broker in brokers:
        asked = ConfigResource(ResourceType.BROKER, str(broker))
        [answer] = admin.describe_configs([asked], request_timeout=60).values()
        answered.append(answer.result()["node.id"].value)
    return answered


def topics(settings: dict[str, Any]) -> set[str]:
    admin = AdminClient(settings)
    admin.poll(0)
    return set(admin.list_topics(timeout=60).topics)


def told_why(settings: dict[str, Any]) -> str:
    """The first that librdkafka says of a login that fails."""
    told: list[KafkaError] = []
    admin = AdminClient({**settings, "error_cb": told.append})
    deadline = time.monotonic() + 60
    while not told:
        assert time.monotonic() < deadline
        admin.poll(0.1)
    return str(told[0])


def offsets_by_java(lab: Lab, name: str) -> str:
    """What one of Kafka's own tools says with a file of the lab's."""
    command = [str(lab.java.path), "-XX:TieredStopAtLevel=1", "-cp", lab.jars.classpath]
    command += ["org.apache.kafka.tools.GetOffsetShell", "--topic", TOPIC]
    command += ["--bootstrap-server", lab.bootstrap_server]
    command += ["--command-config", str(lab.client_files[name])]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@contextmanager
def refused(code: int) -> Iterator[None]:
    """By the broker, with this error."""
    with pytest.raises(KafkaException) as raised:
        yield
    assert raised.value.args[0].code() == code


def create_topic(topic: str, settings: dict[str, Any]) -> None:
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()


def delete_topic(topic: str, settings: dict[str, Any]) -> None:
    admin = AdminClient(settings)
    admin.delete_topics([topic])[topic].result()


def make_topic(lab: Lab) -> None:
    """One partition with one record, made by admin."""
    settings = in_librdkafkas_words(lab, lab.client_properties.stem)
    create_topic(TOPIC, settings)
    failed: list[object] = []
    producer = Producer(settings)
    producer.produce(TOPIC, b"a record", on_delivery=lambda error, _: failed.append(error))
    producer.flush(30)
    assert failed == [None]


@pytest.fixture(scope="module")
def lab_with_topic(secured_lab: Lab) -> Iterator[Lab]:
    make_topic(secured_lab)
    yield secured_lab
    delete_topic(TOPIC, in_librdkafkas_words(secured_lab, "admin-plain"))


@pytest.mark.parametrize("user", ["admin", "reader"])
@pytest.mark.parametrize("mechanism", FILES[:-1])
def test_librdkafka_is_let_in_by_every_broker(secured_lab: Lab, user: str, mechanism: str) -> None:
    settings = in_librdkafkas_words(secured_lab, f"{user}-{mechanism}")
    assert nodes_that_answer((1, 2), settings) == ["1", "2"]


@pytest.mark.parametrize("file", [file for file in FILES if file != "scram-sha-256"])
def test_javas_own_tools_take_the_files(lab_with_topic: Lab, file: str) -> None:
    assert offsets_by_java(lab_with_topic, f"admin-{file}") == f"{TOPIC}:0:1\n"


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
def test_a_wrong_password_is_refused(secured_lab: Lab, mechanism: str) -> None:
    settings = in_librdkafkas_words(secured_lab, f"admin-{mechanism}")
    assert "_AUTHENTICATION" in told_why({**settings, "sasl.password": "wrong"})


def test_another_authoritys_certificates_are_not_trusted(secured_lab: Lab, tmp_path: Path) -> None:
    settings = in_librdkafkas_words(secured_lab, "admin-plain")
    write_private(tmp_path / "ca.pem", Authority().pem)
    told = told_why({**settings, "ssl.ca.location": str(tmp_path / "ca.pem")})
    assert "certificate verify failed" in told


def test_alice_may_do_nothing(lab_with_topic: Lab) -> None:
    settings = in_librdkafkas_words(lab_with_topic, "alice-scram-sha-512")
    assert topics(settings) == set()
    with refused(KafkaError.CLUSTER_AUTHORIZATION_FAILED):
        nodes_that_answer([1], settings)
    with refused(KafkaError.TOPIC_AUTHORIZATION_FAILED):
        create_topic("alices", settings)


def test_reader_may_look_and_change_nothing(lab_with_topic: Lab) -> None:
    settings = in_librdkafkas_words(lab_with_topic, "reader-scram-sha-256")
    assert TOPIC in topics(settings)
    consumer = Consumer({**settings, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    record = consumer.poll(120)
    consumer.close()
    assert record.value() == b"a record"
    with refused(KafkaError.TOPIC_AUTHORIZATION_FAILED):
        delete_topic(TOPIC, settings)


def test_a_restarted_broker_knows_its_users(secured_lab: Lab) -> None:
    Lab.load("secured").restart(1)
    for user in ("admin", "reader"):
        settings = in_librdkafkas_words(secured_lab, f"{user}-scram-sha-512")
        assert nodes_that_answer([1], settings) == ["1"]


def status(name: str, output: str) -> str:
    ended, out, _ = kipctl_lab("status", "--name", name, "-o", output)
    assert ended == 0
    return out


def test_it_is_told_where_the_files_are(secured_lab: Lab) -> None:
    clients = secured_lab.folder / "clients"
    at = (
        status("secured", "plain")
        .splitlines()
        .index(f"Bootstrap server: {secured_lab.bootstrap_server}")
    )
    assert status("secured", "plain").splitlines()[at + 1 : at + 3] == [
        f"Security: SASL_SSL with ACLs. Files for clients: {clients}/*.properties",
        f"For instance: kipctl inspect leaders --bootstrap-server {secured_lab.bootstrap_server} "
        f"--command-config {clients}/admin-scram-sha-512.properties",
    ]
    (told,) = json.loads(status("secured", "json"))["labs"]
    assert (told["security"], told["acl"]) == ("sasl_ssl", True)
    assert told["client_properties"] == str(clients / "admin-scram-sha-512.properties")
    assert set(told["client_files"]) == {
        f"{user}-{file}"
        for user in ("admin", "alice", "reader")
        for file in (*FILES, *(["gssapi"] if secured_lab.kdc else []))
    }


def test_no_secret_is_told_to_those_who_need_not_know(secured_lab: Lab) -> None:
    files = secured_lab.client_files.values()
    secrets = {
        secret
        for name, text in chain.from_iterable(java_properties.read(file).items() for file in files)
        for secret in re.findall(r'(?: password="|\.password=)([\w-]+)', f"{name}={text}")
    }
    assert len(secrets) == 4  # of three users, and of the stores
    public = [
        status("secured", "plain"),
        status("secured", "json"),
        (secured_lab.folder / "lab.json").read_text(),
        *(Path(f"/proc/{node.pid}/cmdline").read_text() for node in secured_lab.nodes),
        *(Path(f"/proc/{node.pid}/environ").read_text() for node in secured_lab.nodes),
        *(path.read_text() for path in secured_lab.folder.glob("*/*.log*")),
    ]
    assert secured_lab.folder.stat().st_mode & 0o777 == 0o700
    assert [secret for secret in secrets if any(secret in text for text in public)] == []
    readable = [
        path
        for path in secured_lab.folder.rglob("*")
        if path.is_file()
        and path.stat().st_mode & 0o077
        and any(secret.encode() in path.read_bytes() for secret in secrets)
    ]
    assert readable == []


def test_a_lab_whose_users_are_certificates(make_lab: Callable[..., Lab], tmp_path: Path) -> None:
    lab = make_lab(name="certified", brokers=1, security=Security.SSL, acl=True, host="localhost")
    assert lab.bootstrap_server == f"localhost:{lab.node(1).port}"
    assert sorted(lab.client_files) == [
        f"{user}{stores}" for user in ("admin", "alice", "reader") for stores in ("", "-pkcs12")
    ]
    assert lab.client_properties == lab.client_files["admin"]
    make_topic(lab)
    admin, alice, reader = (
        in_librdkafkas_words(lab, name) for name in ("admin", "alice", "reader")
    )
    assert TOPIC in topics(admin)
    assert TOPIC in topics(reader)
    assert topics(alice) == set()
    for name in ("admin", "admin-pkcs12"):
        assert offsets_by_java(lab, name) == f"{TOPIC}:0:1\n"
    own = ("ssl.certificate.location", "ssl.key.location")
    nobody = {key: value for key, value in admin.items() if key not in own}
    assert "SSL alert" in told_why(nobody)  # which one is up to Java
    write_private(tmp_path / "admin.pem", Authority().for_user("admin").pem)
    assert "SSL alert" in told_why(admin | dict.fromkeys(own, str(tmp_path / "admin.pem")))
