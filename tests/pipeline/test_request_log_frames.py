"""What follows from a request log's lines besides counts: attempts, Metadata's causes."""

import pytest
from pyspark.sql import Row, SparkSession
from request_log_lines import analysed_log

from kipctl.pipeline.redirect_episodes import ATTEMPTS, episodes
from kipctl.pipeline.request_log import RequestLog
from kipctl.pipeline.request_log.accepted_produce import leaders_of, with_leader
from kipctl.pipeline.request_log.callers import with_caller
from kipctl.pipeline.request_log.metadata import metadata_requests
from kipctl.pipeline.request_log.redirected import attempts
from kipctl.pipeline.request_log.summary import has_leader_error
from kipctl.protocol.api import ApiKey

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def log(spark: SparkSession) -> RequestLog:
    return analysed_log(spark, "kafka-4.3.1").log


def test_attempts_after_a_refusal(log: RequestLog) -> None:
    refused = log.calls.filter(has_leader_error()).select("client", "host").collect()
    assert refused
    tried = attempts(log)
    assert tried.columns == ATTEMPTS.names
    rows = tried.collect()
    assert {row.client for row in rows} == {f"{row.client}@{row.host}" for row in refused}
    # Produce 13 and Fetch 13 give ids; Metadata names them, and is among the rows itself.
    assert {row.topic for row in rows if row.api_key != ApiKey.METADATA} <= {
        "orders",
        "payments",
        "clicks",
        "kipctl-perf",
    }
    assert {row.cluster for row in rows} == set(log.nodes)
    assert {row.broker for row in rows} == {1, 2, 3}
    frame = tried.sparkSession.createDataFrame(rows, tried.schema)
    ended = episodes(frame).filter("ended_us is not null and client like 'kp-producer%'").collect()
    assert ended
    # Its retry.backoff.ms is 100; the log's clock counts milliseconds.
    assert all(row.wait_us is None or row.wait_us >= 95_000 for row in ended)


def test_why_metadata_was_asked_for(log: RequestLog) -> None:
    rows = metadata_requests(log.calls).collect()
    causes: dict[str, set[str]] = {}
    first: dict[str, Row] = {}
    for row in sorted(rows, key=lambda r: r.sent_us):
        causes.setdefault(row.client, set()).add(row.cause)
        first.setdefault(row.client, row)
    assert {row.cause for row in first.values()} <= {"start", "first_seen", "leader_change"}
    # Only those that met a leader error ask because a leader moved.
    refused = {
        row.client for row in log.calls.filter(has_leader_error()).select("client").collect()
    }
    assert {client for client, reasons in causes.items() if "leader_change" in reasons} <= refused
    assert "leader_change" in causes["kp-producer"]
    # It asked for nothing at first, to learn the brokers, then for the topic it produces to.
    assert "new_topic" in causes["kp-producer"]


def test_a_client_may_have_a_number_for_a_name(spark: SparkSession) -> None:
    """Where brokers are not known: what asks for Metadata on its connection is no broker."""
    rows = [("client", 18), ("client", 3), ("broker", 18), ("broker", 19)]
    calls = spark.createDataFrame(
        [("c", None, connection, False, "1", api, None) for connection, api in rows],
        "cluster string, broker int, connection string, is_forwarded boolean, client string, "
        "api_key int, software struct<name: string, version: string>",
    )
    callers = with_caller(calls, [1, 2]).select("connection", "origin").distinct().collect()
    assert {(row.connection, row.origin) for row in callers} == {
        ("client", "client"),
        ("broker", "broker"),
    }


def test_leaders_as_they_became_known(spark: SparkSession) -> None:
    def answer(at: int, leader: int, epoch: int) -> tuple[str, int, int, list[dict[str, object]]]:
        partition = {"partition": 0, "hint_leader": leader, "hint_epoch": epoch}
        return "c", 3, at, [{"topic_name": "t", "topic_id": "id of t", **partition}]

    metadata = spark.createDataFrame(
        # A broker that has not heard yet goes on naming leader 1 at 30; -1 is no leader.
        [answer(10, 1, 5), answer(20, 2, 6), answer(30, 1, 5), answer(40, -1, 7), answer(50, 3, 8)],
        "cluster string, api_key int, received_us bigint, partitions array<struct<"
        "topic_name: string, topic_id: string, partition: int, hint_leader: int, hint_epoch: int>>",
    )
    moments = spark.createDataFrame(
        [("c", name, 0, us) for name in ("id of t", "t") for us in (5, 10, 19, 20, 35, 45, 55)]
        + [("c", "u", 0, 55), ("d", "t", 0, 55)],
        "cluster string, topic string, partition int, time_us bigint",
    )
    rows = with_leader(moments, leaders_of(metadata)).orderBy("cluster", "topic", "time_us")
    named = [None, 1, 1, 2, 2, 2, 3]
    assert [row.leader for row in rows.collect()] == [*named, *named, None, None]
