"""Analyse a request log of many lines, beside a plain reading of all of their JSON.

    python benchmarks/request_log.py [--lines 1000000] [--rounds 5] [--master local[2]] [--quick]

The log is made from `data/request.log.gz`: lines that the brokers of two labs wrote while leaders
moved, sampled evenly (every 33rd of one minute, every 8th of another with larger fetches). A line
has about 2 kB: a million takes 2 GB of the temporary folder. Each copy of them has its own time,
client ids and client addresses; the two clusters are told apart. *kipctl* is `read_request_log` and
`analyse`, with everything that `kipctl analyze request-log` prints; *lines alone* its first part,
which reads all lines, each once and whole, counts what is alike in them and keeps what is needed to
follow clients. *packing* is what `kipctl request-log pack` does; *packed* and *packed rows alone*
are the same as *kipctl* and *lines alone*, of the pack. *plain from_json* parses each line with one
narrow schema and counts requests by API and client, refusals and fetch errors, and
nothing else. All in one process, in turns, after a round that does not count. The counts are
checked against those of the one copy. Each figure is the median over the rounds with the least and
the greatest; ratios are taken round by round. *core-us a line* is the time of
processors of this process and all that it started, Spark's JVM and its Python workers: it says more
than the clock on a machine that does other things. `--quick` reads 150,000 lines in three rounds:
two to five minutes.
"""

import argparse
import gzip
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kipctl.pipeline.request_log import analyse, read_request_log
from kipctl.pipeline.request_log.packing import pack
from kipctl.pipeline.session import spark_session
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Cell, Column, Report, Table

SAMPLE = Path(__file__).parent / "data" / "request.log.gz"
FILES = 8
STAMP = "%Y-%m-%d %H:%M:%S.%f"
NARROW = """
    requestHeader struct<requestApiKey: int, requestApiVersion: int, clientId: string>,
    response struct<responses: array<struct<
        partitionResponses: array<struct<errorCode: int, baseOffset: bigint>>,
        partitions: array<struct<errorCode: int, preferredReadReplica: int>>>>>,
    clientInformation struct<softwareName: string, softwareVersion: string>
"""


class Taken(NamedTuple):
    """Time by the clock, and of processors."""

    seconds: float
    processor_s: float

    @classmethod
    def now(cls) -> "Taken":
        return cls(time.monotonic(), processor_s())

    def since(self, start: "Taken") -> "Taken":
        return Taken(self.seconds - start.seconds, self.processor_s - start.processor_s)


def make_log(folder: Path, lines: int) -> tuple[int, int, int]:
    """Write at least so many lines into FILES files; returns copies, lines and bytes."""
    sample = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()
    copies = -(-lines // len(sample))
    stamps = [datetime.strptime(line[1:24].replace(",", "."), STAMP) for line in sample]
    span = stamps[-1] - stamps[0] + timedelta(seconds=1)
    size = 0
    for number in range(FILES):
        with (folder / f"request-{number}.log").open("w", encoding="utf-8") as file:
            for copy in range(number, copies, FILES):
                size += file.write(copied(sample, stamps, copy, copy * span))
    return copies, copies * len(sample), size


def copied(sample: list[str], stamps: list[datetime], copy: int, later: timedelta) -> str:
    """The sample with other times, client ids and clients' addresses."""
    address = f"-10.1.{copy >> 8}.{copy & 255}:"
    lines = []
    for line, stamp in zip(sample, stamps, strict=True):
        moved = (stamp + later).strftime(STAMP)[:-3].replace(".", ",")
        told = line[24:].replace("-127.0.0.1:", address)
        if '"clientId":"broker-' not in told and '"clientId":"raft-' not in told:
            told = told.replace('"clientId":"', f'"clientId":"{copy}-', 1)
        lines.append(f"[{moved}{told}\n")
    return "".join(lines)


def expected(copies: int) -> dict[str, Any]:
    """The counts of the copies, from a plain reading of the sample."""
    apis: Counter[tuple[int, int]] = Counter()
    refused = Counter(total=0, hinted=0, appended_then_failed=0)
    fetch_errors: Counter[str] = Counter()
    for line in gzip.decompress(SAMPLE.read_bytes()).decode().splitlines():
        request = json.JSONDecoder().raw_decode(line.split("Completed request:", 1)[1])[0]
        key = request["requestHeader"]["requestApiKey"]
        apis[key, request["requestHeader"]["requestApiVersion"]] += copies
        if key not in (0, 1) or not request["response"]:
            continue
        for topic in request["response"]["responses"]:
            for partition in topic.get("partitionResponses") or topic["partitions"]:
                if key == 1 and partition["errorCode"]:
                    fetch_errors[str(partition["errorCode"])] += copies
                if key == 0 and partition["errorCode"] == 6:
                    refused["total"] += copies
                    refused["hinted"] += copies * ("currentLeader" in partition)
                    refused["appended_then_failed"] += copies * (partition["baseOffset"] >= 0)
    return {
        "apis": sorted((*api, count) for api, count in apis.items()),
        "produce_not_leader": dict(refused),
        "fetch_errors": dict(sorted(fetch_errors.items(), key=lambda item: int(item[0]))),
    }


def check(document: dict[str, Any], lines: int, counts: dict[str, Any]) -> None:
    """The sample has lines of two clusters: they are told apart, and add up."""
    apis: Counter[tuple[int, int]] = Counter()
    refused: Counter[str] = Counter()
    fetch_errors: Counter[str] = Counter()
    for cluster in document["clusters"]:
        for row in cluster["apis"]:
            apis[row["api_key"], row["api_version"]] += row["requests"]
        refused.update(cluster["produce_not_leader"])
        fetch_errors.update(cluster["fetch_errors"])
    counted = {
        "apis": sorted((*api, count) for api, count in apis.items()),
        "produce_not_leader": dict(refused),
        "fetch_errors": dict(sorted(fetch_errors.items(), key=lambda item: int(item[0]))),
    }
    read = {"read": lines, "parsed": lines, "broken": 0, "other": 0}
    if counted != counts or document["lines"] != read:
        raise SystemExit(f"The counts are wrong: {counted} of {document['lines']}, not {counts}")


def plainly(spark: SparkSession, folder: str) -> dict[str, int]:
    """Every line parsed with one narrow schema; returns the sums of what is counted."""
    text = spark.read.text(folder)
    parsed = text.select(
        F.from_json(F.substring_index("value", "Completed request:", -1), NARROW).alias("line")
    ).select("line.*")
    counted: DataFrame = parsed.select(
        "requestHeader.*",
        "clientInformation.*",
        _partitions("partitionResponses", "p.errorCode = 6").alias("refused"),
        _partitions("partitions", "p.errorCode != 0").alias("failed"),
        _partitions("partitions", "p.preferredReadReplica >= 0").alias("named"),
    )
    rows = (
        counted.groupBy(
            "requestApiKey", "requestApiVersion", "clientId", "softwareName", "softwareVersion"
        )
        .agg(F.count("*").alias("requests"), *(F.sum(n).alias(n) for n in ("refused", "failed")))
        .collect()
    )
    return {name: sum(row[name] or 0 for row in rows) for name in ("requests", "refused", "failed")}


def _partitions(name: str, condition: str) -> Any:
    return F.expr(
        f"size(filter(flatten(transform(response.responses, t -> t.{name})), p -> {condition}))"
    )


def processor_s() -> float:
    """The processor time of this process and of those that it started, and they."""
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            children[int(fields[1])].append(int(folder.name))
            ticks[int(folder.name)] = sum(map(int, fields[11:15]))  # and of those that have ended
    own, total = [os.getpid()], 0
    while own:
        process = own.pop()
        total += ticks.get(process, 0)
        own += children[process]
    return total / os.sysconf("SC_CLK_TCK")


def spread(values: list[float]) -> tuple[Cell, Cell, Cell]:
    return statistics.median(values), min(values), max(values)


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--lines", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--master", default="local[2]")
    options.add_argument("--quick", action="store_true")
    chosen = options.parse_args()
    if chosen.quick:
        chosen.lines, chosen.rounds = 150_000, 3
    steps: dict[str, list[Taken]] = defaultdict(list)
    with (
        tempfile.TemporaryDirectory(prefix="kipctl-log-") as folder,
        tempfile.TemporaryDirectory(prefix="kipctl-pack-") as packed,
    ):
        copies, lines, size = make_log(Path(folder), chosen.lines)
        counts = expected(copies)
        with spark_session(chosen.master) as spark:
            for number in range(chosen.rounds + 1):
                sys.stderr.write(f"round {number} of {chosen.rounds}\n")
                to = f"{packed}/{number}"
                started = Taken.now()
                pack(spark, [folder], to)
                of_round = {"packing": Taken.now().since(started)}
                for path, of_lines, whole in (
                    (folder, "lines alone", "kipctl"),
                    (to, "packed rows alone", "packed"),
                ):
                    started = Taken.now()
                    log = read_request_log(spark, [path])
                    of_round[of_lines] = Taken.now().since(started)
                    check(analyse(log), lines, counts)
                    of_round[whole] = Taken.now().since(started)
                started = Taken.now()
                sums = plainly(spark, folder)
                of_round["plain from_json"] = Taken.now().since(started)
                if sums["requests"] != lines:
                    raise SystemExit(f"plain from_json counted {sums}")
                for step, took in of_round.items() if number else ():
                    steps[step].append(took)
        files = Path(to).rglob("*.parquet")
        in_pack = sum(path.stat().st_size for path in files)
    rows: list[tuple[Cell, ...]] = []
    plain = steps["plain from_json"]
    for name, taken in steps.items():
        rates = [lines / run.seconds for run in taken]
        ratios = [base.seconds / own.seconds for base, own in zip(plain, taken, strict=True)]
        of_processors = [
            base.processor_s / own.processor_s for base, own in zip(plain, taken, strict=True)
        ]
        megabytes = statistics.median(rates) * size / lines / 1e6
        core_us = statistics.median(run.processor_s for run in taken) / lines * 1e6
        rows.append(
            (
                *(name, *spread(rates), megabytes, *spread(ratios)),
                *(core_us, statistics.median(of_processors)),
            )
        )
    table = Table(
        f"{lines:,} lines of {size / lines:,.0f} bytes, {copies} copies, {chosen.master}, "
        f"{chosen.rounds} rounds; a pack has {in_pack / 1e6:,.1f} MB of {size / 1e6:,.0f}",
        (
            "",
            Column("lines/s", 0),
            Column("least", 0),
            Column("greatest", 0),
            Column("MB/s", 0),
            Column("times plain", 2),
            Column("least", 2),
            Column("greatest", 2),
            Column("core-us a line", 1),
            Column("times plain", 2),
        ),
        tuple(rows),
    )
    write(Report("benchmark request log", {}, (table,)), OutputFormat.AUTO, sys.stdout, False)


if __name__ == "__main__":
    main()
