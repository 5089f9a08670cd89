"""`kipctl experiment batch` on real brokers, small."""

import json
import os
from io import StringIO
from pathlib import Path

import pytest
from no_own_topics import await_no_own_topics

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.lab.cluster import Lab
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


def test_batches_of_two_sizes_are_measured_and_recorded(lab: Lab, tmp_path: Path) -> None:
    out, err = StringIO(), StringIO()
    environment = Environment(
        stdin=StringIO(),
        stdout=out,
        stderr=err,
        variables=os.environ | {"KIPCTL_RUNS": str(tmp_path)},
    )
    words = (
        "experiment batch --quick --batches 2,all --partitions 8 --runs 1 --rotations 2"
        f" --record sizes -o json --bootstrap-server {lab.bootstrap_server}"
    )
    assert run(words.split(), environment) == 0, err.getvalue()
    told = json.loads(out.getvalue())
    assert [(one["batch"], one["batches"]) for one in told["arms"]] == [(2, 4), (8, 1)]
    for arm in told["arms"]:
        assert arm["rotations"] == 2
        assert arm["rotation_ms"] > 0
        assert arm["latency_p99_ms"] >= arm["latency_p50_ms"] > 0
        assert arm["moves"]["met"] <= 16  # who hears of a move before it sends meets none
        assert arm["records_failed"] == 0
    assert {one["verdict"].partition(":")[0] for one in told["differences"]} == {"cannot be told"}
    recorded = {path.name: Run(path) for path in tmp_path.iterdir()}
    assert set(recorded) == {"sizes-batch-2.1", "sizes-batch-8.1"}
    of_one = recorded["sizes-batch-2.1"].description
    assert (of_one["command"], of_one["batch"]) == ("perf produce", 2)
    assert "stopped" not in of_one  # it came to the end that was planned
    assert [one["partitions"] for one in of_one["summary"]["actions"]] == [8, 8]
    with Cluster(lab.access) as cluster:
        await_no_own_topics(cluster)
