"""One run seen twice: by the probe that made it, and by the brokers' request logs."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kipctl.lab.cluster import Lab
from kipctl.pipeline.request_log import LogQuestion, analyse, read_request_log
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.run import ProduceSpec
from kipctl.protocol.api import ApiKey
from kipctl.protocol.error_codes import ErrorCode
from kipctl.runs.actions import parse_action
from kipctl.runs.execute import Listeners
from kipctl.runs.plan import OWN_TOPIC
from kipctl.runs.produce import PerfPlan, produce

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_requests_errors_hints_and_metadata_are_the_same_counts(
    make_lab: Callable[..., Lab], spark: SparkSession, tmp_path: Path
) -> None:
    lab = make_lab(request_log=True)
    plan = PerfPlan(
        probe=ProduceSpec(
            lab.access,
            OWN_TOPIC,
            num_records=4000,
            throughput=1000,
            config=ProducerConfig(client_id="watched", partitioner="round-robin"),
        ),
        during=parse_action("rotate"),
        every_s=1.2,
        count=2,
        record=tmp_path / "run",
        partitions=30,
    )
    live = produce(plan, Listeners()).document
    # A broker logs a request when it has sent the answer: before the topic was removed, at least.
    logs = [str(node.request_log_path) for node in lab.nodes if node.id < 100]
    document = analyse(read_request_log(spark, logs))
    [read] = document["clusters"]

    assert document["lines"]["broken"] == 0
    rpcs: list[dict[str, Any]] = pq.read_table(tmp_path / "run" / "rpcs").to_pylist()
    [client] = [row for row in read["clients"] if row["client_id"] == "watched"]
    assert (client["software"], client["origin"]) == ("kipctl", "client")
    # The brokers log ApiVersions and InitProducerId too, which the probe's set-up asked for.
    by_api = Counter(ApiKey(rpc["api_key"]).name for rpc in rpcs)
    logged = {row["api"]: row["requests"] for row in _apis_of(spark, logs, "watched")}
    assert logged["PRODUCE"] == by_api["PRODUCE"]
    assert logged["METADATA"] == by_api["METADATA"]

    redirects: list[dict[str, Any]] = pq.read_table(tmp_path / "run" / "redirects").to_pylist()
    refused = [r for r in redirects if r["error"] == ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert refused
    assert read["produce_not_leader"] == {
        "total": len(refused),
        "hinted": sum(r["decision"] != "absent" for r in refused),
        "appended_then_failed": live["redirects"]["appended_then_failed"],
    }
    assert read["fetch_errors_by_reader"]["consumers"] == {}


def _apis_of(spark: SparkSession, logs: list[str], client_id: str) -> list[dict[str, Any]]:
    [read] = analyse(read_request_log(spark, logs), LogQuestion(("client_id",)))["clusters"]
    return [row for row in read["apis"] if row["client_id"] == client_id]
