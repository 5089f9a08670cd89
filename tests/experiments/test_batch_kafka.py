"""`kipctl experiment batch` on real brokers, small."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from no_own_topics import await_no_own_topics

from kipctl.experiments.batch import plan
from kipctl.lab.cluster import Lab
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


def test_batches_of_two_sizes_are_measured_and_recorded(
    lab: Lab,
    experiment: Callable[[str], dict[str, Any]],
    plans_have: Callable[..., None],
    tmp_path: Path,
) -> None:
    plans_have(plan, "BatchPlan", settle_s=0.5, broker_warmup_s=0.1)
    told = experiment(
        "batch --quick --batches 2,all --partitions 6 --runs 1 --rotations 2 --throughput 100"
        " --record sizes"
    )
    assert [(arm["batch"], arm["batches"]) for arm in told["arms"]] == [(2, 3), (6, 1)]
    for arm in told["arms"]:
        assert arm["rotations"] == 2
        assert arm["rotation_ms"] > 0
        assert arm["latency_ms_of_runs"]["p99"] >= arm["latency_ms_of_runs"]["p50"] > 0
        assert arm["moves"]["met"] <= 12  # who hears of a move before it sends meets none
        assert arm["records_failed"] == 0
    assert {row["verdict"].partition(":")[0] for row in told["differences"]} == {"cannot be told"}
    recorded = {path.name: Run(path) for path in tmp_path.iterdir()}
    assert set(recorded) == {"sizes-batch-2.1", "sizes-batch-6.1"}
    of_one = recorded["sizes-batch-2.1"].description
    assert (of_one["command"], of_one["batch"]) == ("perf produce", 2)
    assert "stopped" not in of_one  # it came to the end that was planned
    assert [action["partitions"] for action in of_one["summary"]["actions"]] == [6, 6]
    with Cluster(lab.access) as cluster:
        await_no_own_topics(cluster)
