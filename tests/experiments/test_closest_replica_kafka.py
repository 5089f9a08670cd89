"""`experiment closest-replica` on real brokers: a rack's broker serves, goes, and is back."""

from pathlib import Path

import pytest

from kipctl.experiments.arms.names import parse_arms
from kipctl.experiments.arms.stand import Place, stand_at
from kipctl.experiments.closest_replica import experiment
from kipctl.experiments.closest_replica.experiment import ClosestPlan, run_closest
from kipctl.lab.cluster import Lab
from kipctl.report.experiment_replica_tables import replica_tables
from kipctl.trace.stored_runs import read_stored_run

pytestmark = pytest.mark.kafka


@pytest.fixture
def lab(struck_lab: Lab) -> Lab:
    return struck_lab


def test_bytes_come_from_the_own_rack_until_its_broker_goes(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "_ON_THEIR_WAY_US", 500_000)
    plan = ClosestPlan(
        runs=1,
        clients=parse_arms("probe-kip951"),
        rack="rack-2",
        partitions=6,
        throughput=60,
        seconds=2,
        warmup_s=1,
        gone_s=1,
        broker_warmup_s=0.5,
        after_s=5,
    )
    with stand_at(Place(lab.access), plan.clients, lambda _: None) as stand:
        document = run_closest(plan, stand, lambda name: tmp_path / name, lambda _: None)
    [client] = document["clients"]
    leader, closest = client["ways"]["leader"], client["ways"]["closest"]
    assert closest["bytes_by_rack"]["rack-2"] == closest["bytes"]
    assert closest["own_rack_percent"] == 100
    assert client["cross_rack_saved_percent"] == 100
    assert set(leader["bytes_by_rack"]) == {"rack-1", "rack-2", "rack-3"}
    assert leader["missing"] == closest["missing"] == 0

    gone = closest["runs"][0]["outage"]
    assert gone["partitions"] == gone["partitions_back"] == 6
    assert gone["elsewhere_after_ms"]["p50"] > 0
    assert gone["pause_ms"]["max"] >= gone["pause_ms"]["p50"] > 0
    # Leaders alone: what rack-2 led is led elsewhere from then on.
    assert leader["runs"][0]["outage"]["partitions"] == 2
    assert leader["runs"][0]["outage"]["partitions_back"] == 0

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["probe-kip951-closest.1", "probe-kip951-leader.1"]
    assert all(read_stored_run(tmp_path / name).flaw == "" for name in names)
    assert [table.name for table in replica_tables(document)] == ["traffic", "cost", "outage"]
