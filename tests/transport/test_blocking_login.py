"""Logins of blocking connections: let in, refused, never answered, and over."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from scripted_broker import HANG_UP, Answers, Asked, ScriptedBroker
from secure_peers import (
    FAILING_LOGINS,
    PASSWORD,
    PASSWORD_MECHANISMS,
    PLAIN,
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
from kipctl.protocol.metadata import MetadataRequest, MetadataResponse
from kipctl.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kipctl.security.sasl import AuthenticationError, Sasl
from kipctl.transport.access import Access
from kipctl.transport.blocking_connection import BlockingConnection
from kipctl.transport.request import BrokerConnection, Cluster


def answer_metadata(asked: Asked) -> MetadataResponse | None:
    return MetadataResponse() if isinstance(asked.request, MetadataRequest) else None


def connection_to(broker: ScriptedBroker, access: Access, timeout_s: float = 20) -> Any:
    return BrokerConnection("127.0.0.1", broker.port, "test", timeout_s, access)


@pytest.mark.parametrize("mechanism", PASSWORD_MECHANISMS)
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


@pytest.mark.parametrize(("script", "sasl", "words"), FAILING_LOGINS)
def test_a_login_that_fails_says_why_and_nothing_else_is_asked(
    script: Callable[[], Answers], sasl: Sasl, words: str
) -> None:
    with (
        ScriptedBroker(script()) as broker,
        connection_to(broker, access(None, sasl)) as connection,
    ):
        with pytest.raises(AuthenticationError, match=words) as refused:
            _ = connection.api_versions
        assert {*re.findall(r"127\.0\.0\.1:(\d+)", refused.value.what)} <= {str(broker.port)}
        assert len(str(refused.value).splitlines()) == 2
        assert not sasl.password or sasl.password not in str(refused.value)
        kinds = {type(request) for request in broker.requests()}
        assert kinds <= {SaslHandshakeRequest, SaslAuthenticateRequest}
        assert len(broker.asked) == len(broker.requests())


def test_a_token_that_is_refused_is_let_go_with_one_byte() -> None:
    ((script, sasl),) = [row[:2] for row in FAILING_LOGINS if row[1].mechanism == "OAUTHBEARER"]
    with (
        ScriptedBroker(script()) as broker,
        connection_to(broker, access(None, sasl)) as connection,
    ):
        with pytest.raises(AuthenticationError):
            _ = connection.api_versions
        assert broker.requests()[2:] == [SaslAuthenticateRequest(b"\x01")]


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
    with ScriptedBroker(logins) as broker, connection_to(broker, access(None, PLAIN)) as connection:
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
