"""`kipctl perf --workers` on real brokers and a real Spark, here and standalone."""

import os
import re
import select
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Producer
from no_own_topics import await_no_own_topics
from one_process import Kipctl, OneProcess, Said
from processes import await_let_go, holders_of, read_until, started

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
from kipctl.trace.columns import COLUMNS
from kipctl.trace.rows import read_rows
from kipctl.trace.store import ROWS_FOLDER, Run
from kipctl.transport.request import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PRODUCE = "perf produce --record-size 100"
LONG_S = 300
LONG_MS = 600_000
"""Longer than a test may take: consumers that end before have been told that all is read."""


@pytest.fixture
def lab(struck_lab: Lab) -> Lab:
    """The one that other tests on Spark use too, one of which restarts a broker."""
    return struck_lab


@pytest.fixture
def topic(lab: Lab, cluster: Cluster) -> Iterator[str]:
    """Of 5 partitions: two workers have 3 and 2."""
    create_topics(lab.bootstrap_server, ["workers-test"], 5, 3)
    await_topic(cluster, "workers-test", 5)
    yield "workers-test"
    delete_topics(lab.bootstrap_server, ["workers-test"])
    await_no_topics(cluster, ["workers-test"])


@pytest.fixture
def written(lab: Lab, topic: str) -> int:
    """How many records another client has written to the topic, in various batches."""
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "linger.ms": 5})
    for number in range(2000):
        producer.produce(topic, b"v" * 200, partition=number % 5)
    assert producer.flush(30) == 0
    return 2000


@pytest.fixture
def kipctl(lab: Lab, kipctl_again: OneProcess) -> Kipctl:
    """kipctl with these words on the lab, in the process that has a JVM."""
    on_lab = partial(kipctl_again, KIPCTL_BOOTSTRAP_SERVER=lab.bootstrap_server)
    return lambda words, **variables: on_lab(*words.split(), **variables)


KillWorker = Callable[[str, str, int], Said]


@pytest.fixture
def kill_worker(kipctl: Kipctl, kipctl_again: OneProcess, tmp_path: Path) -> KillWorker:
    """Start a run of two workers, and kill worker 1 when rows of both say that so many records are
    through: what is then said of the run, after the end of both.
    """

    def kill(words: str, dataset: str, records: int) -> Said:
        folder, columns = tmp_path / "run", COLUMNS[dataset]
        paths = [folder / ROWS_FOLDER / worker / f"{dataset}.i64" for worker in "01"]
        with ThreadPoolExecutor(1) as beside:
            running = beside.submit(kipctl, f"{words} --workers 2 --record {folder}")
            through = [0, 0]
            while min(through) == 0 or sum(through) < records:
                assert not wait([running], timeout=0.02).done, running.result().err
                rows = [read_rows(path, len(columns)) for path in paths]
                through = [int(part[:, columns.index("records")].sum()) for part in rows]
            # kipctl itself reads what they write.
            writers = [holders_of(path).keys() - {kipctl_again.pid} for path in paths]
            ends = [os.pidfd_open(pid) for (pid,) in writers]
            signal.pidfd_send_signal(ends[1], signal.SIGKILL)
        for end in ends:
            assert select.select([end], [], [], LONG_S)[0]
            os.close(end)
        return running.result()

    return kill


def python_that_finds(module: str, text: str, folder: Path) -> dict[str, str]:
    """Variables with which Spark's executors find a module of that text first."""
    (folder / f"{module}.py").write_text(text)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}


NOTES_WHERE_FROM = """
import os, sys
from importlib.machinery import PathFinder

class Noting:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        if name == "kipctl":
            with open(f"{folder}/of-{{os.getpid()}}", "w") as note:
                note.write(str(spec and spec.origin))
        return spec

sys.meta_path.insert(0, Noting)
"""


def imported_from(folder: Path) -> list[str]:
    """Where each process that notes it has imported kipctl from."""
    return [note.read_text() for note in folder.glob("of-*")]


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


def ranges(run: Run) -> dict[int, list[tuple[int, int]]]:
    """The offsets that were read of each partition, from and to, in the order of time."""
    by_partition = defaultdict(list)
    for row in sorted(run.read("reads").to_pylist(), key=lambda row: row["time_us"]):
        if row["records"]:
            by_partition[row["partition"]].append((row["fetch_offset"], row["next_offset"]))
    return by_partition


def test_two_workers_send_one_run(
    kipctl: Kipctl, cluster: Cluster, topic: str, spark_master: str, tmp_path: Path
) -> None:
    """Executors that are elsewhere import the kipctl that was sent to them. (That workers are at
    work at the same time is asked for where one of them is killed.)"""
    folder = tmp_path / "run"
    notes = NOTES_WHERE_FROM.format(folder=tmp_path)
    said = kipctl(
        f"{PRODUCE} --num-records 2101 --throughput 900 --topic {topic} --workers 2 "
        f"--master {spark_master} --record {folder} --warmup-records 500 --output json",
        **python_that_finds("sitecustomize", notes, tmp_path),
    )
    assert said.status == 0, said.err
    assert ["kipctl.zip/" in origin for origin in imported_from(tmp_path)] == [True, True]
    records = {"sent": 2101, "acknowledged": 2101, "failed": 0, "errors": {}}
    assert said.document["records"] == records
    assert sum(offsets(cluster, topic, LATEST).values()) == 2101

    run = Run(folder)
    assert not (folder / ROWS_FOLDER).exists()
    description = run.description
    assert (description["workers"], len(description["hosts"])) == (2, 2)
    interval_ns = description["interval_ns"]
    assert interval_ns == 1_111_111
    batches = run.read("batches").to_pylist()
    assert sorted(sequence_numbers(batches)) == list(range(2101))
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
    assert said.document["latency_ms"] == latency_ms(batches, interval_ns, 500)
    assert {row["client"] for row in run.read("rpcs").to_pylist()} == set(by_client)
    await_let_go(folder)


def test_a_worker_that_dies_fails_the_run_and_what_is_known_is_kept(
    kill_worker: KillWorker, cluster: Cluster, spark_master: str, tmp_path: Path
) -> None:
    """A producer's on a cluster; the test below has a consumer's, on this machine."""
    words = f"{PRODUCE} --num-records 30000 --throughput 300 --partitions 4 --master {spark_master}"
    ran = kill_worker(words, "batches", 60)
    assert (ran.status, ran.out) == (8, ""), ran.err
    assert len(ran.error.splitlines()) <= 3
    told = re.search(
        r"Worker 1 of 2, on \S+, died: .* Of 30000 records (\d+) are known to be acknowledged, "
        r"0 failed\. What is known is in (\S+)\.",
        ran.error,
    )
    assert told, ran.error
    run = Run(tmp_path / "run")
    assert told[2] == str(run.folder)
    assert run.description["failed"].startswith("Worker 1 of 2")
    assert "stopped" not in run.description
    batches = run.read("batches").to_pylist()
    seqs = sequence_numbers(batches)
    assert len(seqs) == len(set(seqs)) == int(told[1])
    assert run.description["summary"]["records"]["acknowledged"] == int(told[1])
    assert {row["client"] for row in batches} == {"kipctl-perf-0", "kipctl-perf-1"}
    assert not (run.folder / ROWS_FOLDER).exists()
    await_no_own_topics(cluster)


def test_a_consumer_that_dies_fails_the_run_and_what_is_known_is_kept(
    kill_worker: KillWorker, topic: str, written: int, tmp_path: Path
) -> None:
    words = f"perf consume --topic {topic} --num-records {written + 1} --timeout {LONG_MS}"
    ran = kill_worker(words, "reads", written)
    assert (ran.status, ran.out) == (8, ""), ran.err
    assert len(ran.error.splitlines()) <= 3
    assert "Worker 1 of 2" in ran.error
    run = Run(tmp_path / "run")
    assert f"{written:,} records were read. What is known is in {run.folder}." in ran.error
    assert run.description["failed"].startswith("Worker 1 of 2")
    assert run.description["summary"]["records"]["read"] == written
    assert sum(row["records"] for row in run.read("reads").to_pylist()) == written
    assert sorted(ranges(run)) == list(range(5))
    assert not (run.folder / ROWS_FOLDER).exists()


def test_ctrl_c_stops_all_workers_in_good_order(lab: Lab, cluster: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = (
        f"{PRODUCE} --num-records 1000000 --throughput 200 --partitions 4 --workers 2 "
        f"--record {folder} --reporting-interval 200"
    )
    with started(lab, words) as process:
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
    await_let_go(folder)
    await_no_own_topics(cluster)


def test_workers_without_a_rate_share_the_records(
    kipctl: Kipctl, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """Those of this machine import the kipctl that is here."""
    said = kipctl(
        f"{PRODUCE} --num-records 3001 --throughput -1 --topic {topic} --workers 2 --output json",
        **python_that_finds("sitecustomize", NOTES_WHERE_FROM.format(folder=tmp_path), tmp_path),
    )
    assert said.status == 0, said.err
    assert ["kipctl.zip/" in origin for origin in imported_from(tmp_path)] == [False, False]
    assert said.document["records"]["acknowledged"] == 3001
    ends = offsets(cluster, topic, LATEST)
    by_worker = [sum(end for partition, end in ends.items() if partition % 2 == w) for w in (0, 1)]
    assert by_worker == [1501, 1500]


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("--workers 0", 2, "--workers is 0"),
        ("--workers 4 --partitions 3", 2, "4 workers share 3 partitions of kipctl-perf"),
        ("--workers 2 --master 127.0.0.1:7077", 2, "is no Spark master"),
        ("--workers 2 --master sc://127.0.0.1", 2, "which Spark Connect has not"),
        ("--workers 2 --master spark://127.0.0.1:1", 8, "cannot be reached"),
        ("--workers 3 --master local[2]", 8, "has 2 task slots free, and 3 workers need 3"),
        ("--workers 2 --topic missing", 2, "missing"),
        # What keeps the workers from beginning is told once.
        ("--workers 2 --payload-file /nowhere/payloads", 2, "/nowhere/payloads"),
    ],
)
def test_what_cannot_be_is_one_clear_error(
    kipctl: Kipctl, cluster: Cluster, words: str, status: int, told: str, tmp_path: Path
) -> None:
    size = "" if "--payload-file" in words else "--record-size 10"
    record = f"--record {tmp_path / 'run'}"
    said = kipctl(f"perf produce --num-records 10 --throughput -1 {size} {record} {words}")
    assert (said.status, said.out) == (status, ""), said.err
    assert told in said.error
    assert len(said.error.splitlines()) <= 3
    assert not (tmp_path / "run").exists()
    await_no_own_topics(cluster)


def test_two_workers_read_each_record_once(
    kipctl: Kipctl, cluster: Cluster, topic: str, written: int, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    read = kipctl(
        f"perf consume --topic {topic} --num-records {written} --workers 2 "
        f"--client-rack rack-1 --timeout {LONG_MS} --record {folder} -o json",
    )
    assert read.status == 0, read.err
    said = read.document
    assert said["records"]["read"] == written
    assert said["partitions"] == 5
    assert sum(broker["records"] for broker in said["brokers"]) == written
    assert {broker["rack"] for broker in said["brokers"]} <= {"rack-1", "rack-2", "rack-3"}
    run = Run(folder)
    assert not (folder / ROWS_FOLDER).exists()
    assert "stopped" not in run.description
    assert (run.description["workers"], len(run.description["hosts"])) == (2, 2)
    ends = offsets(cluster, topic, LATEST)
    offsets_read = ranges(run)
    assert sorted(offsets_read) == list(range(5))
    for partition, of_partition in offsets_read.items():
        assert of_partition[0][0] == 0
        assert of_partition[-1][1] == ends[partition]
        for (_, until), (begins, _) in pairwise(of_partition):
            assert begins == until
    by_client = defaultdict(set)
    for row in run.read("reads").to_pylist():
        by_client[row["client"]].add(row["partition"])
    assert by_client == {
        "kipctl-perf-consumer-0": {0, 2, 4},
        "kipctl-perf-consumer-1": {1, 3},
    }
    # One alone may be Spark's, too.
    alone = kipctl(f"perf consume --topic {topic} --num-records {written} --master local[1]")
    assert alone.status == 0, alone.err
    assert f", {written}, " in alone.out.splitlines()[-1]


def test_producers_and_consumers_are_workers_of_one_run(kipctl: Kipctl, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ran = kipctl(
        "perf e2e --num-records 900 --throughput 400 --record-size 100 --partitions 5 --workers 2 "
        f"--record {folder} -o json",
    )
    assert ran.status == 0, ran.err
    records = ran.document["records"]
    assert (records["acknowledged"], records["delivered"], records["missing"]) == (900, 900, 0)
    run = Run(folder)
    batches = run.read("batches").to_pylist()
    assert {row["client"] for row in batches} == {"kipctl-perf-0", "kipctl-perf-1"}
    read = ranges(run)
    for row in batches:
        last = row["base_offset"] + row["records"] - 1
        assert any(begins <= last < until for begins, until in read[row["partition"]])
    reads = run.read("reads").to_pylist()
    assert {row["client"] for row in reads} == {"kipctl-perf-consumer-0", "kipctl-perf-consumer-1"}
    # All start at one moment: nothing was sent or read before it.
    assert min(row["sent_us"] for row in batches) >= 0
    assert min(row["time_us"] for row in reads) >= 0
    assert ran.document["latency_ms"]["p50"] > 0
