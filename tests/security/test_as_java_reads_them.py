"""Properties that Java's clients refuse, or read otherwise than they look: by table.

What Java does was seen with Kafka 4.3.1 (`Admin.create`, and an SSLEngine that begins a handshake).
"""

import os
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from credentials import CA, CHAIN, INLINE, KEY, PLAIN_MODULE, SSL, Properties, refusal

from kipctl.errors import UsageError
from kipctl.security.ciphers import openssl_name
from kipctl.security.librdkafka import librdkafka_properties
from kipctl.security.settings import refused_by_java, security_of, tls_of

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
JAAS = f'{PLAIN_MODULE} required username="u" password="hunter2";'
PEM_TRUST, PEM_KEY = {"ssl.truststore.type": "PEM"}, {"ssl.keystore.type": "PEM"}


Stored = Callable[[dict[str, str]], dict[str, str]]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    """Properties with the path of a file with the authority in place of {ca}."""
    file = tmp_path / "ca.pem"
    file.write_text(CA)
    return lambda properties: (
        SSL | {name: text.replace("{ca}", str(file)) for name, text in properties.items()}
    )


@pytest.mark.parametrize(
    ("jaas", "words"),
    [
        ('username="u" password="hunter2";', "does not begin with a login module"),
        (f'{PLAIN_MODULE} username="u" password="hunter2";', "does not begin with a login module"),
        (JAAS.replace("required", "needed"), "does not begin with a login module"),
        (JAAS[:-1], "does not end with a semicolon"),
        (JAAS.replace('"u"', '"u",'), "an option without a value"),
        (JAAS.replace("required", "required debug"), "an option without a value"),
        (f'{PLAIN_MODULE} required username="u" password=;', "an option without a value"),
        (f'{PLAIN_MODULE} required username="u password="hunter2";', "an option without a value"),
        (
            f'{PLAIN_MODULE} required username="u" password="hunter2\n2";',
            "an option without a value",
        ),
        # A slash begins a comment.
        (
            f"{PLAIN_MODULE} required username=u password=hunter2/2;",
            "does not end with a semicolon",
        ),
        (JAAS + JAAS, "is to have one login module"),
        (JAAS + " x", "is to have one login module"),
    ],
)
def test_a_login_module_that_java_does_not_take_is_refused(jaas: str, words: str) -> None:
    assert words in refusal(SASL | {"sasl.jaas.config": jaas})


@pytest.mark.parametrize(
    "jaas",
    [
        JAAS,
        JAAS.replace("required", "Optional"),
        JAAS.replace("required", "required /* two users */"),
        JAAS.replace("required", "required // two users\n"),
        JAAS.replace("=", " = ").replace(";", " ; "),
        f"{PLAIN_MODULE} required username='u' password=hunter2;",
        f"  {JAAS}  \n",
    ],
)
def test_a_login_module_that_java_takes_is_read(jaas: str) -> None:
    sasl = security_of(SASL | {"sasl.jaas.config": jaas}).sasl
    assert sasl is not None
    assert (sasl.username, sasl.password) == ("u", "hunter2")


def test_blanks_around_values_are_cut_off() -> None:
    given = SASL | {"sasl.jaas.config": JAAS}
    padded = {name: f"\t{text} " for name, text in given.items()}
    assert security_of(padded) == security_of(given)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (
            PEM_TRUST | {"ssl.truststore.certificates": CA, "ssl.truststore.location": "{ca}"},
            "ssl.truststore.certificates and ssl.truststore.location name two stores.",
        ),
        (
            PEM_TRUST | {"ssl.truststore.location": "{ca}", "ssl.truststore.password": "hunter2"},
            "ssl.truststore.password cannot be given with PEM.",
        ),
        (
            PEM_TRUST | {"ssl.truststore.certificates": CA, "ssl.truststore.password": ""},
            "ssl.truststore.password cannot be given with PEM.",
        ),
        ({"ssl.truststore.password": "hunter2"}, "is for a store, and there is none."),
        ({"ssl.keystore.password": "hunter2"}, "is for a store, and there is none."),
        (
            PEM_KEY | {"ssl.keystore.key": KEY, "ssl.keystore.location": "{ca}"},
            "ssl.keystore.key and ssl.keystore.location name two stores.",
        ),
        (
            PEM_KEY | {"ssl.keystore.certificate.chain": CHAIN},
            "ssl.keystore.certificate.chain goes with ssl.keystore.key.",
        ),
        (
            PEM_KEY | INLINE | {"ssl.keystore.password": "hunter2"},
            "ssl.keystore.password cannot be given with PEM.",
        ),
        ({"ssl.enabled.protocols": "TLSv1.2,TLSv9"}, "TLSv9 of ssl.enabled.protocols is none of"),
        ({"ssl.enabled.protocols": "tlsv1.2"}, "tlsv1.2 of ssl.enabled.protocols is none of"),
        # librdkafka's word for what is empty in Java
        ({"ssl.endpoint.identification.algorithm": "none"}, "algorithm=none is none of Java's."),
        ({"ssl.cipher.suites": "ECDHE-RSA-AES128-GCM-SHA256"}, "is no name of Java's."),
        ({"ssl.cipher.suites": "TLS_KRB5_WITH_RC4_128_SHA"}, "speaks none of ssl.cipher.suites"),
        (
            {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"},
            "No version of TLS in ssl.enabled.protocols=TLSv1.2 has one of ssl.cipher.suites.",
        ),
    ],
)
def test_tls_that_java_does_not_take_is_refused(
    properties: dict[str, str], words: str, stored: Stored
) -> None:
    assert words in refusal(stored(properties))


@pytest.mark.parametrize(
    ("properties", "stores"),
    [
        ({"ssl.truststore.certificates": CA}, ["truststore"]),
        ({"ssl.truststore.location": "{ca}"}, ["truststore"]),
        ({"ssl.truststore.location": "{ca}", "ssl.truststore.type": "pem"}, ["truststore"]),
        ({"ssl.truststore.location": "{ca}", "ssl.truststore.type": "PKCS12"}, ["truststore"]),
        ({"ssl.truststore.location": "{ca}", **PEM_TRUST}, []),
        (INLINE, ["keystore"]),
        ({}, []),
    ],
)
def test_pem_that_is_not_said_to_be_pem_is_taken_with_a_warning(
    properties: dict[str, str], stores: list[str], stored: Stored
) -> None:
    given = stored(properties)
    assert security_of(given).tls is not None
    assert refused_by_java(given) == [
        f"Java's clients take PEM only with ssl.{store}.type=PEM." for store in stores
    ]
    assert refused_by_java(given | {"security.protocol": "PLAINTEXT"}) == []


# --- ssl.cipher.suites ---

GCM, CHACHA = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
ALL_OF_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
OF_1_3 = ",".join(ALL_OF_1_3)


def test_names_are_those_that_openssl_gives_its_own() -> None:
    listed = subprocess.run(
        ["openssl", "ciphers", "-stdname", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    ).stdout
    names = {words[0]: words[2] for words in map(str.split, listed.splitlines())}
    translated = {name: openssl_name(name) for name in names}
    assert {name: names[name] for name, mapped in translated.items() if mapped} == {
        name: mapped for name, mapped in translated.items() if mapped
    }
    keys = ("TLS_ECDHE_RSA_WITH_", "TLS_ECDHE_ECDSA_WITH_", "TLS_DHE_RSA_WITH_", "TLS_RSA_WITH_")
    of_java = [name for name in names if name.startswith(keys) and "_AES_" in name]
    assert len(of_java) >= 30
    assert [name for name in of_java if translated[name] is None] == []


OF_GCM, OF_CHACHA = "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"
ONLY_1_2, ONLY_1_3, BOTH = ("TLSv1_2", "TLSv1_2"), ("TLSv1_3", "TLSv1_3"), ("TLSv1_2", "TLSv1_3")


@pytest.mark.parametrize(
    ("suites", "spoken", "versions"),
    [
        ("", None, BOTH),
        # Without a suite of TLS 1.3 there is no TLS 1.3, and without one of 1.2 no 1.2.
        (GCM, [OF_GCM], ONLY_1_2),
        (f"{CHACHA}, {GCM}", [OF_CHACHA, OF_GCM], ONLY_1_2),
        (OF_1_3, None, ONLY_1_3),
        (f"{OF_1_3},{GCM}", [OF_GCM], BOTH),
        (f"{GCM},TLS_EMPTY_RENEGOTIATION_INFO_SCSV", [OF_GCM], ONLY_1_2),
    ],
)
def test_suites_are_all_that_is_spoken(
    suites: str, spoken: list[str] | None, versions: tuple[str, str]
) -> None:
    def below_1_3(context: ssl.SSLContext) -> list[str]:
        return [suite["name"] for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"]

    context = tls_of({"ssl.cipher.suites": suites}).context()
    default = below_1_3(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    assert below_1_3(context) == (default if spoken is None else spoken)
    assert (context.minimum_version.name, context.maximum_version.name) == versions


def test_librdkafka_gets_the_same_suites() -> None:
    suites = f"{OF_1_3},{CHACHA},{GCM}"
    told = librdkafka_properties(security_of(SSL | {"ssl.cipher.suites": suites}))
    assert told["ssl.cipher.suites"] == f"{OF_CHACHA}:{OF_GCM}"
    assert "ssl.cipher.suites" not in librdkafka_properties(security_of(SSL))


@pytest.mark.parametrize(
    ("properties", "is_refused"),
    [
        ({}, False),
        ({"ssl.enabled.protocols": "TLSv1.3,TLSv1.2"}, False),
        ({"ssl.enabled.protocols": "TLSv1.3"}, True),
        ({"ssl.enabled.protocols": "TLSv1.2"}, True),
        ({"ssl.cipher.suites": GCM}, True),  # none of TLS 1.3
    ],
)
def test_librdkafka_is_not_given_what_would_have_it_speak_more_versions_of_tls(
    properties: Properties, is_refused: bool
) -> None:
    security = security_of(SSL | properties)
    if not is_refused:
        assert librdkafka_properties(security)
        return
    with pytest.raises(UsageError, match="librdkafka cannot be held to TLSv1"):
        librdkafka_properties(security)


@pytest.mark.parametrize(
    ("suites", "said"),
    [
        ("", []),
        (OF_1_3, []),
        (GCM, []),
        (
            "TLS_AES_128_GCM_SHA256",
            [f"cannot choose among those of TLS 1.3: all are offered ({', '.join(ALL_OF_1_3)})."],
        ),
        (f"TLS_KRB5_WITH_RC4_128_SHA,{GCM}", ["does not speak TLS_KRB5_WITH_RC4_128_SHA."]),
    ],
)
def test_suites_that_cannot_be_kept_to_are_named(suites: str, said: list[str]) -> None:
    warned = refused_by_java(SSL | {"ssl.cipher.suites": suites})
    assert warned == [f"Of ssl.cipher.suites kipctl {sentence}" for sentence in said]
