"""Kerberos in properties, in a lab, and where it is missing: decided without it."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from credentials import Properties, refusal

from kipctl import extras
from kipctl.errors import UsageError
from kipctl.lab import kdc
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec, node_specs, server_properties
from kipctl.lab.security import AccessControl, Security, client_properties
from kipctl.load.clients.java_command import system_properties
from kipctl.security.dialects import as_javas
from kipctl.security.jaas import jaas_options
from kipctl.security.kerberos import GSSAPI, Kerberos
from kipctl.security.librdkafka import librdkafka_properties
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security as Secured
from kipctl.security.settings import security_of
from kipctl.transport.access import Access

MODULE = "com.sun.security.auth.module.Krb5LoginModule required"
KEYTAB = 'useKeyTab=true storeKey=true keyTab="/etc/a.keytab" principal="alice@EXAMPLE.COM";'
BY_KEYTAB = Kerberos("kafka", "alice@EXAMPLE.COM", Path("/etc/a.keytab"))


def gssapi(jaas: str, service: str = "kafka") -> Properties:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    given |= {"sasl.kerberos.service.name": service} if service else {}
    return given | ({"sasl.jaas.config": f"{MODULE} {jaas}"} if jaas else {})


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if kipctl[kerberos] were installed: what properties say does not hang on it."""
    monkeypatch.setattr(extras, "require", lambda *args: None)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("properties", "kerberos"),
    [
        (gssapi(KEYTAB), BY_KEYTAB),
        (gssapi(KEYTAB.replace("/etc", "FILE:/etc")), BY_KEYTAB),
        (gssapi(f'serviceName="kfk" {KEYTAB}', ""), replace(BY_KEYTAB, service="kfk")),
        (gssapi("useTicketCache=true;"), Kerberos("kafka")),
        (gssapi('useTicketCache="TRUE" principal="a";'), Kerberos("kafka", "a")),
        (
            gssapi('useTicketCache=true ticketCache="/run/cc";'),
            Kerberos("kafka", "", None, Path("/run/cc")),
        ),
        # Java takes the cache's ticket, if it has one, and it is of the same principal.
        (gssapi(f"useTicketCache=true {KEYTAB}"), BY_KEYTAB),
    ],
)
def test_what_javas_login_module_says(properties: Properties, kerberos: Kerberos) -> None:
    assert security_of(properties).sasl == Sasl(GSSAPI, kerberos=kerberos)
    # GSSAPI is Kafka's default.
    without = {name: text for name, text in properties.items() if name != "sasl.mechanism"}
    assert security_of(without) == security_of(properties)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (gssapi(KEYTAB, ""), "GSSAPI needs sasl.kerberos.service.name"),
        (gssapi(f"serviceName=kfk {KEYTAB}"), "serviceName=kfk in sasl.jaas.config is not that of"),
        (gssapi('useKeyTab=true principal="a";'), "goes with keyTab"),
        (gssapi('useKeyTab=true keyTab="/etc/a";'), "goes with principal"),
        (gssapi('principal="alice";'), "neither useKeyTab=true nor useTicketCache=true"),
        (gssapi("useKeyTab=false useTicketCache=yes;"), "neither useKeyTab=true nor"),
        (
            gssapi("") | {"sasl.jaas.config": 'com.ibm.x.Krb5LoginModule required principal="a";'},
            "IBM's login module",
        ),
    ],
)
def test_what_java_would_ask_for_or_refuse_is_named(properties: Properties, words: str) -> None:
    assert words in refusal(properties)


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    said = refusal(gssapi(KEYTAB))
    assert said.startswith("GSSAPI (Kerberos) needs gssapi, which is not installed: it comes with")
    assert "libkrb5-dev" in said
    assert "kipctl[kerberos]" in said.splitlines()[1]


OF_LIBRDKAFKA = {"sasl.kerberos.keytab": "/etc/a.keytab", "sasl.kerberos.principal": "a@E"}


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("given", "kerberos", "said"),
    [
        (
            OF_LIBRDKAFKA | {"sasl.mechanisms": "GSSAPI"},
            Kerberos("kafka", "a@E", Path("/etc/a.keytab")),
            "sasl.kerberos.keytab and sasl.kerberos.principal as sasl.jaas.config",
        ),
        (
            OF_LIBRDKAFKA | {"sasl.kerberos.service.name": "kfk"},
            Kerberos("kfk", "a@E", Path("/etc/a.keytab")),
            "sasl.kerberos.keytab and sasl.kerberos.principal as sasl.jaas.config",
        ),
        (
            {"sasl.kerberos.principal": "a@E"},
            Kerberos("kafka", "a@E"),
            "sasl.kerberos.principal as sasl.jaas.config",
        ),
        (
            {"spring.kafka.properties.sasl.kerberos.service.name": "kafka"},
            Kerberos("kafka"),
            "no sasl.jaas.config as one with useTicketCache=true",
        ),
        (
            gssapi("useKeyTab=true keyTab=/etc/a.keytab principal=alice@EXAMPLE.COM;"),
            BY_KEYTAB,
            "without quotes",
        ),
    ],
)
def test_what_people_paste(given: Properties, kerberos: Kerberos, said: str) -> None:
    properties, taken = as_javas({"security.protocol": "SASL_PLAINTEXT", **given})
    assert security_of(properties).sasl == Sasl(GSSAPI, kerberos=kerberos)
    assert said in ", ".join(taken)
    assert as_javas(properties) == (properties, ())


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "SSL", "sasl.kerberos.service.name": "kafka"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"} | OF_LIBRDKAFKA,
        gssapi(KEYTAB),
    ],
)
def test_other_logins_are_left_alone(properties: Properties) -> None:
    assert as_javas(properties) == (properties, ())


@pytest.mark.parametrize(
    ("principal", "subject"),
    [("alice@EXAMPLE.COM", "alice"), ("alice", "alice"), ("ops/host.example@EXAMPLE.COM", "ops")],
)
def test_who_a_principal_is_to_kafka(principal: str, subject: str) -> None:
    """Its rule DEFAULT (`KerberosShortNamer`): the first part of the name."""
    login = Secured(None, Sasl(GSSAPI, kerberos=Kerberos("kafka", principal)))
    assert login.principal == f"User:{subject}"


@pytest.mark.parametrize("keytab", [None, Path("/etc/a.keytab")])
def test_who_logs_in_is_told_without_asking_the_library(
    keytab: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which would ask a KDC, that may be silent, while a message waits."""
    monkeypatch.setitem(sys.modules, "gssapi", None)
    login = Sasl(GSSAPI, kerberos=Kerberos("kafka", keytab=keytab, cache=Path("/run/cc")))
    assert login.subject == "of the ticket"


def test_a_librdkafka_without_gssapi_says_so_before_anything_begins() -> None:
    login = Secured(None, Sasl(GSSAPI, kerberos=BY_KEYTAB))
    with pytest.raises(UsageError, match=r"This librdkafka \(.+\) has no GSSAPI"):
        librdkafka_properties(login)


@pytest.mark.parametrize(
    ("kerberos", "told"),
    [
        (
            BY_KEYTAB,
            {
                "sasl.kerberos.principal": "alice@EXAMPLE.COM",
                "sasl.kerberos.keytab": "/etc/a.keytab",
            },
        ),
        (Kerberos("kafka"), {"sasl.kerberos.kinit.cmd": ""}),
    ],
)
def test_what_a_librdkafka_with_gssapi_is_told(
    kerberos: Kerberos, told: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", dict)
    assert librdkafka_properties(Secured(None, Sasl(GSSAPI, kerberos=kerberos))) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        **told,
    }
    cache = Kerberos("kafka", "", None, Path("/run/cc"))
    with pytest.raises(UsageError, match="KRB5CCNAME=/run/cc"):
        librdkafka_properties(Secured(None, Sasl(GSSAPI, kerberos=cache)))


@pytest.mark.parametrize("text", ["a b", "$(id)", "a;b", 'a"b', "a\nb", "-c", "`a`", "a\\", "é"])
@pytest.mark.parametrize("option", ["principal", "keytab"])
def test_librdkafka_is_told_nothing_that_means_something_to_a_shell(
    option: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its `sasl.kerberos.kinit.cmd` it puts both into a line for `sh -c`."""
    monkeypatch.setattr("confluent_kafka.Producer", dict)
    given = replace(BY_KEYTAB, **{option: Path(text) if option == "keytab" else text})
    with pytest.raises(UsageError, match=rf"sasl\.kerberos\.{option}=.* to a shell") as refused:
        librdkafka_properties(Secured(None, Sasl(GSSAPI, kerberos=given)))
    assert refused.value.what.isprintable()


def test_its_names_are_librdkafkas() -> None:
    """A build that cannot use them knows them."""
    names = ("service.name", "principal", "keytab", "kinit.cmd")
    Producer({f"sasl.kerberos.{name}": "x" for name in names} | {"log_level": 0})
    with pytest.raises(KafkaException, match="No such configuration property"):
        Producer({"sasl.kerberos.others": "x", "log_level": 0})


def test_java_is_told_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access("a:1", Secured(None, Sasl(GSSAPI, kerberos=BY_KEYTAB)))
    monkeypatch.delenv("KRB5_CONFIG", raising=False)
    assert system_properties(access) == {}
    monkeypatch.setenv("KRB5_CONFIG", "/own/krb5.conf:/etc/krb5.conf")
    assert system_properties(access) == {"java.security.krb5.conf": "/own/krb5.conf"}
    assert system_properties(Access("a:1")) == {}


def test_through_a_tap_of_another_host_nobody_would_be_let_in() -> None:
    access = Access("a.example:1,b.example:1", Secured(None, Sasl(GSSAPI, kerberos=BY_KEYTAB)))
    assert access.behind("b.example:9").security == access.security
    assert Access("localhost:1", access.security).behind("127.0.0.1:9").security == access.security
    with pytest.raises(UsageError, match="Through a tap on this machine a client's tickets"):
        access.behind("127.0.0.1:9")


# --- the lab ---


def test_a_machine_without_a_kdc_is_told_debians_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kdc, "_PATH", str(tmp_path))
    with pytest.raises(UsageError, match="krb5kdc and kdb5_util") as refused:
        Lab.up(LabSpec(security=Security.SASL_SSL, kerberos=True), lambda text: None)
    assert "krb5-kdc and krb5-admin-server (Debian" in refused.value.next_step


@pytest.mark.parametrize("security", [Security.PLAINTEXT, Security.SSL])
def test_kerberos_is_for_a_listener_with_sasl(security: Security) -> None:
    with pytest.raises(UsageError, match="Kerberos is for a listener with SASL"):
        LabSpec(security=security, kerberos=True)


def test_the_brokers_of_a_lab_have_the_principal_that_clients_ask_for() -> None:
    spec = LabSpec(brokers=1, security=Security.SASL_PLAINTEXT, kerberos=True, host="localhost")
    without = LabSpec(brokers=1, security=Security.SASL_PLAINTEXT)
    assert spec.ports == without.ports + 1
    nodes = node_specs(spec, 20000)
    access = AccessControl.new(spec.security, False, spec.host)
    told = server_properties(nodes[0], nodes, Path("/lab/broker-1"), "4.3.1", (), access)
    assert told["sasl.enabled.mechanisms"].split(",")[-1] == "GSSAPI"
    assert told["sasl.kerberos.service.name"] == "kafka"
    assert jaas_options(told["listener.name.clients.gssapi.sasl.jaas.config"]) == {
        "useKeyTab": "true",
        "storeKey": "true",
        "keyTab": "/lab/kerberos/kafka.keytab",
        "principal": "kafka/localhost@KIPCTL.LAB",
    }
    given = client_properties(access, access.user("alice"), Path("/lab/clients"), "")
    assert given["alice-gssapi"]["sasl.kerberos.service.name"] == "kafka"
    assert jaas_options(given["alice-gssapi"]["sasl.jaas.config"]) == {
        "useKeyTab": "true",
        "storeKey": "true",
        "keyTab": "/lab/clients/alice.keytab",
        "principal": "alice@KIPCTL.LAB",
    }
    assert "alice-gssapi" not in client_properties(
        AccessControl.new(spec.security, False), access.user("alice"), Path("/lab/clients"), ""
    )
