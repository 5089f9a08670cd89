"""SASL's exchanges against their RFCs, and against brokers that do not keep to them."""

import base64
import hashlib
import json
import re
import secrets

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from secure_peers import ScramServer

from kipctl.security.sasl import AuthenticationError, OAuthBearer, Plain, Sasl, Scram
from kipctl.security.tokens import UnsignedToken

NONCE = "rOprNGfwEbeRWgbNEkqO"
CHALLENGE = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
"""Of RFC 7677, section 3, for the name user and the password pencil."""


def of_rfc_7677() -> Scram:
    return Scram("sha256", "user", "pencil", NONCE)


# --- SCRAM ---


def test_scram_sha_256_says_what_rfc_7677_has_it_say() -> None:
    exchange = of_rfc_7677()
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.answer(CHALLENGE.encode()) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert exchange.answer(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@settings(deadline=None, max_examples=10)
@given(username=st.text(min_size=1), password=st.text(min_size=1), salt=st.binary(min_size=1))
def test_client_and_server_prove_themselves_to_each_other(
    mechanism: str, username: str, password: str, salt: bytes
) -> None:
    """The server is written apart from the client, after the RFC's formulas."""
    exchange = Sasl(mechanism, username, password).exchange("broker")
    server = ScramServer(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), password, salt)
    proof = exchange.answer(server.challenge(exchange.first()))
    assert proof is not None
    verdict = server.verdict(proof)
    assert verdict is not None
    assert exchange.answer(verdict) is None


def test_a_wrong_password_proves_nothing() -> None:
    exchange = Scram("sha512", "user", "pen")
    server = ScramServer("sha512", "pencil")
    assert server.verdict(exchange.answer(server.challenge(exchange.first())) or b"") is None


@pytest.mark.parametrize(
    ("username", "told"),
    [("a=b", "a=3Db"), ("a,b", "a=2Cb"), ("=2C,", "=3D2C=2C"), ("zoë", "zoë"), ("a b", "a b")],
)
def test_a_name_is_told_so_that_it_ends_where_it_ends(username: str, told: str) -> None:
    exchange = Scram("sha256", username, "pencil", "nonce")
    assert exchange.first() == f"n,,n={told},r=nonce".encode()


def test_no_two_exchanges_have_a_nonce_in_common() -> None:
    said = [Sasl("SCRAM-SHA-256", "user", "pencil").exchange("broker").first() for _ in range(20)]
    assert len(set(said)) == 20
    assert all(re.fullmatch(rb"n,,n=user,r=[\w-]{24,}", first) for first in said)


OURS = f"r={NONCE}x"
NO_FIT = "does not fit"


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        ("r=someone-elses,s=W22Z,i=4096", NO_FIT),
        (f"r={NONCE},s=W22Z,i=4096", NO_FIT),  # nothing was added to the nonce
        (f"{OURS},i=4096", NO_FIT),
        (f"{OURS},s=,i=4096", NO_FIT),
        (f"{OURS},s=!!,i=4096", NO_FIT),
        (f"{OURS},s=W22Z", "asks for no SCRAM iterations"),
        (f"{OURS},s=W22Z,i=4095", "asks for 4095 SCRAM"),  # too few
        (f"{OURS},s=W22Z,i=-1", "asks for -1 SCRAM"),
        (f"{OURS},s=W22Z,i=1000001", "asks for 1000001"),  # for seconds, and more for minutes
        (f"m=new,{OURS},s=W22Z,i=4096", "an extension of SCRAM"),
        (f"{OURS},s=W22Z,i={'9' * 5000}", "asks for 999"),
        ("e=unknown-user", "refuses SCRAM: unknown-user"),
        ("", NO_FIT),
        ("HTTP/1.1 400", NO_FIT),
    ],
)
def test_a_challenge_that_is_wrong_is_refused_before_anything_is_proved(
    challenge: str, why: str
) -> None:
    with pytest.raises(AuthenticationError, match=why) as refused:
        of_rfc_7677().answer(challenge.encode())
    assert len(str(refused.value)) < 200


def test_a_challenge_that_is_no_text_is_answered_as_it_came() -> None:
    """What is proved covers every byte of it."""
    exchange = Scram("sha256", "user", "pencil", NONCE)
    server = ScramServer("sha256", "pencil")
    challenge = server.challenge(exchange.first()) + b",x=\xff"
    server._said += b",x=\xff"
    assert server.verdict(exchange.answer(challenge) or b"")


@pytest.mark.parametrize(
    ("final", "why"),
    [
        ("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "does not prove"),
        ("v=", "does not prove"),
        ("v=!", "does not prove"),
        ("", "does not prove"),
        ("e=other-error", "refuses SCRAM: other-error"),
    ],
)
def test_a_broker_that_does_not_prove_that_it_knows_the_password_is_refused(
    final: str, why: str
) -> None:
    exchange = of_rfc_7677()
    exchange.answer(CHALLENGE.encode())
    with pytest.raises(AuthenticationError, match=why):
        exchange.answer(final.encode())


# --- the others ---


def test_plain_says_all_at_once() -> None:
    exchange = Sasl("PLAIN", "zoë", "a,b=c\\").exchange("broker")
    assert isinstance(exchange, Plain)
    assert exchange.first() == "\0zoë\0a,b=c\\".encode()
    assert exchange.answer(b"") is None


@pytest.mark.parametrize(
    ("extensions", "told"),
    [
        ((), b"n,,\x01auth=Bearer abc.def\x01\x01"),
        (
            (("logicalCluster", "lkc-1"), ("identityPoolId", "pool=1")),
            b"n,,\x01auth=Bearer abc.def\x01logicalCluster=lkc-1\x01identityPoolId=pool=1\x01\x01",
        ),
    ],
)
def test_oauthbearer_tells_the_token_and_extensions(
    extensions: tuple[tuple[str, str], ...], told: bytes
) -> None:
    exchange = OAuthBearer("abc.def", dict(extensions))
    assert exchange.first() == told
    assert exchange.answer(b"") is None


def test_a_token_that_is_refused_is_let_go_so_that_the_broker_can_say_so() -> None:
    """RFC 7628, section 3.2.3: after an error's challenge the client sends one byte."""
    exchange = OAuthBearer("abc.def", {})
    exchange.first()
    assert exchange.answer(b'{"status":"invalid_token"}') == b"\x01"


def test_oauthbearer_takes_a_token_of_its_source_for_each_exchange() -> None:
    sasl = Sasl("OAUTHBEARER", token=UnsignedToken((("sub", "alice"),)), extensions=(("a", "b"),))
    said = sasl.exchange("broker").first()
    match = re.fullmatch(rb"n,,\x01auth=Bearer ([\w-]+)\.([\w-]+)\.\x01a=b\x01\x01", said)
    assert match
    claims = json.loads(base64.urlsafe_b64decode(match[2] + b"=="))
    assert claims["sub"] == "alice"


def test_the_salted_password_is_computed_once_for_a_user_whatever_connection_logs_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes milliseconds, in which an event loop would do nothing else."""
    computed: list[int] = []
    real = hashlib.pbkdf2_hmac

    def counted(hash_name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        computed.append(iterations)
        return real(hash_name, password, salt, iterations)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    user = Sasl("SCRAM-SHA-512", "u", f"password-{secrets.token_hex(8)}")

    def log_in(iterations: int) -> None:
        exchange = user.exchange("broker")
        nonce = exchange.first().decode().partition(",r=")[2]
        challenge = f"r={nonce}server,s={base64.b64encode(b'salt').decode()},i={iterations}"
        assert exchange.answer(challenge.encode()) is not None

    for _ in range(3):
        log_in(4096)
    assert computed == [4096]
    log_in(8192)  # its password was set anew
    assert computed == [4096, 8192]
