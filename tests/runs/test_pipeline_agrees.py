"""The summary that is printed at once and the pipeline's tables of the same run are equal."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kipctl.lab.cluster import Lab
from kipctl.pipeline.analysis import Question, analyse_runs
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.protocol.error_codes import error_name
from kipctl.runs.actions import parse_action
from kipctl.runs.e2e import EndToEndPlan, end_to_end
from kipctl.runs.execute import Listeners
from kipctl.runs.plan import OWN_TOPIC
from kipctl.runs.produce import PerfPlan, produce
from kipctl.trace.codes import PHASES

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.mark.parametrize("discovery", [LeaderDiscovery.KIP951, LeaderDiscovery.BASELINE])
def test_live_and_pipeline_agree(
    lab: Lab, spark: SparkSession, tmp_path: Path, discovery: LeaderDiscovery
) -> None:
    plan = PerfPlan(
        probe=ProduceSpec(
            lab.access,
            OWN_TOPIC,
            num_records=6000,
            throughput=1300,  # its interval is no whole number of microseconds
            warmup_records=700,
            discovery=discovery,
            config=ProducerConfig(acks=1, enable_idempotence=False, partitioner="round-robin"),
        ),
        during=parse_action("rotate"),
        every_s=1.2,
        count=2,
        record=tmp_path / "run",
        partitions=30,
    )
    live = produce(plan, Listeners()).document
    read = analyse_runs(spark, [str(tmp_path / "run")], Question(("run",)))

    assert live["redirects"]["errors"] > 0
    [records] = read["records"]
    assert records["acknowledged"] == live["records"]["acknowledged"]
    assert records["failed"] == live["records"]["failed"]
    assert records["records_per_second"] == live["records_per_second"]
    failed = {error_name(row["error"]): row["records"] for row in read["failures"]}
    assert failed == live["records"]["errors"]
    _agree_on_times(live, read)
    _agree_on_redirects(live["redirects"], *read["redirects"])
    _agree_on_moves(live["redirects"]["moves"], *read["moves"])
    _agree_on_metadata(live["metadata_rpcs"], read["metadata"])
    assert [row["called_us"] for row in read["actions"]] == [
        round(action["called_ms"] * 1000) for action in live["actions"]
    ]
    assert sum(row["redirected"] for row in read["actions"]) == live["redirects"]["batches"]


def test_they_agree_on_what_a_consumer_met(lab: Lab, spark: SparkSession, tmp_path: Path) -> None:
    plan = EndToEndPlan(
        PerfPlan(
            probe=ProduceSpec(
                lab.access,
                OWN_TOPIC,
                num_records=3000,
                throughput=600,
                config=ProducerConfig(partitioner="round-robin"),
            ),
            during=parse_action("rotate"),
            every_s=1.2,
            count=3,
            record=tmp_path / "run",
            partitions=12,
        ),
        ConsumerConfig(auto_offset_reset="latest", client_rack="rack-2"),
    )
    live = end_to_end(plan, Listeners()).document
    read = analyse_runs(spark, [str(tmp_path / "run")], Question(("run", "broker")))

    assert live["redirects"]["fetch"]["errors"] > 0
    by_broker = {
        (row["broker"], row["role"]): (row["responses"], row["records"], row["bytes"])
        for row in read["reads"]
    }
    assert by_broker == {
        (row["broker"], row["read_as"]): (row["answers"], row["records"], row["bytes"])
        for row in live["brokers"]
    }
    assert (
        sum(row["named_a_replica"] for row in read["reads"])
        == (live["fetches"]["preferred_replica_named"])
    )
    refused: Counter[str] = Counter()
    for row in read["read_errors"]:
        refused[row["name"]] += row["responses"]
    assert refused == live["fetches"]["errors"]
    for row in read["redirects"]:
        _agree_on_redirects(live["redirects"][row["api"]], row)
    assert [row["api"] for row in read["redirects"]][-1] == "produce"
    for row in read["moves"]:
        _agree_on_moves(live["redirects"][row["api"]]["moves"], row)
    assert [row["api"] for row in read["moves"]] == ["fetch", "produce"]
    redirected = sum(live["redirects"][api]["batches"] for api in ("produce", "fetch"))
    assert sum(row["redirected"] for row in read["actions"]) == redirected
    assert len(read["actions"]) > 1
    for row in read["actions"][:-1]:  # the last may come as the load ends
        assert row["recovery_us"] > 0
        assert row["during_read"] > 0


def _agree_on_times(live: dict[str, Any], read: dict[str, Any]) -> None:
    for row in read["latency"]:
        shown = live[f"{row['time']}_ms"]
        for name in ("p50", "p95", "p99", "p999", "max"):
            assert row[f"{name}_us"] / 1000 == shown[name]
        assert round(row["mean_us"] / 1000, 4) == shown["mean"]
    assert [row["time"] for row in read["latency"]] == ["latency", "service"]


def _agree_on_redirects(live: dict[str, Any], row: dict[str, Any]) -> None:
    assert row["episodes"] == live["batches"]
    for name in ("errors", "appended_then_failed", "same_epoch_retries"):
        assert row[name] == live[name]
    for name, count in live["hints"].items():
        assert row[f"hints_{name}"] == count
    spent = {phase: live["phases_ms"][phase] for phase in PHASES}
    for name, ms in {**spent, "client_share": live["client_share_ms"]}.items():
        for of, value in ms.items():
            assert row[f"{name}_{of}_us"] / 1000 == value, (name, of)


def _agree_on_metadata(live: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    assert {row["cause"]: row["requests"] for row in rows} == live["by_cause"]
    assert sum(row["requests"] for row in rows) == live["total"]
    assert sum(row["critical"] for row in rows) == live["on_critical_path"]
    assert sum(row["bytes"] for row in rows) == live["bytes"]


def _agree_on_moves(live: dict[str, Any], read: dict[str, Any]) -> None:
    assert read["moves"] == live["met"] > 0
    assert read["not_ready"] == live["not_ready"]
    assert {name: read[name] for name in live["by_wait"]} == live["by_wait"]
    for name, ms in live["wait_ms"].items():
        assert read[f"wait_{name}_us"] / 1000 == ms
