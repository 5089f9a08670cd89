"""A request log as frames of a trace: held to the JSON of the lines, and to what rules say."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from request_log_lines import (
    LOGS,
    log_files,
    log_lines,
    partitions_of,
    request_of,
)

from kipctl.pipeline.episodes import ATTEMPTS, episodes
from kipctl.pipeline.inputs import spark_schema
from kipctl.pipeline.request_log import RequestLog, read_request_log
from kipctl.pipeline.request_log.bodies import METADATA
from kipctl.pipeline.request_log.cluster import Brokers, host_of, leaders_of, with_leader
from kipctl.pipeline.request_log.frames import (
    attempts,
    metadata_rpcs,
    reads,
    redirects,
    refusals,
    rpcs,
    told,
)
from kipctl.pipeline.request_log.sizes import metadata_response_bytes
from kipctl.protocol.message import encode
from kipctl.protocol.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", params=LOGS)
def named_log(request: pytest.FixtureRequest, spark: SparkSession) -> tuple[str, RequestLog]:
    """A log of each kind, and its name."""
    return request.param, read_request_log(spark, [str(path) for path in log_files(request.param)])


@pytest.fixture(scope="module")
def log(spark: SparkSession) -> RequestLog:
    return read_request_log(spark, [str(path) for path in log_files("kafka-4.3.1")])


def test_rpcs_are_the_requests_of_clients(named_log: tuple[str, RequestLog]) -> None:
    name, log = named_log
    rows = rpcs(log).collect()
    requests = [request_of(line) for line in log_lines(name)]
    expected = Counter(
        (header["requestApiKey"], header["requestApiVersion"], header["clientId"])
        for request in requests
        for header in [request["requestHeader"]]
    )
    counted = Counter((row.api_key, row.api_version, row.client) for row in rows)
    brokers_own = expected - counted
    assert not counted - expected
    ids = {client for _, _, client in brokers_own}
    assert ids <= {
        *("1", "2", "3", "101"),
        *(f"raft-client-{n}" for n in (1, 2, 3)),
        *(f"broker-{n}-fetcher-0" for n in (1, 2, 3)),
        *(f"broker-{n}-txn-marker-sender" for n in (1, 2, 3)),
        *(f"AddPartitionsManager-client-{n}" for n in (1, 2, 3)),
    }
    unanswered = [row for row in rows if row.received_us is None]
    acks_0 = [r for r in requests if r["requestHeader"]["requestApiKey"] == 0 and not r["response"]]
    assert len(unanswered) == len(acks_0)
    assert (name == "transactions-4.3.1") == bool(acks_0)
    schema = spark_schema("rpcs")
    assert rpcs(log).columns == ["run", "arm", *schema.names]
    assert [field.dataType for field in rpcs(log).schema][2:] == [f.dataType for f in schema]


def test_an_rpc_is_timed_by_its_line(log: RequestLog) -> None:
    sent: Counter[tuple[int, int]] = Counter()
    for line in log_lines("kafka-4.3.1"):
        request = request_of(line)
        if request["requestHeader"]["clientId"] == "kp-producer":
            moment = datetime.strptime(f"{line[1:24]}+0000", "%Y-%m-%d %H:%M:%S,%f%z")
            received_us = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            sent[received_us, received_us - round(request["totalTimeMs"] * 1000)] += 1
    rows = rpcs(log).filter(F.col("client") == "kp-producer").collect()
    assert Counter((row.received_us, row.sent_us) for row in rows) == sent
    assert {(row.software_name, row.software_version) for row in rows} == {
        ("kafka-python", "3.0.12")
    }
    assert {(row.arm, row.source) for row in rows} == {("log", "request_log")}


def test_every_refusal_is_told_with_its_hint(named_log: tuple[str, RequestLog]) -> None:
    name, log = named_log
    expected = Counter(
        (
            request["requestHeader"]["requestApiKey"],
            partition.get("index", partition.get("partitionIndex")),
            partition["errorCode"],
            partition.get("baseOffset"),
            partition.get("currentLeader", {}).get("leaderId"),
            partition.get("preferredReadReplica", -1),
        )
        for request in map(request_of, log_lines(name))
        if request["requestHeader"]["requestApiKey"] in (0, 1)
        for partition in partitions_of(request)
        if partition["errorCode"] or partition.get("preferredReadReplica", -1) >= 0
    )
    rows = told(log).filter("partition is not null").collect()
    found = Counter(
        (
            row.api_key,
            row.partition,
            row.error,
            row.base_offset,
            row.hint_leader,
            -1 if row.preferred_read_replica is None else row.preferred_read_replica,
        )
        for row in rows
    )
    assert found == expected
    hosts = {row.hint_endpoint.split(":")[0] for row in rows if row.hint_endpoint}
    assert hosts <= {"127.0.0.1"}
    if name == "kafka-4.3.1":
        assert hosts


def test_topics_have_names(log: RequestLog) -> None:
    """Produce 13 and Fetch 13 give ids; Metadata names them."""
    names = {row.name for row in log.topics.collect()}
    assert {"orders", "payments", "clicks", "kipctl-perf"} <= names
    rows = refusals(told(log)).select("topic").distinct().collect()
    assert {row.topic for row in rows} <= names


def test_redirects_say_what_a_line_can_say(log: RequestLog) -> None:
    rows = redirects(log).collect()
    assert rows
    assert {row.error for row in rows} <= {6, 74}
    assert {row.decision for row in rows if row.hint_leader is None} <= {"absent"}
    assert {row.decision for row in rows if row.hint_leader is not None} == {None}
    assert all(row.from_broker in (1, 2, 3) for row in rows)
    assert any(row.base_offset is not None and row.base_offset >= 0 for row in rows)
    assert redirects(log).columns == ["run", "arm", *spark_schema("redirects").names]


def test_attempts_after_a_refusal(log: RequestLog) -> None:
    refused = refusals(told(log))
    tried = attempts(log, refused)
    assert tried.columns == ATTEMPTS.names
    rows = tried.collect()
    assert {row.client for row in rows} == {
        f"{row.client}@{row.host}" for row in refused.select("client", "host").collect()
    }
    assert sum(row.error in (6, 74) for row in rows) == refused.count()
    ended = episodes(tried).filter("ended_us is not null and client like 'kp-producer%'").collect()
    assert ended
    # Its retry.backoff.ms is 100; the log's clock counts milliseconds.
    assert all(row.wait_us >= 95_000 for row in ended)


def test_reads_are_the_partitions_fetched_by_consumers(named_log: tuple[str, RequestLog]) -> None:
    name, log = named_log
    expected: Counter[tuple[str, str | None, int, int, int]] = Counter()
    for request in map(request_of, log_lines(name)):
        asked = request["request"]
        if request["requestHeader"]["requestApiKey"] == 1 and "replicaState" not in asked:
            for partition in partitions_of(request):
                expected[
                    request["requestHeader"]["clientId"],
                    asked["rackId"] or None,
                    partition["partitionIndex"],
                    partition["recordsSizeInBytes"],
                    partition["errorCode"],
                ] += 1
    rows = reads(log).collect()
    found = Counter((r.client, r.client_rack, r.partition, r.bytes, r.error) for r in rows)
    assert found == expected
    assert {row.broker_rack for row in rows} <= {"rack-1", "rack-2", "rack-3"}
    assert all(
        row.fetch_offset is not None for row in rows if row.software_name != "apache-kafka-java"
    )
    # A follower is where the client was sent by the leader, and in its rack.
    for row in rows:
        if row.preferred_read_replica is not None:
            assert row.bytes == 0
            assert row.preferred_read_replica == int((row.client_rack or "").removeprefix("rack-"))


def test_why_metadata_was_asked_for(log: RequestLog) -> None:
    rows = metadata_rpcs(log, refusals(told(log))).collect()
    causes: dict[str, set[str]] = {}
    first: dict[str, Row] = {}
    for row in sorted(rows, key=lambda r: r.sent_us):
        causes.setdefault(row.client, set()).add(row.cause)
        first.setdefault(row.client, row)
    assert {row.cause for row in first.values()} == {"start"}
    # Only those that were told so ask because a leader moved.
    refused = {row.client for row in refusals(told(log)).select("client").distinct().collect()}
    assert {client for client, of in causes.items() if "leader_change" in of} <= refused
    assert "leader_change" in causes["kp-producer"]
    # It asked for nothing at first, to learn the brokers, then for the topic it produces to.
    assert "new_topic" in causes["kp-producer"]


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


@pytest.mark.parametrize("version", range(14))
def test_the_size_of_a_metadata_answer_is_that_of_its_bytes(
    spark: SparkSession, version: int
) -> None:
    told = {
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
    schema = spark.createDataFrame([], METADATA).schema["response"].dataType.json()
    frame = spark.createDataFrame([(told, version)], f"response {_ddl(schema)}, api_version int")
    header = 9 if version >= 9 else 8  # length, correlation id, tagged fields
    row = frame.select(metadata_response_bytes().alias("size")).first()
    assert row is not None
    assert row.size == header + len(encode(RESPONSE, version))


def _ddl(schema: str) -> str:
    return StructType.fromJson(json.loads(schema)).simpleString()


def test_brokers_are_told_by_the_address_they_were_asked_at(spark: SparkSession) -> None:
    brokers = Brokers(
        {"10.0.0.1:9092": 1, "b2.example:9092": 2, "b3.example:9093": 3},
        {"9093": 3},
        {1: "a"},
        (1, 2, 3),
    )
    frame = spark.createDataFrame(
        [
            ("10.0.0.1:9092-10.0.0.9:50000-0-1",),
            ("10.0.0.2:9092-10.0.0.9:50000-0",),  # a host's name in Metadata, its port no one's
            ("10.0.0.3:9093-10.0.0.9:50000-2-3",),  # likewise, but only one broker has the port
            ("0:0:0:0:0:0:0:1:9093-fe80:0:0:0:0:0:0:2:40000-5",),
            ("nonsense",),
        ],
        "connection string",
    )
    rows = frame.select(
        brokers.of(F.col("connection")).alias("broker"), host_of("connection").alias("host")
    ).collect()
    assert [row.broker for row in rows] == [1, None, 3, 3, None]
    assert [row.host for row in rows] == ["10.0.0.9"] * 3 + ["fe80:0:0:0:0:0:0:2", ""]


def test_leaders_as_they_became_known(spark: SparkSession) -> None:
    def answer(at: int, leader: int, epoch: int) -> tuple[int, dict[str, object]]:
        partition = {"partitionIndex": 0, "leaderId": leader, "leaderEpoch": epoch}
        return at, {"topics": [{"name": "t", "partitions": [partition]}]}

    schema = spark.createDataFrame([], METADATA).schema["response"].dataType.json()
    metadata = spark.createDataFrame(
        # A broker that has not heard yet goes on naming leader 1 at 30; -1 is no leader.
        [answer(10, 1, 5), answer(20, 2, 6), answer(30, 1, 5), answer(40, -1, 7), answer(50, 3, 8)],
        f"received_us bigint, response {_ddl(schema)}",
    )
    moments = spark.createDataFrame(
        [("t", 0, us) for us in (5, 10, 19, 20, 35, 45, 55)] + [("u", 0, 55)],
        "topic string, partition int, time_us bigint",
    )
    rows = with_leader(moments, leaders_of(metadata)).orderBy("topic", "time_us").collect()
    assert [row.leader for row in rows] == [None, 1, 1, 2, 2, 2, 3, None]
