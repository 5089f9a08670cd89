"""The producer on sockets of the operating system, plain, over TLS and with logins: connections
break, sessions end, and nothing is lost."""

import random

import pytest
from fake_run import IDEMPOTENT, assert_all_in_the_log_once_and_in_order, run_fake
from secure_peers import PASSWORD, TLS, USER, Logins, loopback, server_context
from strict_loopback import StrictLoopback

from kipctl.conform.cluster import Answer, Attempt, Cluster, Exchange, HungUpError
from kipctl.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security

SCRAM = Sasl("SCRAM-SHA-256", USER, PASSWORD)
IN_TLS = server_context(loopback())


def ask_for_logins(cluster: Cluster, logins: Logins) -> None:
    def log_in(call: Exchange) -> Answer | None:
        answer = logins.answer(call.connection, call.request)
        return Answer(answer) if answer else None

    cluster.control = log_in
    for request in (SaslHandshakeRequest, SaslAuthenticateRequest):
        cluster.requests[request.api.key] = request
        cluster.versions[request.api.key] = request.api.versions


@pytest.mark.parametrize(
    "security",
    [Security(None), Security(TLS), Security(TLS, SCRAM), Security(None, SCRAM)],
    ids=lambda security: security.protocol,
)
def test_connections_that_break_lose_nothing_and_double_nothing(security: Security) -> None:
    chance = random.Random(11)
    logins = Logins()

    def breaks(attempt: Attempt) -> None:
        if chance.random() < 0.1:
            if chance.random() < 0.5 and cluster.brokers[attempt.broker].leads(attempt.place):
                cluster.append(attempt)  # and its answer is lost
            raise HungUpError

    cluster = Cluster({"t": 4}, brokers=2)
    cluster.script = breaks
    if security.sasl:
        ask_for_logins(cluster, logins)
    with StrictLoopback(cluster, IN_TLS if security.tls else None):
        ran = run_fake(
            cluster,
            400,
            throughput=2000,
            record_size=3000,
            batch_size=16_384,
            security=security,
            reconnect_backoff_max_ms=20,
            **IDEMPOTENT,
        )
    assert_all_in_the_log_once_and_in_order(cluster, ran)
    assert any(batch["attempts"] > 1 for batch in ran.batches)
    assert bool(logins.count) == bool(security.sasl)


def test_sessions_that_end_are_renewed_while_records_go_on() -> None:
    logins = Logins(session_ms=200)
    cluster = Cluster({"t": 2}, brokers=1)
    ask_for_logins(cluster, logins)
    with StrictLoopback(cluster, IN_TLS):
        ran = run_fake(
            cluster,
            20_000,
            throughput=500,
            should_stop=lambda: logins.count >= 6,
            security=Security(TLS, SCRAM),
            **IDEMPOTENT,
        )
    assert_all_in_the_log_once_and_in_order(cluster, ran)
    assert logins.count >= 6
    assert len({call.connection for call in cluster.exchanges if call.tried}) == 1
    assert {batch["attempts"] for batch in ran.batches} == {1}
