"""The demo on real brokers: ways to the new leader differ, with fresh and with stale Metadata."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kipctl.experiments.arms.stand import Place
from kipctl.experiments.demo import DemoPlan, measure_demo
from kipctl.lab.cluster import Lab
from kipctl.report.demo_tables import BASELINE, HINTED, demo_answer, demo_table
from kipctl.trace.stored_runs import read_stored_run

pytestmark = pytest.mark.kafka


def test_the_ways_differ_in_what_the_client_waits_for(lab: Lab, tmp_path: Path) -> None:
    usual = DemoPlan.usual()
    small = {"runs": 1, "partitions": 12, "throughput": 100, "num_records": 100_000}
    small["until_met"] = 3  # which ends each run
    plan = DemoPlan(
        replace(usual.fresh, **small, broker_warmup_s=1.0),
        replace(usual.stale, **small, broker_warmup_s=0.0),
    )
    document = measure_demo(plan, Place(lab.access), lambda name: tmp_path / name, lambda _: None)
    assert len(list(tmp_path.iterdir())) == 6
    assert not any(read_stored_run(folder).flaw for folder in tmp_path.iterdir())
    for name in ("fresh", "stale"):
        arms: dict[str, Any] = {arm["arm"]: arm for arm in document[name]["arms"]}
        for arm in arms.values():
            assert arm["records"]["failed"] == 0
            assert arm["redirects"]["moves"]["met"] >= 3
            assert arm["rotations"] >= 2
        assert arms[HINTED]["redirects"]["hints"]["present"]
        # Every wait is at least the least backoff, 100 ms less 20 %; a hint spares all of it.
        assert arms[BASELINE]["redirects"]["moves"]["wait_ms"]["p50"] >= 80
    assert len(demo_table(document).rows) == 6
    # One run a side: nothing is called different.
    assert all("cannot be told" in said.first for said in demo_answer(document)[:2])
