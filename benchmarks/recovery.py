"""A broker that comes back under load: what throttles it, or when its leaders come back.

    python benchmarks/recovery.py [--of throttle|leaders] [--rounds 5] [--behind 2GB]
        [--seconds 40] [--rate 300] [--fixed 40MB/s] [--guard 'p95 > 1.5x and > 10ms']
        [--output json]

A lab of three brokers; broker 3 prefers a small topic, and follows in a large one. In each round it
is stopped, so much is written to the large topic, and it is started again, while one acks=all
writer goes on with the small topic. The arms go in turns, the order turned round every round.

`--of throttle`: the writer alone; a restart that has nothing to copy; no throttle; a fixed rate
(`throttle set`, from before the start on); `throttle adapt`, begun before the start. Aims: p99
within 1.5 of that of the restart alone, time within 1.3 of that without a throttle. `--of leaders`:
they come back at once (`--until balanced --as-they-come`), or when the broker has copied (`--until
balanced`).

Of each: the writer's latency (from when a record was due), and the seconds from the start of the
broker until it was whole, and until its leaders were back. The verdicts are kipctl's own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

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
UNDISTURBED, RESTART = "undisturbed", "restart alone"
FREE, FIXED, ADAPT = "no throttle", "fixed", "adapt"
AT_ONCE, WHEN_WHOLE = "leaders at once", "leaders when whole"
ARMS = {"throttle": (UNDISTURBED, RESTART, FREE, FIXED, ADAPT), "leaders": (AT_ONCE, WHEN_WHOLE)}
COMPARED = {
    "throttle": (
        (UNDISTURBED, RESTART),
        (RESTART, ADAPT),
        (FREE, ADAPT),
        (FIXED, ADAPT),
        (FREE, FIXED),
    ),
    "leaders": ((AT_ONCE, WHEN_WHOLE),),
}
WHOLE, LEADERS_BACK = "whole s", "leaders back s"
FIGURES = ("p50 ms", "p99 ms", "max ms", WHOLE, LEADERS_BACK)
RECORD = 100_000
TIMEOUT_S = 600.0
_QUEUED = 500
"""Records that may wait in the client."""
_WAITS = "waiting for it"
"""What `throttle adapt` says when it has measured what is undisturbed."""


def kipctl(lab: Lab, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kipctl", *words, "--bootstrap-server", lab.bootstrap_server],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(command: subprocess.Popen[str]) -> str:
    """What it printed; a command that failed ends the benchmark."""
    said, why = command.communicate(timeout=TIMEOUT_S)
    if command.returncode:
        raise SystemExit(f"{command.args}: {why}")
    return said


def is_in_sync(admin: AdminClient, topic: str) -> bool:
    """As another client sees it."""
    seen = admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
    return all(len(partition.isrs) == len(partition.replicas) for partition in seen)


def await_in_sync(admin: AdminClient, topic: str) -> None:
    if not wait_until(lambda: is_in_sync(admin, topic), TIMEOUT_S):
        raise SystemExit(f"{topic} is not in sync")


def make(admin: AdminClient, topic: str) -> None:
    config = {"retention.bytes": "-1"}
    new = NewTopic(topic, len(REPLICAS[topic]), replica_assignment=REPLICAS[topic], config=config)
    admin.create_topics([new])[topic].result()
    await_in_sync(admin, topic)


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


def writer(lab: Lab, options: argparse.Namespace) -> subprocess.Popen[str]:
    return kipctl(
        lab,
        *("perf", "produce", "--topic", SMALL, "--num-records"),
        *(str(options.seconds * options.rate), "--throughput", str(options.rate)),
        *("--record-size", "1000", "--output", "json", "--force"),
        *("--command-property", "acks=all"),
    )


@contextmanager
def throttled(lab: Lab, arm: str, options: argparse.Namespace) -> Iterator[None]:
    """While inside, the broker may be started, and copies as the arm has it."""
    topic = ("--topic", LARGE)
    if arm == FIXED:
        ended(kipctl(lab, "throttle", "set", options.fixed, *topic, "--yes"))
    if arm == ADAPT:
        how = ("--begin-at", options.fixed, "--guard", options.guard)
        adapting = kipctl(lab, "throttle", "adapt", *topic, *how, "--yes")
        assert adapting.stderr is not None
        said = ""
        while _WAITS not in said:
            if not (line := adapting.stderr.readline()):
                raise SystemExit(f"throttle adapt has ended: {said}")
            said += line
    yield
    if arm == FIXED:
        ended(kipctl(lab, "throttle", "clear", "--yes"))
    if arm == ADAPT:
        ended(adapting)


def measured(lab: Lab, arm: str, options: argparse.Namespace) -> dict[str, float]:
    """One round of an arm: its FIGURES, as far as it has them."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    figures: dict[str, float] = {}
    if arm == UNDISTURBED:
        load = writer(lab, options)
    else:
        make(admin, LARGE)
        lab.stop(BACK)
        if arm != RESTART:
            fill(lab, options.behind)
        with throttled(lab, arm, options):
            load = writer(lab, options)
            began = time.monotonic()
            lab.start(BACK)
            if arm in ARMS["leaders"]:
                await_in_sync(admin, SMALL)
                at_once = ("--as-they-come",) if arm == AT_ONCE else ()
                until = ("--until", "balanced", "--yes", "--timeout", f"{TIMEOUT_S:g}s")
                electing = kipctl(
                    lab, "elect", "preferred", "--broker", str(BACK), *until, *at_once
                )
                wait_until(
                    lambda: electing.poll() is not None or is_in_sync(admin, LARGE), TIMEOUT_S
                )
                if electing.poll() is None:
                    figures[WHOLE] = time.monotonic() - began
                ended(electing)
                figures[LEADERS_BACK] = time.monotonic() - began
            await_in_sync(admin, LARGE)
            figures.setdefault(WHOLE, time.monotonic() - began)
        admin.delete_topics([LARGE])[LARGE].result()
    latency = json.loads(ended(load))["latency_ms"]
    return figures | {f"{name} ms": latency[name] for name in ("p50", "p99", "max")}


def report(runs: dict[str, list[dict[str, float]]], options: argparse.Namespace) -> Report:
    """Each run, and the verdicts of each figure."""
    figures = [name for name in FIGURES if any(name in run for arm in runs.values() for run in arm)]
    rows = [(arm, *(run.get(name) for name in figures)) for arm in runs for run in runs[arm]]
    verdicts = [
        (name, f"{b}, against {a}", compare(*sides, Scale.RATIO))
        for a, b in COMPARED[options.of]
        for name in figures
        if all(sides := [[run[name] for run in runs[arm] if name in run] for arm in (a, b)])
    ]
    tables = (
        Table("Runs", ("Arm", *(Column(name, digits=1) for name in figures)), tuple(rows)),
        Table(
            "Verdicts",
            ("Figure", "Arms", "Verdict", Column("Low", digits=2), Column("High", digits=2)),
            tuple((*what, verdict.text, verdict.low, verdict.high) for *what, verdict in verdicts),
        ),
    )
    told = {"behind_bytes": options.behind, "rate": options.rate, "fixed": options.fixed}
    return Report("recovery", {**told, "guard": options.guard, "runs": runs}, tables)


def size_of(text: str) -> int:
    """Bytes, as in `2GB` or `200MB`."""
    unit = {"GB": 10**9, "MB": 10**6}[text[-2:]]
    return int(float(text[:-2]) * unit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--of", choices=tuple(ARMS), default="throttle")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--behind", type=size_of, default="2GB")
    parser.add_argument("--seconds", type=int, default=40, help="of the writer")
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--fixed", default="40MB/s")
    parser.add_argument("--guard", default="p95 > 1.5x and > 10ms")
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        unasked = (("leader.imbalance.check.interval.seconds", "86400"),)
        lab = Lab.up(LabSpec(name="recovery", config=unasked), lambda text: None)
        try:
            make(AdminClient({"bootstrap.servers": lab.bootstrap_server}), SMALL)
            for number in range(options.rounds):
                for arm in ARMS[options.of][:: -1 if number % 2 else 1]:
                    began = time.monotonic()
                    runs[arm].append(measured(lab, arm, options))
                    took = time.monotonic() - began
                    print(f"{arm}: {runs[arm][-1]}, {took:.0f} s", file=sys.stderr)
        finally:
            lab.down()
    write(report(runs, options), options.output, sys.stdout, sys.stdout.isatty())


if __name__ == "__main__":
    main()
