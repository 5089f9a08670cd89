"""`kipctl experiment roll --workers`, on real brokers and a real Spark."""

from pathlib import Path

import pytest
from one_process import OneProcess

from kipctl.experiments.arms.end_to_end import CONSUMER, PRODUCER
from kipctl.lab.cluster import Lab
from kipctl.trace.store import Run
from kipctl.trace.stored_runs import read_stored_run

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_workers_are_one_producer_and_one_consumer(
    struck_lab: Lab, kipctl_again: OneProcess, tmp_path: Path
) -> None:
    words = (
        "--quick --arms probe-kip951 --acks all --partitions 6 --throughput 100 --every 3s"
        " --workers 2"
    )
    ran = kipctl_again(
        *("experiment", "roll", *words.split(), "--record", "roll", "--output", "json"),
        *("--bootstrap-server", struck_lab.bootstrap_server),
        KIPCTL_RUNS=str(tmp_path),
    )
    assert ran.status == 0, ran.err
    [cell] = ran.document["cells"]
    [run] = cell["arms"][0]["runs"]
    assert (run["records"]["failed"], run["records"]["missing"]) == (0, 0)
    assert all(half["batches_sent_again"] > 0 for half in run["halves"])
    assert "producers 2 (6)" in cell["published_rolls"][0]["set_up"]

    recorded = Run(tmp_path / "roll-acks-all-partitions-6.probe-kip951.1")
    assert read_stored_run(recorded.folder).flaw == ""
    batches, reads = (recorded.read(name) for name in ("batches", "reads"))
    assert set(batches["client"].to_pylist()) == {PRODUCER}
    assert set(reads["client"].to_pylist()) == {CONSUMER}
    for read in (batches, reads):
        assert set(read["partition"].to_pylist()) == set(range(6))
    sent = [row for row in batches.to_pylist() if not row["error"]]
    assert sum(row["records"] for row in sent) == run["records"]["acknowledged"]
    assert run["latency_ms"]["p50"] > 0  # on one clock: none was read before it was sent
