"""Files: properties and stores, named clusters, plans, the journal, rolls, runs, and what one
process leaves for another."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from unittest import mock

from credentials import ALICE, AUTHORITY, CA, CHAIN, INLINE, KEY, java_keystore
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fuzzing import FaultError, Reader
from in_process import kipctl
from mutations import Change, bytes_changed, json_changed, text_changed
from reassigning import reassigning
from test_left_outcome import WHOLE
from test_runs_commands import SUMMARY
from test_tap_tables import client as of_client
from test_tap_tables import document as of_clients

from kipctl import java_properties
from kipctl.changes.guard_interface import RecordedGuard
from kipctl.changes.journal.entry import ExecutionOptions, Origin
from kipctl.changes.journal.journal import Journal
from kipctl.changes.plans.kafka_json import read_election, reassignment_document
from kipctl.changes.throttle import Change as ThrottleChange
from kipctl.changes.throttle import Setting, Throttle
from kipctl.cluster.request_log_record import read_records
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import ExitStatus
from kipctl.guard.conditions import Guard, parse_guard
from kipctl.pipeline.recorded_runs import _described, _text
from kipctl.pipeline.settings import defaults
from kipctl.probe.produce.config import parse_properties
from kipctl.process import Process
from kipctl.report.roll_tables import rolled_report
from kipctl.roll.next_step import Phase
from kipctl.roll.plan import Node
from kipctl.roll.process_identity import ProcessMark
from kipctl.roll.record import Restarter, RollOptions, RollState, begin_roll, read_roll
from kipctl.security.settings import security_of
from kipctl.tap.export import left_in
from kipctl.tap.process import OUTCOME_FILE
from kipctl.trace.names import names_in
from kipctl.trace.run_start import RunStart
from kipctl.trace.schema import SCHEMA_VERSION
from kipctl.trace.store import RUN_FILE, Run
from kipctl.transport.access import access_of
from kipctl.transport.target import target_of
from kipctl.typed_json import encoded

Readers = Iterator[Mapping[str, Reader]]


def commanded(*words: str, **variables: str) -> None:
    """Run a command, which may end with whatever it declares."""
    ended = kipctl("--debug", *words, **variables)
    if ended.status == ExitStatus.FAULT or "--help`." in ended.err:  # there is no such command
        raise FaultError(" ".join(words), ended.err)


def put(path: Path, then: Callable[[], object]) -> Callable[[bytes], None]:
    """What is read is in this file."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(content: bytes) -> None:
        path.write_bytes(content)
        then()

    return read


def by_commands(
    path: Path, sound: Sequence[bytes], changed: Change, commands: Sequence[str], **variables: str
) -> dict[str, Reader]:
    """For each of the commands that read this file a reader."""
    return {
        f"kipctl {words}".strip(): Reader(
            sound, put(path, partial(commanded, *words.split(), **variables)), changed, memory=0
        )
        for words in commands
    }


def document(value: object) -> bytes:
    return json.dumps(value, default=str).encode()


# Properties

PASSWORD = "store-hunter2"
_LOGIN = 'org.apache.kafka.common.security.{} required username="alice" password="a\\"b";'
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def _texts(folder: Path) -> Iterator[Mapping[str, str]]:
    """Properties as people have them."""
    yield {
        "bootstrap.servers": "kafka1:9093,[::1]:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": _LOGIN.format("scram.ScramLoginModule"),
        "ssl.truststore.certificates": CA,
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "client.id": "größe \u0001 =:#!\\",
    }
    yield {"security.protocol": "SSL", **INLINE, "ssl.key.password": "x", "acks": "all"}
    yield {
        "security.protocol": "ssl",
        "ssl.truststore.location": str(folder / "trust.p12"),
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.location": str(folder / "own.jks"),
        "ssl.keystore.password": PASSWORD,
        "ssl.endpoint.identification.algorithm": "",
    }
    yield {
        "metadata.broker.list": "b:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "p",
        "ssl.ca.pem": CA,
        "enable.ssl.certificate.verification": "true",
        "queue.buffering.max.kbytes": "1024",
    }
    yield {
        "spring.kafka.bootstrap-servers": "b:1",
        "spring.kafka.properties.security.protocol": "SASL_PLAINTEXT",
        "spring.kafka.jaas.enabled": "true",
        "spring.kafka.jaas.login-module": "a.b.PlainLoginModule",
        "spring.kafka.jaas.options.username": "me",
        "spring.kafka.jaas.options.password": "${PASSWORD}",
        "spring.kafka.ssl.trust-store-location": f"file:{folder / 'ca.pem'}",
    }
    yield {
        "producer.security.protocol": "SASL_PLAINTEXT",
        "producer.sasl.mechanism": "OAUTHBEARER",
        "producer.sasl.jaas.config": f'{_OAUTH} oauth.client.id="me" oauth.client.secret="s"'
        ' oauth.token.endpoint.uri="https://idp/t" oauth.ssl.truststore.location="x";',
        "linger.ms": "5",
        "batch.size": "100000",
        "retries": "3",
    }
    yield {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "http://[::1]:80/token",
        "sasl.jaas.config": f"{_OAUTH} clientId=me clientSecret=s extension_a=b"
        ' unsecuredLoginNumberClaim_level="3";',
    }


@contextmanager
def properties(folder: Path) -> Readers:
    """Properties as people have them, and Spark's; what they say of the connection and a client."""
    file = folder / "client.properties"
    (folder / "file").touch()  # where a named cluster would be kept
    _stores(folder)
    (folder / "ca.pem").write_text(CA)

    def of_java() -> None:
        target = target_of("b:1", {"command_config": str(file)}, {}, _nowhere(folder))
        security = access_of(target.servers, target.properties).security
        if security.tls:
            security.tls.context()

    texts = [*_texts(folder)]
    sound = [java_properties.text(config).encode() for config in texts]
    sound += ["".join(f"{a} = {b!r}\n" for a, b in config.items()).encode() for config in texts]
    spark = b"# mine\nspark.master  local[2]\nspark.executor.memory=2g\n\nspark.authenticate true\n"
    yield {
        "properties": Reader(sound, put(file, of_java), text_changed, memory=2000),
        "a client's": Reader(
            [java_properties.text({"acks": "all", "linger.ms": "5"}).encode()],
            put(file, lambda: parse_properties(java_properties.read(file))),
            text_changed,
        ),
        **by_commands(
            file,
            sound,
            text_changed,
            [f"clusters add a --bootstrap-server b:1 --command-config {file}"],
            XDG_CONFIG_HOME=str(folder / "file"),
        ),
        "Spark's": Reader(
            [spark],
            put(folder / "spark-defaults.conf", lambda: defaults({"SPARK_CONF_DIR": str(folder)})),
            text_changed,
        ),
    }


def _nowhere(folder: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(folder / "nowhere"), "XDG_STATE_HOME": str(folder / "state")}


def _stores(folder: Path) -> dict[str, bytes]:
    """Keystores and truststores by their names, which are there then."""
    key = ALICE.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    certificate = ALICE.certificate.public_bytes(Encoding.DER)
    (folder / "trust.p12").write_bytes(AUTHORITY.truststore(PASSWORD))
    (folder / "own.p12").write_bytes(ALICE.keystore(PASSWORD))
    (folder / "own.jks").write_bytes(java_keystore(key, certificate, PASSWORD))
    return {path.name: path.read_bytes() for path in folder.glob("*.[jp]*")}


def jks_changed(content: bytes, choose: Random) -> bytes:
    """Of most the digest over all is what it is to be."""
    changed = bytes_changed(content, choose)
    if not choose.randrange(4):
        return changed
    given = PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + changed[:-20]
    return changed[:-20] + hashlib.sha1(given).digest()


@contextmanager
def stores(folder: Path) -> Readers:
    """Keystores and truststores: PEM, PKCS #12 and JKS."""
    made = _stores(folder)
    jks = folder / "key.jks"
    key = ALICE.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    certificate = ALICE.certificate.public_bytes(Encoding.DER)
    of_key = {"security.protocol": "SSL", "ssl.keystore.location": str(jks)}
    of_key["ssl.keystore.password"] = PASSWORD

    def read_key(content: bytes) -> None:
        jks.write_bytes(java_keystore(content, certificate, PASSWORD))
        security_of(of_key)

    pem = (KEY + CHAIN).encode()

    def of(kind: str, *sound: bytes, changed: Change) -> Reader:
        """A store of this kind, given as both."""
        path = folder / "read" / kind
        given = {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}
        for name in ("truststore", "keystore"):
            given[f"ssl.{name}.location"] = str(path)
            given[f"ssl.{name}.password"] = "" if kind == "pem" else PASSWORD
        of_trust = {name: text for name, text in given.items() if "keystore" not in name}

        def read() -> None:
            security_of(of_trust)
            security_of(given)

        return Reader(sound, put(path, read), changed, memory=2000)

    yield {
        "PEM": of("pem", pem, CA.encode(), changed=text_changed),
        "PKCS #12": of("p12", made["own.p12"], made["trust.p12"], changed=bytes_changed),
        "JKS": of("jks", made["own.jks"], changed=jks_changed),
        "a key in JKS": Reader([key], read_key, bytes_changed, memory=2000),
    }


@contextmanager
def clusters(folder: Path) -> Readers:
    """`clusters.toml`."""
    file = folder / "kipctl" / "clusters.toml"
    sound = b"""
# of ours
["prod"]
bootstrap_servers = "kafka1:9093,kafka2:9093"
command_config = "~/kafka/prod.properties"
rack = 'eu-1a'
metrics_urls = ["http://kafka1:9404/metrics", "http://me:x@kafka2:9404/metrics"]
id = "XcO_\\u00e9"
protected = true
map = { "kafka1:9093" = "127.0.0.1:19093" }

[a.b]
bootstrap_servers = "b:1"
"""
    commands = (
        "clusters list",
        "clusters list -o json",
        "clusters show prod",
        "clusters add more --bootstrap-server b:1",
        "reassign --list --cluster prod --map x",
    )
    yield by_commands(file, [sound], text_changed, commands, XDG_CONFIG_HOME=str(folder))


# Plans, the journal and rolls

REPLICAS = {PartitionId("t", number): (1, 2, 3) for number in range(3)} | {
    PartitionId("größe", 0): (4, 1, 2)
}
TARGET = {
    PartitionId("t", 0): (2, 1, 3),
    PartitionId("t", 1): (4, 1, 2),
    PartitionId("größe", 0): (1,),
}


@contextmanager
def plans(folder: Path) -> Readers:
    """Kafka's JSON of a reassignment and of an election, on a cluster."""
    file = folder / "plan.json"
    sound = reassignment_document(TARGET)
    with reassigning(REPLICAS) as (cluster, _):
        commands = (f"reassign --plan {file} --dry-run", f"reassign --verify {file}")
        whole = [document(sound), json.dumps(sound, indent=2).encode()]
        yield {
            "an election": Reader(whole, put(file, partial(read_election, file)), json_changed),
            **by_commands(
                file,
                whole,
                json_changed,
                commands,
                KIPCTL_BOOTSTRAP_SERVER=cluster.bootstrap_server,
                XDG_STATE_HOME=str(folder),
            ),
        }


def _entry(state: Path, throttle: Throttle | None) -> bytes:
    """What the journal has of a change that was cut off."""
    from kipctl.changes.journal.journal import journal

    entry = journal("fake", {"XDG_STATE_HOME": str(state)}).save(
        {p: REPLICAS[p] for p in TARGET},
        TARGET,
        Origin.here(["reassign", "--plan", "p.json", "--yes"]),
        {"t": "00000000-0000-0000-0000-000000000007"},
        how=ExecutionOptions(10, 2.5, True, 1_000_000, 2),
        throttle=throttle,
    )
    return entry.path.read_bytes()


@contextmanager
def journals(folder: Path) -> Readers:
    """The journal's entries, in it and copied from elsewhere, and the records of rolls."""
    setting = Setting("broker", "1", "leader.replication.throttled.rate")
    throttle = Throttle((ThrottleChange(setting, None, "1000"),))
    sound = [_entry(folder / "sound", entry_throttle) for entry_throttle in (None, throttle)]
    state = folder / "state" / "kipctl"
    kept = state / "journal" / "fake" / "20261126T210000.000000Z.entry.json"
    kept.parent.mkdir(parents=True)
    kept.with_name("20261126T210000.000000Z.unfinished").touch()
    with reassigning(REPLICAS) as (cluster, _):
        variables = {
            "KIPCTL_BOOTSTRAP_SERVER": cluster.bootstrap_server,
            "XDG_STATE_HOME": str(folder / "state"),
            "KIPCTL_RUNS": str(folder / "runs"),
        }
        copied = folder / "copied.json"
        yield {
            **by_commands(
                kept,
                sound,
                json_changed,
                (
                    "changes list",
                    "changes show",
                    "changes list -o json",
                    "undo --dry-run",
                    "changes resume --dry-run",
                    "",
                ),
                **variables,
            ),
            **by_commands(
                copied,
                sound,
                json_changed,
                (
                    f"undo --journal {copied} --dry-run",
                    f"changes resume --journal {copied} --dry-run",
                    f"changes show --journal {copied}",
                    f"reassign --verify {copied}",
                ),
                **variables | {"XDG_STATE_HOME": str(folder / "elsewhere")},
            ),
        }


def _roll(state: Path) -> bytes:
    nodes = [
        Node(id, "h", 9092, rack, role)
        for id, rack, role in ((1, "a", "broker"), (2, None, "controller"))
    ]
    guard = RecordedGuard(("urp > 10", "p99 > 50ms for 10s"), urls=("http://a/metrics",))
    how = RollOptions(Restarter.EXEC, ("ssh", "{host}"), guard=guard)
    record = begin_roll(Journal(state, "fake"), Origin(("roll",), "me", "here"), how, nodes)
    step = record.steps[0].begin(
        Phase.RESTARTING,
        mark=ProcessMark(17, 1.5),
        process=Process(12, "345"),
        output="a.log",
        leaders_moved_off=7,
        waits_seconds=(0.5, 0.25),
    )
    return (
        record.changed(step.reached("restarted")).mark(RollState.STOPPED, "away").path.read_bytes()
    )


@contextmanager
def rolls(folder: Path) -> Readers:
    """The record of a roll, as its report and what goes on with it read it."""
    file = folder / "20261126T210000.000000Z.roll.json"

    def read() -> None:
        record = read_roll(file)
        rolled_report(record)
        Guard.of(map(parse_guard, record.how.guard.conditions), record.how.guard.patience_s, 1.0)
        json.dumps(record.as_document())

    state = folder / "state" / "kipctl" / "journal" / "fake" / file.name
    with reassigning(REPLICAS) as (cluster, _):
        variables = {
            "KIPCTL_BOOTSTRAP_SERVER": cluster.bootstrap_server,
            "XDG_STATE_HOME": str(folder / "state"),
            "KIPCTL_RUNS": str(folder / "runs"),
        }

        sound = [_roll(folder / "sound")]
        yield {
            "a record": Reader(sound, put(file, read), json_changed),
            **by_commands(
                state,
                sound,
                json_changed,
                ("", "roll --resume", "changes list", "changes show"),
                **variables,
            ),
        }


# Runs, and what processes leave for one another


@contextmanager
def runs(folder: Path) -> Readers:
    """`run.json`, as it is listed, shown and analysed, in a store."""
    run = Run.create(folder / "runs" / "one")
    file = run.folder / RUN_FILE
    variables = {"KIPCTL_RUNS": str(folder / "runs"), "XDG_STATE_HOME": str(folder / "state")}
    whole = {
        "schema_version": SCHEMA_VERSION,
        "command": "perf produce",
        "started": "2026-01-02T03:04:05.000006+00:00",
        "throughput": 5000.0,
        "num_records": 50_000,
        "interval_ns": 1000,
        "start_wall_us": 1_790_000_000_000_000,
        "kept_from_s": 10,
        "lasted_s": 90.5,
        "producer": {"acks": "all", "sasl.password": "x"},
        "cluster_before": {
            "cluster_id": "c",
            "brokers": [{"id": 1, "rack": "a"}],
            "partitions": [{"replicas": [1, 2]}],
        },
        "summary": SUMMARY,
    }
    sound = [
        document(whole),
        document(whole | {"stopped": True, "during": "rotate", "repaired": True}),
        document(whole | {"summary": of_clients(of_client(new_topic=1))}),
    ]
    commands = (
        "runs list",
        "runs list -o json",
        "runs show one",
        "runs show one -o json",
        "runs repair one",
        "runs export one --format csv " + str(folder / "runs"),
        "",
    )
    yield {
        "its description": Reader(
            sound, put(file, lambda: _described(str(folder), _text(file))), json_changed
        ),
        **by_commands(file, sound, json_changed, commands, **variables),
    }


@contextmanager
def left(folder: Path) -> Readers:
    """What a lab, a tap, a switched-on request log have left beside their own."""
    lab = folder / "state" / "kipctl" / "labs" / "a" / "lab.json"
    kafka = {"paths": ["/a.jar"], "folder": "/f"}
    record = {
        "kafka_version": "4.3.1",
        "jars": kafka,
        "seed": {"formatted": "/s", "archive": "/a"},
        "cluster_id": "c",
        "java": {"path": "/java", "version": 17},
        "request_log": True,
        "security": "PLAINTEXT",
        "owner": [1, "2"],
        "exporter": None,
        "nodes": [{"id": 1, "role": "broker", "rack": "a", "port": 1}],
    }
    tap = folder / "tap"
    tap.mkdir()
    RunStart("h", 1000, 5).write(tap)
    log = folder / "state" / "kipctl" / "request-log" / "a.json"
    switched_on = {
        "cluster_id": "c",
        "brokers": [1, 2],
        "since": 1.5,
        "until": None,
        "host": "h",
        "owner": [12, "345"],
    }
    state = {"XDG_STATE_HOME": str(folder / "state")}

    def lab_status() -> None:
        with mock.patch.dict(os.environ, state):  # where labs are is the process's
            commanded("lab", "status", **state)
            commanded("reassign", "--list", **state)

    yield {
        "a lab's": Reader([document(record)], put(lab, lab_status), json_changed, memory=0),
        "a tap's outcome": Reader(
            [encoded(WHOLE)],
            put(tap / OUTCOME_FILE, lambda: left_in(tap, "")),
            json_changed,
            memory=300,
        ),
        "a tap's beginning": Reader(
            [encoded(RunStart("h", 1000, 5))],
            put(folder / "begun", lambda: RunStart.read(folder)),
            json_changed,
        ),
        "names": Reader(
            [document({"client": ["a", "b"], "topic": []})],
            put(folder / "names.json", lambda: names_in(folder)),
            json_changed,
        ),
        "a request log's": Reader(
            [document(switched_on)], put(log, lambda: read_records(["c"], state)), json_changed
        ),
    }
