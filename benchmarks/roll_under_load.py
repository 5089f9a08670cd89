"""A roll of six brokers and three controllers under an acks=all load, with a guard and a canary.

    python benchmarks/roll_under_load.py [--brokers 6] [--controllers 3] [--rate 1000]
        [--partitions 60] [--output json]

Tells by node how long it took and what the canary waited for leaders that moved while that node was
in hand; and holds every record that another client got acknowledged beside the log, read to its
end by that client too: each has to be there once.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from acknowledged import Load, Reader, check, load
from confluent_kafka.admin import AdminClient, NewTopic

from kipctl.cluster.topics import await_topic
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.report.formats import OutputFormat, write
from kipctl.report.guard_tables import guard_table
from kipctl.report.roll_tables import node_tables
from kipctl.report.tables import Report
from kipctl.transport.request import Cluster

NAME = "roll-under-load"
GUARDS = ("under-min-isr > 0", "p99 > 10s for 10s", "moved-wait p50 > 5s")


def make_topic(lab: Lab, partitions: int, brokers: int) -> None:
    """Three replicas each, two in sync at least, leaders spread evenly."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap_server, "log_level": 0})
    replicas = [[(n + step) % brokers + 1 for step in range(3)] for n in range(partitions)]
    config = {"min.insync.replicas": "2", "retention.bytes": "-1"}
    topic = NewTopic(NAME, partitions, replica_assignment=replicas, config=config)
    admin.create_topics([topic])[NAME].result()
    with Cluster(lab.bootstrap_server, NAME, 30) as cluster:
        await_topic(cluster, NAME, partitions)


def roll(lab: Lab) -> tuple[int, dict[str, Any]]:
    """The status, and the document."""
    guards = [word for guard in GUARDS for word in ("--guard", guard)]
    ran = subprocess.run(
        [sys.executable, "-m", "kipctl", "roll", "--lab", "--controllers", *guards, "-o", "json"],
        env=os.environ | {"KIPCTL_BOOTSTRAP_SERVER": lab.bootstrap_server},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return ran.returncode, json.loads(ran.stdout or "{}")


def report(document: dict[str, Any], status: int, seconds: float, load: Load, lost: str) -> Report:
    """The roll's own tables, and what became of the load."""
    tables = (*node_tables(document["steps"]), guard_table(document["guard"]))
    acknowledged = sum(load.acknowledged.values())
    closing = (
        f"Status {status} after {seconds:.0f} s.",
        f"{acknowledged:,} records were acknowledged, {len(load.failed)} failed."
        + (f" {lost}." if lost else " Each acknowledged one is in the log once."),
    )
    figures = {"seconds": seconds, "acknowledged": acknowledged, "failed": len(load.failed)}
    return Report(NAME, {"roll": document, **figures, "lost": lost}, tables, closing)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=6)
    parser.add_argument("--controllers", type=int, default=3)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--partitions", type=int, default=60)
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        unasked = (("leader.imbalance.check.interval.seconds", "86400"),)
        size = {"brokers": options.brokers, "controllers": options.controllers}
        spec = LabSpec(name=NAME, c1_only=True, config=unasked, **size)
        lab = Lab.up(spec, lambda text: None)
        try:
            make_topic(lab, options.partitions, options.brokers)
            bootstrap = lab.bootstrap_server
            began = time.monotonic()
            with load(bootstrap, NAME, options.partitions, rate=options.rate) as settled:
                status, document = roll(lab)
                seconds = time.monotonic() - began
            lost = check(settled, Reader(bootstrap, NAME, options.partitions))
        finally:
            lab.down()
    told = report(document, status, seconds, settled, lost)
    write(told, options.output, sys.stdout, sys.stdout.isatty())
    sys.exit(bool(status or lost or settled.failed))


if __name__ == "__main__":
    main()
