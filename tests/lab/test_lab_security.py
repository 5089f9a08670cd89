"""What a secured lab's brokers and clients are told: decided without Kafka."""

from pathlib import Path

import pytest

from kipctl import java_properties
from kipctl.errors import UsageError
from kipctl.lab.certificates import Authority
from kipctl.lab.client_files import write_broker_keystore, write_client_files
from kipctl.lab.properties import LabSpec, node_specs, server_properties
from kipctl.lab.security import (
    MECHANISMS,
    OPEN,
    AccessControl,
    Security,
    User,
    client_properties,
    listener_properties,
)

SSL, SASL_PLAINTEXT, SASL_SSL = Security.SSL, Security.SASL_PLAINTEXT, Security.SASL_SSL
BROKER, CLIENTS = Path("/lab/broker-1"), Path("/lab/clients")
ADMIN, ALICE = User("admin", "one"), User("alice", "two")
SASL, JAAS = "listener.name.clients", "sasl.jaas.config"
PLAIN_LOGIN, SCRAM_LOGIN, BEARER_LOGIN = (
    f"org.apache.kafka.common.security.{module} required"
    for module in (
        "plain.PlainLoginModule",
        "scram.ScramLoginModule",
        "oauthbearer.OAuthBearerLoginModule",
    )
)


def properties(node_id: int, security: Security, acl: bool = False) -> dict[str, str]:
    nodes = node_specs(LabSpec(brokers=2, security=security, acl=acl), 20000)
    node = next(n for n in nodes if n.id == node_id)
    access = AccessControl(security, acl, (ADMIN, ALICE))
    return server_properties(node, nodes, BROKER, "4.3.1", (), access)


@pytest.mark.parametrize("security", [SSL, SASL_PLAINTEXT, SASL_SSL])
def test_clients_have_a_listener_of_their_own(security: Security) -> None:
    broker, controller = properties(2, security), properties(101, security)
    assert broker["listeners"] == "CLIENTS://127.0.0.1:20001,INTERNAL://127.0.0.1:20004"
    assert broker["advertised.listeners"] == broker["listeners"]
    assert broker["inter.broker.listener.name"] == "INTERNAL"
    assert controller["listeners"] == "CONTROLLER://127.0.0.1:20002"
    assert set(broker["listener.security.protocol.map"].split(",")) == {
        f"CLIENTS:{security.protocol}",
        "INTERNAL:PLAINTEXT",
        "CONTROLLER:PLAINTEXT",
    }
    assert [key for key in controller if key.startswith(("ssl.", "sasl.", "listener.name"))] == []


@pytest.mark.parametrize(
    ("security", "told"),
    [
        (Security.PLAINTEXT, {}),
        (
            SSL,
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": "/lab/broker-1/keystore.pem",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": "/lab/clients/ca.pem",
                "ssl.client.auth": "required",
                "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            },
        ),
        (
            SASL_PLAINTEXT,
            {
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
                f"{SASL}.plain.{JAAS}": f'{PLAIN_LOGIN} user_admin="one" user_alice="two";',
                f"{SASL}.scram-sha-256.{JAAS}": f"{SCRAM_LOGIN};",
                f"{SASL}.scram-sha-512.{JAAS}": f"{SCRAM_LOGIN};",
                f"{SASL}.oauthbearer.{JAAS}": f"{BEARER_LOGIN};",
            },
        ),
    ],
)
def test_what_the_clients_listener_asks(security: Security, told: dict[str, str]) -> None:
    assert listener_properties(AccessControl(security, users=(ADMIN, ALICE)), BROKER) == told


def test_sasl_over_tls_shows_a_certificate_and_asks_for_none() -> None:
    plain = listener_properties(AccessControl(SASL_PLAINTEXT, users=(ADMIN,)), BROKER)
    assert listener_properties(AccessControl(SASL_SSL, users=(ADMIN,)), BROKER) == plain | {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/lab/broker-1/keystore.pem",
    }


@pytest.mark.parametrize("node_id", [1, 101])
def test_with_acls_every_node_has_the_authorizer(node_id: int) -> None:
    given = properties(node_id, SASL_SSL, acl=True)
    assert given["authorizer.class.name"].endswith(".StandardAuthorizer")
    assert given["super.users"] == "User:ANONYMOUS;User:admin"
    assert "super.users" not in properties(node_id, SASL_SSL)


def test_acls_without_users_are_refused() -> None:
    with pytest.raises(UsageError, match="everybody is ANONYMOUS"):
        LabSpec(acl=True)


MECHANISM_FILES = [
    f"admin-{name}" for name in ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
]


@pytest.mark.parametrize(
    ("security", "names", "default"),
    [
        (Security.PLAINTEXT, [], None),
        (SSL, ["admin", "admin-pkcs12"], "admin"),
        (SASL_PLAINTEXT, MECHANISM_FILES, "admin-scram-sha-512"),
        (SASL_SSL, [*MECHANISM_FILES, "admin-pkcs12"], "admin-scram-sha-512"),
    ],
)
def test_the_files_of_a_user(security: Security, names: list[str], default: str | None) -> None:
    assert list(client_properties(AccessControl(security), ADMIN, CLIENTS, "stores")) == names
    assert security.default_client == default


PEM_TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/lab/clients/ca.pem"}
SCRAM = {"sasl.mechanism": "SCRAM-SHA-512", JAAS: f'{SCRAM_LOGIN} username="alice" password="two";'}
PEM_KEY = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/lab/clients/alice.pem"}


def pkcs12(store: str, name: str) -> dict[str, str]:
    what = {"type": "PKCS12", "location": f"/lab/clients/{name}.p12", "password": "stores"}
    return {f"ssl.{store}store.{key}": value for key, value in what.items()}


PKCS12_TRUST, PKCS12_KEY = pkcs12("trust", "truststore"), pkcs12("key", "alice")
BEARER = {
    "sasl.mechanism": "OAUTHBEARER",
    JAAS: f'{BEARER_LOGIN} unsecuredLoginStringClaim_sub="alice";',
    "sasl.oauthbearer.token.endpoint.url": "file:///lab/clients/alice.jwt",
}


@pytest.mark.parametrize(
    ("security", "name", "told"),
    [
        (SSL, "alice", PEM_TRUST | PEM_KEY),
        (SSL, "alice-pkcs12", PKCS12_TRUST | PKCS12_KEY),
        (SASL_PLAINTEXT, "alice-scram-sha-512", SCRAM),
        (SASL_SSL, "alice-scram-sha-512", SCRAM | PEM_TRUST),
        (SASL_SSL, "alice-pkcs12", SCRAM | PKCS12_TRUST),
        (SASL_PLAINTEXT, "alice-oauthbearer", BEARER),
    ],
)
def test_a_client_file_is_in_the_words_of_javas_clients(
    security: Security, name: str, told: dict[str, str]
) -> None:
    given = client_properties(AccessControl(security), ALICE, CLIENTS, "stores")[name]
    assert given == {"security.protocol": security.protocol, **told}


def test_each_lab_has_passwords_of_its_own_that_are_not_shown() -> None:
    first, second = AccessControl.new(SASL_SSL, acl=False), AccessControl.new(SASL_SSL, acl=False)
    passwords = {user.password for access in (first, second) for user in access.users}
    assert len(passwords) == 6
    assert min(map(len, passwords)) == 24
    assert [password for password in passwords if password in f"{first} {second}"] == []
    assert AccessControl.new(Security.PLAINTEXT, acl=False) == OPEN


@pytest.mark.parametrize("security", [SSL, SASL_PLAINTEXT, SASL_SSL])
def test_only_the_owner_can_read_the_files(tmp_path: Path, security: Security) -> None:
    authority = Authority()
    folder = tmp_path / "clients"
    write_client_files(folder, AccessControl.new(security, acl=False), authority)
    write_broker_keystore(tmp_path, "broker-1", authority)
    assert folder.stat().st_mode & 0o777 == 0o700
    files = [*folder.iterdir(), tmp_path / "keystore.pem"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    named = {
        Path(value.removeprefix("file://"))
        for path in folder.glob("*.properties")
        for key, value in java_properties.read(path).items()
        if key.endswith((".location", ".url"))
    }
    assert {path for path in files[:-1] if path.suffix != ".properties"} == named


def test_every_mechanism_has_a_login_module() -> None:
    given = listener_properties(AccessControl(SASL_SSL), BROKER)
    assert len([key for key in given if key.endswith(".sasl.jaas.config")]) == len(MECHANISMS)
