"""What Java's performance tools and clients print, read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_INTERVAL = re.compile(
    r"(\d+) records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), "
    r"([\d.]+) ms avg latency, ([\d.]+) ms max latency(.*)"
)
_TOTAL = re.compile(
    r"(\d+) records sent, ([\d.]+|NaN) records/sec \(\S+ MB/sec\), "
    r"([\d.]+|NaN) ms avg latency, ([\d.]+) ms max latency, "
    r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th\."
)
_CONSUMED = re.compile(r"\S+ \S+, \S+ \S+, ([\d.]+), \S+, (\d+), \S+, (-?\d+), (-?\d+), \S+, \S+")
_CUT_SHORT = re.compile(r"WARNING: (Exiting before consuming .*exceeded)")
_VERSION = re.compile(r"^\d+ INFO Kafka version: (\S+)$", re.MULTILINE)
_START = re.compile(r"^\d+ INFO Kafka startTimeMs: (\d+)$", re.MULTILINE)
_UNREACHABLE = re.compile(
    r"^(\d+) WARN .*(Connection to node -\d+ \(.*\) could not be established)", re.MULTILINE
)
_NO_METADATA = re.compile(
    r"^\S+TimeoutException: (Topic \S+ not present in metadata .*?)\.?$", re.MULTILINE
)
_CAUSE = re.compile(r"^Caused by: (\S+?): (.+)$", re.MULTILINE)
_THROWN = re.compile(r'^Exception in thread "main" (\S+?)(?:: (.*))?$', re.MULTILINE)
_FAILED_SEND = re.compile(r"^([a-z][\w.]*\.\w+(?:Exception|Error)): (.+)$", re.MULTILINE)
_LONGEST_LINE = 200
"""A line of a message to the user has so many characters at most."""


@dataclass(frozen=True, slots=True)
class ProducerTotal:
    """The last line of ProducerPerformance; of failed sends it counts nothing."""

    records: int
    seconds: float
    latency_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ConsumerTotal:
    """The last line of ConsumerPerformance. MB are 2^20 bytes, in four decimals."""

    records: int
    bytes: int
    seconds: float


def producer_total(stdout: str) -> ProducerTotal | None:
    """None when it did not come to its last line."""
    match = _TOTAL.search(stdout)
    if match is None:
        return None
    records = int(match[1])
    if not records:
        return ProducerTotal(0, 0.0, {})
    names = ("avg", "max", "p50", "p95", "p99", "p99.9")
    latency_ms = {name: float(match[3 + number]) for number, name in enumerate(names)}
    return ProducerTotal(records, records / float(match[2]), latency_ms)


def records_of_intervals(stdout: str) -> int:
    """How many records the interval lines (one about every 5 s) add up to."""
    lines = (_INTERVAL.fullmatch(line) for line in stdout.splitlines())
    return sum(int(match[1]) for match in lines if match and "99.9th" not in match[4])


def consumer_total(stdout: str) -> ConsumerTotal | None:
    """None when it did not come to its last line."""
    match = next(filter(None, map(_CONSUMED.fullmatch, reversed(stdout.splitlines()))), None)
    if match is None:
        return None
    rebalance_ms, fetch_ms = int(match[3]), int(match[4])
    return ConsumerTotal(
        int(match[2]), round(float(match[1]) * (1 << 20)), (rebalance_ms + fetch_ms) / 1000
    )


def cut_short(stdout: str) -> str:
    """Why a consumer read less than was asked for; "" if it did not."""
    match = _CUT_SHORT.search(stdout)
    return match[1] if match else ""


def stated_version(stderr: str) -> str | None:
    """The version that a client gave when it was made."""
    match = _VERSION.search(stderr)
    return match[1] if match else None


def stated_start_ms(stderr: str) -> int | None:
    """When a client was made: milliseconds of the wall clock."""
    match = _START.search(stderr)
    return int(match[1]) if match else None


def unreachable_reason(stderr: str, patience_ms: int) -> str:
    """That no bootstrap server answers, in the client's words, or "".

    A producer would wait a minute for each record. Its ids of bootstrap servers are negative; it
    gives them up once a broker has told of the others.
    """
    if match := _NO_METADATA.search(stderr):
        return match[1]
    tries = [match for match in _UNREACHABLE.finditer(stderr) if int(match[1]) > patience_ms]
    return tries[-1][2] if tries else ""


def failed_send(stderr: str) -> str:
    """Why the first record failed that did, or ""."""
    match = _FAILED_SEND.search(stderr)
    return _reported(match[1], match[2]) if match else ""


def why_it_failed(stdout: str, stderr: str) -> str:
    """The deepest cause that it names, else its last words."""
    if causes := _CAUSE.findall(stderr):
        return _reported(*causes[-1])
    if thrown := _THROWN.search(stderr):
        return _reported(thrown[1], thrown[2] or "")
    if failed := failed_send(stderr):
        return failed
    said = [line for line in (stdout + stderr).splitlines() if line.strip()]
    return _shortened(said[-1].strip()) if said else "it said nothing"


def _reported(exception: str, message: str) -> str:
    name = exception.rpartition(".")[2]
    return _shortened(f"{name}: {message}" if message else name)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else text[: _LONGEST_LINE - 3] + "..."
