"""What others could make of how a cluster is reached is said, once, and by every command."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from aws import REGION, SERVERS

from kipctl.security.kerberos import GSSAPI, Kerberos
from kipctl.security.msk import LOGIN_HANDLER
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security, security_of
from kipctl.security.tls import Tls
from kipctl.security.weaknesses import weaknesses

JAAS = "sasl.jaas.config"
LOGIN = {JAAS: 'x required username="a" password="p";'}
TOKEN = {JAAS: 'x required unsecuredLoginStringClaim_sub="a";'}
IAM = {JAAS: "x required;", "sasl.login.callback.handler.class": LOGIN_HANDLER}
ALGORITHM = "ssl.endpoint.identification.algorithm"
URL = "sasl.oauthbearer.token.endpoint.url"


def of(protocol: str, mechanism: str = "", **more: str) -> dict[str, str]:
    named = {"sasl.mechanism": mechanism} if mechanism else {}
    return {"security.protocol": protocol, **named, **more}


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, []),
        (of("SSL"), []),
        (of("SASL_SSL", "PLAIN", **LOGIN), []),
        (of("SASL_PLAINTEXT", "SCRAM-SHA-256", **LOGIN), []),
        (of("sasl_plaintext", "PLAIN", **LOGIN), ["SASL_PLAINTEXT with PLAIN sends the password"]),
        (
            of("SASL_PLAINTEXT", "OAUTHBEARER", **TOKEN),
            ["SASL_PLAINTEXT with OAUTHBEARER sends the token"],
        ),
        (of("SSL", **{ALGORITHM: " "}), ["can answer as a broker."]),
        (of("PLAINTEXT", **{ALGORITHM: ""}), []),
        (
            of(
                "SASL_SSL",
                "OAUTHBEARER",
                **{
                    URL: "https://idp.example/token",
                    JAAS: f'x required clientId="a" clientSecret="p" {ALGORITHM}="";',
                },
            ),
            ["can answer as the token endpoint."],
        ),
    ],
)
def test_what_settings_give_away_is_said(properties: dict[str, str], said: list[str]) -> None:
    sentences = weaknesses(security_of(properties), properties)
    assert len(sentences) == len(said)
    assert all(part in sentence for part, sentence in zip(said, sentences, strict=True))


def test_by_kerberos_without_tls_nothing_is_protected_after_the_login() -> None:
    login = Sasl(GSSAPI, kerberos=Kerberos("kafka", "a", None))
    (said,) = weaknesses(Security(None, login), {})
    assert said.startswith("SASL_PLAINTEXT with GSSAPI protects the login alone: ")
    assert weaknesses(Security(Tls(), login), {}) == []


def test_of_a_token_of_iams_it_is_said_which_hosts_of_nobodys_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    iam = of("SASL_SSL", "OAUTHBEARER", **IAM)

    def said(servers: str) -> list[str]:
        return weaknesses(security_of(iam, servers), iam, servers=servers)

    assert said(SERVERS) == []
    (alone,) = said("10.0.0.1:9098")
    assert alone.startswith("IAM's token for eu-central-1 goes to 10.0.0.1:9098, ")
    (beside,) = said(f"kafka.example:1, {SERVERS},[::1]:2")
    assert beside.startswith(f"IAM's token for {REGION} goes to kafka.example:1 and [::1]:2, ")
    assert weaknesses(security_of({}), {}, servers="10.0.0.1:9098") == []


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that all users may look into, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("name", ["ssl.keystore.location", "ssl.key.location"])
def test_a_key_that_all_may_read_is_named_and_not_the_file_that_names_it(
    name: str, folder: Path
) -> None:
    file, key = folder / "a.properties", folder / "key.pem"
    for path in (file, key):
        path.write_text("abc")
        path.chmod(0o644)
    properties = (
        {name: str(key), "ssl.keystore.key": "abc"} if "key.l" in name else {name: str(key)}
    )
    security = Security(Tls())
    (said,) = weaknesses(security, properties, str(file))
    assert f"may read {key}," in said
    key.chmod(0o600)
    assert weaknesses(security, properties, str(file)) == []


def test_a_file_with_a_secret_that_all_may_read_is_named(folder: Path) -> None:
    file, token = folder / "a.properties", folder / "token"
    for path in (file, token):
        path.write_text("abc")
        path.chmod(0o644)
    login = of("SASL_SSL", "PLAIN", **LOGIN)
    asked = (security_of(login), login, str(file))
    assert weaknesses(*asked) == [
        f"All users of this machine may read {file}, which holds a secret: chmod o-r {file}"
    ]
    assert weaknesses(security_of({}), {"acks": "all"}, str(file)) == []
    iam = of("SASL_SSL", "OAUTHBEARER", **IAM)  # whose secrets are AWS's to keep
    assert weaknesses(security_of(iam, SERVERS), iam, str(file)) == []
    by_ticket = Security(Tls(), Sasl(GSSAPI, kerberos=Kerberos("kafka", "a", token)))
    assert [str(token) in text for text in weaknesses(by_ticket, LOGIN, str(file))] == [True]
    of_token = of("SASL_SSL", "OAUTHBEARER", **{URL: token.as_uri()})
    assert [str(token) in text for text in weaknesses(security_of(of_token), of_token)] == [True]
    folder.chmod(0o700)
    assert weaknesses(*asked) == []
    folder.chmod(0o755)
    file.chmod(0o640)
    assert weaknesses(*asked) == []
    assert weaknesses(*asked[:2], str(folder / "gone")) == []
