"""Kerberos: tickets of a lab's KDC, the exchange, who is let in by each kind of connection, and
what each failure ends in."""

import json
import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import gssapi
import pytest
from loop_client import LoopClient
from on_secured import Way, ran, topic_of
from scripted_broker import Asked, ScriptedBroker

from kipctl import java_properties, process
from kipctl.errors import KipctlError, RefusedError, UnreachableError, UsageError
from kipctl.lab.cluster import Lab
from kipctl.lab.jars import KafkaJars
from kipctl.lab.java import find_java
from kipctl.lab.security import Security
from kipctl.load.clients.client import ConsumerLoad, ProducerLoad
from kipctl.load.clients.java import JavaClient
from kipctl.protocol.address import Address
from kipctl.protocol.message import Response
from kipctl.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse
from kipctl.security import kerberos as security_kerberos
from kipctl.security.jaas import jaas_options, jaas_text
from kipctl.security.kerberos import GSSAPI, KRB5_MODULE, Kerberos, name_of
from kipctl.security.sasl import AuthenticationError, Exchange, Sasl
from kipctl.security.settings import Security as Secured
from kipctl.state import write_private
from kipctl.tap.process import running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.access import Access, access_of
from kipctl.transport.loop_connection import ConnectionLostError
from kipctl.transport.request import Cluster
from kipctl.transport.sockets import SystemSockets

pytestmark = pytest.mark.kafka
JAVA = "4.3.1"
HOST = "127.0.0.1"
RECORDS = 20
FetchedKafka = Callable[[str], KafkaJars]


@pytest.fixture(autouse=True)
def configuration(secured_lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The lab's, which is that of this process; and nobody has a ticket."""
    assert secured_lab.kdc
    monkeypatch.setenv("KRB5_CONFIG", str(secured_lab.kdc.configuration))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    return secured_lab.kdc.configuration


@pytest.fixture
def admin(secured_lab: Lab) -> Way:
    return Way(secured_lab, secured_lab.client_files["admin-gssapi"])


@pytest.fixture
def topic(secured_lab: Lab) -> Iterator[str]:
    with topic_of(secured_lab, "kerberos", 2) as name:
        yield name


def keytab(lab: Lab, user: str) -> Path:
    return lab.folder / "clients" / f"{user}.keytab"


def login(lab: Lab, user: str = "admin", service: str = "kafka") -> Sasl:
    return Sasl(GSSAPI, kerberos=Kerberos(service, user, keytab(lab, user)))


def fetch_ticket(lab: Lab, user: str, cache: Path) -> None:
    """As `kinit -k` does. One of a second may be over by the time that it is looked at."""
    store = {"client_keytab": f"FILE:{keytab(lab, user)}", "ccache": f"FILE:{cache}"}
    mechanisms = [gssapi.MechType.kerberos]
    with suppress(gssapi.exceptions.ExpiredCredentialsError):
        assert gssapi.Credentials(usage="initiate", mechs=mechanisms, store=store).lifetime >= 0
    assert cache.exists()


# --- the exchange ---


class AcceptingBroker:
    """RFC 4752's other half, by the library's server side."""

    def __init__(self, lab: Lab) -> None:
        store = {"keytab": str(lab.folder / "kerberos" / "kafka.keytab")}
        own = gssapi.Credentials(usage="accept", store=store)
        self.context = gssapi.SecurityContext(usage="accept", creds=own)

    def offer(self, exchange: Exchange, layers: bytes) -> bytes | None:
        """What the client says to these security layers, once it has taken this for the broker."""
        proof = self.context.step(exchange.first())
        assert self.context.complete
        assert exchange.answer(proof) == b""
        return exchange.answer(self.context.wrap(layers, False).message)


def test_an_exchange_proves_both_sides_and_chooses_no_layer(secured_lab: Lab) -> None:
    broker, exchange = AcceptingBroker(secured_lab), login(secured_lab).exchange(HOST)
    chosen = broker.offer(exchange, b"\7\0\xff\xff")
    assert chosen
    assert broker.context.unwrap(chosen).message == b"\1\0\0\0"  # and no other identity
    assert str(broker.context.initiator_name) == "admin@KIPCTL.LAB"
    assert gssapi.RequirementFlag.mutual_authentication in broker.context.actual_flags
    assert exchange.answer(b"") is None


@pytest.mark.parametrize("layers", [b"\6\0\1\0", b"\0\0\0\0", b"\7", b""])
def test_a_broker_that_wants_a_layer_is_refused(secured_lab: Lab, layers: bytes) -> None:
    broker, exchange = AcceptingBroker(secured_lab), login(secured_lab).exchange(HOST)
    with pytest.raises(AuthenticationError, match="wants a security layer of GSSAPI"):
        broker.offer(exchange, layers)


def test_who_answers_as_a_broker_without_its_key_is_refused(secured_lab: Lab) -> None:
    exchange = login(secured_lab).exchange(HOST)
    with pytest.raises(RefusedError, match=rf"does not prove that it is kafka@{name_of(HOST)}: \w"):
        exchange.answer(b"junk")
    broker, exchange = AcceptingBroker(secured_lab), login(secured_lab).exchange(HOST)
    exchange.answer(broker.context.step(exchange.first()))
    with pytest.raises(RefusedError, match="does not prove"):
        exchange.answer(b"\7\0\0\0")  # not signed


# --- a KDC that does not answer ---


@pytest.fixture
def silent_kdc(
    configuration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """One that takes connections and says nothing; the library alone would wait for longer."""
    with socket.create_server((HOST, 0)) as server:
        told = tmp_path / "silent.conf"
        port = server.getsockname()[1]
        lines = configuration.read_text().splitlines()
        told.write_text(
            "\n".join(f" kdc = {HOST}:{port}" if "kdc =" in line else line for line in lines)
        )
        monkeypatch.setenv("KRB5_CONFIG", str(told))
        monkeypatch.setattr(security_kerberos, "_KDC_TIMEOUT_S", 1.0)
        yield server


def was_asked(kdc: socket.socket) -> bool:
    return bool(select.select([kdc], [], [], 0)[0])


def test_a_login_waits_for_no_kdc_beyond_its_deadline(
    secured_lab: Lab, silent_kdc: socket.socket
) -> None:
    with pytest.raises(UnreachableError, match="No KDC has answered within 1 s"):
        login(secured_lab, "alice").exchange("::1")
    assert was_asked(silent_kdc)


def test_who_logs_in_is_told_without_waiting_for_a_kdc(
    secured_lab: Lab, silent_kdc: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a default client keytab the library gets tickets for whoever asks it for a name."""
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{keytab(secured_lab, 'alice')}")
    assert Sasl(GSSAPI, kerberos=Kerberos("kafka")).subject == "of the ticket"
    assert not was_asked(silent_kdc)


def test_a_client_keytab_says_who_logs_in(
    secured_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"FILE:{keytab(secured_lab, 'alice')}")
    by_default = Sasl(GSSAPI, kerberos=Kerberos("kafka"))
    by_default.exchange(HOST)
    assert by_default.subject == "alice"


@pytest.mark.parametrize("wrong", ["host", "service", "principal", "keytab"])
def test_a_name_that_is_no_text_is_a_declared_error(wrong: str, secured_lab: Lab) -> None:
    kerberos = Kerberos("kafka", "alice", keytab(secured_lab, "alice"))
    if wrong != "host":
        bad = Path("/\ud800") if wrong == "keytab" else "\ud800"
        kerberos = replace(kerberos, **{wrong: bad})
    with pytest.raises(UsageError, match="a name has to be a text"):
        Sasl(GSSAPI, kerberos=kerberos).exchange("\ud800" if wrong == "host" else HOST)


def test_an_event_loop_serves_others_while_a_kdc_is_silent(
    secured_lab: Lab, silent_kdc: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turn follows turn while the KDC is waited for, also where the machine stands still."""
    monkeypatch.setattr(security_kerberos, "_KDC_TIMEOUT_S", 12.0)

    def lets_begin(asked: Asked) -> Response | None:
        is_first = isinstance(asked.request, SaslHandshakeRequest)
        return SaslHandshakeResponse(0, (GSSAPI,)) if is_first else None

    access = Access("", Secured(None, login(secured_lab, "reader")))
    with (
        ScriptedBroker(lets_begin) as broker,
        closing(SystemSockets(lambda: 0, access)) as sockets,
        LoopClient(Address(HOST, broker.port), access, sockets) as client,
    ):
        turns, said = 0, ""
        while not said:
            turns += was_asked(silent_kdc)
            try:
                if client.connection.fileno() in dict(sockets.poll(0.01)):
                    client.connection.establish()
            except ConnectionLostError as lost:
                said = str(lost)
    assert said == "No KDC has answered within 12 s."
    assert turns >= 10


# --- who is let in ---


def test_a_run_outlasts_its_sessions(admin: Way, tmp_path: Path) -> None:
    """Which end after 5 s (KIP-368), and so logs in again beside its load. That no connection is
    lost meanwhile is in `test_main_ways_kafka`."""
    load = ("--num-records", "400", "--throughput", "50", "--partitions", "2")
    status, out, err = ran("perf", "e2e", *load, *admin.options, "-o", "json", state=tmp_path)
    assert status == 0, err
    said = json.loads(out)
    assert (said["records"]["delivered"], said["records"]["failed"]) == (400, 0)
    for client in ("producer", "consumer"):
        assert said["health"][client]["reauthentications"]["count"] >= 1


def test_stock_clients_log_in_through_the_tap(
    admin: Way, topic: str, fetched_kafka: FetchedKafka
) -> None:
    java = JavaClient(JAVA, find_java().path, fetched_kafka(JAVA).paths)
    with running_tap(TapSpec(access=admin.access), None) as tap:
        access = admin.access.behind(tap.bootstrap_server)
        assert access.security.protocol == "SASL_PLAINTEXT"
        load = ProducerLoad(topic=topic, num_records=RECORDS, throughput=0, record_size=10)
        with java.producer(load, access) as producer:
            assert producer.outcome().records == RECORDS
        wanted = ConsumerLoad(topic=topic, num_records=RECORDS, group=topic, timeout_s=120)
        with java.consumer(wanted, access) as consumer:
            assert consumer.outcome().records == RECORDS
        outcome = tap.stop()
    assert {seen.counts.not_decoded for seen in outcome.clients} == {0}


@pytest.mark.parametrize("cache", ["of the properties", "of the environment"])
def test_a_ticket_of_kinit_lets_its_principal_in(
    cache: str, secured_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets = tmp_path / "kinit"
    fetch_ticket(secured_lab, "reader", tickets)
    options = {"useTicketCache": "true"}
    if cache == "of the properties":
        options["ticketCache"] = str(tickets)
    else:
        monkeypatch.setenv("KRB5CCNAME", f"FILE:{tickets}")
    properties = java_properties.read(secured_lab.client_files["reader-gssapi"])
    properties["sasl.jaas.config"] = jaas_text(KRB5_MODULE, options)
    access = access_of(secured_lab.bootstrap_server, properties)
    with Cluster(access) as cluster:
        assert cluster.metadata(()).cluster_id == secured_lab.cluster_id
    assert access.security.principal == "User:reader"


# --- who is not ---

# How a login is changed into a wrong one: options of JAAS, other properties, and what is said.
FAILURES = {
    "no ticket": ({"useKeyTab": "false", "useTicketCache": "true"}, {}, 4, "No Kerberos credent"),
    "expired": (
        {"useKeyTab": "false", "useTicketCache": "true", "ticketCache": "{folder}/expired"},
        *({}, 4, "Ticket expired.\nGet a new one: kinit"),
    ),
    "clock": (
        {"useKeyTab": "false", "useTicketCache": "true", "ticketCache": "{folder}/skewed"},
        *({}, 4, "Clock skew too great.\nSet the clocks"),
    ),
    "unknown principal": (
        {"principal": "nobody", "keyTab": "{folder}/nobody.keytab"},
        *({}, 4, "'nobody@KIPCTL.LAB' not found in Kerberos database"),
    ),
    "not in the keytab": ({"principal": "nobody"}, {}, 2, "No key table entry found for nobody"),
    "no keytab": ({"keyTab": "{folder}/none"}, {}, 2, "none is of no use: Key table file"),
    "old key": (
        {"principal": "old", "keyTab": "{folder}/old.keytab"},
        *({}, 4, "The keytab has an old key"),
    ),
    "locked": (
        {"principal": "locked", "keyTab": "{folder}/locked.keytab"},
        *({}, 4, "Client's credentials have been revoked"),
    ),
    "unknown service": (
        *({}, {"sasl.kerberos.service.name": "kfk"}, 4),
        "Server kfk/{host}@KIPCTL.LAB not found in Kerberos database.\nCheck sasl.kerberos",
    ),
}


def administer(lab: Lab, *lines: str) -> None:
    """The lab's KDC."""
    assert lab.kdc
    own = {"KRB5_KDC_PROFILE": str(lab.folder / "kerberos" / "kdc.conf")}
    told = {"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", **own}
    done = subprocess.run(
        ["kadmin.local", "-r", "KIPCTL.LAB"],
        env=os.environ | told,
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wrong(secured_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of keytabs and tickets that let nobody in."""
    assert secured_lab.kdc
    folder = tmp_path_factory.mktemp("wrong")
    told = secured_lab.kdc.configuration.read_text()
    (folder / "short.conf").write_text(
        told.replace("[libdefaults]", "[libdefaults]\n ticket_lifetime = 1s")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(secured_lab.kdc.configuration))
        for name in ("nobody", "old", "locked"):
            path = folder / f"{name}.keytab"
            administer(secured_lab, f"addprinc -randkey {name}", f"ktadd -k {path} {name}")
        administer(secured_lab, "delprinc -force nobody", "cpw -randkey old")
        administer(secured_lab, "modprinc -allow_tix locked")
        fetch_ticket(secured_lab, "admin", folder / "ticket")
        patch.setenv("KRB5_CONFIG", str(folder / "short.conf"))
        fetch_ticket(secured_lab, "admin", folder / "expired")
    time.sleep(1.5)  # the ticket of a second ends by the clock alone: nothing tells
    # A cache says by how much the KDC's clock was ahead when the ticket was had (its header's tag
    # 1); here by an hour.
    ticket = (folder / "ticket").read_bytes()
    (length,) = struct.unpack(">H", ticket[2:4])
    header = struct.pack(">HHHii", 12, 1, 8, 3600, 0)
    write_private(folder / "skewed", ticket[:2] + header + ticket[4 + length :])
    return folder


def wrong_file(lab: Lab, failure: str, folder: Path, to: Path) -> Path:
    """The lab's own for admin, made wrong."""
    options, changes, _, _ = FAILURES[failure]
    properties = java_properties.read(lab.client_files["admin-gssapi"])
    given = jaas_options(properties["sasl.jaas.config"])
    given |= {name: text.format(folder=folder) for name, text in options.items()}
    if given.get("useTicketCache"):
        del given["principal"]
    properties |= {"sasl.jaas.config": jaas_text(KRB5_MODULE, given)} | changes
    write_private(to / "client.properties", java_properties.text(properties).encode())
    return to / "client.properties"


COMMANDS = {
    "an admin command": ("reassign", "--list"),
    "a probe": (
        *("perf", "produce", "--num-records", "10", "--throughput", "-1", "--record-size", "10"),
        *("--command-property", "delivery.timeout.ms=3600000"),
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_login_that_fails_ends_a_command_with_what_to_do(
    failure: str, command: str, secured_lab: Lab, wrong: Path, tmp_path: Path
) -> None:
    file = wrong_file(secured_lab, failure, wrong, tmp_path)
    servers = ("--bootstrap-server", secured_lab.bootstrap_server)
    status, out, err = ran(
        *COMMANDS[command], *servers, "--command-config", str(file), state=tmp_path
    )
    _, _, wanted, said = FAILURES[failure]
    assert (status, out) == (wanted, ""), err
    error = err[err.index("kipctl: ") :]
    assert said.format(host=name_of(HOST)) in error
    assert len(error.splitlines()) <= 3
    assert error.count("kipctl: ") == 1


@pytest.mark.parametrize("failure", ["expired", "unknown principal"])
def test_each_other_kind_of_connection_says_the_same(
    failure: str, secured_lab: Lab, wrong: Path, tmp_path: Path, fetched_kafka: FetchedKafka
) -> None:
    file = wrong_file(secured_lab, failure, wrong, tmp_path)
    access = access_of(secured_lab.bootstrap_server, java_properties.read(file))
    said = FAILURES[failure][3].partition("\n")[0].rstrip(".")
    java = JavaClient(JAVA, find_java().path, fetched_kafka(JAVA).paths)
    load = ProducerLoad(topic="none", num_records=1, throughput=0, record_size=10)
    with pytest.raises(KipctlError, match=said), java.producer(load, access):
        pass
    with (
        LoopClient(access.bootstrap[0], access) as client,
        pytest.raises(ConnectionLostError, match=said),
    ):
        client.connect()


def test_a_broker_with_another_key_than_the_kdc_refuses_and_its_log_is_named(
    secured_lab: Lab,
) -> None:
    """As after a new key that its keytab has not. A client goes by the name that it connects to."""
    administer(secured_lab, "addprinc -randkey kafka/other.example")
    properties = java_properties.read(secured_lab.client_files["admin-gssapi"])
    properties["ssl.endpoint.identification.algorithm"] = ""
    to_broker = {"other.example:1": Address(HOST, secured_lab.node(1).port)}
    access = access_of("other.example:1", properties, to_broker)
    with (
        Cluster(access) as cluster,
        pytest.raises(AuthenticationError, match="User 'admin' is refused") as refused,
    ):
        cluster.metadata(())
    assert "The broker's log says why" in refused.value.next_step


# --- the lab ---


def test_a_labs_kdc_stops_starts_and_goes_with_it(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(
        name="of-kerberos",
        brokers=1,
        security=Security.SASL_PLAINTEXT,
        kerberos=True,
        host="localhost",
    )
    assert lab.kdc
    properties = java_properties.read(lab.client_files["alice-gssapi"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRB5_CONFIG", str(lab.kdc.configuration))
        nodes = [node.id for node in lab.nodes]
        for node in nodes:
            assert lab.kdc.is_running
            lab.stop(node)
        assert not lab.kdc.is_running
        lab.start(*nodes)
        with Cluster(access_of(lab.bootstrap_server, properties)) as cluster:
            assert cluster.metadata(()).cluster_id == lab.cluster_id
    running = process.read_record(lab.folder / "kerberos" / "process")
    assert running
    assert process.is_alive(running)
    lab.down()
    assert not process.is_alive(running)
    assert not lab.folder.exists()
