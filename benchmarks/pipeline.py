"""Exact percentiles of synthetic runs of any size: kipctl's pipeline, DuckDB and polars.

    python benchmarks/pipeline.py [--records 4000000 40000000 200000000] [--rounds 3]

The work: of a recorded run (`benchmarks/synthetic.py`), by topic, the nearest-rank percentiles p50
to p99.99, mean and maximum of latency and of service time, over all records that were acknowledged
after the warm-up. All read the same Parquet files, and every answer is checked against the known
one. DuckDB and polars each do it in two ways:

- *counted*, as kipctl does: alike batches are counted first, expanded to records with that weight,
  counted by microsecond, and the counts summed up in order;
- *plain*: a row for each record, and the engine's own exact quantile over them.

kipctl has two turns, with its own settings and with a heap of 600 MB: a JVM's peak says how much it
was allowed, not how much it needs.

Each measurement is a process of its own on two cores. It starts its engine, analyses a tiny run,
and then the run in question: the time is of this last step alone. Peak memory is the sum of the
greatest resident sizes (VmHWM) of the process and its children, the JVM included, over its whole
life. Rounds are interleaved: in each, every contestant has its turn. Runs are written to a
temporary folder (`TMPDIR`) just before, so they are in the page cache for everybody, and removed.

Needs the extra `bench`: pip install -e '.[bench]'
"""

import argparse
import importlib.metadata
import importlib.util
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.engines import CONTESTANTS, CORES, MEASURES, Answers
from benchmarks.synthetic import SyntheticRun
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Cell, Column, Report, Table

TINY = 128_000


@dataclass(frozen=True, slots=True)
class Measurement:
    """One contestant's turn on one run."""

    records: int
    contestant: str
    round: int
    seconds: float
    peak_mb: float
    """Greatest resident memory, in units of 10^6 bytes."""


@dataclass(frozen=True, slots=True)
class Growth:
    """From one size of run to the next, round by round: 1 is linear in the records.

    `peak_memory` is the ratio of the greatest peaks: 1 is none at all.
    """

    contestant: str
    from_records: int
    to_records: int
    time_against_linear: float
    least: float
    greatest: float
    peak_memory: float


# One measurement, in a process of its own


def as_contestant(name: str, tiny: Path, folder: Path) -> None:
    """Analyse the run in this process; the result goes to stdout."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with CONTESTANTS[name]() as analyse:
        analyse(tiny)
        begun = time.monotonic()
        answers = analyse(folder)
        seconds = time.monotonic() - begun
        peak_mb = sum(map(peak_bytes, [os.getpid(), *descendants(os.getpid())])) / 1e6
    json.dump({"seconds": seconds, "peak_mb": peak_mb, "answers": answers}, sys.stdout)


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task").glob("*/children")
    below = [int(child) for listed in children for child in listed.read_text().split()]
    return below + [further for child in below for further in descendants(child)]


def peak_bytes(pid: int) -> int:
    """The greatest resident size that the process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))


def measure(name: str, number: int, synthetic: SyntheticRun, scratch: Path) -> Measurement:
    """The contestant's turn in round `number`; ends the program when its answer is wrong."""
    done = subprocess.run(
        [sys.executable, __file__, "--as-contestant", name, str(scratch)],
        stdout=subprocess.PIPE,
        env=os.environ | {"XDG_STATE_HOME": str(scratch / "state")},  # Spark's log goes there
    )
    if done.returncode:
        raise SystemExit(f"{name} failed on {synthetic.records:,} records.")
    said = json.loads(done.stdout)
    check(name, synthetic, said["answers"])
    return Measurement(synthetic.records, name, number, said["seconds"], said["peak_mb"])


def check(name: str, synthetic: SyntheticRun, answers: Answers) -> None:
    """See that every figure is the known one; the mean to one part in 10^9."""
    for measured in MEASURES:
        if sorted(answers[measured]) != sorted(synthetic.topic_names):
            raise SystemExit(f"{name}: topics {sorted(answers[measured])} of {measured}.")
        for number, topic in enumerate(synthetic.topic_names):
            said, right = answers[measured][topic], synthetic.answer(measured, number)
            for figure, value in right.items():
                tolerance = 1e-9 * value if figure == "mean_us" else 0
                if not math.isclose(said[figure], value, rel_tol=0, abs_tol=tolerance):
                    raise SystemExit(
                        f"{name}: {figure} of {measured}, {topic}, {synthetic.records:,} records, "
                        f"is {value}, not {said[figure]}."
                    )


# All of them


def compare(sizes: list[int], rounds: int, contestants: list[str]) -> Iterator[Measurement]:
    for size in sizes:
        synthetic = SyntheticRun(size)
        with tempfile.TemporaryDirectory(prefix="kipctl-bench-") as folder:
            scratch = Path(folder)
            SyntheticRun(TINY).write(scratch / "tiny")
            sys.stderr.write(f"writing {size:,} records as {synthetic.batches:,} batches\n")
            synthetic.write(scratch / "run")
            for number in range(1, rounds + 1):
                for name in contestants:
                    sys.stderr.write(f"{size:,} records, round {number} of {rounds}: {name}: ")
                    turn = measure(name, number, synthetic, scratch)
                    sys.stderr.write(f"{turn.seconds:.1f} s, {turn.peak_mb:.0f} MB\n")
                    yield turn


COLUMNS = (
    "records",
    "contestant",
    Column("median s", 2),
    Column("least", 2),
    Column("greatest", 2),
    Column("million records/s", 1),
    Column("peak MB", 0),
)
GROWTH = (
    "contestant",
    "from",
    "to",
    Column("time against linear", 2),
    Column("least", 2),
    Column("greatest", 2),
    Column("peak memory", 2),
)


def times(turns: list[Measurement]) -> list[tuple[Cell, ...]]:
    """For each size and contestant: median, least and greatest time; the greatest peak."""
    rows: list[tuple[Cell, ...]] = []
    for size, name in dict.fromkeys((t.records, t.contestant) for t in turns):
        matching = [t for t in turns if (t.records, t.contestant) == (size, name)]
        seconds = [t.seconds for t in matching]
        median = statistics.median(seconds)
        peak = max(t.peak_mb for t in matching)
        rate = size / median / 1e6
        rows.append((f"{size:,}", name, median, min(seconds), max(seconds), rate, peak))
    return rows


def growth(turns: list[Measurement], sizes: list[int]) -> list[Growth]:
    """What each size takes beside the one before it."""
    growths = []
    names = dict.fromkeys(turn.contestant for turn in turns)
    for name, (small, large) in itertools.product(names, itertools.pairwise(sizes)):
        before, after = (
            [t for t in turns if (t.records, t.contestant) == (size, name)]
            for size in (small, large)
        )
        ratios = [b.seconds / a.seconds * small / large for a, b in zip(before, after, strict=True)]
        memory = max(t.peak_mb for t in after) / max(t.peak_mb for t in before)
        spread = (statistics.median(ratios), min(ratios), max(ratios))
        growths.append(Growth(name, small, large, *spread, memory))
    return growths


def growth_row(growth: Growth) -> tuple[Cell, ...]:
    return (
        growth.contestant,
        f"{growth.from_records:,}",
        f"{growth.to_records:,}",
        growth.time_against_linear,
        growth.least,
        growth.greatest,
        growth.peak_memory,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = [4_000_000, 40_000_000, 200_000_000]
    options.add_argument("--records", type=int, nargs="+", default=sizes, help="multiples of 1280")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--contestants", nargs="+", default=list(CONTESTANTS), choices=CONTESTANTS)
    options.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options.add_argument("--as-contestant", nargs=2, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.as_contestant:
        name, folder = chosen.as_contestant
        as_contestant(name, Path(folder) / "tiny", Path(folder) / "run")
        return
    missing = [name for name in ("duckdb", "polars") if not importlib.util.find_spec(name)]
    if missing:
        raise SystemExit(f"Not installed: {', '.join(missing)}. Run: pip install -e '.[bench]'")
    versions = {n: importlib.metadata.version(n) for n in ("pyspark", "duckdb", "polars")}
    sizes = sorted(set(chosen.records))
    turns = list(compare(sizes, chosen.rounds, chosen.contestants))
    said = ", ".join(f"{name} {version}" for name, version in versions.items())
    tables = [
        Table(
            f"Exact percentiles by topic, {CORES} cores; rounds: {chosen.rounds}",
            COLUMNS,
            tuple(times(turns)),
            (f"{said}. All answers are the known ones.",),
        )
    ]
    if grown := growth(turns, sizes):
        tables.append(Table("Growth", GROWTH, tuple(map(growth_row, grown))))
    document = {
        "versions": versions,
        "cores": CORES,
        "measurements": [asdict(turn) for turn in turns],
        "growth": [asdict(step) for step in grown],
    }
    report = Report("benchmark pipeline", document, tuple(tables))
    write(report, chosen.output, sys.stdout, sys.stdout.isatty())


if __name__ == "__main__":
    main()
