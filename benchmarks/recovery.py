"""A broker that comes back under load: no throttle, a fixed rate, a rate that adapts.

    python benchmarks/recovery.py [--rounds 5] [--behind 2GB] [--seconds 60] [--rate 300]
        [--fixed 20MB/s] [--guard 'p99 > 50ms'] [--output json]

The lab, the topics and the writer are those of broker_back.py. In each round broker 3 is stopped,
so much is written to the large topic, and it is started again, while one acks=all writer goes on
with the small topic: without a throttle, at a fixed rate (`throttle set`, from before the start
on), and with `throttle adapt` from that rate on, in turns, the order turned round every round. A
fourth arm has the writer alone. Of each: the writer's latency (from when a record was due), and the
seconds from the start of the broker until it was whole. Aims: p99 within 1.5 of undisturbed, time
within 1.3 of that without a throttle. The verdicts are kipctl's own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict

from broker_back import BACK, LARGE, SMALL, TIMEOUT_S, fill, is_in_sync, kipctl, make, size_of
from confluent_kafka.admin import AdminClient

from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.process import wait_until
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table
from kipctl.verdict import Scale, compare

UNDISTURBED, FREE, FIXED, ADAPT = "undisturbed", "no throttle", "fixed", "adapt"
ARMS = (UNDISTURBED, FREE, FIXED, ADAPT)
LATENCIES = ("p50 ms", "p99 ms", "max ms")
WHOLE = "whole s"
COMPARED = ((UNDISTURBED, ADAPT), (FREE, ADAPT), (FIXED, ADAPT), (FREE, FIXED))


def ended(command: subprocess.Popen[str]) -> str:
    """What it printed; a command that failed ends the benchmark."""
    said, why = command.communicate(timeout=TIMEOUT_S)
    if command.returncode:
        raise SystemExit(f"{command.args}: {why}")
    return said


def writer(lab: Lab, options: argparse.Namespace) -> subprocess.Popen[str]:
    return kipctl(
        lab,
        *("perf", "produce", "--topic", SMALL, "--num-records"),
        *(str(options.seconds * options.rate), "--throughput", str(options.rate)),
        *("--record-size", "1000", "--output", "json", "--force"),
        *("--command-property", "acks=all"),
    )


def measured(lab: Lab, arm: str, options: argparse.Namespace) -> dict[str, float]:
    """One round of an arm: the writer's latencies, and when the broker was whole."""
    found: dict[str, float] = {}
    if arm == UNDISTURBED:
        load = writer(lab, options)
    else:
        admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
        make(admin, LARGE)
        lab.stop(BACK)
        fill(lab, options.behind)
        if arm in (FIXED, ADAPT):
            ended(kipctl(lab, "throttle", "set", options.fixed, "--topic", LARGE, "--yes"))
        load = writer(lab, options)
        began = time.monotonic()
        lab.start(BACK)
        adapting = None
        if arm == ADAPT:
            at = ("--topic", LARGE, "--begin-at", options.fixed)
            adapting = kipctl(lab, "throttle", "adapt", *at, "--yes", "--guard", options.guard)
        if not wait_until(lambda: is_in_sync(admin, LARGE), TIMEOUT_S):
            raise SystemExit(f"{LARGE} is not in sync")
        found[WHOLE] = time.monotonic() - began
        if adapting:
            ended(adapting)
        if arm == FIXED:
            ended(kipctl(lab, "throttle", "clear", "--yes"))
        admin.delete_topics([LARGE])[LARGE].result()
    latency = json.loads(ended(load))["latency_ms"]
    return found | {f"{name} ms": latency[name] for name in ("p50", "p99", "max")}


def report(runs: dict[str, list[dict[str, float]]], options: argparse.Namespace) -> Report:
    """Each run, and the verdicts of each figure."""
    figures = (*LATENCIES, WHOLE)
    rows = [(arm, *(run.get(name) for name in figures)) for arm in ARMS for run in runs[arm]]
    verdicts = [
        (name, f"{b}, against {a}", compare(*sides, Scale.RATIO))
        for a, b in COMPARED
        for name in figures
        if all(sides := [[run[name] for run in runs[arm] if name in run] for arm in (a, b)])
    ]
    tables = (
        Table("Runs", ("Arm", *(Column(name, digits=1) for name in figures)), tuple(rows)),
        Table(
            "Verdicts",
            ("Figure", "Arms", "Verdict", Column("Low", digits=2), Column("High", digits=2)),
            tuple((name, arms, one.text, one.low, one.high) for name, arms, one in verdicts),
        ),
    )
    told = {"behind_bytes": options.behind, "rate": options.rate, "fixed": options.fixed}
    return Report("recovery", {**told, "guard": options.guard, "runs": runs}, tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--behind", type=size_of, default="2GB")
    parser.add_argument("--seconds", type=int, default=60, help="of the writer")
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--fixed", default="20MB/s")
    parser.add_argument("--guard", default="p99 > 50ms")
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
                for arm in ARMS[:: -1 if number % 2 else 1]:
                    runs[arm].append(measured(lab, arm, options))
        finally:
            lab.down()
    write(report(runs, options), options.output, sys.stdout, sys.stdout.isatty())


if __name__ == "__main__":
    main()
