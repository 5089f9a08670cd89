"""`kipctl perf consume --workers` and `perf e2e --workers`, on real brokers and a real Spark."""

import contextlib
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from one_process import OneProcess

from kipctl.cluster.topics import (
    LATEST,
    await_no_topics,
    await_topic,
    create_topics,
    delete_topics,
    offsets,
)
from kipctl.lab.cluster import Lab
from kipctl.trace.store import ROWS_FOLDER, Run
from kipctl.transport.request import Cluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

Document = Callable[[str], dict[str, Any]]
PARTITIONS = 5
RECORDS = 4000
VALUE = b"v" * 200
LONG_MS = 600_000
"""Longer than a test may take: workers that end before have been told that all is read."""


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(lab.bootstrap_server) as connected:
        yield connected


@pytest.fixture
def topic(lab: Lab, cluster: Cluster) -> Iterator[str]:
    """Of 5 partitions, which two workers share, with records of various batches."""
    name = "consume-workers-test"
    create_topics(lab.bootstrap_server, [name], PARTITIONS, 3)
    await_topic(cluster, name, PARTITIONS)
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "linger.ms": 5})
    for number in range(RECORDS):
        producer.produce(name, VALUE, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    yield name
    delete_topics(lab.bootstrap_server, [name])
    await_no_topics(cluster, [name])


def started(lab: Lab, words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kipctl", "perf", *words.split()],
        env=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def document(lab: Lab, kipctl_again: OneProcess) -> Document:
    """What `kipctl perf` with these words says on the lab, in the end."""

    def said(words: str) -> dict[str, Any]:
        cluster = {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server}
        said = kipctl_again("perf", *words.split(), "--output", "json", **cluster)
        assert said.status == 0, said.err
        return said.document

    return said


def ranges(run: Run) -> dict[int, list[tuple[int, int]]]:
    """The offsets that were read of each partition, from and to, in the order of time."""
    found = defaultdict(list)
    for row in sorted(run.read("reads").to_pylist(), key=lambda row: row["time_us"]):
        if row["records"]:
            found[row["partition"]].append((row["fetch_offset"], row["next_offset"]))
    return found


def test_two_workers_read_each_record_once(
    document: Document, cluster: Cluster, topic: str, spark_master: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    said = document(
        f"consume --topic {topic} --num-records {RECORDS} --workers 2 --master {spark_master} "
        f"--client-rack rack-1 --timeout {LONG_MS} --record {folder}",
    )
    assert said["records"]["read"] == RECORDS
    assert said["partitions"] == PARTITIONS
    assert sum(broker["records"] for broker in said["brokers"]) == RECORDS
    assert {broker["rack"] for broker in said["brokers"]} <= {"rack-1", "rack-2", "rack-3"}
    run = Run(folder)
    assert not (folder / ROWS_FOLDER).exists()
    assert "stopped" not in run.description
    assert (run.description["workers"], len(run.description["hosts"])) == (2, 2)
    ends = offsets(cluster, topic, LATEST)
    read = ranges(run)
    assert sorted(read) == list(range(PARTITIONS))
    for partition, of_partition in read.items():
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


def test_a_consumer_that_dies_fails_the_run_and_what_is_known_is_kept(
    lab: Lab, topic: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    with started(
        lab,
        f"consume --topic {topic} --num-records {RECORDS + 1} --workers 2 "
        f"--timeout {LONG_MS} --record {folder} --show-detailed-stats --reporting-interval 200",
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if f", {RECORDS}, " in line:  # all that there is
                break
        rows = folder / ROWS_FOLDER / "1" / "reads.i64"
        (pid,) = (pid for pid in holders_of(rows) if pid != process.pid)  # kipctl reads it
        os.kill(pid, signal.SIGKILL)
        out, err = process.communicate()
    assert (process.returncode, out) == (8, ""), err
    error = err[err.index("kipctl: ") :]
    assert len(error.splitlines()) <= 3
    assert "Worker 1 of 2" in error
    assert f"{RECORDS} records were read. What is known is in {folder}." in error
    run = Run(folder)
    assert run.description["failed"].startswith("Worker 1 of 2")
    assert run.description["summary"]["records"]["read"] == RECORDS
    assert sum(row["records"] for row in run.read("reads").to_pylist()) == RECORDS
    assert sorted(ranges(run)) == list(range(PARTITIONS))
    assert not (folder / ROWS_FOLDER).exists()


def holders_of(file: Path) -> list[int]:
    """The processes that have the file open."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):  # it has ended, or closed the file
            if os.readlink(link) == str(file):
                found.add(int(link.parts[2]))
    return sorted(found)


def test_producers_and_consumers_are_workers_of_one_run(
    document: Document, cluster: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    said = document(
        "e2e --num-records 3000 --throughput 1500 --record-size 100 --partitions 5 --workers 2 "
        f"--record {folder}",
    )
    records = said["records"]
    assert (records["acknowledged"], records["delivered"], records["missing"]) == (3000, 3000, 0)
    run = Run(folder)
    batches = run.read("batches").to_pylist()
    assert {row["client"] for row in batches} == {"kipctl-perf-0", "kipctl-perf-1"}
    read = ranges(run)
    for row in batches:
        last = row["base_offset"] + row["records"] - 1
        assert any(begins <= last < until for begins, until in read[row["partition"]])
    clients = {row["client"] for row in run.read("reads").to_pylist()}
    assert clients == {"kipctl-perf-consumer-0", "kipctl-perf-consumer-1"}
    # All start at one moment: nothing was sent or read before it.
    assert min(row["sent_us"] for row in batches) >= 0
    assert min(row["time_us"] for row in run.read("reads").to_pylist()) >= 0
    assert said["latency_ms"]["p50"] > 0
