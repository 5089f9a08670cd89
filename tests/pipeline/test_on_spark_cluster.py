"""Analyses on a cluster: a worker that is killed in the middle, executors given late, or never."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from one_process import OneProcess
from request_log_lines import log_lines
from spark_cluster import SparkCluster

from benchmarks.synthetic import SyntheticRun
from kipctl.errors import ExitStatus

pytestmark = pytest.mark.spark

_A_LATER_TASK = r"Finished task \d+\.0 in stage ([1-9]|\d\d)"
"""The first stage is that by which an executor is asked for."""

UNCOMPILED = (
    *("--conf", "spark.sql.codegen.wholeStage=false"),
    *("--conf", "spark.sql.codegen.factoryMode=NO_CODEGEN"),
)
"""Few rows are gone through as they are in less time than it takes to compile code for them."""

ON_DEMAND = tuple(
    word
    for setting in (
        "spark.dynamicAllocation.enabled=true",
        "spark.dynamicAllocation.shuffleTracking.enabled=true",
        "spark.dynamicAllocation.minExecutors=0",
        "spark.dynamicAllocation.initialExecutors=0",
    )
    for word in ("--conf", setting)
)
"""Executors are given to tasks alone."""

_KEPT_THEN_USED = """
import sys
from kipctl.pipeline.checkpoint import Scratch, checkpointed, intermediate_results
from kipctl.pipeline.place import Place
from kipctl.pipeline.session import spark_session
master, scratch = sys.argv[1:]
with spark_session(Place(master, start_timeout_s=300), is_light=True) as spark:
    numbers = spark.range(0, 100_000, 1, 12).selectExpr("id % 1000 as n", "id")
    counted = numbers.groupBy("n").sum("id").repartition(6)
    in_executors = checkpointed(counted)
    with intermediate_results(spark, scratch, Scratch()):
        in_files = checkpointed(counted)
        print("kept", flush=True)
        sys.stdin.readline()
        for kept in (in_executors, in_files):
            plan = kept._jdf.queryExecution().analyzed()
            total = kept.groupBy().sum("sum(id)").collect()[0][0]
            print(kept.count(), total, plan.children().size(), flush=True)
"""


@pytest.fixture
def cluster(cluster_of_spark: SparkCluster) -> Iterator[SparkCluster]:
    """As many workers as there were are left."""
    wanted = len(cluster_of_spark.workers)
    yield cluster_of_spark
    cluster_of_spark.start_workers(wanted - len(cluster_of_spark.workers))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of four runs."""
    folder = tmp_path_factory.mktemp("runs")
    for number in range(4):
        SyntheticRun(3840 * (number + 1)).write(folder / f"run-{number}")
    return folder


def test_what_is_kept_outlives_the_executors_that_have_it(
    cluster: SparkCluster, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", _KEPT_THEN_USED, cluster.master, str(scratch)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "kept\n"
        assert list(scratch.iterdir())
        for worker in list(cluster.workers):
            cluster.kill(worker)
        cluster.start_workers(1)
        process.stdin.write("\n")
        process.stdin.close()
        assert process.stdout.read() == f"1000 {sum(range(100_000))} 0\n" * 2
    assert process.returncode == 0
    assert not list(scratch.iterdir())


@pytest.mark.parametrize(
    ("command", "conf"),
    [
        (lambda runs, logs: ["analyze", str(runs)], ON_DEMAND),
        (lambda runs, logs: ["analyze", "request-log", str(logs)], ()),
        (
            lambda runs, logs: [
                "runs",
                "compare",
                f"{runs}/run-0,{runs}/run-1",
                f"{runs}/run-[23]",
            ],
            (),
        ),
    ],
    ids=["analyze with executors on demand", "analyze request-log", "runs compare"],
)
def test_a_command_says_what_it_says_here_though_a_worker_is_lost(
    kipctl_again: OneProcess,
    cluster: SparkCluster,
    state_home: Path,
    runs: Path,
    tmp_path: Path,
    command: Callable[[Path, Path], list[str]],
    conf: tuple[str, ...],
) -> None:
    lines = log_lines("kafka-4.3.1")[:600]
    for number in range(3):
        text = "\n".join(lines[number::3])
        (tmp_path / f"request.log.{number}").write_text(text, encoding="utf-8")
    words = (*command(runs, tmp_path), "--output", "json")
    here = kipctl_again(*words, "--master", "local[2]")
    assert here.status == ExitStatus.DONE, here.err
    log = state_home / "kipctl" / "spark.log"
    since, logged = cluster.logged(), log.stat().st_size
    there = ("--master", cluster.master, "--start-timeout", "5m", *UNCOMPILED, *conf)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(kipctl_again, *words, *there)
        cluster.kill(cluster.worker_that_logs(_A_LATER_TASK, since))
        said = running.result()
    assert said.status == ExitStatus.DONE, said.err
    told = log.read_bytes()
    # Another JVM begins the log anew.
    assert "Lost executor" in told[logged if len(told) > logged else 0 :].decode()
    assert said.out == here.out


def test_a_connect_server_says_what_spark_says_here_though_a_worker_is_lost(
    kipctl_again: OneProcess, cluster: SparkCluster, runs: Path, tmp_path: Path
) -> None:
    logs, checkpoints = tmp_path / "logs", tmp_path / "checkpoints"
    logs.mkdir()
    (logs / "request.log").write_text("\n".join(log_lines("kafka-4.3.1")[:600]), encoding="utf-8")
    compared = (f"file:{runs}/run-0,file:{runs}/run-1", f"file:{runs}/run-[23]")
    commands = [
        ("analyze", "request-log", logs),
        ("analyze", runs / "run-*"),
        ("runs", "compare", *compared),
    ]
    here = [kipctl_again(*words, "--output", "json") for words in commands]
    with cluster.connect_server(checkpoints) as server:
        there = ("--master", server, "--output", "json", *UNCOMPILED)
        with ThreadPoolExecutor(1) as pool:
            since = cluster.logged()
            running = pool.submit(kipctl_again, *commands[0], *there)
            cluster.kill(cluster.worker_that_logs(_A_LATER_TASK, since))
            said = [running.result()]
        said += [kipctl_again(*words, *there) for words in commands[1:]]
        assert [(result.status, result.err) for result in said if result.status] == []
        assert [result.out for result in said] == [result.out for result in here]
        saved = kipctl_again(*commands[1], *there, "--save", tmp_path / "tables")
        assert saved.out == here[1].out, saved.err
        assert (tmp_path / "tables" / "latency" / "part-0.parquet").exists()
        gone = kipctl_again("analyze", f"file:{runs}/run-9", *there)
        assert (gone.status, "run-9" in gone.err) == (ExitStatus.USAGE, True), gone.err


@pytest.mark.parametrize(
    ("setting", "timeout", "told"),
    [
        # No worker has as much. The master has taken the session in by then.
        ("spark.executor.memory=1000g", "30s", ["did not give an executor within 30 s"]),
        (
            "spark.executor.extraJavaOptions=-XX:+UseParallelGC -XX:+UseG1GC",  # one or the other
            "5m",
            ["started executors, and they ended", "exited with code 1"],
        ),
    ],
)
def test_a_cluster_that_gives_no_executor_is_told(
    kipctl_again: OneProcess,
    cluster: SparkCluster,
    runs: Path,
    setting: str,
    timeout: str,
    told: list[str],
) -> None:
    there = ("--master", cluster.master, "--start-timeout", timeout)
    said = kipctl_again("analyze", runs / "run-0", *there, "--conf", setting)
    assert said.status == ExitStatus.PIPELINE_FAILED
    lines = [line for line in said.err.splitlines() if not line.startswith("Starting Spark")]
    assert [words for words in told if words not in lines[0]] == []
    assert len(lines) <= 3
