"""Logins of blocking connections: let in, refused, never answered, and over."""

import time
from typing import Any

import pytest
from scripted_broker import HANG_UP, Asked, ScriptedBroker
from secure_peers import (
    PASSWORD,
    TLS,
    USER,
    Logins,
    access,
    loopback,
    server_context,
    wrapped,
)

from kipctl.errors import KipctlError, TimedOutError, UnreachableError
from kipctl.protocol.address import Address
from kipctl.protocol.api_versions import ApiVersionsRequest
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse
from kipctl.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kipctl.security.sasl import AuthenticationError, Sasl
from kipctl.security.tokens import UnsignedToken
from kipctl.transport.access import Access
from kipctl.transport.blocking_connection import BlockingConnection
from kipctl.transport.request import BrokerConnection, Cluster

PLAIN = Sasl("PLAIN", USER, PASSWORD)
MECHANISMS = pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])


def answer_metadata(asked: Asked) -> MetadataResponse | None:
    return MetadataResponse() if isinstance(asked.request, MetadataRequest) else None


def connection_to(broker: ScriptedBroker, access: Access, timeout_s: float = 20) -> Any:
    return BrokerConnection("127.0.0.1", broker.port, "test", timeout_s, access)


def refusal(broker: ScriptedBroker, sasl: Sasl) -> str:
    with (
        connection_to(broker, access(None, sasl)) as connection,
        pytest.raises(AuthenticationError) as refused,
    ):
        _ = connection.api_versions
    assert len(str(refused.value).splitlines()) == 2
    assert sasl.password not in str(refused.value)
    return refused.value.what


@MECHANISMS
@pytest.mark.parametrize("tls", [None, TLS], ids=["plaintext", "tls"])
def test_a_login_is_once_for_a_connection_before_all_else(mechanism: str, tls: Any) -> None:
    logins = Logins(answer_metadata)
    secure = wrapped(server_context(loopback())) if tls else lambda accepted: accepted
    with (
        ScriptedBroker(logins, secure=secure) as broker,
        connection_to(broker, access(tls, Sasl(mechanism, USER, PASSWORD))) as connection,
    ):
        for _ in range(3):
            assert connection.request(MetadataRequest()) == MetadataResponse()
        assert logins.count == 1
        assert isinstance(broker.asked[0].request, SaslHandshakeRequest)


@MECHANISMS
def test_a_wrong_password_is_said_in_the_brokers_words(mechanism: str) -> None:
    with ScriptedBroker(Logins()) as broker:
        assert refusal(broker, Sasl(mechanism, USER, "guess")) == (
            f"User 'alice' is refused by broker 127.0.0.1:{broker.port} ({mechanism}):"
            " Wrong name or password."
        )


def test_a_broker_that_gives_no_words_is_given_those_of_its_error() -> None:
    def refuses(asked: Asked) -> Any:
        if isinstance(asked.request, SaslHandshakeRequest):
            return SaslHandshakeResponse()
        return SaslAuthenticateResponse(58)

    with ScriptedBroker(refuses) as broker:
        assert refusal(broker, PLAIN).endswith(": SASL authentication failed.")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (SaslHandshakeResponse(33, ("GSSAPI", "SCRAM-SHA-256")), "offers GSSAPI, SCRAM-SHA-256."),
        (SaslHandshakeResponse(34), "takes no login over SASL"),
    ],
)
def test_a_listener_for_other_logins_or_none_is_named(
    answer: SaslHandshakeResponse, words: str
) -> None:
    with ScriptedBroker(lambda asked: answer) as broker:
        assert words in refusal(broker, PLAIN)


def test_a_token_that_is_refused_is_refused_in_the_brokers_words() -> None:
    """First there is a challenge that says why, as RFC 7628 wants it; the client lets go."""
    said = []

    def refuses(asked: Asked) -> Any:
        if isinstance(asked.request, SaslHandshakeRequest):
            return SaslHandshakeResponse()
        said.append(asked.request.auth_bytes)
        if len(said) == 1:
            return SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')
        return SaslAuthenticateResponse(58, "The token is of another realm")

    sasl = Sasl("OAUTHBEARER", password="unused", token=UnsignedToken((("sub", "alice"),)))
    with ScriptedBroker(refuses) as broker:
        assert refusal(broker, sasl).endswith("(OAUTHBEARER): The token is of another realm.")
    assert said[1:] == [b"\x01"]


def test_an_impostor_who_does_not_know_the_password_is_not_told_anything_more() -> None:
    def impostor(asked: Asked) -> Any:
        answer = logins(asked)
        if isinstance(answer, SaslAuthenticateResponse) and answer.auth_bytes.startswith(b"v="):
            return SaslAuthenticateResponse(auth_bytes=b"v=AAAA")
        return answer

    logins = Logins()
    with ScriptedBroker(impostor) as broker:
        sasl = Sasl("SCRAM-SHA-256", USER, PASSWORD)
        assert "does not prove that it knows the password" in refusal(broker, sasl)
        assert not any(isinstance(asked.request, ApiVersionsRequest) for asked in broker.asked)


def test_a_listener_that_wants_a_login_hangs_up_on_who_has_none_and_that_is_said() -> None:
    with (
        ScriptedBroker(lambda asked: HANG_UP) as broker,
        connection_to(broker, Access("")) as connection,
        pytest.raises(UnreachableError, match="asks for TLS or a login") as failed,
    ):
        _ = connection.api_versions
    assert "closed the connection instead of answering" in failed.value.what


@pytest.mark.parametrize("silent", [SaslHandshakeRequest, SaslAuthenticateRequest])
def test_a_login_that_is_not_answered_is_given_up_at_the_deadline(silent: type) -> None:
    logins = Logins()
    with (
        ScriptedBroker(lambda a: None if isinstance(a.request, silent) else logins(a)) as broker,
        connection_to(broker, access(None, PLAIN), timeout_s=0.3) as connection,
        pytest.raises(TimedOutError),
    ):
        _ = connection.api_versions


def test_after_its_session_a_connection_is_over_and_another_logs_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logins = Logins(answer_metadata, session_ms=3_600_000)
    now = time.monotonic
    with (
        ScriptedBroker(logins) as broker,
        connection_to(broker, access(None, PLAIN)) as connection,
    ):
        connection.request(MetadataRequest())
        monkeypatch.setattr(time, "monotonic", lambda: now() + 3600)
        connection.request(MetadataRequest())
        assert logins.count == 2
        assert [asked.connection for asked in broker.asked][-1] == 1


def test_a_session_that_lasts_is_no_end() -> None:
    with ScriptedBroker(Logins(session_ms=3_600_000)) as broker:
        address, deadline = Address("127.0.0.1", broker.port), time.monotonic() + 20
        connection = BlockingConnection(address, access(None, PLAIN), deadline)
        assert not connection.is_over()
        assert 0.85 * 3600 <= connection.ends - time.monotonic() + 20 <= 0.95 * 3600 + 20
        connection.close()


def test_a_refused_login_is_not_tried_on_every_other_broker() -> None:
    """Each would refuse it, and some lock users out who try too often."""
    logins, others = Logins(), Logins()
    with ScriptedBroker(logins) as first, ScriptedBroker(others) as second:
        servers = f"{first.address},{second.address}"
        with (
            Cluster(access(None, Sasl("PLAIN", USER, "guess"), servers)) as cluster,
            pytest.raises(KipctlError, match="is refused by broker"),
        ):
            cluster.metadata()
    assert (logins.count, others.count) == (1, 0)
