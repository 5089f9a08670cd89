"""`kipctl perf produce --workers` on real brokers and a real Spark, here and standalone."""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from no_own_topics import await_no_own_topics
from one_process import OneProcess, Said
from pyspark.sql import SparkSession

from kipctl.cluster.topics import (
    LATEST,
    await_no_topics,
    await_topic,
    create_topics,
    delete_topics,
    offsets,
)
from kipctl.lab.cluster import Lab
from kipctl.measure.distribution import distribution
from kipctl.pipeline.analysis import Question, analyse_runs
from kipctl.trace.codes import PHASES
from kipctl.trace.store import ROWS_FOLDER, Run
from kipctl.transport.request import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

ON_THIS_MACHINE = "local[2]"
LONG_S = 60


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab.bootstrap_server) as connected:
        yield connected


@pytest.fixture
def topic(lab: Lab, cluster: Cluster) -> Iterator[str]:
    """Of 5 partitions: two workers have 3 and 2."""
    create_topics(lab.bootstrap_server, ["workers-test"], 5, 3)
    await_topic(cluster, "workers-test", 5)
    yield "workers-test"
    delete_topics(lab.bootstrap_server, ["workers-test"])
    await_no_topics(cluster, ["workers-test"])


@pytest.fixture(params=["local", "standalone"])
def master(request: pytest.FixtureRequest) -> str:
    """A Spark that runs two tasks at a time, in this machine's JVM or on a master's workers."""
    if request.param == "local":
        return ON_THIS_MACHINE
    url: str = request.getfixturevalue("spark_master")
    return url


Kipctl = Callable[[str], Said]


@pytest.fixture
def kipctl(lab: Lab, kipctl_again: OneProcess) -> Kipctl:
    """`kipctl perf produce` on the lab, with words after it."""
    cluster = {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server}
    return lambda words: kipctl_again("perf", "produce", *words.split(), **cluster)


def started(
    lab: Lab, words: str, environment: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kipctl", "perf", "produce", *words.split()],
        env=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server} | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_until(process: subprocess.Popen[str], wanted: str) -> str:
    """What it has said up to the line that holds `wanted`."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if wanted in line:
            return said
    pytest.fail(f"it ended without {wanted!r}:\n{said}")


def holders_of(folder: Path) -> dict[int, str]:
    """The processes that have a file of the folder open, and one such file."""
    holders = {}
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):  # it has ended, or closed the file
            file = os.readlink(link)
            if file.startswith(f"{folder}/"):
                holders[int(link.parts[2])] = file
    return holders


def latency_ms(
    batches: list[dict[str, Any]], interval_ns: int, warmup_records: int = 0
) -> dict[str, float]:
    """The percentiles of all acknowledged records after the warm-up, each counted by itself."""
    latencies = np.array(
        [
            row["acked_us"] - seq * interval_ns // 1000
            for row in batches
            for seq in sequence_numbers([row])
            if row["error"] == 0 and seq >= warmup_records
        ],
        dtype=np.int64,
    )
    return distribution([(latencies, np.ones_like(latencies))]).as_ms()


def sequence_numbers(batches: list[dict[str, Any]]) -> list[int]:
    return [
        row["first_seq"] + k * row["seq_stride"] for row in batches for k in range(row["records"])
    ]


def test_two_workers_send_one_run(
    kipctl: Kipctl, cluster: Cluster, topic: str, master: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    said = kipctl(
        f"--num-records 7001 --throughput 3000 --record-size 100 --topic {topic} --workers 2 "
        f"--master {master} --record {folder} --warmup-records 500 --output json",
    )
    assert said.status == 0, said.err
    records = {"sent": 7001, "acknowledged": 7001, "failed": 0, "errors": {}}
    assert said.document["records"] == records
    assert sum(offsets(cluster, topic, LATEST).values()) == 7001

    run = Run(folder)
    assert not (folder / ROWS_FOLDER).exists()
    description = run.description
    assert (description["workers"], len(description["hosts"])) == (2, 2)
    interval_ns = description["interval_ns"]
    assert interval_ns == 333_333
    batches = run.read("batches").to_pylist()
    assert sorted(sequence_numbers(batches)) == list(range(7001))
    by_client = {
        client: [row for row in batches if row["client"] == client]
        for client in ("kipctl-perf-0", "kipctl-perf-1")
    }
    for worker, rows in enumerate(by_client.values()):
        assert {row["partition"] for row in rows} == set(range(worker, 5, 2))
        assert {seq % 2 for seq in sequence_numbers(rows)} == {worker}
        for row in rows:
            assert row["intended_us"] == row["first_seq"] * interval_ns // 1000
            assert row["sent_us"] >= row["intended_us"]
    first, second = by_client.values()
    for one, other in ((first, second), (second, first)):
        assert min(row["sent_us"] for row in one) < max(row["acked_us"] for row in other)
    assert said.document["latency_ms"] == latency_ms(batches, interval_ns, 500)
    assert {row["client"] for row in run.read("rpcs").to_pylist()} == set(by_client)
    assert holders_of(folder) == {}


def test_leaders_move_under_workers_and_the_summary_is_what_was_recorded(
    kipctl: Kipctl, spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    said = kipctl(
        "--num-records 8000 --throughput 2000 --record-size 100 --partitions 20 --workers 2 "
        f"--during rotate --every 1 --count 2 --record {folder} --output json "
        "--command-property acks=1 partitioner.class="
        "org.apache.kafka.clients.producer.RoundRobinPartitioner",
    )
    assert said.status == 0, said.err
    document = said.document
    # A second one that would begin after the last record does not begin.
    assert [action["error"] for action in document["actions"]] in ([None], [None, None])
    assert document["redirects"]["batches"] > 0

    run = Run(folder)
    batches = run.read("batches").to_pylist()
    assert sorted(sequence_numbers(batches)) == list(range(8000))
    assert document["latency_ms"] == latency_ms(batches, run.description["interval_ns"])
    redirects = run.read("redirects").to_pylist()
    assert {row["client"] for row in redirects} == {"kipctl-perf-0", "kipctl-perf-1"}
    latency = {
        (row["partition"], row["first_seq"]): row["acked_us"] - row["intended_us"]
        for row in batches
    }
    spent: dict[tuple[int, int], int] = {}
    for row in redirects:
        key = (row["partition"], row["first_seq"])
        spent[key] = spent.get(key, 0) + sum(row[f"{phase}_us"] for phase in PHASES)
    assert {key: latency[key] - total for key, total in spent.items()} == dict.fromkeys(spent, 0)
    total = sum(phase["sum"] for phase in document["redirects"]["phases_ms"].values())
    leader_errors = [row for row in redirects if row["error"] in (6, 74)]
    redirected = {(row["partition"], row["first_seq"]) for row in leader_errors}
    assert len(leader_errors) == document["redirects"]["errors"]
    assert total == pytest.approx(sum(spent[key] for key in redirected) / 1000)

    read = analyse_runs(spark, [str(folder)], Question(("run",)))
    assert [row["acknowledged"] for row in read["records"]] == [8000]
    for row in read["latency"]:
        live = document[f"{row['time']}_ms"]
        assert {name: row[f"{name}_us"] / 1000 for name in live if name != "mean"} == {
            name: ms for name, ms in live.items() if name != "mean"
        }
    (row,) = read["redirects"]
    assert (row["episodes"], row["errors"]) == (len(redirected), len(leader_errors))
    sums = {phase: row[f"{phase}_sum_us"] / 1000 for phase in PHASES}
    assert sums == {phase: ms["sum"] for phase, ms in document["redirects"]["phases_ms"].items()}


def test_a_worker_that_dies_fails_the_run_and_what_is_known_is_kept(
    lab: Lab, cluster: Cluster, master: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with started(
        lab,
        "--num-records 1000000 --throughput 1000 --record-size 100 --partitions 4 --workers 2 "
        f"--master {master} --record {folder} --reporting-interval 200",
    ) as process:
        said = read_until(process, "ms avg latency")
        workers = [folder / ROWS_FOLDER / str(worker) for worker in (0, 1)]
        while not all((worker / "batches.i64").stat().st_size for worker in workers):
            assert process.poll() is None
        ends = []
        for worker in workers:
            pid = next(
                pid
                for pid, file in holders_of(worker).items()
                if pid != process.pid and file.endswith(".i64")  # kipctl itself reads them
            )
            ends.append(os.pidfd_open(pid))
        signal.pidfd_send_signal(ends[1], signal.SIGKILL)
        out, rest = process.communicate()
    said += rest
    assert (process.returncode, out) == (8, ""), said
    error = said[said.index("kipctl: ") :]
    assert len(error.splitlines()) <= 3
    told = re.search(
        r"Worker 1 of 2, on \S+, died: .* Of 1000000 records (\d+) are known to be acknowledged, "
        r"0 failed\. What is known is in (\S+)\.",
        error,
    )
    assert told, error
    assert told[2] == str(folder)

    run = Run(folder)
    assert run.description["failed"].startswith("Worker 1 of 2")
    assert "stopped" not in run.description
    batches = run.read("batches").to_pylist()
    seqs = sequence_numbers(batches)
    assert len(seqs) == len(set(seqs)) == int(told[1])
    assert run.description["summary"]["records"]["acknowledged"] == int(told[1])
    assert {row["client"] for row in batches} == {"kipctl-perf-0", "kipctl-perf-1"}
    assert not (folder / ROWS_FOLDER).exists()
    await_no_own_topics(cluster)
    for end in ends:
        assert select.select([end], [], [], LONG_S)[0]
        os.close(end)


def test_ctrl_c_stops_all_workers_in_good_order(lab: Lab, cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with started(
        lab,
        "--num-records 1000000 --throughput 1000 --record-size 100 --partitions 4 --workers 2 "
        f"--record {folder} --reporting-interval 200",
    ) as process:
        read_until(process, "ms avg latency")
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate()
    assert process.returncode == 130, rest
    told = re.search(r"of 1,000,000 records ([\d,]+) were sent, ([\d,]+) acknowledged", rest)
    assert told, rest
    assert told[1] == told[2]
    run = Run(folder)
    assert len(sequence_numbers(run.read("batches").to_pylist())) == int(told[2].replace(",", ""))
    assert "failed" not in run.description
    assert run.description["stopped"] is True
    assert not (folder / ROWS_FOLDER).exists()
    assert holders_of(folder) == {}
    await_no_own_topics(cluster)


def test_workers_without_a_rate_share_the_records(
    kipctl: Kipctl, cluster: Cluster, topic: str
) -> None:
    said = kipctl(
        f"--num-records 20001 --throughput -1 --record-size 100 --topic {topic} --workers 2 "
        "--output json",
    )
    assert said.status == 0, said.err
    assert said.document["records"]["acknowledged"] == 20001
    ends = offsets(cluster, topic, LATEST)
    by_worker = [sum(end for partition, end in ends.items() if partition % 2 == w) for w in (0, 1)]
    assert by_worker == [10001, 10000]


def test_one_worker_may_be_elsewhere_too(kipctl: Kipctl, spark_master: str) -> None:
    said = kipctl(
        f"--num-records 500 --throughput -1 --record-size 10 --master {spark_master} -o json",
    )
    assert said.status == 0, said.err
    assert said.document["records"]["acknowledged"] == 500


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("--workers 0", 2, "--workers is 0"),
        ("--workers 4 --partitions 3", 2, "4 workers share 3 partitions of kipctl-perf"),
        ("--workers 2 --master 127.0.0.1:7077", 2, "is no Spark master"),
        ("--workers 2 --master spark://127.0.0.1:1", 8, "cannot be reached"),
        ("--workers 3 --master local[2]", 8, "has 2 task slots free, and 3 workers need 3"),
        ("--workers 2 --topic missing", 2, "missing"),
    ],
)
def test_what_cannot_be_is_one_clear_error(
    kipctl: Kipctl, cluster: Cluster, words: str, status: int, told: str
) -> None:
    said = kipctl(f"--num-records 10 --throughput -1 --record-size 10 {words}")
    assert (said.status, said.out) == (status, ""), said.err
    error = said.err[said.err.index("kipctl: ") :]
    assert told in error
    assert len(error.splitlines()) <= 3
    await_no_own_topics(cluster)


def test_a_master_with_too_few_slots_is_told(kipctl: Kipctl, spark_master: str) -> None:
    said = kipctl(
        "--num-records 10 --throughput -1 --record-size 10 --workers 3 --partitions 3 "
        f"--master {spark_master}",
    )
    assert (said.status, said.out) == (8, ""), said.err
    assert "has 2 task slots free, and 3 workers need 3 at once." in said.err


def test_what_keeps_the_workers_from_beginning_is_told_once(kipctl: Kipctl, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    said = kipctl(
        "--num-records 10 --throughput -1 --payload-file /nowhere/payloads --workers 2 "
        f"--record {folder}",
    )
    assert (said.status, said.out) == (2, ""), said.err
    error = said.err[said.err.index("kipctl: ") :]
    assert "/nowhere/payloads" in error
    assert len(error.splitlines()) <= 3
    assert not folder.exists()


def test_a_module_that_executors_lack_is_named(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "crc32c.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'crc32c'\", name='crc32c')\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with started(
        lab,
        "--num-records 10 --throughput -1 --record-size 10 --workers 2",
        {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable},
    ) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (8, ""), err
    assert "has no module 'crc32c'" in err
    assert "PYSPARK_PYTHON" in err


def test_executors_import_the_kipctl_that_was_shipped(spark_master: str) -> None:
    script = (
        "from kipctl.pipeline.session import spark_session\n"
        "def where(_):\n"
        "    import kipctl\n"
        "    yield kipctl.__file__\n"
        f"with spark_session({spark_master!r}, ships_python=True) as spark:\n"
        "    print(*spark.sparkContext.parallelize(range(2), 2).mapPartitions(where).collect())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    files = ran.stdout.split()
    assert len(files) == 2
    assert all("kipctl.zip/" in file for file in files)
