"""From properties of Java's clients to how a connection is secured, and what is refused."""

import json
import os
import pickle
import select
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from credentials import (
    ALICE,
    AUTHORITY,
    CA,
    CHAIN,
    INLINE,
    KEY,
    PLAIN_MODULE,
    SECRETS,
    SSL,
    Properties,
    java_keystore,
    refusal,
)
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from kipctl.errors import UsageError
from kipctl.security.jaas import jaas_options
from kipctl.security.sasl import Sasl
from kipctl.security.settings import (
    Security,
    ignored_properties,
    is_about_security,
    security_of,
    with_tls,
)
from kipctl.security.stores import identity
from kipctl.security.tls import Tls
from kipctl.security.tokens import ClientCredentials, FileToken, UnsignedToken
from kipctl.transport.access import Access, access_of

STORE_PASSWORD, KEY_PASSWORD = "store-hunter2", "key-hunter2"
ENCRYPTED_KEY = ALICE.key.private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(KEY_PASSWORD.encode())
).decode()
ENCRYPTED = INLINE | {"ssl.keystore.key": ENCRYPTED_KEY}
OTHER_KEY = AUTHORITY.for_user("bob").pem.decode().partition("-----BEGIN CERTIFICATE")[0]

PLAIN = f"{PLAIN_MODULE} required"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
JAAS = "sasl.jaas.config"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
HTTPS = OAUTH | {TOKEN_URL: "https://idp.example/token"}


def write(folder: Path, name: str, content: bytes | str) -> str:
    """Its path."""
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return str(folder / name)


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def sasl(mechanism: str, jaas: str) -> dict[str, str]:
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, JAAS: jaas}


def tls_of(properties: Properties) -> Tls:
    tls = security_of({**SSL, **properties}).tls
    assert tls
    return tls


def subjects(pem: str) -> list[str]:
    """Whose certificates they are, in their order."""
    certificates = x509.load_pem_x509_certificates(pem.encode()) if pem else []
    return [cert.subject.rfc4514_string().removeprefix("CN=") for cert in certificates]


# --- which security ---


def by_token(token: object, **extensions: str) -> Security:
    return Security(None, Sasl("OAUTHBEARER", token=token, extensions=(*extensions.items(),)))


IDP = ClientCredentials("https://idp.example/token", "me", "s", "kafka", Tls())
CREDENTIALS = "sasl.oauthbearer.client.credentials.client"


@pytest.mark.parametrize(
    ("properties", "security"),
    [
        ({}, Security()),
        ({"security.protocol": "PLAINTEXT", "ssl.keystore.location": "/nowhere"}, Security()),
        ({"acks": "all", "sasl.mechanism": "GSSAPI"}, Security()),
        (SSL, Security(Tls())),
        ({"security.protocol": "ssl"}, Security(Tls())),
        (
            sasl("PLAIN", f'{PLAIN} username="alice" password="hunter2";'),
            Security(None, Sasl("PLAIN", "alice", "hunter2")),
        ),
        (
            sasl("SCRAM-SHA-512", "any.Module required password=p username=u;")
            | {"security.protocol": "SASL_SSL"},
            Security(Tls(), Sasl("SCRAM-SHA-512", "u", "p")),
        ),
        (OAUTH | {TOKEN_URL: "file:///some/a%20token"}, by_token(FileToken(Path("/some/a token")))),
        (
            OAUTH
            | {
                JAAS: f'{OAUTH_MODULE} unsecuredLoginStringClaim_sub="alice"'
                ' unsecuredLoginStringClaim_my_claim="x" unsecuredLoginNumberClaim_level="3"'
                ' extension_logicalCluster="lkc-1";'
            },
            by_token(
                UnsignedToken((("sub", "alice"), ("my_claim", "x"), ("level", 3.0))),
                logicalCluster="lkc-1",
            ),
        ),
        (
            HTTPS | {JAAS: f'{OAUTH_MODULE} clientId="me" clientSecret="s" scope="kafka";'},
            by_token(IDP),
        ),
        (
            OAUTH
            | {
                TOKEN_URL: "http://[::1]:80/token",
                f"{CREDENTIALS}.id": "me",
                f"{CREDENTIALS}.secret": "s",
                "sasl.oauthbearer.scope": "kafka",
                JAAS: f'{OAUTH_MODULE} clientId="old" clientSecret="o" scope="o";',
            },
            by_token(replace(IDP, url="http://[::1]:80/token")),
        ),
    ],
)
def test_properties_say_how_a_connection_is_secured(
    properties: Properties, security: Security
) -> None:
    settings = security_of(properties)
    assert settings == security
    assert settings.protocol == properties.get("security.protocol", "PLAINTEXT").upper()


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS is none of Kafka's"),
        ({"security.protocol": ""}, "security.protocol= is none of Kafka's"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not given; Kafka's default is"),
        (sasl("SCRAM-SHA-1", ""), "It speaks PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        (sasl("PLAIN", ""), f"{JAAS} has no username and no password"),
        (sasl("PLAIN", f"{PLAIN};"), "has no username and no password"),
        (sasl("PLAIN", f'{PLAIN} username="a";'), f"{JAAS} has no password."),
        (sasl("SCRAM-SHA-256", f'{PLAIN} password="hunter2";'), f"{JAAS} has no username."),
        (OAUTH, f"OAUTHBEARER needs {TOKEN_URL}"),
        (OAUTH, "for IAM of Amazon MSK say sasl.mechanism=AWS_MSK_IAM"),
        (HTTPS, "has no clientId and no clientSecret for"),
        (HTTPS | {TOKEN_URL: "http://idp.example/token"}, "http://idp.example/token is spoken to"),
        (HTTPS | {TOKEN_URL: "http://127.0.0.1.example/t"}, "without TLS"),
        (HTTPS | {TOKEN_URL: "http://me:hush@idp/t"}, "http://***@idp/t is spoken to"),
        (HTTPS | {TOKEN_URL: "http://[::1/t"}, "without TLS"),
        (
            HTTPS | {JAAS: f'{OAUTH_MODULE} clientSecret="hunter2";'},
            f"{JAAS} has no clientId for https://idp.example",
        ),
        (OAUTH | {TOKEN_URL: "idp.example/token"}, f"{TOKEN_URL}=idp.example/token is not spoken"),
        (OAUTH | {TOKEN_URL: "ftp://idp.example"}, "is not spoken"),
        (OAUTH | {TOKEN_URL: "https://"}, "is not spoken"),
        (
            OAUTH
            | {
                JAAS: f'{OAUTH_MODULE} unsecuredLoginStringClaim_sub="a"'
                ' unsecuredLoginNumberClaim_level="high";'
            },
            "is not a number",
        ),
        (SSL | {"ssl.enabled.protocols": "TLSv1,TLSv1.1"}, "It speaks TLSv1.2 and TLSv1.3"),
    ],
)
def test_what_is_not_spoken_or_missing_is_named(properties: Properties, words: str) -> None:
    assert words in refusal(properties)


@pytest.mark.parametrize(
    ("enabled", "versions"),
    [
        ("TLSv1.3", ("TLSv1_3", "TLSv1_3")),
        ("TLSv1.2", ("TLSv1_2", "TLSv1_2")),
        (" TLSv1.1 , TLSv1.2 ", ("TLSv1_2", "TLSv1_2")),
        ("", ("TLSv1_2", "TLSv1_3")),
        ("TLSv1.3,TLSv1.2", ("TLSv1_2", "TLSv1_3")),
    ],
)
def test_enabled_protocols_are_all_that_is_spoken(enabled: str, versions: tuple[str, str]) -> None:
    context = tls_of({"ssl.enabled.protocols": enabled}).context()
    assert (context.minimum_version.name, context.maximum_version.name) == versions


@pytest.mark.parametrize(
    ("algorithm", "checks"),
    [(None, True), ("https", True), ("HTTPS", True), ("", False), (" ", False)],
)
def test_names_are_checked_unless_the_algorithm_is_empty(
    algorithm: str | None, checks: bool
) -> None:
    name = "ssl.endpoint.identification.algorithm"
    context = tls_of({} if algorithm is None else {name: algorithm}).context()
    assert context.check_hostname is checks
    assert context.verify_mode.name == "CERT_REQUIRED"  # in either case


def test_what_has_no_effect_is_named() -> None:
    given = {
        "acks": "all",
        "security.protocol": "SSL",
        "security.providers": "x",
        "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
        "ssl.protocol": "TLSv1.3",
        "ssl.keystore.location": "x",
        "sasl.kerberos.min.time.before.relogin": "60000",
    }
    assert ignored_properties(given) == [
        "sasl.kerberos.min.time.before.relogin",
        "security.providers",
        "ssl.protocol",
    ]
    assert [name for name in given if not is_about_security(name)] == ["acks"]


# --- JAAS ---


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", {}),
        ('M required a="1" b="2";', {"a": "1", "b": "2"}),
        ("M required a=1 b=2;", {"a": "1", "b": "2"}),
        ("M required a='1' b='say \"x\"';", {"a": "1", "b": 'say "x"'}),
        ('M required\n  a = "1"\n  b\t=\t"it\'s";', {"a": "1", "b": "it's"}),
        (r'M required a="say \"x\"" b="back\\slash";', {"a": 'say "x"', "b": "back\\slash"}),
        (r'M required a="\q\$" b="\t\n\101\0607";', {"a": "q$", "b": "\t\nA07"}),
        ('M required a="" b="x";', {"a": "", "b": "x"}),
        ('M required a="b=c; d=e" f="g";', {"a": "b=c; d=e", "f": "g"}),
        ('M required a="1" a="2";', {"a": "2"}),
        ('M required extension_x.y-z="1";', {"extension_x.y-z": "1"}),
    ],
)
def test_jaas_is_read_as_java_does(text: str, options: dict[str, str]) -> None:
    assert jaas_options(text) == options


@given(st.dictionaries(st.from_regex("[a-z]+", fullmatch=True), st.text()))
def test_any_value_survives_being_quoted(options: dict[str, str]) -> None:
    signs = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"}
    escaped = {name: text.translate(str.maketrans(signs)) for name, text in options.items()}
    told = " ".join(f'{name}="{text}"' for name, text in escaped.items())
    assert jaas_options(f"{PLAIN} {told};") == options


# --- truststores and keystores ---


def assert_alices(properties: Properties) -> None:
    """Her key, with its certificate and the authority's; and the authority is trusted."""
    tls = tls_of(properties)
    assert subjects(tls.authorities)[:1] == ["kipctl lab CA"]
    assert subjects(tls.chain) == ["alice", "kipctl lab CA"]
    assert tls.key == KEY


def one_line(pem: str) -> str:
    """As in a properties file whose author did not know of backslashes at the ends of lines."""
    return pem.strip().replace("\n", " ")


@pytest.mark.parametrize("written", [str, one_line, lambda pem: one_line(pem).replace("- -", "--")])
def test_inline_pem_is_read_on_one_line_or_several(written: Callable[[str], str]) -> None:
    """KIP-651."""
    inline = {**INLINE, "ssl.truststore.certificates": CA + CHAIN}
    given = {name: written(text) for name, text in inline.items()}
    assert_alices(given)
    assert subjects(tls_of(given).authorities)[1:] == ["alice", "kipctl lab CA"]


def test_pem_stores_are_read(tmp_path: Path) -> None:
    assert_alices(
        {
            "ssl.truststore.location": write(tmp_path, "ca.pem", "The CA:\n" + CA),
            "ssl.keystore.location": write(tmp_path, "alice.pem", CHAIN + KEY),
        }
    )


@pytest.mark.parametrize("is_of_openssl", [False, True])
def test_pkcs12_stores_are_read(tmp_path: Path, is_of_openssl: bool) -> None:
    trust, own = AUTHORITY.truststore(STORE_PASSWORD), ALICE.keystore(STORE_PASSWORD)
    properties = {
        "ssl.truststore.location": write(tmp_path, "trust.p12", trust),
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.keystore.location": write(tmp_path, "alice.p12", own),
        "ssl.keystore.password": STORE_PASSWORD,
    }
    if is_of_openssl:
        with_openssl(tmp_path, f"pass:{STORE_PASSWORD}")
    assert_alices(properties)


def with_openssl(tmp_path: Path, password: str, *extra: str) -> str:
    """Make alice.p12."""
    pem, p12 = write(tmp_path, "alice.pem", KEY + CHAIN), f"{tmp_path / 'alice.p12'}"
    run("openssl", "pkcs12", "-export", "-in", pem, "-out", p12, "-passout", password, *extra)
    return p12


@pytest.mark.parametrize("extra", [(), ("-nomaciter", "-keypbe", "NONE", "-certpbe", "NONE")])
def test_pkcs12_without_a_password_is_read(tmp_path: Path, extra: tuple[str, ...]) -> None:
    p12 = with_openssl(tmp_path, "pass:", *extra)
    assert subjects(tls_of({"ssl.keystore.location": p12}).chain)[0] == "alice"


def keytool(store: Path, *how: str, kind: str = "JKS") -> None:
    passwords = ("-storetype", kind, "-storepass", STORE_PASSWORD)
    run("keytool", "-noprompt", *how, "-alias", "me", "-keystore", f"{store}", *passwords)


def with_keytool(folder: Path, key_password: str, *how: str, kind: str = "JKS") -> dict[str, str]:
    """What says how to use a truststore with the CA, and a keystore with a new key of duke's."""
    (folder / "ca.pem").write_text(CA)
    trust, own = folder / "trust.jks", folder / "own.jks"
    keytool(trust, "-importcert", "-file", f"{folder / 'ca.pem'}", kind=kind)
    named = ("-dname", "CN=duke", "-keypass", key_password)
    keytool(own, "-genkeypair", *named, *how, kind=kind)
    return {
        "ssl.truststore.location": f"{trust}",
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.keystore.location": f"{own}",
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": key_password,
    }


@pytest.mark.parametrize(
    ("how", "key_password"),
    [(("-keyalg", "EC"), STORE_PASSWORD), (("-keyalg", "RSA"), "pässword of its own")],
)
def test_jks_stores_of_keytool_are_read(
    tmp_path: Path, how: tuple[str, ...], key_password: str
) -> None:
    properties = with_keytool(tmp_path, key_password, *how)
    tls = tls_of(properties)  # OpenSSL takes the key only beside its own certificate
    assert subjects(tls.authorities) == ["kipctl lab CA"]
    assert subjects(tls.chain) == ["duke"]
    # Java trusts the certificates of a store that it is given no password of, unseen.
    del properties["ssl.truststore.password"]
    assert subjects(tls_of(properties).authorities) == ["kipctl lab CA"]
    for name, told in {
        "ssl.truststore.password": "its password is not ssl.truststore.password",
        "ssl.keystore.password": "its password is not ssl.keystore.password",
        "ssl.key.password": "the password of its key is neither ssl.key.password nor",
    }.items():
        assert told in refusal(SSL | properties | {name: "another"})

    # Cut it is no store.
    properties["ssl.truststore.password"] = STORE_PASSWORD
    store = Path(properties["ssl.keystore.location"])
    whole = store.read_bytes()
    for cut in (*Random(5).sample(range(4, len(whole)), 20), len(whole) - 1):
        store.write_bytes(whole[:cut])
        assert "its password is not ssl.keystore.password" in refusal(SSL | properties)
        unchecked = properties | {"ssl.keystore.password": ""}
        assert f"{store}" in refusal(SSL | unchecked)


def test_a_key_that_openssl_does_not_know_is_named(tmp_path: Path) -> None:
    key = ALICE.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    certificate = ALICE.certificate.public_bytes(Encoding.DER)
    store = tmp_path / "own.jks"
    given = {"ssl.keystore.location": f"{store}", "ssl.keystore.password": STORE_PASSWORD}
    store.write_bytes(java_keystore(key, certificate, STORE_PASSWORD))
    assert subjects(tls_of(given).chain) == ["alice"]
    of_no_kind = key.replace(bytes.fromhex("2a8648ce3d0201"), bytes.fromhex("2a8648ce3d0209"))
    store.write_bytes(java_keystore(of_no_kind, certificate, STORE_PASSWORD))
    assert f"{store}: its key cannot be read: Unknown key type" in refusal(SSL | given)


def test_a_pkcs12_store_in_ber_is_read_without_a_word(tmp_path: Path) -> None:
    store = AUTHORITY.truststore(STORE_PASSWORD)
    given = {"ssl.truststore.password": STORE_PASSWORD}
    given["ssl.truststore.location"] = write(tmp_path, "trust.p12", store + b"\0")
    assert subjects(tls_of(given).authorities) == ["kipctl lab CA"]


def test_a_jceks_store_is_refused_with_the_command_that_makes_pkcs12_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "old ones"
    folder.mkdir()
    properties = with_keytool(folder, STORE_PASSWORD, "-keyalg", "EC", kind="JCEKS")
    for store in ("trust", "key"):
        name = f"ssl.{store}store.location"
        command = refusal(SSL | {name: properties[name]}).splitlines()[-1]
        p12 = str(Path(properties[name]).with_suffix(".p12"))
        assert command.endswith(f"-srcstoretype JCEKS -destkeystore '{p12}' -deststoretype PKCS12")
        both = ("-srcstorepass", STORE_PASSWORD, "-deststorepass", STORE_PASSWORD)
        run(*shlex.split(command), "-noprompt", *both)
        properties[name] = p12
    tls = tls_of(properties)
    assert (subjects(tls.authorities), subjects(tls.chain)) == (["kipctl lab CA"], ["duke"])


@pytest.mark.parametrize("is_inline", [True, False])
def test_an_encrypted_key_is_read_with_its_password(tmp_path: Path, is_inline: bool) -> None:
    properties = (
        ENCRYPTED | {"ssl.keystore.key": one_line(ENCRYPTED_KEY)}
        if is_inline
        else {"ssl.keystore.location": write(tmp_path, "alice.pem", ENCRYPTED_KEY + CHAIN)}
    )
    tls = tls_of({**properties, "ssl.key.password": KEY_PASSWORD})
    assert tls.key == ENCRYPTED_KEY  # in memory it stays as it was


@pytest.mark.parametrize("password", ["", "guess-hunter2", "x" * 2000])
def test_a_wrong_key_password_is_named(password: str) -> None:
    text = refusal({**SSL, **ENCRYPTED, "ssl.key.password": password})
    assert text == "ssl.key.password is not that of the key in ssl.keystore.*."


AT_A_TERMINAL = """
import fcntl, json, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # /dev/tty is this one now
from kipctl.errors import UsageError
from kipctl.security.settings import security_of
try:
    security_of(json.loads(sys.argv[1]))
except UsageError:
    sys.exit(42)
"""


def test_nobody_is_asked_for_the_password_of_a_key() -> None:
    """OpenSSL by itself would ask on the terminal, if there is one."""
    master, terminal = os.openpty()
    properties = json.dumps({**SSL, **ENCRYPTED})
    ended = subprocess.run(
        [sys.executable, "-c", AT_A_TERMINAL, properties],
        stdin=terminal,
        start_new_session=True,
        timeout=60,
    )
    shown = os.read(master, 1000) if select.select([master], [], [], 0)[0] else b""
    os.close(terminal)
    os.close(master)
    assert (ended.returncode, shown) == (42, b"")


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"ssl.keystore.key": KEY}, "ssl.keystore.certificate.chain holds no certificate"),
        (
            INLINE | {"ssl.keystore.certificate.chain": KEY},
            "ssl.keystore.certificate.chain holds no certificate",
        ),
        (INLINE | {"ssl.keystore.key": CHAIN}, "ssl.keystore.key holds no private key"),
        (
            INLINE | {"ssl.keystore.key": OTHER_KEY},
            "The key in ssl.keystore.* does not fit its certificate",
        ),
        (INLINE | {"ssl.keystore.certificate.chain": CA + CHAIN}, "does not fit its certificate"),
        (
            INLINE | {"ssl.keystore.key": KEY.replace("MIG", "\xe9AA")},
            "does not fit its certificate, or is damaged",
        ),
        ({"ssl.truststore.certificates": "hunter2"}, "ssl.truststore.certificates holds no cert"),
        ({"ssl.truststore.certificates": KEY}, "ssl.truststore.certificates holds no certificate"),
        ({"ssl.truststore.certificates": CA.replace("MII", "AAA")}, "is damaged"),
        ({"ssl.truststore.certificates": CA.replace("MII", "\xe9II")}, "is damaged"),
    ],
)
def test_inline_pem_that_cannot_be_used_is_named(properties: Properties, words: str) -> None:
    assert words in refusal({**SSL, **properties})


STORED = {
    "empty": b"",
    "garbage": b"\x30\x82hunter2",
    "text": b"password=hunter2",
    "of-authority": AUTHORITY.pem,
    "only-a-key": KEY.encode(),
    "trust.p12": AUTHORITY.truststore(STORE_PASSWORD),
    "alice.p12": ALICE.keystore(STORE_PASSWORD),
}
TRUST, OWN = "ssl.truststore", "ssl.keystore"


@pytest.mark.parametrize(
    ("store", "name", "password", "words"),
    [
        (TRUST, "nowhere", "", "ssl.truststore.location={} cannot be read: No such file"),
        (OWN, "nowhere", "", "ssl.keystore.location={} cannot be read: No such file"),
        (TRUST, "", "", "cannot be read: Is a directory"),
        (TRUST, "empty", "", "{} is neither PEM nor PKCS12"),
        (OWN, "empty", "guess-hunter2", "{} is neither PEM nor PKCS12"),
        (OWN, "garbage", "", "{} is neither PEM nor PKCS12"),
        (TRUST, "text", "", "{} is neither PEM nor PKCS12"),
        (TRUST, "only-a-key", "", "{} holds no certificate"),
        (OWN, "only-a-key", "", "{} holds no certificate"),
        (OWN, "of-authority", "", "{} holds no private key"),
        (OWN, "trust.p12", STORE_PASSWORD, "{} holds no key with its certificate"),
        (TRUST, "trust.p12", "guess-hunter2", "{}: its password is not ssl.truststore.password"),
        (TRUST, "trust.p12", "", "{}: its password is not ssl.truststore.password"),
        (OWN, "alice.p12", "guess-hunter2", "{}: its password is not ssl.keystore.password"),
        (OWN, "alice.p12", "", "{}: its password is not ssl.keystore.password"),
    ],
)
def test_a_store_that_cannot_be_used_is_named(
    tmp_path: Path, store: str, name: str, password: str, words: str
) -> None:
    for stored, content in STORED.items():
        write(tmp_path, stored, content)
    path = f"{tmp_path / name}"
    given = {f"{store}.location": path} | ({f"{store}.password": password} if password else {})
    assert words.format(path) in refusal({**SSL, **given})


# --- what is made of them ---

SECRET = ENCRYPTED | {
    "security.protocol": "SASL_SSL",
    "ssl.truststore.certificates": CA,
    "ssl.key.password": KEY_PASSWORD,
}


@pytest.mark.parametrize(
    "login",
    [
        sasl("SCRAM-SHA-512", f'{PLAIN} username="alice" password="hunter2";'),
        HTTPS | {JAAS: f'{OAUTH_MODULE} clientId="me" clientSecret="hunter2" extension_a="b";'},
        OAUTH | {TOKEN_URL: "file:///token"},
    ],
)
def test_security_goes_to_other_processes_whole_and_is_shown_without_secrets(
    login: Properties,
) -> None:
    access = access_of("kafka1:9092", {**login, **SECRET})
    again = pickle.loads(pickle.dumps(access))
    assert again == access
    assert isinstance(again, Access)
    assert again.security.tls
    assert again.security.tls.context().check_hostname
    for shown in (repr(again), str(again), repr(again.security), repr(again.security.sasl)):
        assert not SECRETS.search(shown)


TRUSTING = {"ssl.truststore.certificates": "-----BEGIN", "ssl.truststore.type": "PEM"}


@pytest.mark.parametrize(
    ("properties", "authorities", "protocol", "truststore"),
    [
        ({}, "", "SSL", {}),
        ({"security.protocol": "SASL_PLAINTEXT"}, "", "SASL_SSL", {}),
        ({"security.protocol": "sasl_ssl"}, "", "SASL_SSL", {}),
        ({"security.protocol": "SSL", **TRUSTING}, "", "SSL", TRUSTING),
        # What is given to the command takes the place of the file's, whatever its form.
        (
            TRUSTING,
            "/ca.pem",
            "SSL",
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
        ),
        ({"security.protocol": "SSH"}, "", "SSH", {}),
    ],
)
def test_with_tls_a_login_stays(
    properties: dict[str, str], authorities: str, protocol: str, truststore: dict[str, str]
) -> None:
    login = {"sasl.mechanism": "PLAIN"}
    expected = login | {"security.protocol": protocol} | truststore
    assert with_tls(properties | login, authorities) == expected


def test_a_password_with_a_nul_is_told(tmp_path: Path) -> None:
    """OpenSSL's bindings panic: found by `tests/fuzz`, seed 3409."""
    (tmp_path / "store.p12").write_bytes(b"0\x80")
    with pytest.raises(UsageError, match=r"ssl\.keystore\.password holds a NUL character"):
        identity(tmp_path / "store.p12", "store\0-hunter2")
