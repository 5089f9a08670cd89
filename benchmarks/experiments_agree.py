"""Do the experiments of two trees of kipctl come to the same figures?

    python benchmarks/experiments_agree.py OTHER_TREE [--rounds 3] [--json FILE]

OTHER_TREE is a checkout of another commit, to be run by the same Python. In each round both trees
run each experiment once, on labs of their own, in an order that turns from round to round. A table
shows each measure of each run, and whether the ranges of the two overlap. With the defaults it
takes 45 minutes; nothing else should run.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
EXPERIMENTS = {
    "redirect": "--throughput 150 --partitions 40 --arms probe-kip951,probe-refresh,probe-baseline",
    "batch": "--throughput 150 --partitions 40 --batches 5,all",
    "roll": "--throughput 150 --partitions 40 --acks all --arms probe-kip951,probe-baseline",
    "closest-replica": "--arms probe-kip951 --throughput 150",
}


RENAMED = {
    "latency_ms": ("latency_ms", "end_to_end_ms"),
    "acknowledged_ms": ("acknowledged_ms", "produce_ms"),
    "outage": ("outage", "gone"),
    "ways": ("ways", "reads"),
}
"""Keys of today, and what older trees called them."""


def at(document: Any, key: str) -> Any:
    """What stands there by today's key or an older one."""
    return next(document[name] for name in RENAMED[key] if name in document)


def measures(experiment: str, document: Any) -> Iterator[tuple[str, float | None]]:
    """Names and values of what an experiment's document of one run says."""
    if experiment == "closest-replica":
        for client in document["clients"]:
            for read_from, reads in at(client, "ways").items():
                yield f"{read_from}: own rack, %", reads["own_rack_percent"]
                yield f"{read_from}: records' p50, ms", at(reads, "latency_ms")["p50"]
                outage = at(reads["runs"][0], "outage")
                yield f"{read_from}: pause p50, ms", outage["pause_ms"]["p50"]
    elif experiment == "roll":
        for arm in document["cells"][0]["arms"]:
            yield f"{arm['arm']}: acknowledged p50, ms", at(arm, "acknowledged_ms")["p50"]
            yield f"{arm['arm']}: acknowledged p99, ms", at(arm, "acknowledged_ms")["p99"]
            wait = arm["redirects"]["moves"]["wait_ms"]
            yield f"{arm['arm']}: wait p50, ms", wait["p50"]
    else:
        for arm in document["arms"]:
            name = arm["arm"] if experiment == "redirect" else f"{arm['batch']} at a time"
            if experiment == "batch":
                yield f"{name}: rotation, ms", arm["rotation_ms"]
            yield f"{name}: wait p50, ms", arm["move_wait_ms"]
            yield f"{name}: records' p50, ms", arm["latency_ms"]["p50"]
            yield f"{name}: records' p99, ms", arm["latency_ms"]["p99"]


def run(tree: Path, experiment: str) -> dict[str, float | None]:
    """The measures of one run of the tree's experiment, on a lab of its own."""
    options = EXPERIMENTS[experiment].split()
    command = [sys.executable, "-m", "kipctl", "experiment", experiment, "--runs", "1"]
    ended = subprocess.run(
        [*command, *options, "-o", "json"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return dict(measures(experiment, json.loads(ended.stdout)))


def row(name: str, other: list[float | None], this: list[float | None]) -> str:
    """A row of the table: both sides' runs, and whether their ranges overlap."""
    sides = [[value for value in side if value is not None] for side in (other, this)]
    if all(sides):
        apart = max(sides[0]) < min(sides[1]) or max(sides[1]) < min(sides[0])
    else:
        apart = bool(sides[0]) != bool(sides[1])
    shown = (", ".join("-" if v is None else f"{v:,.1f}" for v in side) for side in (other, this))
    return f"| {name} | {' | '.join(shown)} | {'no' if apart else 'yes'} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=EXPERIMENTS, action="append")
    parser.add_argument("--json", type=Path, help="keep the figures there, after each run")
    asked = parser.parse_args()
    trees = {"other": asked.other.resolve(), "this": HERE}
    experiments = asked.only or list(EXPERIMENTS)
    figures: dict[str, dict[str, list[dict[str, float | None]]]] = {
        experiment: {side: [] for side in trees} for experiment in experiments
    }
    for number in range(asked.rounds):
        for experiment in experiments:
            for side in sorted(trees, reverse=bool(number % 2)):
                figures[experiment][side].append(run(trees[side], experiment))
                if asked.json:
                    asked.json.write_text(json.dumps(figures))
    for experiment, by_side in figures.items():
        print(
            f"\n{experiment}\n\n| measure | other tree | this tree | overlap |\n|---|---|---|---|"
        )
        for name in by_side["this"][0]:
            print(row(name, *([values.get(name) for values in by_side[side]] for side in trees)))


if __name__ == "__main__":
    main()
