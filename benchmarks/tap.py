"""What the tap costs: the same producer direct and through it, on one lab, interleaved.

    python benchmarks/tap.py [--rounds 5] [--records 1000000] [--seconds 10]

kipctl's probe produces 1,000-byte records to 12 partitions of one replica on 3 brokers (batch.size
16384, linger.ms 0, acks=1). *Fixed rate*, 5,000 records/s: p50 and p99 of the latency from the
intended send time, and what the tap adds to them in the same round. *Full speed*: records/s, and
the share of the direct run's in the same round. CPU microseconds per RPC are user and system time
of the tap's own process while the producer runs, over the requests that it passed. *Beside a bare
relay*: the same before a broker that answers at once and a client that sends 5,000 Produce requests
of one record a second; the relay reads nothing of what it passes, so what it costs are the sockets.
"recorded" writes a row for each RPC and batch, as `kipctl tap --record`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.producer import FIXED_RATE, PARTITIONS, RECORD_SIZE, SETTINGS, TOPIC, run, spread
from benchmarks.relay import HOST, answering, paced, running_relay
from kipctl.cluster.topics import await_topic, create_topic
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Cell, Column, Report, Table
from kipctl.tap.process import running_tap
from kipctl.tap.spec import TapSpec
from kipctl.transport.request import Cluster

DIRECT, RELAY = "direct", "a bare relay"
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
    spec = TapSpec(bootstrap_server=bootstrap_server)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_tap(spec, Path(folder) if is_recorded else None) as tap,
    ):
        before_s = tap.show().cpu_s
        found = produce(tap.bootstrap_server, records, rate)
        outcome = tap.show()
    rpcs = sum(sum(client.counts.requests.values()) for client in outcome.clients)
    return replace(found, rpcs=rpcs, cpu_us_per_rpc=(outcome.cpu_s - before_s) * 1e6 / rpcs)


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


def beside_a_relay(rounds: int, seconds: float) -> dict[str, list[float]]:
    """CPU microseconds per RPC of the relay and of the tap."""
    requests = int(FIXED_RATE * seconds)
    found: dict[str, list[float]] = {RELAY: [], **{name: [] for name in THROUGH}}
    with answering() as port, running_relay(port) as relay:
        for number in range(rounds):
            sys.stderr.write(f"round {number + 1} of {rounds}: beside a relay\n")
            before_s = relay.cpu_s()
            paced(relay.port, FIXED_RATE, requests, RECORD_SIZE)
            found[RELAY].append((relay.cpu_s() - before_s) * 1e6 / requests)
            for name, is_recorded in THROUGH.items():
                spec = TapSpec(bootstrap_server=f"{HOST}:{port}")
                with (
                    tempfile.TemporaryDirectory() as folder,
                    running_tap(spec, Path(folder) if is_recorded else None) as tap,
                ):
                    before_s = tap.show().cpu_s
                    its_port = int(tap.bootstrap_server.rpartition(":")[2])
                    paced(its_port, FIXED_RATE, requests, RECORD_SIZE)
                    found[name].append((tap.show().cpu_s - before_s) * 1e6 / requests)
    return found


def rows(
    results: dict[str, list[Result]],
    figure: str,
    of: Callable[[Result], float | None],
    against: Callable[[float, float], float] | None = None,
) -> list[tuple[Cell, ...]]:
    """A row for each arm: the figure's median, least and greatest, and the same of what it is
    against the direct run of its round.
    """
    found = []
    for name, runs in results.items():
        values = [value for one in runs if (value := of(one)) is not None]
        if not values:
            continue
        compared: tuple[Cell, ...] = (None, None, None)
        if against and name != DIRECT:
            bases = [of(one) or 0.0 for one in results[DIRECT]]
            compared = spread([against(v, b) for v, b in zip(values, bases, strict=True)])
        found.append((figure, name, *spread(values), *compared))
    return found


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


def tables(
    steady: dict[str, list[Result]],
    fast: dict[str, list[Result]],
    relayed: dict[str, list[float]],
) -> tuple[Table, ...]:
    def added(through: float, direct: float) -> float:
        return through - direct

    def share(through: float, direct: float) -> float:
        return through / direct

    return (
        Table(
            f"{FIXED_RATE:,} records/s",
            columns("added"),
            (
                *rows(steady, "p50 ms", lambda r: r.p50_ms, added),
                *rows(steady, "p99 ms", lambda r: r.p99_ms, added),
                *rows(steady, "RPCs", lambda r: r.rpcs),
                *rows(steady, "CPU us per RPC", lambda r: r.cpu_us_per_rpc),
            ),
        ),
        Table(
            "Full speed",
            columns("of direct"),
            (
                *rows(fast, "records/s", lambda r: r.records_per_s, share),
                *rows(fast, "RPCs", lambda r: r.rpcs),
                *rows(fast, "CPU us per RPC", lambda r: r.cpu_us_per_rpc),
            ),
        ),
        Table(
            "Beside a bare relay",
            columns("more than it"),
            tuple(
                (
                    "CPU us per RPC",
                    name,
                    *spread(values),
                    *spread([v - r for v, r in zip(values, relayed[RELAY], strict=True)]),
                )
                for name, values in relayed.items()
            ),
        ),
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--records", type=int, default=1_000_000, help="in a run at full speed")
    options.add_argument("--seconds", type=float, default=10, help="of a run at the fixed rate")
    options.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    chosen = options.parse_args()
    lab = Lab.up(LabSpec(name="bench"), lambda text: sys.stderr.write(text + "\n") and None)
    try:
        create_topic(lab.bootstrap_server, TOPIC, PARTITIONS, 1)
        with Cluster(lab.bootstrap_server, "bench", 30) as cluster:
            await_topic(cluster, TOPIC, PARTITIONS)
        for _ in range(2):  # brokers compile their hot paths first
            produce(lab.bootstrap_server, chosen.records, -1)
        steady = compare(lab, chosen.rounds, int(FIXED_RATE * chosen.seconds), FIXED_RATE)
        fast = compare(lab, chosen.rounds, chosen.records, -1)
    finally:
        lab.down()
    relayed = beside_a_relay(chosen.rounds, chosen.seconds)
    document: dict[str, object] = {
        part: {name: [asdict(one) for one in runs] for name, runs in results.items()}
        for part, results in (("steady", steady), ("full_speed", fast))
    }
    document["cpu_us_per_rpc"] = relayed
    write(
        Report("benchmark tap", document, tables(steady, fast, relayed)),
        chosen.output,
        sys.stdout,
        sys.stdout.isatty(),
    )


if __name__ == "__main__":
    main()
