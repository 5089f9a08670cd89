"""Analyse the request logs of a large cluster: 200 brokers, a file an hour of each, one missing.

    python benchmarks/fleet.py [--brokers 40 200] [--hours 24] [--lines 100] [--rounds 3]

The lines are those of `data/request.log.gz` that the three brokers of one lab wrote; here each of
many brokers, at an address of its own, has a file an hour of them, from clients of 50 hosts, and
Metadata answers that ask for brokers name all of them. Of broker 7 there is no log. Each size is
analysed as `kipctl analyze request-log` does, in a process of its own with a JVM of 1 GB, in turns.
Printed are the times of the reading and of the tables, and how much memory the driver had at most:
the JVM and Python. Checked are the sum of the lines, that every broker is known by its number, and
that the missing log is told.
"""

import argparse
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from datetime import datetime, timedelta
from itertools import cycle, islice
from pathlib import Path

from benchmarks.request_log import SAMPLE, STAMP
from kipctl.pipeline.request_log import analyse, read_request_log
from kipctl.pipeline.session import spark_session
from kipctl.report.formats import OutputFormat, write
from kipctl.report.request_log_answer import request_log_answer
from kipctl.report.tables import Column, Report, Table

MISSING = 7
HOSTS = 50
OF_LAB = re.compile(r'"connection":"127\.0\.0\.1:(2033[234])-127\.0\.0\.1:')
NODE = re.compile(r'"nodeId":(\d+),"host":"127\.0\.0\.1","port":\d+')
BROKERS = re.compile(r'"brokers":\[\{[^]]*\]')
BEGIN = datetime(2026, 11, 21)


def address(broker: int) -> str:
    return f"10.20.{broker >> 8}.{broker & 255}"


def make_logs(folder: Path, brokers: int, hours: int, lines: int) -> int:
    """Write them; returns the number of lines."""
    by_port: dict[str, list[str]] = defaultdict(list)
    for line in gzip.decompress(SAMPLE.read_bytes()).decode().splitlines():
        if match := OF_LAB.search(line):
            by_port[match[1]].append(line[24:])
    named = ",".join(
        f'{{"nodeId":{n},"host":"{address(n)}","port":9092,"rack":"rack-{n % 3}"}}'
        for n in range(1, brokers + 1)
    )
    written = 0
    for broker in range(1, brokers + 1):
        if broker == MISSING:
            continue
        (logs := folder / f"broker-{broker}").mkdir()
        own = cycle(by_port[min(by_port, key=lambda port: (int(port) + broker) % 3)])
        for hour in range(hours):
            begin = BEGIN + timedelta(hours=hour)
            with (logs / f"request.log.{begin:%Y-%m-%d-%H}").open("w", encoding="utf-8") as file:
                for number, line in enumerate(islice(own, lines)):
                    at = begin + timedelta(seconds=3600 * number / lines)
                    host = f"10.1.0.{(broker + number) % HOSTS}"
                    connection = f'"connection":"{address(broker)}:9092-{host}:'
                    told = NODE.sub(_node, BROKERS.sub(f'"brokers":[{named}]', line))
                    told = OF_LAB.sub(connection, told)
                    file.write(f"[{at.strftime(STAMP)[:-3].replace('.', ',')}{told}\n")
        written += hours * lines
    return written


def _node(match: re.Match[str]) -> str:
    return f'"nodeId":{match[1]},"host":"{address(int(match[1]))}","port":9092'


def analysed(folder: str, brokers: int, lines: int) -> dict[str, float]:
    """What one analysis took, in this process."""
    os.environ["SPARK_DRIVER_MEMORY"] = "1g"
    with spark_session("local[2]", inputs=[folder], ships_python=True) as spark:
        started = time.monotonic()
        log = read_request_log(spark, [folder])
        read_s = time.monotonic() - started
        document = analyse(log)
        tables_s = time.monotonic() - started - read_s
        jvm = spark.sparkContext._jvm  # the id of the driver's process
        pid = int(jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
        memory = {"jvm": peak_mb(pid), "python": peak_mb(os.getpid())}
    [cluster] = document["clusters"]
    known = [row["broker"] for row in cluster["brokers"]]
    said = [line for line in request_log_answer(document) if "There is no log of broker" in line]
    if (
        document["lines"]["parsed"] != lines
        or known != [*range(1, brokers + 1)]
        or not said
        or not said[0].startswith(f"There is no log of broker {MISSING}:")
    ):
        raise SystemExit(f"Wrong: {document['lines']} of {lines}; brokers {known}; {said}")
    return {"read": read_s, "tables": tables_s, **memory}


def peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--brokers", type=int, nargs="+", default=[40, 200])
    options.add_argument("--hours", type=int, default=24)
    options.add_argument("--lines", type=int, default=100, help="of a file")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--analyse", nargs=2, metavar=("FOLDER", "LINES"), help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.analyse:
        folder, lines = chosen.analyse
        print(json.dumps(analysed(folder, chosen.brokers[0], int(lines))))
        return
    runs: dict[int, list[dict[str, float]]] = defaultdict(list)
    lines_of: dict[int, int] = {}
    with tempfile.TemporaryDirectory(prefix="kipctl-fleet-") as folder:
        for brokers in chosen.brokers:
            (logs := Path(folder) / str(brokers)).mkdir()
            lines_of[brokers] = make_logs(logs, brokers, chosen.hours, chosen.lines)
        for number in range(chosen.rounds):
            for brokers, lines in lines_of.items():
                sys.stderr.write(f"round {number + 1} of {chosen.rounds}: {brokers} brokers\n")
                command = [sys.executable, __file__, "--brokers", str(brokers)]
                command += ["--analyse", f"{folder}/{brokers}", str(lines)]
                ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                runs[brokers].append(json.loads(ran.stdout.splitlines()[-1]))
    rows = []
    for brokers, taken in runs.items():
        whole = [run["read"] + run["tables"] for run in taken]
        middle = {name: statistics.median(run[name] for run in taken) for name in taken[0]}
        rows.append(
            (
                *(brokers, lines_of[brokers], middle["read"], middle["tables"], min(whole)),
                *(max(whole), statistics.median(whole) / lines_of[brokers] * 1e6),
                *(middle["jvm"], middle["python"]),
            )
        )
    columns = (
        *("brokers", Column("lines", 0), Column("reading s", 1), Column("tables s", 1)),
        *(Column("least s", 1), Column("greatest s", 1), Column("us a line", 0)),
        *(Column("JVM MB", 0), Column("Python MB", 0)),
    )
    title = f"{chosen.hours} files of {chosen.lines} lines of each broker, {chosen.rounds} rounds"
    table = Table(title, columns, tuple(rows))
    write(Report("benchmark fleet", {}, (table,)), OutputFormat.AUTO, sys.stdout, False)


if __name__ == "__main__":
    main()
