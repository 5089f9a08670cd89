"""However a run is ended, on real brokers: what was settled is a run, and nothing else is left."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from no_own_topics import await_no_own_topics

from kipctl.cluster.topics import delete_topics
from kipctl.lab.cluster import Lab
from kipctl.trace.store import ROWS_FOLDER, Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

PRODUCE = "perf produce --num-records 1000000 --throughput 500 --record-size 100 --partitions 3"
END_TO_END = "perf e2e --num-records 1000000 --throughput 500 --record-size 100 --partitions 3"
PRODUCER = {PRODUCE: "0", END_TO_END: "1"}
"""The folder of its rows."""


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab.bootstrap_server) as connected:
        yield connected


@contextmanager
def running(command: str, lab: Lab, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """kipctl, in a process group of its own, once its producer has settled some batches."""
    (folder / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "kipctl", *shlex.split(command), "--record", str(folder / "run")],
        env=os.environ
        | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server, "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    rows = folder / "run" / ROWS_FOLDER / PRODUCER[command] / "batches.i64"
    try:
        while not (rows.exists() and rows.stat().st_size > 60_000):
            with suppress(subprocess.TimeoutExpired):
                pytest.fail(f"it ended with {process.wait(timeout=0.02)}")
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def end_of(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its status, and what it said."""
    assert process.stderr is not None
    said = process.stderr.read()
    return process.wait(), said


def is_a_run(folder: Path, why: str) -> None:
    """It has what was settled, says why it is no more, and is all that is left on this machine."""
    run = Run(folder / "run")
    assert why in read_stored_run(run.folder).flaw
    batches = run.read("batches").to_pylist()
    counted = run.description["summary"]["records"]["acknowledged"]
    assert sum(batch["records"] for batch in batches if not batch["error"]) == counted > 0
    assert not (run.folder / ROWS_FOLDER).exists()
    assert list((folder / "tmp").iterdir()) == []


@pytest.mark.parametrize("command", [PRODUCE, END_TO_END], ids=["produce", "e2e"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_all_of_its_group_ends_it_in_good_order(
    command: str, number: signal.Signals, lab: Lab, cluster: Cluster, tmp_path: Path
) -> None:
    with running(command, lab, tmp_path) as process:
        os.killpg(process.pid, number)
        status, err = end_of(process)
        assert status == 128 + number, err
    assert "Traceback" not in err
    is_a_run(tmp_path, "interrupted: ")
    await_no_own_topics(cluster)


@pytest.mark.parametrize(
    ("command", "killed", "dataset"),
    [(PRODUCE, "0", "batches"), (END_TO_END, "1", "batches"), (END_TO_END, "0", "reads")],
    ids=["produce", "e2e's producer", "e2e's consumer"],
)
def test_of_a_probe_that_is_killed_what_it_had_settled_is_recorded(
    command: str, killed: str, dataset: str, lab: Lab, cluster: Cluster, tmp_path: Path
) -> None:
    with running(command, lab, tmp_path) as process:
        rows = tmp_path / "run" / ROWS_FOLDER / killed
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            files = {os.path.realpath(path) for path in Path(f"/proc/{child}/fd").iterdir()}
            if str(rows / f"{dataset}.i64") in files:
                os.kill(int(child), signal.SIGKILL)
        status, err = end_of(process)
        assert status == 5, err
    is_a_run(tmp_path, "it failed: The probe's process ended early (exit code -9)")
    await_no_own_topics(cluster)


@pytest.mark.parametrize("command", [PRODUCE, END_TO_END], ids=["produce", "e2e"])
def test_a_killed_kipctl_leaves_a_run_that_can_be_repaired(
    command: str, lab: Lab, tmp_path: Path
) -> None:
    with running(command, lab, tmp_path) as process:
        process.kill()
        _, err = end_of(process)
    assert "Traceback" not in err
    repair = [sys.executable, "-m", "kipctl", "runs", "repair", str(tmp_path / "run"), "-o", "json"]
    while (repaired := subprocess.run(repair, capture_output=True, text=True)).returncode == 2:
        assert "still being written" in repaired.stderr  # its producer settles what is under way
    assert repaired.returncode == 0, repaired.stderr
    (left,) = set(re.findall(r"kipctl-perf-[\w-]+", repaired.stderr))
    assert f"Remove it: kafka-topics --delete --topic {left}" in repaired.stderr
    delete_topics(lab.bootstrap_server, [left])
    is_a_run(tmp_path, "it failed: kipctl was killed")
    assert json.loads(repaired.stdout)["records"]["acknowledged"] > 0
