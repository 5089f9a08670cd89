"""The producer on sockets of the operating system, plain, over TLS and with logins: connections
break, sessions end, and nothing is lost."""

import random

import pytest
from fake_broker import FakeCluster, HangUp, Produced
from fake_run import IDEMPOTENT, assert_all_in_the_log_once_and_in_order, run_fake
from secure_peers import PASSWORD, TLS, USER, Logins, loopback, server_context, wrapped

from kipctl.security.sasl import Sasl
from kipctl.security.settings import Security

SCRAM = Sasl("SCRAM-SHA-256", USER, PASSWORD)
IN_TLS = wrapped(server_context(loopback()))


@pytest.mark.parametrize(
    "security",
    [Security(None), Security(TLS), Security(TLS, SCRAM), Security(None, SCRAM)],
    ids=lambda security: security.protocol,
)
def test_connections_that_break_lose_nothing_and_double_nothing(security: Security) -> None:
    chance = random.Random(11)
    logins = Logins()

    def breaks(produced: Produced) -> None:
        if chance.random() < 0.1:
            if chance.random() < 0.5 and cluster.leaders[produced.partition].id == produced.broker:
                cluster.append(produced)  # and its answer is lost
            raise HangUp

    with FakeCluster(
        2,
        4,
        breaks,
        secure=IN_TLS if security.tls else lambda accepted: accepted,
        log_in=logins.answer if security.sasl else lambda connection, asked: None,
    ) as cluster:
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
    with FakeCluster(1, 2, secure=IN_TLS, log_in=logins.answer) as cluster:
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
    assert len({produced.connection for produced in cluster.produced}) == 1
    assert {batch["attempts"] for batch in ran.batches} == {1}
