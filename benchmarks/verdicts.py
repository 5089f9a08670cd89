"""Is the verdict right? Equal runs called different, and planted faults found, in 400 comparisons.

    python benchmarks/verdicts.py [--comparisons 400] [--runs 3,4,5]

Runs are simulated, so that the truth is known (`simulated_runs.py`). False alarms: of equal runs,
how often a measure asked for by itself is called different (the most of all measures), and how
often any of all measures asked at once is. Found: how often the measures that a fault is planted
in are called different, any of them, asked at once with all others. It takes half a minute.
"""

import argparse
import sys
from collections.abc import Iterator

import numpy as np
from simulated_runs import FAULTS, KINDS, SCALES, Kind, Values, runs

from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table
from kipctl.verdict import Verdict, adjusted, compare

SHOWN_BY = {
    "outage": ("p99", "p999", "throughput"),
    "failures": ("failed",),
    "redirects": ("redirected",),
    "wait": ("move_wait_p50",),
}
"""The measures that a fault is to be seen in."""


def comparisons(
    count: int, each: int, kind: Kind, fault: str = "", seed: int = 1
) -> Iterator[dict[str, Verdict]]:
    """So many comparisons of `each` runs with as many others, which have the fault."""
    chance = np.random.default_rng(seed)
    a, b = runs(count * each, kind, chance), runs(count * each, kind, chance, fault)
    for number in range(count):
        yield adjusted(
            {
                name: compare(_of(a, name, number, each), _of(b, name, number, each), scale)
                for name, scale in SCALES.items()
            }
        )


def _of(values: Values, name: str, number: int, each: int) -> list[float]:
    figures: list[float] = values[name][number * each : (number + 1) * each].tolist()
    return figures


def false_alarms(count: int, each: int, kind: Kind, seed: int = 1) -> tuple[float, float]:
    """Of equal runs, in percent: the most that one measure has alone, and any of all at once."""
    compared = list(comparisons(count, each, kind, seed=seed))
    alone = max(sum(bool(row[name].is_different_alone) for row in compared) for name in SCALES)
    at_once = sum(any(verdict.is_different for verdict in row.values()) for row in compared)
    return 100 * alone / count, 100 * at_once / count


def found_percent(count: int, each: int, kind: Kind, fault: str, seed: int = 1) -> float:
    """How often the fault is found, in percent."""
    compared = comparisons(count, each, kind, fault, seed)
    hits = sum(any(row[name].is_different for name in SHOWN_BY[fault]) for row in compared)
    return 100 * hits / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--comparisons", type=int, default=400)
    parser.add_argument("--runs", default="3,4,5")
    options = parser.parse_args()
    counts = [int(each) for each in options.runs.split(",")]
    rows = []
    for each in counts:
        for kind in KINDS:
            rates = (found_percent(options.comparisons, each, kind, fault) for fault in FAULTS)
            alarms = false_alarms(options.comparisons, each, kind)
            rows.append((each, str(kind), *alarms, *rates))
    table = Table(
        f"{options.comparisons} comparisons of each kind, in percent",
        (
            "runs a side",
            "runs",
            Column("false alarms, one measure", 1),
            Column("any of all", 1),
            *(Column(f"found: {fault}", 1) for fault in FAULTS),
        ),
        tuple(rows),
        tuple(f"{fault}: {text}." for fault, text in FAULTS.items()),
    )
    write(Report("verdicts", {}, (table,)), OutputFormat.TABLE, sys.stdout, sys.stdout.isatty())


if __name__ == "__main__":
    main()
