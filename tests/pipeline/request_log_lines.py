"""Real request logs for tests, and what a plain reading of their JSON says of them.

`data/kafka-4.3.1` and `data/kafka-3.6.2` were written by labs while leaders moved under producers
and consumers (Java, librdkafka, kafka-python, kipctl), a file for each node; the lines kept are
those with errors, replicas named, Metadata, all of a tenth of a second, and the first of each kind.
`data/transactions-4.3.1` has acks=0, transactions and larger fetches.
"""

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from benchmarks.plans import jobs_so_far
from kipctl.pipeline.request_log import RequestLog, analyse, read_request_log

DATA = Path(__file__).parent / "data"
LOGS = ("kafka-4.3.1", "kafka-3.6.2", "transactions-4.3.1")
MARKER = "Completed request:"
UNKNOWN = ("unknown", "unknown")


def log_files(name: str) -> list[Path]:
    return sorted((DATA / name).glob("*.gz"))


def log_lines(name: str) -> list[str]:
    """The lines of all nodes of a log, file by file."""
    return [
        line
        for path in log_files(name)
        for line in gzip.decompress(path.read_bytes()).decode().splitlines()
    ]


class Analysed(NamedTuple):
    """A log as it was read, its document, and how many jobs both took."""

    log: RequestLog
    document: dict[str, Any]
    jobs: int


@cache
def analysed_log(spark: SparkSession, name: str) -> Analysed:
    """Done once for all tests that look at it."""
    before = jobs_so_far(spark)
    log = read_request_log(spark, list(map(str, log_files(name))))
    document = analyse(log)
    return Analysed(log, document, jobs_so_far(spark) - before)


def request_of(line: str) -> dict[str, Any]:
    """A line's JSON."""
    request: dict[str, Any] = json.JSONDecoder().raw_decode(line.split(MARKER, 1)[1])[0]
    return request


def with_request(line: str, request: dict[str, Any]) -> str:
    """The line with another JSON, written as Kafka writes it: without spaces."""
    start = line.split(MARKER, 1)[0]
    return f"{start}{MARKER}{json.dumps(request, separators=(',', ':'))} (kafka.request.logger)"


def partitions_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The partitions of a Produce or Fetch answer."""
    answer = request["response"] or {}
    return [
        partition
        for topic in answer.get("responses", ())
        for partition in topic.get("partitionResponses") or topic.get("partitions") or ()
    ]


def plainly_counted(lines: Sequence[str]) -> dict[str, Any]:
    """The part of the document that needs no rule but counting, from lines that are all whole."""
    requests = [request_of(line) for line in lines if MARKER in line]
    apis: Counter[tuple[int, int]] = Counter()
    refused = Counter(total=0, hinted=0, appended_then_failed=0)
    fetch_errors: Counter[str] = Counter()
    named = 0
    for request in requests:
        header = request["requestHeader"]
        apis[header["requestApiKey"], header["requestApiVersion"]] += 1
        if header["requestApiKey"] == 0:
            for partition in partitions_of(request):
                if partition["errorCode"] == 6:
                    refused["total"] += 1
                    refused["hinted"] += partition.get("currentLeader", {}).get("leaderId", -1) >= 0
                    refused["appended_then_failed"] += partition["baseOffset"] >= 0
        if header["requestApiKey"] == 1:
            codes = [partition["errorCode"] for partition in partitions_of(request)]
            codes.append(request["response"]["errorCode"])
            fetch_errors.update(str(code) for code in codes if code)
            named += sum(p["preferredReadReplica"] >= 0 for p in partitions_of(request))
    return {
        "lines": {
            "read": len(lines),
            "parsed": len(requests),
            "broken": 0,
            "other": len(lines) - len(requests),
        },
        "apis": sorted((*api, count) for api, count in apis.items()),
        "produce_not_leader": dict(refused),
        "fetch_errors": dict(fetch_errors),
        "preferred_read_replica": {"named": named},
    }


def requests_by_client(lines: Iterable[str]) -> Counter[tuple[str, str, str, bool]]:
    """Requests by software, version, client id and whether they were forwarded.

    Software is that of the connection, where any of its lines tells it, and else kipctl by its ids.
    """
    known: dict[tuple[str, bool], tuple[str, str]] = defaultdict(lambda: UNKNOWN)
    requests = [request_of(line) for line in lines]
    for request in requests:
        told = request["clientInformation"]
        asked = request["request"] or {}
        connection = (request["connection"], request["isForwarded"])
        if told["softwareName"] != "unknown":
            known[connection] = (told["softwareName"], told["softwareVersion"])
        elif "clientSoftwareName" in asked:
            known.setdefault(
                connection, (asked["clientSoftwareName"], asked["clientSoftwareVersion"])
            )
    counts: Counter[tuple[str, str, str, bool]] = Counter()
    for request in requests:
        forwarded = request["isForwarded"]
        software = UNKNOWN if forwarded else known[request["connection"], forwarded]
        client = request["requestHeader"]["clientId"]
        if software == UNKNOWN and client.split("-")[0] == "kipctl":
            software = ("kipctl", "unknown")
        counts[(*software, client, forwarded)] += 1
    return counts
