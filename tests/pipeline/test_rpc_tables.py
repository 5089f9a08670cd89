"""Requests counted by what sent and answered them; the causes of Metadata requests."""

import random
from typing import Any

import numpy as np
import pytest
from frames import Row, frame, of_schema, part_of, rows_by
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType
from rows import rows_of

from kipctl.measure.client_totals import met_in
from kipctl.measure.distribution import distribution
from kipctl.pipeline.columns import API_NAMES, api_name, error_name, nearest_rank
from kipctl.pipeline.rpcs import metadata_table, rpc_table, with_inferred_causes
from kipctl.protocol.api import ApiKey
from kipctl.trace.codes import MetadataCause

KEYS = (
    *("run", "arm", "client", "software_name", "software_version", "broker"),
    *("api", "api_version", "cause"),
)

pytestmark = pytest.mark.spark

ANSWERED: Row = {"api_key": 3, "received_us": 10**9, "error": 0, "topics": 1}
TOLD = StructType(
    [
        StructField("run", StringType()),
        StructField("client", StringType()),
        StructField("time_us", LongType()),
    ]
)


def sent(at_us: int, **more: Any) -> Row:
    return {"sent_us": at_us, **more}


def test_the_names_of_apis_are_kafkas_own() -> None:
    kio = pytest.importorskip("kio.index")
    known = {key: kio._name_from_key(key).upper() for key in kio.api_key_map}
    assert {key: API_NAMES[key] for key in known} == known
    assert {key.value: key.name for key in ApiKey}.items() <= API_NAMES.items()


def test_codes_that_are_newer_than_kipctl_are_named_by_their_number(spark: SparkSession) -> None:
    codes = spark.createDataFrame([(0,), (3,), (999,), (None,)], "code int")
    rows = codes.select(api_name("code").alias("api"), error_name("code").alias("error")).collect()
    assert [tuple(row) for row in rows] == [
        ("PRODUCE", "NONE"),
        ("METADATA", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("API 999", "UNKNOWN_ERROR_999"),
        (None, None),
    ]


def test_quantiles_are_the_nearest_rank_of_the_live_summary(spark: SparkSession) -> None:
    choose = random.Random(5)
    values = [(size, choose.randrange(40)) for size in range(1, 220) for _ in range(size)]
    frame_of_values = spark.createDataFrame(values, "size int, value bigint")
    quantiles = (0.5, 0.95, 0.99, 0.999)
    table = frame_of_values.groupBy("size").agg(
        *(nearest_rank("value", q).alias(str(q)) for q in quantiles)
    )
    for size, row in rows_by(table, "size").items():
        of_size = np.array([value for group, value in values if group == size])
        spread = distribution([(of_size, np.ones(size, np.int64))])
        assert row == {str(q): spread.quantile(q) for q in quantiles}, size


def test_requests_are_counted_by_who_sent_and_answered_them(spark: SparkSession) -> None:
    rows = [
        sent(at, received_us=at + took, error=0, request_bytes=100, critical=is_critical)
        for at, took, is_critical in ((0, 10, True), (5, 30, False), (9, 20, False))
    ]
    rows.append(sent(20, received_us=60, error=6, response_bytes=7))
    rows.append(sent(30, error=13, request_bytes=1))
    rows.append(sent(30, error=0, broker=2))
    common = {"api_key": 0, "api_version": 13, "broker": 1, "software_name": "kipctl"}
    common |= {"software_version": "1", "cause": None}
    by_broker = rows_by(rpc_table(frame(spark, "rpcs", rows, **common), KEYS), "broker")
    whose = {"run": "r", "arm": "kip951", "client": "c", "api": "PRODUCE"}
    assert by_broker[1] == whose | {name: common[name] for name in common if name != "broker"} | {
        "requests": 5,
        "errors": 2,
        "unanswered": 1,
        "request_bytes": 301,
        "response_bytes": 7,
        "p50_us": 20,
        "p99_us": 40,
        "critical": 1,
    }
    expected = {"requests": 1, "errors": 0, "unanswered": 1, "request_bytes": 0, "p50_us": None}
    assert part_of(by_broker[2], expected) == expected


def test_metadata_by_cause_is_that_of_the_live_summary(spark: SparkSession) -> None:
    choose = random.Random(2)
    raw: list[dict[str, int]] = [
        {
            "api_key": choose.choice([0, 3, 3]),
            "request_bytes": choose.randrange(100),
            "response_bytes": choose.randrange(1000),
            "cause": choose.randrange(len(MetadataCause)),
            "critical": choose.randrange(2),
            "error": choose.choice([0, 0, 5]),
        }
        for _ in range(300)
    ]
    live = met_in(rows_of("redirects"), rows_of("rpcs", *raw)).metadata_rpcs
    traced = [
        row
        | {
            "cause": MetadataCause(row["cause"]).name.lower() if row["api_key"] == 3 else None,
            "critical": bool(row["critical"]),
        }
        for row in raw
    ]
    by_cause = rows_by(metadata_table(frame(spark, "rpcs", traced)), "cause")
    assert {cause: row["requests"] for cause, row in by_cause.items()} == live["by_cause"]
    assert sum(row["requests"] for row in by_cause.values()) == live["total"]
    assert sum(row["critical"] for row in by_cause.values()) == live["on_critical_path"]
    assert sum(row["bytes"] for row in by_cause.values()) == live["bytes"]


S = 1_000_000
UNCAUSED = ["unexplained"]
SEQUENCES: dict[str, tuple[list[Row], list[int], list[str]]] = {
    "the first, then by age": (
        [sent(1), sent(300 * S), sent(600 * S)],
        [],
        ["start", "max_age", "max_age"],
    ),
    "as often as before": (
        [sent(10 * S), sent(20 * S), sent(30 * S), sent(50 * S), sent(55 * S)],
        [],
        ["start", "max_age", "max_age", "unexplained", "unexplained"],
    ),
    "too often for a renewal": ([sent(at * S) for at in range(3)], [], ["start"] + 2 * UNCAUSED),
    "told of another leader": (
        [sent(10 * S), sent(20 * S), sent(30 * S)],
        [5 * S, 20 * S],
        ["leader_change", "leader_change", "max_age"],
    ),
    "told while the one before was under way": (
        [sent(10, received_us=100), sent(110)],
        [50],
        ["start", "leader_change"],
    ),
    "the one before failed": (
        [sent(10, error=5), sent(20), sent(30)],
        [],
        ["start", "error_retry", *UNCAUSED],
    ),
    "the one before was never answered": (
        [sent(10, received_us=None, error=13), sent(20)],
        [],
        ["start", "error_retry"],
    ),
    "a connection was lost": (
        [sent(10), sent(15, api_key=0, received_us=None, error=13), sent(20), sent(30)],
        [],
        ["start", "error_retry", *UNCAUSED],
    ),
    "acks=0 has no answer, and is not lost": (
        [sent(10), sent(15, api_key=0, received_us=None, error=0), sent(20)],
        [],
        ["start", *UNCAUSED],
    ),
    "more topics than ever": (
        [sent(at, topics=count) for at, count in ((10, 2), (20, 3), (30, 1), (40, 3), (50, None))],
        [],
        ["start", "new_topic", *(3 * UNCAUSED)],
    ),
    "the source's own word is kept": (
        [sent(10, cause="max_age"), sent(20, cause="idle_eviction")],
        [15],
        ["max_age", "idle_eviction"],
    ),
}
"""Requests (Metadata if not said otherwise), moments of leader errors; the causes expected."""


def in_turn(rpcs: DataFrame) -> dict[str, list[Any]]:
    """The causes of each client's Metadata requests, in the order of sending."""
    asked = rpcs.filter("api_key = 3").orderBy("client", "sent_us").select("client", "cause")
    causes: dict[str, list[Any]] = {}
    for client, cause in asked.collect():
        causes.setdefault(client, []).append(cause)
    return causes


def test_causes_follow_from_the_sequence_of_one_clients_requests(spark: SparkSession) -> None:
    rows = [
        {"client": name, **row} for name, (requests, _, _) in SEQUENCES.items() for row in requests
    ]
    random.Random(3).shuffle(rows)
    told = [
        {"client": name, "time_us": at}
        for name, (_, errors, _) in SEQUENCES.items()
        for at in errors
    ]
    rpcs = frame(spark, "rpcs", rows, **ANSWERED)
    caused = with_inferred_causes(rpcs, of_schema(spark, TOLD, told))
    assert in_turn(caused) == {name: causes for name, (_, _, causes) in SEQUENCES.items()}
    assert caused.columns == rpcs.columns
    others = caused.filter("api_key = 0").select("sent_us", "cause").collect()
    assert [tuple(row) for row in others] == [(15, None), (15, None)]


def test_new_topics_are_taken_from_a_source_that_tells_them(spark: SparkSession) -> None:
    rows = [sent(10, topics=4), sent(20, topics=1), sent(30, topics=6)]
    rpcs = frame(spark, "rpcs", rows, **ANSWERED).withColumn(
        "new_topics", F.expr("if(sent_us = 20, 1, 0)")
    )
    caused = with_inferred_causes(rpcs, of_schema(spark, TOLD, []))
    assert in_turn(caused) == {"c": ["start", "new_topic", "unexplained"]}


def test_a_client_that_was_there_before_the_log_is_no_start(spark: SparkSession) -> None:
    """What it asks for first need not be new to it; a leader error is a cause all the same."""
    rows = [
        {"client": client, **sent(at, topics=count)}
        for client in ("known", "refused")
        for at, count in ((20, 1), (30, 2))
    ]
    rpcs = frame(spark, "rpcs", rows, **ANSWERED).withColumn("is_start", F.lit(False))
    told = of_schema(spark, TOLD, [{"client": "refused", "time_us": 15}])
    assert in_turn(with_inferred_causes(rpcs, told)) == {
        "known": ["first_seen", "first_seen"],
        "refused": ["leader_change", "first_seen"],
    }


def test_clients_may_be_told_apart_by_more_than_their_name(spark: SparkSession) -> None:
    """Every Java producer is called producer-1 unless its user names it."""
    rows = [sent(10, connection=1), sent(20, connection=2)]
    rpcs = frame(spark, "rpcs", rows, **ANSWERED)
    told = of_schema(spark, TOLD, [{"time_us": 15}]).withColumn("connection", F.lit(1))
    caused = with_inferred_causes(rpcs, told, ("run", "client", "connection"))
    assert in_turn(caused) == {"c": ["start", "start"]}
