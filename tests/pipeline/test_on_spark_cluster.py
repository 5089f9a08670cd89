"""Analyses on a cluster: a worker that is killed in the middle, executors given late, or never."""

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from one_process import OneProcess, one_process
from spark_cluster import SparkCluster, spark_cluster

from benchmarks.synthetic import SyntheticRun
from kipctl.errors import ExitStatus

pytestmark = pytest.mark.spark

_SAMPLE = Path(__file__).parents[2] / "benchmarks" / "data" / "request.log.gz"
_A_LATER_TASK = r"Finished task \d+\.0 in stage ([1-9]|\d\d)"
"""The first stage is that by which an executor is asked for."""

_KEPT_THEN_USED = """
import sys
from kipctl.pipeline.checkpoint import checkpointed
from kipctl.pipeline.place import Place
from kipctl.pipeline.session import spark_session
master, scratch = sys.argv[1:]
with spark_session(Place(master, start_timeout_s=300, scratch=scratch or None)) as spark:
    numbers = spark.range(0, 100_000, 1, 12).selectExpr("id % 1000 as n", "id")
    counted = numbers.groupBy("n").sum("id").repartition(6)
    kept = checkpointed(counted)
    print("kept", flush=True)
    sys.stdin.readline()
    print(kept.count(), kept.groupBy().sum("sum(id)").collect()[0][0], flush=True)
"""


@pytest.fixture(scope="module")
def kipctl_again(
    state_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OneProcess]:
    """Of these tests alone: some leave it without its JVM, which others go on with."""
    with one_process(tmp_path_factory.mktemp("cluster-process")) as process:
        yield process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Each of the tests that kill workers has its own of them to kill; the last one stays."""
    with spark_cluster(tmp_path_factory.mktemp("cluster"), workers=4) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of four runs."""
    folder = tmp_path_factory.mktemp("runs")
    for number in range(4):
        SyntheticRun(12_800 * (number + 2)).write(folder / f"run-{number}")
    return folder


@pytest.mark.parametrize("in_files", [True, False], ids=["in files", "in executors"])
def test_what_is_kept_outlives_the_executors_that_have_it(tmp_path: Path, in_files: bool) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (tmp_path / "cluster").mkdir()
    with spark_cluster(tmp_path / "cluster", workers=3) as cluster:
        process = subprocess.Popen(
            [sys.executable, "-c", _KEPT_THEN_USED, cluster.master, str(scratch) * in_files],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stdout.readline() == "kept\n"
            assert bool(list(scratch.iterdir())) == in_files
            for worker in cluster.workers[:2]:
                worker.kill()
            process.stdin.write("\n")
            process.stdin.close()
            assert process.stdout.readline() == f"1000 {sum(range(100_000))}\n"
    assert process.returncode == 0
    assert not list(scratch.iterdir())


def right_though_killed(
    kipctl_again: OneProcess,
    cluster: SparkCluster,
    state: Path,
    *words: str | Path,
) -> None:
    """The command's document from the cluster, a worker of which is lost, is that from here."""
    here = kipctl_again(*words, "--output", "json", "--master", "local[2]")
    assert here.status == ExitStatus.DONE, here.err
    known = cluster.executors()
    there = ("--master", cluster.master, "--start-timeout", "5m", "--output", "json")
    command = [*map(str, words), *there]
    process = subprocess.Popen(
        [sys.executable, "-m", "kipctl", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"XDG_STATE_HOME": str(state)},
    )
    with process:
        try:
            cluster.worker_of_new_executor(_A_LATER_TASK, known).kill()
            out, err = process.communicate()
        finally:
            process.kill()
    assert process.returncode == ExitStatus.DONE, err
    assert "Lost executor" in (state / "kipctl" / "spark.log").read_text()
    assert out == here.out


def test_analyze(
    kipctl_again: OneProcess, cluster: SparkCluster, runs: Path, tmp_path: Path
) -> None:
    right_though_killed(kipctl_again, cluster, tmp_path, "analyze", runs)


def test_analyze_request_log(
    kipctl_again: OneProcess, cluster: SparkCluster, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    with gzip.open(_SAMPLE) as packed:
        lines = packed.readlines()
    for number in range(3):
        (logs / f"request.log.{number}").write_bytes(b"".join(lines[number:1200:3]))
    words = ("analyze", "request-log", logs)
    right_though_killed(kipctl_again, cluster, tmp_path, *words)


def test_runs_compare(
    kipctl_again: OneProcess, cluster: SparkCluster, runs: Path, tmp_path: Path
) -> None:
    a, b = (",".join(str(runs / f"run-{number}") for number in pair) for pair in ((0, 1), (2, 3)))
    words = ("runs", "compare", a, b)
    right_though_killed(kipctl_again, cluster, tmp_path, *words)


def test_executors_that_are_given_to_tasks_alone(
    kipctl_again: OneProcess, cluster: SparkCluster, runs: Path
) -> None:
    on_demand = (
        "spark.dynamicAllocation.enabled=true",
        "spark.dynamicAllocation.shuffleTracking.enabled=true",
        "spark.dynamicAllocation.minExecutors=0",
        "spark.dynamicAllocation.initialExecutors=0",
    )
    conf = [word for setting in on_demand for word in ("--conf", setting)]
    there = ("--master", cluster.master, "--start-timeout", "5m")
    said = kipctl_again("analyze", runs / "run-0", "--output", "json", *there, *conf)
    assert said.status == ExitStatus.DONE, said.err
    assert said.document["records"][0]["run"] == "run-0"


def test_executors_that_cannot_start_say_why(
    kipctl_again: OneProcess, cluster: SparkCluster, runs: Path
) -> None:
    wrong = "spark.executor.extraJavaOptions=-XX:+UseParallelGC -XX:+UseG1GC"  # one or the other
    there = ("--master", cluster.master, "--start-timeout", "5m")
    said = kipctl_again("analyze", runs / "run-0", *there, "--conf", wrong)
    assert said.status == ExitStatus.PIPELINE_FAILED
    told = [line for line in said.err.splitlines() if not line.startswith("Starting Spark")]
    assert "started executors, and they ended" in told[0]
    assert "exited with code 1" in told[0]
    assert len(told) <= 3
