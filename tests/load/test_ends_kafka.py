"""However a run is ended, on real brokers: what was settled is a run, and nothing else is left."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from no_own_topics import await_no_own_topics
from one_process import in_this_process
from processes import Process, has_ended, holders_of, started

from kipctl.cluster.topics import delete_topics
from kipctl.lab.cluster import Lab
from kipctl.measure.moves import moves
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import read_rows
from kipctl.trace.store import ROWS_FOLDER, Run
from kipctl.trace.stored_runs import read_stored_run
from kipctl.transport.request import Cluster

pytestmark = pytest.mark.kafka

LOAD = "--num-records 1000000 --throughput 300 --record-size 100 --partitions 3"
PRODUCE, END_TO_END = f"perf produce {LOAD}", f"perf e2e {LOAD}"


@contextmanager
def running(command: str, lab: Lab, folder: Path) -> Iterator[Process]:
    """kipctl, once its producer has settled some batches."""
    (folder / "tmp").mkdir()
    rows = folder / "run" / ROWS_FOLDER / ("1" if "e2e" in command else "0") / "batches.i64"
    words = f"{command} --record {folder / 'run'}"
    with started(lab, words, TMPDIR=str(folder / "tmp")) as process:
        while not (rows.exists() and rows.stat().st_size > 20_000):
            assert not has_ended(process)
        yield process


def is_a_run(folder: Path, why: str) -> None:
    """It has what was settled, says why it is no more, and is all that is left on this machine."""
    run = Run(folder / "run")
    assert why in read_stored_run(run.folder).flaw
    batches = run.read("batches").to_pylist()
    counted = run.description["summary"]["records"]["acknowledged"]
    assert sum(batch["records"] for batch in batches if not batch["error"]) == counted > 0
    assert not (run.folder / ROWS_FOLDER).exists()
    assert list((folder / "tmp").iterdir()) == []


def test_a_signal_to_all_of_its_group_ends_it_in_good_order_and_it_says_how_far_it_came(
    lab: Lab, cluster: Cluster, tmp_path: Path
) -> None:
    rotating = f"{PRODUCE} --during rotate --every 0.5"
    redirects = tmp_path / "run" / ROWS_FOLDER / "0" / "redirects.i64"
    with running(rotating, lab, tmp_path) as process:
        while not len(moves(read_rows(redirects, len(COLUMNS["redirects"])))):
            assert not has_ended(process)
        os.killpg(process.pid, signal.SIGHUP)
        _, err = process.communicate()
    assert process.returncode == 128 + signal.SIGHUP, err
    told = re.search(r"\nkipctl: Interrupted: of 1,000,000 records ([\d,]+) were sent", err)
    assert told, err
    waited = r"\nMoved leaders: \d+ were met; the client waited p50 [\d,.]+ ms, p99 [\d,.]+ ms, at"
    assert re.search(waited, err), err
    assert f"\nWhat was measured: kipctl runs show {tmp_path / 'run'}\n" in err
    assert Run(tmp_path / "run").description["stopped"] is True
    assert "Traceback" not in err
    is_a_run(tmp_path, f"interrupted: {told[1]} of 1,000,000 records")
    await_no_own_topics(cluster)


def test_a_signal_ends_two_clients_in_good_order(
    lab: Lab, cluster: Cluster, tmp_path: Path
) -> None:
    with running(END_TO_END, lab, tmp_path) as process:
        os.killpg(process.pid, signal.SIGTERM)
        _, err = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM, err
    assert "Traceback" not in err
    is_a_run(tmp_path, "interrupted: ")
    await_no_own_topics(cluster)


@pytest.mark.parametrize(
    ("command", "killed"),
    [(PRODUCE, "0/batches"), (END_TO_END, "1/batches"), (END_TO_END, "0/reads")],
    ids=["produce", "e2e's producer", "e2e's consumer"],
)
def test_of_a_probe_that_is_killed_what_it_had_settled_is_recorded(
    command: str, killed: str, lab: Lab, cluster: Cluster, tmp_path: Path
) -> None:
    with running(command, lab, tmp_path) as process:
        rows = tmp_path / "run" / ROWS_FOLDER / f"{killed}.i64"
        while not rows.exists():  # a consumer may have read nothing yet
            assert not has_ended(process)
        (probe,) = holders_of(rows).keys() - {process.pid}
        os.kill(probe, signal.SIGKILL)
        _, err = process.communicate()
    assert process.returncode == 5, err
    is_a_run(tmp_path, "it failed: The probe's process ended early (exit code -9)")
    await_no_own_topics(cluster)


@pytest.mark.parametrize("command", [PRODUCE, END_TO_END], ids=["produce", "e2e"])
def test_a_killed_kipctl_leaves_a_run_that_can_be_repaired(
    command: str, lab: Lab, tmp_path: Path
) -> None:
    with running(command, lab, tmp_path) as process:
        process.kill()
        _, err = process.communicate()
    assert "Traceback" not in err
    repair = ("runs", "repair", tmp_path / "run", "-o", "json")
    while (repaired := in_this_process(*repair)).status == 2:
        assert "still being written" in repaired.err  # its producer settles what is under way
    assert repaired.status == 0, repaired.err
    (left,) = set(re.findall(r"kipctl-perf-[\w-]+", repaired.err))
    assert f"Remove it: kafka-topics --delete --topic {left}" in repaired.err
    delete_topics(lab.bootstrap_server, [left])
    is_a_run(tmp_path, "it failed: kipctl was killed")
    assert repaired.document["records"]["acknowledged"] > 0
