"""What follows from a request log's lines besides counts: attempts, Metadata's causes and sizes."""

import json
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType
from request_log_lines import analysed_log

from kipctl.pipeline.redirect_episodes import ATTEMPTS, episodes
from kipctl.pipeline.request_log import RequestLog
from kipctl.pipeline.request_log.accepted_produce import leaders_of, with_leader
from kipctl.pipeline.request_log.bodies import METADATA
from kipctl.pipeline.request_log.callers import with_caller
from kipctl.pipeline.request_log.metadata import metadata_requests
from kipctl.pipeline.request_log.redirected import attempts, files_within
from kipctl.pipeline.request_log.sizes import metadata_response_bytes
from kipctl.pipeline.request_log.summary import SLOT_US, Span, has_leader_error
from kipctl.protocol.api import ApiKey
from kipctl.protocol.message import encode
from kipctl.protocol.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def log(spark: SparkSession) -> RequestLog:
    return analysed_log(spark, "kafka-4.3.1").log


def test_attempts_after_a_refusal(log: RequestLog) -> None:
    refused = log.calls.filter(has_leader_error()).select("client", "host").collect()
    assert log.refusals == len(refused)
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


def test_only_files_of_the_time_of_a_refusal_are_read_again() -> None:
    at = 1000 * SLOT_US
    spans = {
        "before": Span(at - 5 * SLOT_US, at - 1),
        "then": Span(at - SLOT_US, at),
        "in the slot after it": Span(at + 2 * SLOT_US - 1, at + 9 * SLOT_US),
        "later": Span(at + 2 * SLOT_US, at + 9 * SLOT_US),
        "of all the time": Span(0, at + 9 * SLOT_US),
    }
    assert files_within(spans, [1000]) == ["in the slot after it", "of all the time", "then"]
    assert files_within(spans, []) == []


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
    assert {client for client, of in causes.items() if "leader_change" in of} <= refused
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
    found = with_caller(calls, [1, 2]).select("connection", "origin").distinct().collect()
    assert {(row.connection, row.origin) for row in found} == {
        ("client", "client"),
        ("broker", "broker"),
    }


RESPONSE = MetadataResponse(
    brokers=(
        MetadataResponseBroker(1, "broker-1.example", 9092, "rack-1"),
        MetadataResponseBroker(2, "größer.example", 19092, None),
    ),
    cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
    controller_id=1,
    topics=(
        MetadataResponseTopic(
            name="t" * 130,
            topic_id=UUID(int=7),
            partitions=tuple(
                MetadataResponsePartition(0, index, 1, 4, (1, 2), (1,), (2,))
                for index in range(200)
            ),
        ),
        MetadataResponseTopic(error_code=3, name="gone"),
    ),
)


def test_the_size_of_a_metadata_answer_is_that_of_its_bytes(spark: SparkSession) -> None:
    def answer(version: int) -> dict[str, Any]:
        return {
            "brokers": [
                {"nodeId": b.node_id, "host": b.host, "port": b.port, "rack": b.rack}
                for b in RESPONSE.brokers
            ],
            "clusterId": RESPONSE.cluster_id,
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "replicaNodes": list(p.replica_nodes),
                            "isrNodes": list(p.isr_nodes),
                            "offlineReplicas": list(p.offline_replicas) if version >= 5 else None,
                        }
                        for p in topic.partitions
                    ],
                }
                for topic in RESPONSE.topics
            ],
        }

    versions = range(14)
    schema = spark.createDataFrame([], METADATA).schema["response"].dataType.json()
    frame = spark.createDataFrame(
        [(answer(version), version) for version in versions],
        f"response {_ddl(schema)}, api_version int",
    )
    sizes = frame.select("api_version", metadata_response_bytes().alias("size")).collect()
    header = {version: 9 if version >= 9 else 8 for version in versions}
    """Length, correlation id, tagged fields."""
    assert {row.api_version: row.size for row in sizes} == {
        version: header[version] + len(encode(RESPONSE, version)) for version in versions
    }


def _ddl(schema: str) -> str:
    return StructType.fromJson(json.loads(schema)).simpleString()


def test_leaders_as_they_became_known(spark: SparkSession) -> None:
    def answer(at: int, leader: int, epoch: int) -> tuple[str, int, dict[str, object]]:
        partition = {"partitionIndex": 0, "leaderId": leader, "leaderEpoch": epoch}
        topic = {"name": "t", "topicId": "id of t", "partitions": [partition]}
        return "c", at, {"response": {"topics": [topic]}}

    schema = spark.createDataFrame([], METADATA).schema.json()
    metadata = spark.createDataFrame(
        # A broker that has not heard yet goes on naming leader 1 at 30; -1 is no leader.
        [answer(10, 1, 5), answer(20, 2, 6), answer(30, 1, 5), answer(40, -1, 7), answer(50, 3, 8)],
        f"cluster string, time_us bigint, asked {_ddl(schema)}",
    )
    moments = spark.createDataFrame(
        [("c", name, 0, us) for name in ("id of t", "t") for us in (5, 10, 19, 20, 35, 45, 55)]
        + [("c", "u", 0, 55), ("d", "t", 0, 55)],
        "cluster string, topic string, partition int, time_us bigint",
    )
    rows = with_leader(moments, leaders_of(metadata)).orderBy("cluster", "topic", "time_us")
    named = [None, 1, 1, 2, 2, 2, 3]
    assert [row.leader for row in rows.collect()] == [*named, *named, None, None]
