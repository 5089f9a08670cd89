"""Latency, principals, bytes and Metadata by client, held to a plain reading of the JSON."""

from collections import Counter, defaultdict
from math import ceil
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from request_log_lines import LOGS, analysed_log, log_lines, partitions_of, request_of
from request_log_made import OLD, fetched, logs, produced, shown, warm

from kipctl.documents.analysis import RequestLogAnalysis
from kipctl.pipeline.request_lines.contents import REPLICA
from kipctl.pipeline.request_log import LogQuestion, analyse, read_request_log
from kipctl.pipeline.request_log.traffic import deprecated_counts
from kipctl.pipeline.saving import make_new
from kipctl.report.request_log_answer import request_log_answer
from kipctl.report.request_log_tables import request_log_tables

pytestmark = pytest.mark.spark

TIMES = {
    "total_time_ms": "totalTimeMs",
    "request_queue_time_ms": "requestQueueTimeMs",
    "local_time_ms": "localTimeMs",
    "remote_time_ms": "remoteTimeMs",
    "throttle_time_ms": "throttleTimeMs",
    "response_queue_time_ms": "responseQueueTimeMs",
    "send_time_ms": "sendTimeMs",
}
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "max": 1.0}
Requests = list[dict[str, Any]]


@pytest.fixture(params=LOGS)
def read(request: pytest.FixtureRequest, spark: SparkSession) -> tuple[Requests, dict[str, Any]]:
    """The requests of a log, and what its document says of the only cluster."""
    [cluster] = analysed_log(spark, request.param).document["clusters"]
    return [request_of(line) for line in log_lines(request.param)], cluster


def quantiles(milliseconds: list[float]) -> dict[str, float]:
    """Nearest ranks, of microseconds to ten significant bits."""
    us = sorted(round(1000 * ms) for ms in milliseconds)
    ranks = {}
    for name, q in QUANTILES.items():
        value = us[ceil(round(q * len(us), 6)) - 1]
        shift = max(0, value.bit_length() - 10)
        ranks[name] = (value >> shift << shift) / 1000
    return ranks


def test_latency_is_that_of_a_plain_sort(read: tuple[Requests, dict[str, Any]]) -> None:
    requests, cluster = read
    broker_at = {
        address: row["broker"] for row in cluster["brokers"] for address in row["addresses"]
    }
    groups: dict[str, dict[tuple[Any, ...], Requests]] = {
        name: defaultdict(list) for name in ("by_api", "by_broker", "by_client")
    }
    for request in requests:
        api = request["requestHeader"]["requestApiKey"]
        client = request["requestHeader"]["clientId"]
        is_follower = api == 1 and bool(REPLICA.fullmatch(client))
        groups["by_api"][api, is_follower].append(request)
        broker = broker_at.get(request["connection"].split("-")[0])
        groups["by_broker"][broker, api, is_follower].append(request)
        if not is_follower:
            groups["by_client"][client, api, False].append(request)
    for name, keys in (("by_api", ()), ("by_broker", ("broker",)), ("by_client", ("client_id",))):
        rows = cluster[f"latency_{name}"]
        assert [row["requests"] for row in rows] == sorted(
            (row["requests"] for row in rows), reverse=True
        )
        latencies = {
            tuple(row[key] for key in (*keys, "api_key", "is_follower")): {
                time: row[time] for time in TIMES
            }
            for row in rows
        }
        assert latencies == {
            key: {time: quantiles([line[field] for line in group]) for time, field in TIMES.items()}
            for key, group in groups[name].items()
        }
        assert all(row["api"] for row in rows)


def test_principals_and_listeners(read: tuple[Requests, dict[str, Any]]) -> None:
    requests, cluster = read
    plain = Counter(map(itemgetter("principal", "listener", "securityProtocol"), requests))
    counts: Counter[tuple[str, str, str]] = Counter()
    connections = 0
    for row in cluster["principals"]:
        counts[row["principal"], row["listener"], row["security_protocol"]] += row["requests"]
        connections += row["connections"]
    assert counts == plain
    assert connections >= len({request["connection"] for request in requests})


def test_bytes_by_client(read: tuple[Requests, dict[str, Any]]) -> None:
    requests, cluster = read
    origins = {row["client_id"]: row["origin"] for row in cluster["clients"]}
    plain: Counter[tuple[str, str]] = Counter()
    for request in requests:
        api = request["requestHeader"]["requestApiKey"]
        client = request["requestHeader"]["clientId"]
        if origins[client] != "client":
            continue
        if api == 0:
            for topic in request["request"]["topicData"]:
                for partition in topic["partitionData"]:
                    plain[client, "produced_bytes"] += partition["recordsSizeInBytes"]
        if api == 1:
            plain[client, "fetched_bytes"] += sum(
                partition["recordsSizeInBytes"] for partition in partitions_of(request)
            )
    sizes: Counter[tuple[str, str]] = Counter()
    for row in cluster["talkers"]:
        for name in ("produced_bytes", "fetched_bytes"):
            sizes[row["client_id"], name] += row[name]
    assert +sizes == +plain
    reads: Counter[str | None] = Counter()
    for row in cluster["reads"]:
        reads[row["client_rack"]] += row["bytes"]
    named: Counter[str | None] = Counter()
    for row in cluster["talkers"]:
        if row["rack"] is not None:
            named[row["rack"]] += row["fetched_bytes"]
    assert +reads == +named


def test_metadata_by_client(read: tuple[Requests, dict[str, Any]]) -> None:
    _, cluster = read
    rows = cluster["metadata_clients"]
    clients = [row for row in rows if not row["is_kipctl"]]
    assert sum(row["requests"] for row in clients) == cluster["metadata"]["requests"]
    assert sum(row["response_bytes"] for row in clients) == cluster["metadata"]["response_bytes"]
    causes: Counter[str] = Counter()
    for row in rows:
        causes.update({} if row["is_kipctl"] else row["by_cause"])
        assert row["unexplained"] == row["by_cause"].get("unexplained", 0)
        assert sum(row["by_cause"].values()) == row["requests"]
    assert causes == cluster["metadata"]["by_cause"]
    assert [row["is_kipctl"] for row in rows] == sorted(row["is_kipctl"] for row in rows)
    others = [row["per_minute"] for row in rows if not row["is_kipctl"]]
    assert others == sorted(others, reverse=True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved") / "tables"


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, saved: Path, tmp_path_factory: pytest.TempPathFactory
) -> RequestLogAnalysis:
    """Of a minute: consumers of broker 1, a client from before Kafka 2.1, and kipctl, of which some
    connections do not say that they are; its document."""
    lines = [
        *warm(60_000),
        fetched(1, 1000, "nowhere", 900),
        fetched(1, 2000, "near", 5000, "az-1"),
        fetched(1, 3000, "far", 600, "az-2"),
        fetched(1, 4000, "typo", 90, "az2"),
        *(produced(1, 5000 + number, "old", software=OLD) for number in range(3)),
        *(shown(1, 7000 + 14 * n, "kipctl", software=("unknown", "unknown")) for n in range(80)),
        fetched(1, 9000, "kipctl-perf-consumer", 800, software=("kipctl", "0.2.0")),
    ]
    make_new(spark, str(saved))
    log = read_request_log(spark, logs(tmp_path_factory.mktemp("made"), lines))
    return analyse(log, LogQuestion(price_per_gb=100.0), str(saved))


def test_what_crosses_racks_and_what_it_costs(made: RequestLogAnalysis) -> None:
    assert made["price_per_gb"] == 100.0
    [cluster] = made["clusters"]
    *rows, own = cluster["talkers"]
    assert own["client_id"] == "kipctl-perf-consumer"
    by_client = {row["client_id"]: row for row in rows if row["fetched_bytes"]}
    # Who names none of the three racks may be in any of them.
    across = {"nowhere": 600, "near": 0, "far": 600, "typo": 60}
    assert {client: row["cross_rack_bytes"] for client, row in by_client.items()} == across
    assert next(iter(by_client)) == "nowhere"
    of_a_month = {client: size / 60 * 30 * 86400 / 1e9 * 100 for client, size in across.items()}
    assert {client: row["price_of_30_days"] for client, row in by_client.items()} == pytest.approx(
        of_a_month
    )
    assert cluster["rackless_reads"] == {
        "client_count": 1,
        "fetched_bytes": 900,
        "cross_rack_bytes": 600,
        "price_of_30_days": pytest.approx(of_a_month["nowhere"]),
    }
    assert "1 consumer names no rack" in "\n".join(request_log_answer(made))


def test_what_kipctl_did_itself_stands_apart(made: RequestLogAnalysis) -> None:
    [cluster] = made["clusters"]
    assert cluster["findings"] == []
    assert [(row["client"], row["requests"]) for row in cluster["metadata_clients"]] == [
        ("warm@10.9.9.9", 6),
        ("kipctl@10.9.0.7", 80),
    ]
    assert cluster["metadata"]["requests"] == 6
    assert [row["software"] for row in cluster["fleet"]][-2:] == ["kipctl", "kipctl"]
    *_, counted = request_log_answer(made)
    assert counted == (
        "6 clients are in 94 lines. What they do with leader hints (KIP-951): too old for them:"
        " 5; not known: 1. kipctl's own 81 requests are not among them."
    )


@pytest.mark.parametrize(
    ("api_key", "version", "is_told", "is_refused"),
    [
        (1, 3, False, True),
        (1, 4, False, False),
        (38, 0, False, True),
        (3, 0, False, False),
        (3, 0, True, True),
        (11, 1, True, False),  # of 4.0.0 alone, KAFKA-19444
        (11, 2, True, True),
        (68, 0, False, False),
    ],
)
def test_what_kafka_4_refuses(
    spark: SparkSession, api_key: int, version: int, *, is_told: bool, is_refused: bool
) -> None:
    """Whether the broker is one that says so, from 3.7 on, or not."""
    call = {"api_key": api_key, "api_version": version, "is_deprecated": is_told, "requests": 2}
    names = ("cluster", "client", "api", "software_name", "software_version")
    row = {**dict.fromkeys(names, "a"), **call, "origin": "client"}
    calls = spark.createDataFrame([row, {**row, "origin": "replica"}])
    assert [refused.requests for refused in deprecated_counts(calls).collect()] == [2] * is_refused


def test_who_would_be_refused_by_kafka_4(made: RequestLogAnalysis) -> None:
    [cluster] = made["clusters"]
    assert cluster["deprecated"] == [
        {
            "client_id": "old",
            "software": OLD[0],
            "version": OLD[1],
            "api": "PRODUCE",
            "api_version": 11,
            "requests": 3,
        }
    ]
    said = "\n".join(request_log_answer(made))
    assert "Kafka 4.0 refuses 1 client id" in said
    names = [table.name for table in request_log_tables(made)]  # type: ignore[arg-type]
    assert names.index("deprecated") < names.index("fleet")


def test_what_is_saved(made: RequestLogAnalysis, saved: Path) -> None:
    [cluster] = made["clusters"]
    rows = pq.read_table(saved / "latency_by_client").to_pylist()
    assert [row["total_time_ms_p99"] for row in rows] == [
        row["total_time_ms"]["p99"] for row in cluster["latency_by_client"]
    ]
    assert pq.read_table(saved / "talkers").num_rows == len(cluster["talkers"])
