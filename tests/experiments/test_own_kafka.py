"""`kipctl experiment run` on real brokers, small: a setting, and a program of one's own."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from no_own_topics import await_no_own_topics

from kipctl.lab.cluster import Lab
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka
SENDS = """
import sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1], "sticky.partitioning.linger.ms": 0})
while True:
    producer.produce(sys.argv[2], b"record")
    producer.poll(0.01)
"""


def test_two_arms_are_compared_and_recorded(
    lab: Lab, experiment: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "own.toml"
    command = json.dumps([sys.executable, "-c", SENDS, "{bootstrap}", "{topic}"])
    file.write_text(
        f"""
        title = "a setting"
        measures = ["p50", "p99"]
        [load]
        throughput = 100
        seconds = 6
        partitions = 3
        [during]
        every = 1.0
        [[arm]]
        name = "slow"
        client = "probe-kip951"
        settings = {{ "linger.ms" = 100 }}
        [[arm]]
        name = "mine"
        command = {command}
        """
    )
    told = experiment(f"run {file} --quick --record own")
    slow, mine = told["arms"]
    assert (slow["arm"], slow["client_settings"]) == ("slow", {"linger.ms": "100"})
    assert slow["latency_ms"]["p50"] > 20  # it waits up to 100 ms for more records
    assert slow["rotations"] >= 1
    assert slow["records"]["failed"] == 0
    assert mine["records"]["acknowledged"] > 0
    assert mine["records"]["failed"] is None
    assert [(row["with"], row["measure"]) for row in told["comparisons"]] == [
        ("mine", "p50"),
        ("mine", "p99"),
    ]
    assert {row["verdict"].partition(":")[0] for row in told["comparisons"]} == {"cannot be told"}
    runs = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert {path.name for path in runs} == {"own-slow.1", "own-mine.1"}
    assert [read_stored_run(path).flaw for path in runs] == ["", ""]
    with Cluster(lab.access) as cluster:
        await_no_own_topics(cluster)
