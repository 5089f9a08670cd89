"""Clients under test behind wrong settings: kipctl finds out by itself before it starts them."""

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from scripted_broker import Asked, ScriptedBroker
from secure_peers import PASSWORD, USER, Logins, loopback, refusal, server_context, wrapped

from kipctl.errors import KipctlError, RefusedError
from kipctl.lab.certificates import Authority
from kipctl.load.clients.client import ConsumerLoad, ProducerLoad
from kipctl.load.clients.java import JavaClient
from kipctl.load.clients.librdkafka import Librdkafka
from kipctl.protocol.message import Response
from kipctl.protocol.metadata import MetadataResponse, MetadataResponseBroker
from kipctl.protocol.sasl import SaslAuthenticateRequest
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security
from kipctl.security.tls import Tls
from kipctl.transport import reachable
from kipctl.transport.access import Access
from kipctl.transport.reachable import require_reachable

RIGHT = Sasl("PLAIN", USER, PASSWORD)
WRONG = Sasl("PLAIN", USER, "hunter2")
OTHERS = Tls(authorities=Authority().pem.decode())
IN_TLS = wrapped(server_context(loopback()))
LOAD = ProducerLoad(topic="t", num_records=1, throughput=0, record_size=10)
WANTED = ConsumerLoad(topic="t", num_records=1, group="g", timeout_s=1)
NO_JAVA = JavaClient("4.3.1", Path("/no/such/java"), ())
"""One that is started says that it cannot be."""
STARTS: dict[str, Callable[[Access], AbstractContextManager[object]]] = {
    "Java's producer": lambda access: NO_JAVA.producer(LOAD, access),
    "Java's consumer": lambda access: NO_JAVA.consumer(WANTED, access),
    "librdkafka's producer": lambda access: Librdkafka().producer(LOAD, access),
    "librdkafka's consumer": lambda access: Librdkafka().consumer(WANTED, access),
}


def answered(asked: Asked) -> Response | None:
    brokers = (MetadataResponseBroker(1, "127.0.0.1", 1),)
    return MetadataResponse(brokers=brokers) if asked.request.api.key == 3 else None


def refuses(asked: Asked) -> Response | None:
    """A broker that lets nobody in."""
    if isinstance(asked.request, SaslAuthenticateRequest):
        return refusal("Authentication failed.")
    answer: Any = Logins(answered).answer(asked.connection, asked.request)
    return answer


WAYS = {
    "wrong password": (refuses, False, Security(None, WRONG), "User 'alice' is refused by broker"),
    "unknown authority": (answered, True, Security(OTHERS), "authority that is not trusted"),
    "plain text to TLS": (answered, True, Security(), "whether the listener asks for TLS"),
}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_wrong_is_said_before_a_client_is_started(start: str, way: str) -> None:
    answers, has_tls, security, words = WAYS[way]
    secure = IN_TLS if has_tls else lambda accepted: accepted
    with (
        ScriptedBroker(answers, secure=secure) as broker,
        pytest.raises(KipctlError) as refused,
        STARTS[start](Access(broker.address, security)),
    ):
        raise AssertionError("it was started")
    assert words in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("start", STARTS)
def test_a_server_that_says_nothing_is_waited_for_only_so_long(
    start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachable, "_WITHIN_S", 0.4)
    silent = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    servers = ",".join(f"127.0.0.1:{server.getsockname()[1]}" for server in silent)
    with (
        silent[0],
        silent[1],
        pytest.raises(KipctlError, match="No broker answered") as refused,
        STARTS[start](Access(servers)),
    ):
        raise AssertionError("it was started")
    assert "in 0.2 s" in str(refused.value)  # each has its share of the time


def test_what_is_right_is_let_through_and_a_tap_is_not_asked() -> None:
    with ScriptedBroker(Logins(answered)) as broker:
        access = Access(broker.address, Security(None, RIGHT))
        require_reachable(access)
        with pytest.raises(KipctlError, match="cannot be run"), NO_JAVA.producer(LOAD, access):
            raise AssertionError("there is no such java")
        # A tap is not asked, as it would record it.
        asked = len(broker.asked)
        require_reachable(Access("b:1").behind(broker.address))
        assert len(broker.asked) == asked > 0


def test_a_jvm_that_is_called_says_why_it_did_not_start(tmp_path: Path) -> None:
    no_java = tmp_path / "java"
    no_java.write_text("#!/bin/sh\necho 'Error: Could not find or load main class' >&2\nexit 1\n")
    no_java.chmod(0o755)
    with (
        pytest.raises(RefusedError, match=r"client 4[.]3[.]1 did not start: Error: Could not"),
        JavaClient("4.3.1", no_java, ()).gateway(),
    ):
        pytest.fail("it started")
