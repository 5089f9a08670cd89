"""Drain, replace and re-replicate with data and under load: what was told against what came.

    python benchmarks/copying.py [--size 5GB] [--throttle 50MB/s] [--output json]

A lab of four brokers; a topic of 12 partitions with two replicas on brokers 1 to 3, so much data
(bytes of records, before they are replicated) and 100 records of 1,000 bytes a second meanwhile.
One after the other: `--drain 3`, `--replace 1=3`, `--replication-factor 3`. Of each: bytes told
beforehand against bytes copied; the throttle against the most that one broker took in, after the
first 11 s and but for the last tenth (from its log directories, asked each second); the time that
was told to be left after the first tenth against what it took then. Aims: 5 %, 10 %, 20 %. A broker
lets 11 s of its rate through at once before the throttle bites, so that little data shows little.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kipctl.cli.options import parse_rate
from kipctl.cluster.log_dirs import reported_sizes
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.protocol.describe_log_dirs import DescribeLogDirsRequest
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Cell, Column, Report, Table
from kipctl.transport.request import Cluster

TOPIC, PARTITIONS = "data", 12
BROKERS = (1, 2, 3, 4)
RECORD = 100_000
WAYS = ("--drain 3", "--replace 1=3", "--replication-factor 3")
FIRST_TENTH = 0.1
BURST_S = 11.0
"""A quota is kept over so many windows of a second (`replication.quota.window.num`)."""
_LINE = re.compile(r"Copied ([\d.]+) of ([\d.]+) (\w+), .*, (.+) left")
_TIMES = {"h": 3600, "min": 60, "s": 1}


def seconds_of(text: str) -> int:
    """Of a time such as `1 min 20 s`."""
    words = text.split()
    return sum(int(n) * _TIMES[unit] for n, unit in zip(words[::2], words[1::2], strict=True))


@dataclass
class Watch:
    """What each broker holds of the topic, second by second, in bytes."""

    servers: str
    seen: list[tuple[float, dict[int, int]]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self.over.set()
            thread.join()

    def _run(self) -> None:
        with Cluster(self.servers) as cluster:
            while not self.over.wait(1.0):
                held = {}
                for broker in BROKERS:
                    answer = cluster.broker(broker).request(DescribeLogDirsRequest(topics=None))
                    sizes, _ = reported_sizes(broker, answer)
                    held[broker] = sum(n for part, n in sizes.items() if part.topic == TOPIC)
                self.seen.append((time.monotonic(), held))

    def most_taken(self, began: float) -> float | None:
        """Bytes per second that the busiest broker took in, when its first seconds were over."""
        rates = []
        for broker in BROKERS:
            grown = [(t, held[broker]) for t, held in self.seen if t >= began]
            if not grown:
                continue
            enough = grown[0][1] + 0.9 * (grown[-1][1] - grown[0][1])
            steady = [(t, n) for t, n in grown if t >= began + BURST_S and n <= enough]
            if len(steady) > 1:
                (first_s, first), (last_s, last) = steady[0], steady[-1]
                rates.append((last - first) / (last_s - first_s))
        return max(rates, default=None)


def fill(lab: Lab, size: int) -> None:
    """Make the topic, and write so many bytes into it."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server})
    replicas = [[1 + n % 3, 1 + (n + 1) % 3] for n in range(PARTITIONS)]
    config = {"retention.bytes": "-1", "retention.ms": "-1"}
    topic = NewTopic(TOPIC, PARTITIONS, replica_assignment=replicas, config=config)
    admin.create_topics([topic])[TOPIC].result()
    producer = Producer(
        {"bootstrap.servers": lab.bootstrap_server, "queue.buffering.max.kbytes": 65536}
    )
    value = os.urandom(RECORD)
    for number in range(size // RECORD):
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(600) == 0


@contextmanager
def load(environment: dict[str, str], folder: Path) -> Iterator[None]:
    """100 records a second to the topic, until it is left."""
    words = f"perf produce --topic {TOPIC} --force --num-records 10000000 --throughput 100"
    with (folder / "load").open("wb") as said:
        child = subprocess.Popen(
            [sys.executable, "-m", "kipctl", *words.split(), "--record-size", "1000"],
            env=environment,
            stdout=said,
            stderr=said,
        )
        try:
            yield
        finally:
            child.terminate()
            child.wait(60)


def moved(way: str, throttle: str, servers: str, environment: dict[str, str]) -> tuple[Cell, ...]:
    """Carry it out, and compare."""
    watch = Watch(servers)
    words = ["reassign", *way.split(), "--topic", TOPIC, "--throttle", throttle, "--yes"]
    told: list[tuple[float, float, int]] = []
    said: list[str] = []
    with watch.running():
        child = subprocess.Popen(
            [sys.executable, "-m", "kipctl", *words, "--timeout", "7200", "-o", "json"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert child.stdout
        assert child.stderr
        for line in child.stderr:
            said.append(line)
            if match := _LINE.search(line):
                share = float(match[1]) / float(match[2])
                told.append((time.monotonic(), share, seconds_of(match[4])))
        out = child.stdout.read()
        ended = time.monotonic()
        if child.wait() not in (0, 5):
            raise SystemExit("".join(said))
    copied = json.loads(out)["copied"]
    # After it there are an election and the end of the process; both are short against copying.
    began = ended - copied["seconds"]
    after_a_tenth = next((progress for progress in told if progress[1] >= FIRST_TENTH), None)
    left_told = after_a_tenth[2] if after_a_tenth else None
    left = ended - after_a_tenth[0] if after_a_tenth else None
    taken = watch.most_taken(began)
    return (
        way,
        copied["expected_bytes"] / 1e6,
        copied["copied_bytes"] / 1e6,
        _off(copied["copied_bytes"], copied["expected_bytes"]),
        copied["seconds"],
        None if taken is None else taken / 1e6,
        None if taken is None else _off(taken, parse_rate(throttle)),
        left_told,
        left,
        None if left_told is None or left is None else _off(left_told, left),
        child.returncode,
    )


def _off(value: float, by: float) -> float | None:
    return 100 * (value / by - 1) if by else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="5GB")
    parser.add_argument("--throttle", default="50MB/s")
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options = parser.parse_args()
    size = parse_rate(f"{options.size}/s")
    lab = Lab.up(
        LabSpec(name=f"copying-{os.getpid()}", brokers=len(BROKERS), c1_only=True), lambda _: None
    )
    rows = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {
                "KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server,
                "XDG_STATE_HOME": folder,
            }
            fill(lab, size)
            with load(environment, Path(folder)):
                for way in WAYS:
                    rows.append(moved(way, options.throttle, lab.bootstrap_server, environment))
                    print(*rows[-1], file=sys.stderr)
    finally:
        lab.down()
    columns = (
        "Way",
        Column("MB told", digits=1),
        Column("MB copied", digits=1),
        Column("off %", digits=1),
        Column("s", digits=1),
        Column("MB/s into one broker", digits=1),
        Column("off %", digits=1),
        Column("s left, told", digits=0),
        Column("s left", digits=0),
        Column("off %", digits=0),
        "Status",
    )
    title = f"{options.size} in {PARTITIONS} partitions, throttle {options.throttle}"
    table = Table(title, columns, tuple(rows))
    write(Report("copying", {}, (table,)), options.output, sys.stdout, sys.stdout.isatty())


if __name__ == "__main__":
    main()
