"""Memory and disk of a watch that lasts: `perf e2e --forever` while leaders move.

    python benchmarks/forever.py [--minutes 8] [--rate 3000] [--keep 1m] [--output json]

A lab of 3 brokers; 100-byte records; every 10 s all leaders of its topic move (`reassign
--rotate`), and its metrics are scraped. Twice a second the resident memory (RSS) of each of its
processes and the size of its record are read; the table has the greatest of each minute. What it
comes to when it is ended by SIGTERM stands below.
"""

import argparse
import json
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from memory import descendants, memory, role, size

from kipctl.cluster.topics import topics_named
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Column, Report, Table
from kipctl.trace.store import ROWS_FOLDER
from kipctl.transport.request import Cluster

PROCESSES = ("kipctl", "producer", "consumer")
RECORD = "record"
ROTATE_EVERY_S = 10.0
START_S = 120.0


def metrics_url(kipctl: subprocess.Popen[str], said: list[str]) -> str:
    """Where its metrics are, from what it says on stderr; all of that is kept in `said`."""
    assert kipctl.stderr
    printed = threading.Event()

    def read() -> None:
        for line in kipctl.stderr or ():
            said.append(line)
            if line.startswith("Metrics: "):
                printed.set()

    threading.Thread(target=read, daemon=True).start()
    if not printed.wait(START_S):
        raise SystemExit("".join(said))
    return next(line.split()[1] for line in said if line.startswith("Metrics: "))


def await_load(rows: Path) -> None:
    deadline = time.monotonic() + START_S
    while not size(rows, "*/batches*.i64"):
        if time.monotonic() > deadline:
            raise SystemExit("Its load did not begin.")
        time.sleep(0.1)


def every(seconds: float, over: threading.Event, act: Callable[[], None]) -> threading.Thread:
    def work() -> None:
        while not over.wait(seconds):
            act()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def greatest_by_minute(
    kipctl: subprocess.Popen[str], rows: Path, minutes: float
) -> list[dict[str, int]]:
    """Bytes by process, and of the record, for each minute from now on."""
    by_minute: list[dict[str, int]] = []
    roles: dict[int, str] = {}
    began = time.monotonic()
    while (at_s := time.monotonic() - began) < 60 * minutes and kipctl.poll() is None:
        if at_s >= 60 * len(by_minute):
            by_minute.append(defaultdict(int))
        seen = {RECORD: size(rows, "*/*.i64")}
        for pid in descendants(kipctl.pid):
            with suppress(OSError, KeyError):
                if roles.get(pid, "other") == "other":
                    roles[pid] = role(pid, kipctl.pid, rows)
                seen[roles[pid]], _ = memory(pid)
        for name, value in seen.items():
            by_minute[-1][name] = max(by_minute[-1][name], value)
        time.sleep(0.5)
    return [dict(greatest) for greatest in by_minute]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--minutes", type=float, default=8)
    options.add_argument("--rate", type=int, default=3_000, help="records/s")
    options.add_argument("--keep", default="1m")
    options.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    chosen = options.parse_args()
    lab = Lab.up(LabSpec(name="bench-forever"), lambda text: sys.stderr.write(text + "\n") and None)
    try:
        with tempfile.TemporaryDirectory() as folder:
            by_minute, scrape, document, status = watched(lab, Path(folder).resolve(), chosen)
    finally:
        lab.down()
    report(chosen.output, by_minute, scrape, document, status)


def watched(
    lab: Lab, folder: Path, chosen: argparse.Namespace
) -> tuple[list[dict[str, int]], str, dict[str, Any], int]:
    """Bytes by minute, the last scrape, its result and its status."""
    rows, said, scrapes = folder / "run" / ROWS_FOLDER, [], [""]
    kipctl = subprocess.Popen(
        shlex.split(
            f"{sys.executable} -m kipctl perf e2e --forever --keep {chosen.keep} --metrics 0 "
            f"--record {folder / 'run'} --record-size 100 --throughput {chosen.rate} "
            f"--bootstrap-server {lab.bootstrap_server} --output json"
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    over = threading.Event()
    try:
        url = metrics_url(kipctl, said)
        await_load(rows)
        with Cluster(lab.bootstrap_server) as cluster:
            (topic,) = topics_named(cluster, "kipctl-perf-.*")
        rotate = shlex.split(
            f"{sys.executable} -m kipctl reassign --rotate --topic {topic} --yes "
            f"--bootstrap-server {lab.bootstrap_server}"
        )

        def move() -> None:
            subprocess.run(rotate, capture_output=True, check=True)
            scrapes[0] = httpx.get(url, timeout=60).text

        moving = every(ROTATE_EVERY_S, over, move)
        by_minute = greatest_by_minute(kipctl, rows, chosen.minutes)
        over.set()
        moving.join()
        kipctl.send_signal(signal.SIGTERM)
        assert kipctl.stdout
        out = kipctl.stdout.read()
        kipctl.wait()
    finally:
        over.set()
        if kipctl.poll() is None:
            kipctl.kill()
            kipctl.wait()
    if not out:
        raise SystemExit("".join(said))
    return by_minute, scrapes[0], json.loads(out), kipctl.returncode


def report(
    output: OutputFormat,
    by_minute: list[dict[str, int]],
    scrape: str,
    document: dict[str, Any],
    status: int,
) -> None:
    names = (*PROCESSES, RECORD)
    records, whole = document["records"], document["whole_run"]
    grown = Table(
        "MB by minute: RSS of each process, and the record's rows",
        (Column("minute", right=True), *(Column(name, right=True) for name in names)),
        tuple(
            (f"{minute}", *(f"{sizes.get(name, 0) / 1e6:,.1f}" for name in names))
            for minute, sizes in enumerate(by_minute, 1)
        ),
    )
    came = Table(
        "What it came to",
        (Column("what"), Column("value", right=True)),
        (
            ("status", str(status)),
            *((name, f"{records[name]:,}") for name in ("acknowledged", "delivered", "failed")),
            *((name, str(records[name])) for name in ("missing", "twice", "extra")),
            ("late", str(whole["late"])),
            ("moves met by the producer", f"{whole['producer']['moves']['met']:,}"),
            ("wait p50 ms", f"{whole['producer']['moves']['wait_ms']['p50']}"),
            ("seconds", f"{whole['seconds']:,.0f}"),
            ("seconds kept", f"{whole['seconds'] - whole['kept_from_seconds']:,.0f}"),
            ("bytes of a scrape", f"{len(scrape):,}"),
        ),
    )
    result = {"by_minute": by_minute, "status": status, "records": records, "whole_run": whole}
    write(Report("benchmark forever", result, (grown, came)), output, sys.stdout, False)


if __name__ == "__main__":
    main()
