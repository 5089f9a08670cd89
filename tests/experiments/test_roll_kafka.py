"""`kipctl experiment roll` on real brokers: one of them is restarted, and what is told of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from one_process import in_this_process
from until_met import MANY, UntilOver

from kipctl.cluster.snapshot import take_snapshot
from kipctl.experiments.arms.figures import figures
from kipctl.experiments.roll import plan
from kipctl.lab.cluster import Lab
from kipctl.load import measure
from kipctl.report.experiment_roll_tables import roll_tables
from kipctl.trace.store import Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka


@pytest.fixture
def lab(struck_lab: Lab) -> Lab:
    return struck_lab


def test_a_broker_is_restarted_under_a_producer_and_a_consumer(
    lab: Lab,
    experiment: Callable[[str], dict[str, Any]],
    plans_have: Callable[..., None],
    tmp_path: Path,
) -> None:
    plans_have(plan, "RollPlan", broker_warmup_s=0, warmup_s=1.0)
    words = "--quick --arms probe-kip951 --acks all --partitions 6 --throughput 100"
    with Cluster(lab.bootstrap_server, "test", 10) as cluster:
        elsewhere = {partition.id for partition in take_snapshot(cluster).not_led_by_preferred}
    document = experiment(f"roll {words} --every 3s --record roll")
    [cell] = document["cells"]
    [arm] = cell["arms"]
    [run] = arm["runs"]
    [restart] = run["restarts"]
    times = [restart[f"{step}_ms"] for step in ("called", "away", "started", "in_sync", "elected")]
    assert times == sorted(times)
    assert restart["called_ms"] < restart["ended_ms"] < restart["started_ms"]
    assert restart["elected_ms"] < restart["back_ms"]
    assert restart["leader_count"] == 2
    assert [half["leaders_move"] for half in run["halves"]] == ["away", "back"]
    # Nothing is lost with acks=all, and every record that was acknowledged came.
    assert run["records"]["failed"] == 0
    assert run["records"]["missing"] == 0
    # The leaders' moves are seen by the client: away when the broker ends, and back.
    assert all(half["batches_sent_again"] > 0 for half in run["halves"])
    assert min(arm["latency_ms"]["p50"], arm["acknowledged_ms"]["p50"]) > 0
    assert {row["workload"]["name"] for row in cell["published_rolls"]} == {"low"}

    recorded = Run(tmp_path / "roll-acks-all-partitions-6.probe-kip951.1")
    assert read_stored_run(recorded.folder).flaw == ""
    assert [a["action"] for a in recorded.description["summary"]["actions"]] == [
        "restart:1",
        "elect",
    ]
    assert figures(recorded).acknowledged == run["records"]["acknowledged"]
    titles = [table.title for table in roll_tables(document)]
    assert titles[0].startswith("Read with care")  # 6 partitions are few moves
    assert titles[1].startswith("1 of 3 brokers stopped")
    assert "Restart by restart" in titles

    with Cluster(lab.bootstrap_server, "test", 10) as cluster:
        assert sorted(cluster.nodes) == [1, 2, 3]
        assert {
            partition.id for partition in take_snapshot(cluster).not_led_by_preferred
        } <= elsewhere


def test_a_cluster_that_is_no_lab_is_not_restarted(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    words = f"experiment roll --quick --arms probe-kip951 --bootstrap-server {lab.bootstrap_server}"
    ran = in_this_process(*words.split())
    assert ran.status == 2
    assert "only on a lab" in ran.err


def test_every_acknowledged_record_is_in_the_log_once_through_a_restart(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run whose action a restart is."""
    monkeypatch.setattr(measure, "PlannedActions", UntilOver)
    words = (
        f"perf e2e --num-records {MANY} --throughput 400 --record-size 50 --partitions 4 "
        "--during restart:2 --every 1 --count 1 -o json"
    )
    ran = in_this_process(*words.split(), KIPCTL_BOOTSTRAP_SERVER=lab.bootstrap_server)
    assert ran.status == 0, ran.err
    assert [action["error"] for action in ran.document["actions"]] == [None]
    records = ran.document["records"]
    assert records["acknowledged"] == records["delivered"] == records["sent"] > 0
    assert (records["failed"], records["missing"], records["extra"]) == (0, 0, 0)
