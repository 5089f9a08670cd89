"""The ways to a new leader beside each other, at a fixed rate and with full windows.

    python benchmarks/arms.py [--rounds 3] [--records 100000] [--rate 1000] [--output json]

Each way produces with acks=all to 100 partitions on a lab of 3 brokers, three replicas each, while
all leaders are moved once a second: `--records` without a limit, then eight seconds at `--rate`, in
turns, the order turned round every round. What a client could save is `client_share_ms`; under full
windows a way that needs Metadata must not wait for it longer than at a fixed rate by more than a
full window takes. Figures are medians of the rounds with the least and the greatest.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict

from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table

SECONDS = 8
FIGURES = {
    "redirected batches": lambda run: run["redirects"]["batches"],
    "client's p50 ms": lambda run: run["redirects"]["client_share_ms"]["p50"],
    "client's p99 ms": lambda run: run["redirects"]["client_share_ms"]["p99"],
    "Metadata p50 ms": lambda run: run["redirects"]["phases_ms"]["metadata"]["p50"],
    "queued p50 ms": lambda run: run["redirects"]["phases_ms"]["queued"]["p50"],
    "Metadata requests": lambda run: run["metadata_rpcs"]["total"],
    "waited for": lambda run: run["metadata_rpcs"]["on_critical_path"],
    "failed": lambda run: run["records"]["failed"],
}


def produce(lab: Lab, arm: str, records: int, rate: int) -> list[float]:
    """One run's FIGURES."""
    said = subprocess.run(
        [
            *(sys.executable, "-m", "kipctl", "perf", "produce"),
            *("--bootstrap-server", lab.bootstrap_server, "--leader-discovery", arm),
            *("--num-records", str(records), "--throughput", str(rate), "--record-size", "1000"),
            *("--during", "rotate", "--every", "1", "--partitions", "100", "--output", "json"),
            *("--command-property", "acks=all", "linger.ms=0", "batch.size=16384"),
        ],
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    run = json.loads(said.stdout)
    return [float(figure(run)) for figure in FIGURES.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=100_000, help="with full windows")
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options = parser.parse_args()
    loads = {"full windows": (options.records, -1)}
    loads[f"{options.rate}/s"] = options.rate * SECONDS, options.rate
    runs: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    lab = Lab.up(LabSpec(name=f"arms-{os.getpid()}"), lambda text: None)
    try:
        for number in range(options.rounds):
            arms = list(LeaderDiscovery)[:: -1 if number % 2 else 1]
            for load, (records, rate) in loads.items():
                for arm in arms:
                    runs[load, arm].append(produce(lab, arm, records, rate))
    finally:
        lab.down()
    rows = [
        (load, arm, *(_spread(figure) for figure in zip(*runs[load, arm], strict=True)))
        for load in loads
        for arm in LeaderDiscovery
    ]
    title = f"Ways to a new leader, {options.rounds} rounds"
    columns = ("load", "way", *(Column(name, right=True) for name in FIGURES))
    report = Report("benchmark arms", {}, (Table(title, columns, tuple(rows)),))
    write(report, options.output, sys.stdout, False)


def _spread(figures: tuple[float, ...]) -> str:
    return f"{statistics.median(figures):.1f} ({min(figures):.1f} to {max(figures):.1f})"


if __name__ == "__main__":
    main()
