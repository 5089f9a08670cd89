"""Compare producers on one lab, in one run, interleaved: kipctl, Java, librdkafka, franz-go.

    python benchmarks/producer.py [--rounds 5] [--records 2000000] [--seconds 10]
                                  [--before CHECKOUT]

franz-go takes part where there is a Go toolchain, kipctl as it was at another commit with --before
and a work tree of that commit (`git worktree add`).

Two parts. *Full speed*: records/s and CPU seconds per million records, of the whole client process
(start-up and, for kipctl, the trace included). *Fixed rate*, 5,000 records/s: p99 and p99.9 of the
latency, and the schedule error, p99 of (sent - intended). 1,000-byte records, batch.size 16384,
linger.ms 0, acks=1, 12 partitions of one replica on 3 brokers. Each figure is the median over the
rounds with the least and the greatest; ratios are taken round by round, against Java.
"""

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.contestants import franz_go, run
from kipctl import java_properties
from kipctl.cluster.topics import await_topic, create_topics
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.lab.security import Security
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Cell, Column, Report, Table
from kipctl.trace.store import Run
from kipctl.transport.access import access_of
from kipctl.transport.request import Cluster

TOPIC = "bench"
PARTITIONS = 12
RECORD_SIZE = 1000
SETTINGS = "acks=1 linger.ms=0 batch.size=16384"
FIXED_RATE = 5000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one producer. Milliseconds, seconds; None where it cannot be told."""

    records_per_s: float
    cpu_s: float
    p99_ms: float
    p999_ms: float
    schedule_error_p99_us: float | None


def kipctl(lab: Lab, records: int, rate: int, checkout: Path | None = None) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        recorded = Path(folder) / "run"
        text, cpu_s = run(
            f"{sys.executable} -m kipctl perf produce --topic {TOPIC} --force "
            f"--num-records {records} --throughput {rate} --record-size {RECORD_SIZE} "
            f"--record {recorded} --bootstrap-server {lab.bootstrap_server} --output json "
            f"{with_config(lab)} --command-property {SETTINGS}",
            checkout,
        )
        said = json.loads(text)
        error = schedule_error_p99_us(recorded) if rate > 0 else None
    latency = said["latency_ms"]
    return Result(said["records_per_second"], cpu_s, latency["p99"], latency["p999"], error)


def with_config(lab: Lab) -> str:
    """The option for the lab's own file of how to connect, if it is secured."""
    return f"--command-config {lab.client_properties}" if lab.client_properties else ""


def schedule_error_p99_us(folder: Path) -> float:
    """p99 over all records of (sent - intended)."""
    recorded = Run(folder)
    interval_ns = recorded.description["interval_ns"]
    table = recorded.read("batches")
    first, stride, count, sent = (
        table[name].to_numpy() for name in ("first_seq", "seq_stride", "records", "sent_us")
    )
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    seqs = np.repeat(first, count) + within * np.repeat(stride, count)
    return float(np.quantile(np.repeat(sent, count) - seqs * interval_ns // 1000, 0.99))


_LINE = re.compile(r"([\d.]+) records/sec .* (\d+) ms 99th, (\d+) ms 99\.9th")


def java(lab: Lab, records: int, rate: int) -> Result:
    classpath = ":".join(map(str, lab.jars.paths))
    text, cpu_s = run(
        f"{lab.java.path} -cp {classpath} -Xmx512m org.apache.kafka.tools.ProducerPerformance "
        f"--topic {TOPIC} --num-records {records} --throughput {rate} "
        f"--record-size {RECORD_SIZE} {with_config(lab)} "
        f"--command-property {SETTINGS} enable.idempotence=false "
        f"bootstrap.servers={lab.bootstrap_server}"
    )
    match = _LINE.search(text.strip().splitlines()[-1])
    if not match:
        raise SystemExit(f"Java's tool printed no result: {text[-500:]}")
    return Result(float(match[1]), cpu_s, float(match[2]), float(match[3]), None)


def confluent(lab: Lab, records: int, rate: int) -> Result:
    text, cpu_s = run(
        f"{sys.executable} {__file__} --as-confluent {lab.bootstrap_server} "
        f"--records {records} --rate {rate} {with_config(lab)}"
    )
    said = json.loads(text)
    return Result(said["rate"], cpu_s, said["p99_ms"], said["p999_ms"], said["error_us"])


def as_confluent(bootstrap_server: str, config: Path | None, records: int, rate: int) -> None:
    """A plain confluent-kafka producer on the same open-loop schedule."""
    from confluent_kafka import Producer

    settings = dict(setting.split("=") for setting in SETTINGS.split())
    access = access_of(bootstrap_server, java_properties.read(config) if config else {})
    producer = Producer(settings | access.librdkafka())
    producer.list_topics(TOPIC)
    payload = os.urandom(RECORD_SIZE)
    latencies = np.zeros(records)
    errors = np.zeros(records)
    failed = 0
    start = time.monotonic() + 0.05

    def acknowledged(seq: int, intended: float) -> Callable[[object, object], None]:
        def note(error: object, message: object) -> None:
            nonlocal failed
            failed += error is not None
            latencies[seq] = time.monotonic() - intended

        return note

    for seq in range(records):
        now = time.monotonic()
        intended = start + seq / rate if rate > 0 else now
        while (left := intended - time.monotonic()) > 0:
            producer.poll(left)
        errors[seq] = time.monotonic() - intended
        while True:
            try:
                producer.produce(TOPIC, payload, on_delivery=acknowledged(seq, intended))
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    if failed:
        raise SystemExit(f"{failed} records failed")
    json.dump(
        {
            "rate": records / (time.monotonic() - start),
            "p99_ms": float(np.quantile(latencies, 0.99)) * 1000,
            "p999_ms": float(np.quantile(latencies, 0.999)) * 1000,
            "error_us": float(np.quantile(errors, 0.99)) * 1e6 if rate > 0 else None,
        },
        sys.stdout,
    )


def franz(lab: Lab, records: int, rate: int) -> Result:
    text, cpu_s = run(
        f"{franz_go()} -brokers {lab.bootstrap_server} -topic {TOPIC} -records {records} "
        f"-rate {rate} -size {RECORD_SIZE}"
    )
    said = json.loads(text)
    return Result(said["rate"], cpu_s, said["p99_ms"], said["p999_ms"], said.get("error_us"))


def timer_error_p99_us(seconds: float) -> float:
    """p99 of how late this machine wakes a process that only sleeps, on the same schedule."""
    late = []
    due_ns = time.monotonic_ns()
    for _ in range(int(seconds * FIXED_RATE)):
        due_ns += 1_000_000_000 // FIXED_RATE
        if (left := due_ns - time.monotonic_ns()) > 0:
            time.sleep(left / 1e9)
        late.append(time.monotonic_ns() - due_ns)
    return float(np.quantile(late, 0.99)) / 1000


Contestant = Callable[[Lab, int, int], Result]


def contestants(before: Path | None) -> dict[str, Contestant]:
    taking_part: dict[str, Contestant] = {"kipctl": kipctl}
    if before:
        taking_part["kipctl before"] = partial(kipctl, checkout=before)
    taking_part |= {"Java": java, "confluent-kafka": confluent}
    if franz_go():
        taking_part["franz-go"] = franz
    return taking_part


def spread(values: list[float]) -> tuple[Cell, Cell, Cell]:
    return statistics.median(values), min(values), max(values)


def rows(
    results: dict[str, list[T]], figure: str, value_of: Callable[[T], float | None]
) -> list[tuple[Cell, ...]]:
    """A row for each client: the figure's median, least and greatest, and its ratio to Java's."""
    table_rows = []
    for name, runs in results.items():
        values = [v for r in runs if (v := value_of(r)) is not None]
        if not values:
            continue
        bases = [value_of(r) for r in results["Java"]]
        ratios = [v / b for v, b in zip(values, bases, strict=True) if b]
        shown: tuple[Cell, ...] = spread(ratios) if ratios else (None, None, None)
        table_rows.append((figure, name, *spread(values), *shown))
    return table_rows


COLUMNS = (
    "figure",
    "client",
    Column("median", 2),
    Column("least", 2),
    Column("greatest", 2),
    Column("against Java", 2),
    Column("least", 2),
    Column("greatest", 2),
)


def compare(
    lab: Lab, clients: dict[str, Contestant], rounds: int, records: int, rate: int
) -> dict[str, list[Result]]:
    results: dict[str, list[Result]] = {name: [] for name in clients}
    for number in range(rounds):
        for name, contestant in clients.items():
            sys.stderr.write(f"round {number + 1} of {rounds}: {name}\n")
            results[name].append(contestant(lab, records, rate))
    return results


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--records", type=int, default=2_000_000, help="in a run at full speed")
    options.add_argument("--seconds", type=float, default=10, help="of a run at the fixed rate")
    options.add_argument("--before", type=Path, help="another checkout of kipctl")
    options.add_argument(
        "--security", type=Security, default=Security.PLAINTEXT, help="ssl, sasl_ssl, ..."
    )
    options.add_argument("--as-confluent", help=argparse.SUPPRESS)
    options.add_argument("--command-config", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--rate", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.as_confluent:
        as_confluent(chosen.as_confluent, chosen.command_config, chosen.records, chosen.rate)
        return
    clients = contestants(chosen.before)
    if chosen.security is not Security.PLAINTEXT:
        clients.pop("franz-go", None)  # its program here speaks plainly
    lab = Lab.up(
        LabSpec(name="bench", security=chosen.security),
        lambda text: sys.stderr.write(text + "\n") and None,
    )
    try:
        create_topics(lab.access, [TOPIC], PARTITIONS, 1)
        with Cluster(lab.access, "bench", 30) as cluster:
            await_topic(cluster, TOPIC, PARTITIONS)
        for contestant in clients.values():  # brokers compile their hot paths first
            contestant(lab, chosen.records // 2, -1)
        fast = compare(lab, clients, chosen.rounds, chosen.records, -1)
        steady = compare(lab, clients, chosen.rounds, int(FIXED_RATE * chosen.seconds), FIXED_RATE)
        timer = [timer_error_p99_us(chosen.seconds) for _ in range(chosen.rounds)]
    finally:
        lab.down()
    million = chosen.records / 1e6
    tables = (
        Table(
            f"Full speed: {chosen.records:,} records a run, {chosen.rounds} rounds",
            COLUMNS,
            (
                *rows(fast, "records/s", lambda r: r.records_per_s),
                *rows(fast, "CPU s per million", lambda r: r.cpu_s / million),
            ),
        ),
        Table(
            f"{FIXED_RATE:,} records/s for {chosen.seconds:g} s, {chosen.rounds} rounds",
            COLUMNS,
            (
                *rows(steady, "p99 ms", lambda r: r.p99_ms),
                *rows(steady, "p99.9 ms", lambda r: r.p999_ms),
                *rows(steady, "p99 of sent - intended, us", lambda r: r.schedule_error_p99_us),
                ("p99 of a timer alone, us", "the machine", *spread(timer), None, None, None),
            ),
        ),
    )
    write(Report("benchmark producer", {}, tables), OutputFormat.AUTO, sys.stdout, False)


if __name__ == "__main__":
    main()
