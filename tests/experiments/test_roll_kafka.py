"""`kipctl experiment roll` on real brokers: one of them is restarted, and what is told of it."""

import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from one_process import OneProcess

from kipctl.cli.app import run
from kipctl.cli.environment import Environment
from kipctl.cluster.snapshot import take_snapshot
from kipctl.experiments.arms.end_to_end_load import CONSUMER, PRODUCER
from kipctl.experiments.arms.figures import figures
from kipctl.lab.cluster import Lab
from kipctl.report.experiment_roll_tables import roll_tables
from kipctl.trace.store import Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


def roll(lab: Lab, runs: Path, words: str) -> dict[str, Any]:
    out, err = StringIO(), StringIO()
    environment = Environment(
        stdin=StringIO(),
        stdout=out,
        stderr=err,
        variables=os.environ | {"KIPCTL_RUNS": str(runs)},
    )
    words = f"experiment roll {words} --output json --bootstrap-server {lab.bootstrap_server}"
    assert run(words.split(), environment) == 0, err.getvalue()
    document: dict[str, Any] = json.loads(out.getvalue())
    return document


def test_a_broker_is_restarted_under_a_producer_and_a_consumer(lab: Lab, tmp_path: Path) -> None:
    words = "--quick --arms probe-kip951 --acks all --partitions 6 --throughput 200"
    with Cluster(lab.bootstrap_server, "test", 10) as cluster:
        elsewhere = {partition.id for partition in take_snapshot(cluster).not_led_by_preferred}
    document = roll(lab, tmp_path, f"{words} --record roll")
    [cell] = document["cells"]
    [arm] = cell["arms"]
    [one] = arm["runs"]
    [restart] = one["restarts"]
    times = [restart[f"{step}_ms"] for step in ("called", "away", "started", "in_sync", "elected")]
    assert times == sorted(times)
    assert restart["called_ms"] < restart["ended_ms"] < restart["started_ms"]
    assert restart["elected_ms"] < restart["back_ms"]
    assert restart["leaders"] == 2
    assert [half["leaders_move"] for half in one["halves"]] == ["away", "back"]
    # Nothing is lost with acks=all, and every record that was acknowledged came.
    assert one["records"]["failed"] == 0
    assert one["records"]["missing"] == 0
    # The leaders' moves are seen by the client: away when the broker ends, and back.
    assert all(half["batches_sent_again"] > 0 for half in one["halves"])
    assert min(arm["end_to_end_ms"]["p50"], arm["produce_ms"]["p50"]) > 0
    assert {row["workload"]["name"] for row in cell["published"]} == {"low"}

    recorded = Run(tmp_path / "roll-acks-all-partitions-6-probe-kip951-1")
    assert read_stored_run(recorded.folder).flaw == ""
    assert [a["action"] for a in recorded.description["summary"]["actions"]] == [
        "restart:1",
        "elect",
    ]
    assert figures(recorded).acknowledged == one["records"]["acknowledged"]
    titles = [table.title for table in roll_tables(document)]
    assert titles[0].startswith("Read with care")  # 6 partitions are few moves
    assert titles[1].startswith("1 of 3 brokers stopped")
    assert "Restart by restart" in titles

    with Cluster(lab.bootstrap_server, "test", 10) as cluster:
        assert sorted(cluster.nodes) == [1, 2, 3]
        assert {
            partition.id for partition in take_snapshot(cluster).not_led_by_preferred
        } <= elsewhere


@pytest.mark.spark
def test_workers_are_one_producer_and_one_consumer(
    lab: Lab, kipctl_again: OneProcess, tmp_path: Path
) -> None:
    words = "--quick --arms probe-kip951 --acks all --partitions 6 --throughput 200 --workers 2"
    ran = kipctl_again(
        *("experiment", "roll", *words.split(), "--record", "roll", "--output", "json"),
        *("--bootstrap-server", lab.bootstrap_server),
        KIPCTL_RUNS=str(tmp_path),
    )
    assert ran.status == 0, ran.err
    [cell] = ran.document["cells"]
    [one] = cell["arms"][0]["runs"]
    assert (one["records"]["failed"], one["records"]["missing"]) == (0, 0)
    assert all(half["batches_sent_again"] > 0 for half in one["halves"])
    assert "producers 2 (6)" in cell["published"][0]["set_up_otherwise"]

    recorded = Run(tmp_path / "roll-acks-all-partitions-6-probe-kip951-1")
    assert read_stored_run(recorded.folder).flaw == ""
    batches, reads = (recorded.read(name) for name in ("batches", "reads"))
    assert set(batches["client"].to_pylist()) == {PRODUCER}
    assert set(reads["client"].to_pylist()) == {CONSUMER}
    for read in (batches, reads):
        assert set(read["partition"].to_pylist()) == set(range(6))
    sent = [row for row in batches.to_pylist() if not row["error"]]
    assert sum(row["records"] for row in sent) == one["records"]["acknowledged"]
    assert one["end_to_end_ms"]["p50"] > 0  # on one clock: none was read before it was sent


def test_a_cluster_that_is_no_lab_is_not_restarted(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    err = StringIO()
    words = f"experiment roll --quick --arms probe-kip951 --bootstrap-server {lab.bootstrap_server}"
    assert run(words.split(), Environment(stdin=StringIO(), stderr=err)) == 2
    assert "only on a lab" in err.getvalue()
