"""What the tap costs: the same producer direct and through it, on one lab, interleaved.

    python benchmarks/tap.py [--rounds 5] [--records 1000000] [--seconds 10] [--parts relay ...]

kipctl's probe produces 1,000-byte records to 12 partitions of one replica on 3 brokers (batch.size
16384, linger.ms 0, acks=1). *Fixed rate*, 5,000 records/s: p50 and p99 of the latency from the
intended send time, and what the tap adds to them in the same round. *Full speed*: records/s, and
the share of the direct run's in the same round. CPU microseconds per RPC are user and system time
of the tap's own process while the producer runs, over the requests that it passed. *Without Kafka*:
a broker that answers at once, and a client that sends it 5,000 Produce requests of one record a
second, direct, through the tap, and through a relay that reads nothing of what it passes: what that
costs are the sockets.
"recorded" writes a row for each RPC and batch, as `kipctl tap --record`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import sub, truediv
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.contestants import run
from benchmarks.producer import FIXED_RATE, PARTITIONS, RECORD_SIZE, SETTINGS, TOPIC, spread
from benchmarks.relay import HOST, answering, paced, running_relay
from kipctl.cluster.topics import await_topic, create_topics
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Cell, Column, Report, Table
from kipctl.tap.process import running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster

T = TypeVar("T")

DIRECT, RELAY = "direct", "a bare relay"
PARTS = FIXED, FULL, RELAYED = "fixed-rate", "full-speed", "relay"
THROUGH = {"through the tap": False, "through, recorded": True}


@dataclass(frozen=True, slots=True)
class Result:
    """One run of the producer; of the tap, what it did meanwhile (None for a direct run)."""

    records_per_s: float
    p50_ms: float
    p99_ms: float
    rpcs: int | None = None
    cpu_us_per_rpc: float | None = None


def produce(bootstrap_server: str, records: int, rate: int) -> Result:
    text, _ = run(
        f"{sys.executable} -m kipctl perf produce --topic {TOPIC} --force "
        f"--num-records {records} --throughput {rate} --record-size {RECORD_SIZE} "
        f"--warmup-records {records // 10} --bootstrap-server {bootstrap_server} --output json "
        f"--command-property {SETTINGS}"
    )
    said = json.loads(text)
    latency = said["latency_ms"]
    return Result(said["records_per_second"], latency["p50"], latency["p99"])


def through(bootstrap_server: str, records: int, rate: int, is_recorded: bool) -> Result:
    spec = TapSpec(access=Access(bootstrap_server))
    with (
        tempfile.TemporaryDirectory() as folder,
        running_tap(spec, Path(folder) if is_recorded else None) as tap,
    ):
        before_s = tap.show().cpu_s
        try:
            result = produce(tap.bootstrap_server, records, rate)
        except SystemExit as failed:
            raise SystemExit(f"{failed}\nWhat the tap said: {tap.show()}") from None
        outcome = tap.show()
    rpcs = sum(sum(client.counts.requests.values()) for client in outcome.clients)
    return replace(result, rpcs=rpcs, cpu_us_per_rpc=(outcome.cpu_s - before_s) * 1e6 / rpcs)


def compare(lab: Lab, rounds: int, records: int, rate: int) -> dict[str, list[Result]]:
    """Every arm once in each round; whether the tap or the direct run begins takes turns."""
    results: dict[str, list[Result]] = {DIRECT: [], **{name: [] for name in THROUGH}}
    for number in range(rounds):
        for name in list(results)[:: -1 if number % 2 else 1]:
            sys.stderr.write(f"round {number + 1} of {rounds}: {name}\n")
            if name == DIRECT:
                result = produce(lab.bootstrap_server, records, rate)
            else:
                result = through(lab.bootstrap_server, records, rate, THROUGH[name])
            results[name].append(result)
    return results


@dataclass(frozen=True, slots=True)
class Relayed:
    """One run before the broker that answers at once; there is no CPU of a direct run to tell."""

    p50_us: float
    p99_us: float
    cpu_us_per_rpc: float | None = None


def relayed(port: int, requests: int, cpu_s: Callable[[], float] | None) -> Relayed:
    before_s = cpu_s() if cpu_s else 0.0
    latencies = paced(port, FIXED_RATE, requests, RECORD_SIZE)
    used_us = (cpu_s() - before_s) * 1e6 / requests if cpu_s else None
    p50, p99 = np.quantile(latencies, (0.5, 0.99))
    return Relayed(float(p50), float(p99), used_us)


def beside_a_relay(rounds: int, seconds: float) -> dict[str, list[Relayed]]:
    """Every arm once in each round, without Kafka."""
    requests = int(FIXED_RATE * seconds)
    results: dict[str, list[Relayed]] = {DIRECT: [], RELAY: [], **{name: [] for name in THROUGH}}
    with answering() as port, running_relay(port) as relay:
        spec = TapSpec(access=Access(f"{HOST}:{port}"))
        for number in range(rounds):
            sys.stderr.write(f"round {number + 1} of {rounds}: beside a relay\n")
            results[DIRECT].append(relayed(port, requests, None))
            results[RELAY].append(relayed(relay.port, requests, relay.cpu_s))
            for name, is_recorded in THROUGH.items():
                with tempfile.TemporaryDirectory() as folder:
                    directory = Path(folder) if is_recorded else None
                    with running_tap(spec, directory) as tap:
                        at = int(tap.bootstrap_server.rpartition(":")[2])
                        results[name].append(relayed(at, requests, lambda: tap.show().cpu_s))
    return results


def rows(
    results: Mapping[str, Sequence[T]],
    figure: str,
    value_of: Callable[[T], float | None],
    against: Callable[[float, float], float] | None = None,
) -> list[tuple[Cell, ...]]:
    """A row for each arm: the figure's median, least and greatest, and the same of what it is
    against the direct run of its round.
    """
    table_rows = []
    for name, runs in results.items():
        values = [value for result in runs if (value := value_of(result)) is not None]
        if not values:
            continue
        compared: tuple[Cell, ...] = (None, None, None)
        if against and name != DIRECT:
            bases = [value_of(result) or 0.0 for result in results[DIRECT]]
            compared = spread([against(v, b) for v, b in zip(values, bases, strict=True)])
        table_rows.append((figure, name, *spread(values), *compared))
    return table_rows


def columns(compared: str) -> tuple[str | Column, ...]:
    return (
        "figure",
        "arm",
        Column("median", 3),
        Column("least", 3),
        Column("greatest", 3),
        Column(compared, 3),
        Column("least of it", 3),
        Column("greatest of it", 3),
    )


def fixed_rate_table(results: dict[str, list[Result]]) -> Table:
    table_rows = (
        *rows(results, "p50 ms", lambda r: r.p50_ms, sub),
        *rows(results, "p99 ms", lambda r: r.p99_ms, sub),
        *rows(results, "RPCs", lambda r: r.rpcs),
        *rows(results, "CPU us per RPC", lambda r: r.cpu_us_per_rpc),
    )
    return Table(f"{FIXED_RATE:,} records/s", columns("added"), table_rows)


def full_speed_table(results: dict[str, list[Result]]) -> Table:
    table_rows = (
        *rows(results, "records/s", lambda r: r.records_per_s, truediv),
        *rows(results, "RPCs", lambda r: r.rpcs),
        *rows(results, "CPU us per RPC", lambda r: r.cpu_us_per_rpc),
    )
    return Table("Full speed", columns("of direct"), table_rows)


def relay_table(results: dict[str, list[Relayed]]) -> Table:
    table_rows = (
        *rows(results, "p50 us", lambda r: r.p50_us, sub),
        *rows(results, "p99 us", lambda r: r.p99_us, sub),
        *rows(results, "CPU us per RPC", lambda r: r.cpu_us_per_rpc),
    )
    return Table(f"Without Kafka: {FIXED_RATE:,} RPCs/s", columns("added"), table_rows)


def before_kafka(
    parts: Sequence[str], rounds: int, records: int, seconds: float
) -> Iterator[tuple[str, dict[str, list[Result]], Table]]:
    """The parts that take a lab, each as soon as it is done."""
    lab = Lab.up(LabSpec(name="bench"), lambda text: sys.stderr.write(text + "\n") and None)
    try:
        create_topics(lab.bootstrap_server, [TOPIC], PARTITIONS, 1)
        with Cluster(lab.bootstrap_server, "bench", 30) as cluster:
            await_topic(cluster, TOPIC, PARTITIONS)
        for _ in range(2):  # brokers compile their hot paths first
            produce(lab.bootstrap_server, records, -1)
        if FIXED in parts:
            steady = compare(lab, rounds, int(FIXED_RATE * seconds), FIXED_RATE)
            yield FIXED, steady, fixed_rate_table(steady)
        if FULL in parts:
            fast = compare(lab, rounds, records, -1)
            yield FULL, fast, full_speed_table(fast)
    finally:
        lab.down()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--records", type=int, default=1_000_000, help="in a run at full speed")
    options.add_argument("--seconds", type=float, default=10, help="of a run at the fixed rate")
    options.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    chosen = options.parse_args()
    document: dict[str, object] = {}
    tables = []
    if RELAYED in chosen.parts:
        by_arm = beside_a_relay(chosen.rounds, chosen.seconds)
        document[RELAYED] = {name: list(map(asdict, runs)) for name, runs in by_arm.items()}
        tables.append(relay_table(by_arm))
    if {FIXED, FULL} & set(chosen.parts):
        for part, results, table in before_kafka(
            chosen.parts, chosen.rounds, chosen.records, chosen.seconds
        ):
            document[part] = {name: list(map(asdict, runs)) for name, runs in results.items()}
            tables.append(table)
    report = Report("benchmark tap", document, tuple(tables))
    write(report, chosen.output, sys.stdout, sys.stdout.isatty())


if __name__ == "__main__":
    main()
