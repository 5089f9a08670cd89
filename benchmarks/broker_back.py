"""Leaders back at once to a broker that still copies, against leaders back when it is whole.

    python benchmarks/broker_back.py [--rounds 5] [--behind 2GB] [--seconds 40] [--rate 300]
        [--output json]

A lab of three brokers; broker 3 prefers a small topic, and follows in a large one. In each round it
is stopped, so much is written to the large topic, and it is started again; meanwhile one acks=all
writer goes on with the small topic. As soon as that is in sync the leaders come back: at once
(`--until balanced --as-they-come`) in one arm, when the broker has copied (`--until balanced`) in
the other, in turns, the order turned round every round. Of each: the writer's latency (from when a
record was due), and the seconds from the start of the broker until its leaders were back, and until
it was whole. The verdict is kipctl's own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.process import wait_until
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table
from kipctl.verdict import Scale, compare

SMALL, LARGE = "small", "large"
BACK = 3
REPLICAS = {
    SMALL: [[BACK, 1], [BACK, 2], [BACK, 1], [BACK, 2]],
    LARGE: [[1, BACK], [2, BACK], [1, BACK], [2, BACK], [1, BACK], [2, BACK]],
}
ARMS = {"at once": ("--as-they-come",), "when whole": ()}
FIGURES = ("p50 ms", "p99 ms", "max ms", "leaders back s", "whole s")
RECORD = 100_000
TIMEOUT_S = 600.0
_QUEUED = 500
"""Records that may wait in the client."""


def kipctl(lab: Lab, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kipctl", *words, "--bootstrap-server", lab.bootstrap_server],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def is_in_sync(admin: AdminClient, topic: str) -> bool:
    """As another client sees it."""
    seen = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
    return all(len(one.isrs) == len(one.replicas) for one in seen)


def make(admin: AdminClient, topic: str) -> None:
    config = {"retention.bytes": "-1"}
    new = NewTopic(topic, len(REPLICAS[topic]), replica_assignment=REPLICAS[topic], config=config)
    admin.create_topics([new])[topic].result()
    if not wait_until(lambda: is_in_sync(admin, topic), TIMEOUT_S):
        raise SystemExit(f"{topic} is not in sync")


def fill(lab: Lab, size: int) -> None:
    """Write so many bytes to the large topic."""
    producer = Producer({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    value = os.urandom(RECORD)
    for number in range(size // RECORD):
        while len(producer) > _QUEUED:
            producer.poll(0.1)
        producer.produce(LARGE, value, partition=number % len(REPLICAS[LARGE]))
    if producer.flush(TIMEOUT_S):
        raise SystemExit("not all was written")


def measured(lab: Lab, arm: str, behind: int, seconds: int, rate: int) -> list[float]:
    """One round of an arm: its FIGURES."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    make(admin, LARGE)
    lab.stop(BACK)
    fill(lab, behind)
    writer = kipctl(
        lab,
        *("perf", "produce", "--topic", SMALL, "--num-records", str(seconds * rate)),
        *("--throughput", str(rate), "--record-size", "1000", "--output", "json"),
        *("--force", "--command-property", "acks=all"),
    )
    began = time.monotonic()
    lab.start(BACK)
    if not wait_until(lambda: is_in_sync(admin, SMALL), TIMEOUT_S):
        raise SystemExit(f"{SMALL} is not in sync")
    election = kipctl(
        lab,
        *("elect", "preferred", "--broker", str(BACK), "--until", "balanced", "--yes"),
        *("--timeout", f"{TIMEOUT_S:g}s", *ARMS[arm]),
    )
    back_s = whole_s = None
    while back_s is None or whole_s is None:
        now = time.monotonic() - began
        if back_s is None and election.poll() is not None:
            back_s = now
        if whole_s is None and is_in_sync(admin, LARGE):
            whole_s = now
        time.sleep(0.1)
    said, why = writer.communicate(timeout=TIMEOUT_S)
    _, why_not = election.communicate()
    if election.returncode or writer.returncode:
        raise SystemExit(f"{why_not}{why}")
    admin.delete_topics([LARGE])[LARGE].result()
    latency = json.loads(said)["latency_ms"]
    return [latency["p50"], latency["p99"], latency["max"], back_s, whole_s]


def report(runs: dict[str, list[list[float]]], options: argparse.Namespace) -> Report:
    """Each run, and the verdict of each figure."""
    rows = [(arm, *run) for arm in ARMS for run in runs[arm]]
    at_once, when_whole = (list(zip(*runs[arm], strict=True)) for arm in ARMS)
    verdicts = {
        figure: compare(a, b, Scale.RATIO)
        for figure, a, b in zip(FIGURES, at_once, when_whole, strict=True)
    }
    tables = (
        Table("Runs", ("Leaders back", *(Column(name, digits=1) for name in FIGURES)), tuple(rows)),
        Table(
            "When whole, against at once",
            ("Figure", "Verdict", Column("Low", digits=2), Column("High", digits=2)),
            tuple((name, one.text, one.low, one.high) for name, one in verdicts.items()),
        ),
    )
    told = {"behind_bytes": options.behind, "rate": options.rate, "figures": FIGURES, "runs": runs}
    return Report("broker-back", told, tables)


def size_of(text: str) -> int:
    """Bytes, as in `2GB` or `200MB`."""
    unit = {"GB": 10**9, "MB": 10**6}[text[-2:]]
    return int(float(text[:-2]) * unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--behind", type=size_of, default="2GB")
    parser.add_argument("--seconds", type=int, default=40, help="of the writer")
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options = parser.parse_args()
    runs: dict[str, list[list[float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        unasked = (("leader.imbalance.check.interval.seconds", "86400"),)
        lab = Lab.up(LabSpec(name="broker-back", config=unasked), lambda text: None)
        try:
            make(AdminClient({"bootstrap.servers": lab.bootstrap_server}), SMALL)
            for number in range(options.rounds):
                for arm in list(ARMS)[:: -1 if number % 2 else 1]:
                    figures = (options.behind, options.seconds, options.rate)
                    runs[arm].append(measured(lab, arm, *figures))
        finally:
            lab.down()
    write(report(runs, options), options.output, sys.stdout, sys.stdout.isatty())


if __name__ == "__main__":
    main()
