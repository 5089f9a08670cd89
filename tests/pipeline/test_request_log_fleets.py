"""Fleets as they are: one port for all brokers, several clusters, clocks that differ; its cost."""

import os
import random
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from frames import of_schema
from pyspark.sql import SparkSession
from request_log_lines import analysed_log, log_files, log_lines, request_of

from kipctl.pipeline.period import parse_period
from kipctl.pipeline.redirect_episodes import ATTEMPTS
from kipctl.pipeline.request_lines.rows import Kind
from kipctl.pipeline.request_log import analyse, read_request_log
from kipctl.pipeline.request_log.clocks import clock_differences
from kipctl.pipeline.request_log.document import clocks_of
from kipctl.pipeline.request_log.files import Timezones, text_of
from kipctl.pipeline.request_log.groups import of_kind
from kipctl.pipeline.saving import make_new
from kipctl.report.request_log_tables import request_log_tables

pytestmark = pytest.mark.spark

JOBS = 24
"""Of `analyze request-log` of a small log with all tables; one is to join what is asked for after a
refusal to it, for findings, and one computes Metadata requests for the three tables of them."""
STAMP = "%Y-%m-%d %H:%M:%S,%f"


@pytest.fixture
def plain(spark: SparkSession) -> dict[str, Any]:
    """What the logs of a lab say, whose brokers have a port each."""
    return analysed_log(spark, "kafka-4.3.1").document


def test_a_small_log_takes_few_jobs(spark: SparkSession) -> None:
    assert analysed_log(spark, "kafka-4.3.1").jobs <= JOBS


def written(folder: Path, logs: dict[str, list[str]]) -> list[str]:
    """The logs as files, each in a folder of its host."""
    for host, lines in logs.items():
        (folder / host).mkdir(parents=True)
        (folder / host / "request.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [str(folder)]


def of_each_node(change: Callable[[str], str]) -> dict[str, list[str]]:
    lines = log_lines("kafka-4.3.1")
    by_address: dict[str, list[str]] = {}
    for line in lines:
        address = request_of(line)["connection"].split("-")[0]
        by_address.setdefault(address.replace(":", "-"), []).append(change(line))
    return by_address


def test_brokers_of_one_port_are_told_by_what_they_accept(
    spark: SparkSession, plain: dict[str, Any], tmp_path: Path
) -> None:
    """Lines have IP addresses, Metadata has names; nothing but leaders tells one from another."""
    [expected] = plain["clusters"]
    numbers = {
        address: row["broker"] for row in expected["brokers"] for address in row["addresses"]
    }
    assert sorted(numbers.values()) == [1, 2, 3]

    def change(line: str) -> str:
        for address, broker in numbers.items():
            port = address.rpartition(":")[2]
            line = line.replace(f'"connection":"{address}-', f'"connection":"10.0.0.{broker}:9092-')
            named = f'"host":"127.0.0.1","port":{port}'
            line = line.replace(named, f'"host":"b{broker}.example","port":9092')
        return line

    log = read_request_log(spark, written(tmp_path, of_each_node(change)))
    [cluster] = analyse(log)["clusters"]
    assert [row["addresses"] for row in cluster["brokers"]] == [
        [f"10.0.0.{broker}:9092"] for broker in (1, 2, 3)
    ]
    assert cluster["requests_of_unknown_brokers"] == {}
    for table in ("reads", "clients", "apis", "produce_not_leader", "fetch_errors_by_reader"):
        assert cluster[table] == expected[table]
    for row, other in zip(cluster["fleet"], expected["fleet"], strict=True):
        for name in ("wait_ms", "verdict", "rack_bytes", "not_leader"):
            assert row[name] == other[name]


def test_clusters_are_told_apart(
    spark: SparkSession, plain: dict[str, Any], tmp_path: Path
) -> None:
    names = ("kafka-3.6.2", "kafka-4.3.1")
    log = read_request_log(spark, [str(path) for name in names for path in log_files(name)])
    make_new(spark, str(tmp_path / "saved"))
    document = analyse(log, save_to=str(tmp_path / "saved"))
    # Controllers answer no Metadata: of two clusters, nothing tells whose they are.
    by_id = {cluster["cluster_id"]: cluster for cluster in document["clusters"]}
    assert len(by_id) == 3
    assert by_id[None]["brokers"] == []
    [expected] = plain["clusters"]
    cluster = by_id[expected["cluster_id"]]
    for name in ("reads", "produce_not_leader", "brokers"):
        assert cluster[name] == expected[name]
    for row, other in zip(cluster["fleet"], expected["fleet"], strict=True):
        for name in ("software", "wait_ms", "not_leader", "verdict", "rack_bytes"):
            assert row[name] == other[name]
    every = {
        cluster["cluster_id"]: sum(row["requests"] for row in cluster["apis"])
        for cluster in document["clusters"]
    }
    assert sum(every.values()) == document["lines"]["parsed"]
    for table in request_log_tables(document)[1:]:
        assert table.titles[0] == "cluster"
        assert {row[0] for row in table.rows} <= {name or "unknown" for name in every}
    assert "cluster" not in {table.titles[0] for table in request_log_tables(plain)}
    saved = pq.read_table(tmp_path / "saved" / "clients").to_pylist()
    counted = dict.fromkeys(every, 0)
    for row in saved:
        counted[row["cluster"]] += row["requests"]
    assert counted == every
    fleet = pq.read_table(tmp_path / "saved" / "fleet").to_pylist()
    assert sum(row["not_leader_total"] for row in fleet) == sum(
        row["not_leader"]["total"] for cluster in document["clusters"] for row in cluster["fleet"]
    )
    assert all(
        re.fullmatch(r"\w+ [\d, ]+(; \w+ [\d, ]+)*", row["requests_by_api"]) for row in fleet
    )


def later(line: str, by: timedelta) -> str:
    moved = datetime.strptime(f"{line[1:24]}000", STAMP) + by
    return f"[{moved.strftime(STAMP)[:-3]}{line[24:]}"


def test_clocks_of_one_machine_do_not_differ(plain: dict[str, Any]) -> None:
    [cluster] = plain["clusters"]
    assert [row["differ_at_least_ms"] for row in cluster["clocks"]] == [0] * len(cluster["clocks"])


def moves(ahead_us: dict[int, int], choose: random.Random) -> Iterator[dict[str, Any]]:
    """Attempts of clients that are refused by one broker and go on to another one, at times by the
    brokers' own clocks; and of some that were there before they were refused."""
    for number in range(200):
        refuser, leader = choose.sample([1, 2, 3], 2)
        at_us = 60_000_000 * number
        delay_us = -200_000 if number % 10 == 9 else choose.choice([2_000, 20_000, 100_000])
        for broker, us, error in ((refuser, at_us, 6), (leader, at_us + delay_us, 0)):
            sent_us = us + ahead_us[broker]
            yield {
                "client": f"c{number}",
                "connection": f"{number}-{broker}",
                "broker": broker,
                "sent_us": sent_us,
                "received_us": sent_us + 500,
                "error": error,
            }


def test_clocks_that_differ_are_told_of(spark: SparkSession) -> None:
    """By so many milliseconds that of broker 2 is ahead, each in a cluster of its own."""
    every = {"equal": 0, "ahead": 40, "behind": -300}
    rows = [
        row | {"cluster": cluster}
        for cluster, ahead_ms in every.items()
        for row in moves({1: 0, 2: 1000 * ahead_ms, 3: 0}, random.Random(3))
    ]
    differences = clock_differences(of_schema(spark, ATTEMPTS, rows, api_key=0)).collect()
    for cluster, ahead_ms in every.items():
        clocks = clocks_of([row.asDict() for row in differences if row.cluster == cluster])
        assert [(row["broker"], row["other"]) for row in clocks] == [(1, 2), (1, 3), (2, 3)]
        for row in clocks:
            ahead = {(1, 2): ahead_ms, (1, 3): 0, (2, 3): -ahead_ms}[row["broker"], row["other"]]
            assert row["other_ahead_at_least_ms"] <= ahead <= row["other_ahead_at_most_ms"]
            assert max(0, abs(ahead) - 25) <= row["differ_at_least_ms"] <= abs(ahead)


def test_zones_of_paths_and_files_that_ended_before(spark: SparkSession, tmp_path: Path) -> None:
    lines = log_lines("kafka-4.3.1")
    # Files of the same requests at the same time would be copies.
    others = [line.replace('"clientId":"', '"clientId":"b-', 1) for line in lines[:40]]
    logs = {"a": lines[:40], "b": [later(line, timedelta(hours=1)) for line in others]}
    [folder] = written(tmp_path / "logs", logs)
    zones = Timezones("UTC", ((f"{folder}/b", "Europe/Berlin"),))
    times: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    log = read_request_log(spark, [folder], zones)
    for row in of_kind(log.rows, Kind.PARSED).sort("first_us", "connection").collect():
        times[row.file.rsplit("/", 2)[1]].append((row.first_us, row.last_us))
    assert times["a"] == times["b"]
    # Of a file that was last written to before the period, nothing is read.
    old = tmp_path / "logs" / "b" / "request.log"
    moment = datetime.fromisoformat("2026-11-21T09:00:00+00:00").timestamp()
    os.utime(old, (moment, moment))
    period = parse_period("2026-11-21T10:30:00", None)
    read = text_of(spark, [folder], period).select("file").distinct().collect()
    assert [row.file.rsplit("/", 2)[1] for row in read] == ["a"]
