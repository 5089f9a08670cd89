"""kipctl's three analyses on a Spark cluster of this machine, one worker killed in the middle.

    python benchmarks/cluster.py [--records 20000000] [--lines 2000000] [--scratch]

A standalone master and three workers of one core each. `analyze` of a synthetic run, `analyze
request-log` of the sample log's lines over and over in files of many, and `runs compare` of two
runs against two each answer three times: here (`local[*]`), on the cluster, and on the cluster with
one worker and its executors killed as soon as one of them has ended a task of the analysis's own.
The three documents must be equal to the last digit, else the benchmark ends with an error. With
`--scratch` intermediate results are files, and not in executors.
"""

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.synthetic import SyntheticRun
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Cell, Column, Report, Table
from tests.spark_cluster import SparkCluster, spark_cluster

SAMPLE = Path(__file__).parent / "data" / "request.log.gz"
LINES_A_FILE = 100_000
A_LATER_TASK = r"Finished task \d+\.0 in stage ([1-9]|\d\d)"
"""The first stage only asks for executors."""
WORKERS = 3


def write_logs(folder: Path, lines: int) -> int:
    """So many lines, or some more, as files of LINES_A_FILE; returns how many."""
    folder.mkdir()
    with gzip.open(SAMPLE) as packed:
        sample = packed.read()
    copies = -(-LINES_A_FILE // sample.count(b"\n"))
    files = -(-lines // (copies * sample.count(b"\n")))
    for number in range(files):
        (folder / f"request.log.{number}").write_bytes(sample * copies)
    return files * copies * sample.count(b"\n")


def answered(
    words: Sequence[str], place: Sequence[str], state: Path, loses: SparkCluster | None
) -> tuple[str, float]:
    """The command's document, and its seconds; ends the program when there is none.

    The cluster that `loses` a worker loses one whose executor works on it.
    """
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "kipctl", *words, *place, "--output", "json"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"XDG_STATE_HOME": str(state)},
    )
    with process:
        if loses:
            loses.worker_of_new_executor(A_LATER_TASK, set()).kill()
        out, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} failed, with status {process.returncode}.")
    if loses and "Lost executor" not in (state / "kipctl" / "spark.log").read_text():
        raise SystemExit(f"{' '.join(words)} was through before an executor was lost.")
    return out, time.monotonic() - begun


def row(name: str, words: Sequence[str], folder: Path, scratch: bool) -> tuple[Cell, ...]:
    """Seconds here, on the cluster, and on the cluster with a worker killed."""
    here, alone_s = answered(words, (), folder / "state", None)
    seconds = [alone_s]
    for kills in (False, True):
        with (
            tempfile.TemporaryDirectory(dir=folder) as own,
            spark_cluster(Path(own), WORKERS) as cluster,
        ):
            place = ["--master", cluster.master, "--start-timeout", "10m"]
            place += ["--scratch", f"file:{own}"] if scratch else []
            loses = cluster if kills else None
            there, took_s = answered(words, place, folder / "state", loses)
        if there != here:
            raise SystemExit(f"{name}: the cluster's answer is not that of local[*].")
        seconds.append(took_s)
        sys.stderr.write(f"{name}: {took_s:.0f} s{', one worker killed' if kills else ''}\n")
    return name, *seconds


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--records", type=int, default=20_000_000)
    options.add_argument("--lines", type=int, default=2_000_000)
    options.add_argument("--scratch", action="store_true")
    chosen = options.parse_args()
    unit = 12_800
    records = -(-chosen.records // unit) * unit
    with tempfile.TemporaryDirectory(prefix="kipctl-cluster-") as text:
        folder = Path(text)
        SyntheticRun(records).write(folder / "run")
        for number in range(4):
            SyntheticRun(-(-records // 4 // unit) * unit + number * unit).write(
                folder / f"side-{number}"
            )
        lines = write_logs(folder / "logs", chosen.lines)
        sides = [
            ",".join(str(folder / f"side-{number}") for number in pair) for pair in ((0, 1), (2, 3))
        ]
        rows = (
            row("analyze", ["analyze", str(folder / "run")], folder, chosen.scratch),
            row(
                "analyze request-log",
                ["analyze", "request-log", str(folder / "logs")],
                folder,
                chosen.scratch,
            ),
            row("runs compare", ["runs", "compare", *sides], folder, chosen.scratch),
        )
    columns = ("", *(Column(title) for title in ("here s", "cluster s", "one worker killed s")))
    kept = "in files" if chosen.scratch else "in executors"
    title = f"{records:,} records, {lines:,} lines, {WORKERS} workers, results kept {kept}"
    table = Table(title, columns, rows, ("All answers are equal to the last digit.",))
    write(Report("benchmark cluster", {}, (table,)), OutputFormat.AUTO, sys.stdout, False)


if __name__ == "__main__":
    main()
