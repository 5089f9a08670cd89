"""What plans, dry runs, batches and watching cost kipctl itself on a large cluster.

    python benchmarks/big_cluster.py [--partitions 100000] [--brokers 200] [--copy-s 20]

The cluster is simulated, and each command a process of its own: its CPU seconds, its peak memory,
the lines that it printed, and what it asked of the cluster, with the most partitions in one request
(of Metadata and sizes: topics). What is copied takes so many seconds for each batch.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE / "tests" / folder) for folder in ("protocol", "transport", "cluster")]

from many_brokers import ManyBrokers, many_brokers, uneven  # noqa: E402

from kipctl.report.formats import OutputFormat, write  # noqa: E402
from kipctl.report.tables import Cell, Column, Report, Table  # noqa: E402

COMMANDS = (
    "reassign --drain 1 --dry-run",
    "reassign --balance leaders --dry-run",
    "reassign --balance leaders --dry-run -o json",
    "elect preferred --all --yes --batch 1000",
    "reassign --balance leaders --yes --batch 1000 --between 0s --timeout 3000",
    "reassign --drain 1 --yes --batch 1000 --between 0s --throttle 50MB/s --timeout 3000",
    "undo --yes --between 0s --timeout 3000",
    "changes list",
    "wait --until in-sync,preferred,converged,no-reassignment",
)


# Between: a child's peak memory begins with that of the process that started it.
LAUNCHER = """
import json, os, resource, subprocess, sys, time
began = time.monotonic()
with open(sys.argv[1], "wb") as out, open(sys.argv[2], "wb") as err:
    status = subprocess.run(sys.argv[3:], stdout=out, stderr=err).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
cpu_s = used.ru_utime + used.ru_stime
print(json.dumps([status, cpu_s, used.ru_maxrss / 1024, time.monotonic() - began]))
"""


def ran(words: str, servers: str, folder: Path) -> tuple[Cell, ...]:
    """Status, CPU s, peak MB, seconds, and the lines on stdout and on stderr."""
    variables = os.environ | {
        "KIPCTL_BOOTSTRAP_SERVER": servers,
        "XDG_STATE_HOME": str(folder / "state"),
    }
    files = [folder / "out", folder / "err"]
    kipctl = [sys.executable, "-m", "kipctl", *words.split()]
    launched = subprocess.run(
        [sys.executable, "-S", "-c", LAUNCHER, *map(str, files), *kipctl],
        env=variables,
        stdout=subprocess.PIPE,
        check=True,
    )
    measured = json.loads(launched.stdout)
    if measured[0]:
        print(files[1].read_text()[-2000:], file=sys.stderr)
    return (*measured, *(path.read_bytes().count(b"\n") for path in files))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--brokers", type=int, default=200)
    parser.add_argument("--copy-s", type=float, default=20.0)
    parser.add_argument("--only", default="", metavar="WORDS", help="commands that have these")
    parser.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options = parser.parse_args()
    held, sizes = uneven(options.partitions, options.brokers)
    cluster = ManyBrokers(
        held, tuple(range(1, options.brokers + 1)), sizes=sizes, copy_s=options.copy_s
    )
    rows: list[tuple[Cell, ...]] = []
    with many_brokers(cluster) as first, tempfile.TemporaryDirectory() as folder:
        for words in (words for words in COMMANDS if options.only in words):
            cluster.counts.clear()
            cluster.largest.clear()
            done = ran(words, first.address, Path(folder))
            asked = sum(cluster.counts.values())
            rows.append((words, *done, asked, max(cluster.largest.values(), default=0)))
            print(words, dict(cluster.counts), cluster.largest, sep="\n  ", file=sys.stderr)
    columns = (
        "Command",
        "Status",
        Column("CPU s", digits=1),
        Column("Peak MB", digits=0),
        Column("s", digits=0),
        "Lines out",
        "Lines err",
        "Requests",
        "Most in one",
    )
    table = Table(
        f"{options.partitions:,} partitions, {options.brokers} brokers", columns, tuple(rows)
    )
    write(Report("big_cluster", {}, (table,)), options.output, sys.stdout, sys.stdout.isatty())


if __name__ == "__main__":
    main()
