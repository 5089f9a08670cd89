"""Compare consumers on one lab, in one run, interleaved: kipctl, Java, librdkafka, franz-go.

    python benchmarks/consumer.py [--rounds 5] [--records 3000000] [--before CHECKOUT]
                                  [--output json]

A topic of 12 partitions of one replica on 3 brokers is filled once with 1,000-byte records, and
every consumer reads all of it, from the earliest: MB/s (of values, 10^6 bytes) from when partitions
are assigned to the last record, and CPU seconds per GB of values, of the whole client process
(start-up and, for kipctl, the trace included). All fetch 1 MiB of a partition at a time into a
receive buffer of 2 MiB, as Kafka's tool does by itself. Each figure is the median over the rounds
with the least and the greatest; ratios are taken round by round, against Java.

Choose --records so that the topic fits into memory beside the brokers: it is the clients that are
compared, not the disk. kipctl runs twice: as Java's tool and librdkafka do, without looking at
checksums, and with `check.crcs`, as franz-go does. franz-go takes part where there is a Go
toolchain, kipctl as it was at another commit with --before and a work tree of that commit.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from benchmarks.contestants import franz_go, run
from benchmarks.producer import COLUMNS, rows
from kipctl.cluster.topics import await_topic, create_topics
from kipctl.lab.cluster import Lab
from kipctl.lab.properties import LabSpec
from kipctl.report.formats import OutputFormat, write
from kipctl.report.tables import Report, Table
from kipctl.transport.request import Cluster

TOPIC = "bench"
PARTITIONS = 12
RECORD_SIZE = 1000
FETCH_SIZE = 1_048_576
RECEIVE_BUFFER = 2_097_152


@dataclass(frozen=True, slots=True)
class Result:
    """One run of one consumer."""

    mb_per_s: float
    cpu_s_per_gb: float

    @classmethod
    def of(cls, records: int, seconds: float, cpu_s: float) -> "Result":
        size = records * RECORD_SIZE
        return cls(size / 1e6 / seconds, cpu_s / (size / 1e9))


def check(said: int, records: int) -> None:
    """Java's tool and kipctl end with the poll or the answer that holds the last record wanted."""
    if said < records:
        raise SystemExit(f"{said:,} of {records:,} records were read")


def kipctl(
    lab: Lab, records: int, check_crcs: bool = False, checkout: Path | None = None
) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        text, cpu_s = run(
            f"{sys.executable} -m kipctl perf consume --topic {TOPIC} --num-records {records} "
            f"--fetch-size {FETCH_SIZE} --socket-buffer-size {RECEIVE_BUFFER} "
            f"--command-property check.crcs={str(check_crcs).lower()} "
            f"--record {Path(folder) / 'run'} --bootstrap-server {lab.bootstrap_server} "
            "--output json",
            checkout,
        )
    said = json.loads(text)
    check(said["records"]["read"], records)
    return Result.of(records, said["seconds"], cpu_s)


def java(lab: Lab, records: int) -> Result:
    classpath = ":".join(map(str, lab.jars.paths))
    text, cpu_s = run(
        f"{lab.java.path} -cp {classpath} -Xmx512m org.apache.kafka.tools.ConsumerPerformance "
        f"--topic {TOPIC} --num-records {records} --fetch-size {FETCH_SIZE} "
        f"--socket-buffer-size {RECEIVE_BUFFER} --bootstrap-server {lab.bootstrap_server}"
    )
    header, line = text.strip().splitlines()[-2:]
    said = dict(zip(header.split(", "), line.split(", "), strict=True))
    check(int(said["data.consumed.in.nMsg"]), records)
    return Result.of(records, int(said["fetch.time.ms"]) / 1000, cpu_s)


def confluent(lab: Lab, records: int) -> Result:
    text, cpu_s = run(
        f"{sys.executable} {__file__} --as-confluent {lab.bootstrap_server} --records {records}"
    )
    return Result.of(records, json.loads(text)["seconds"], cpu_s)


def as_confluent(bootstrap_server: str, records: int) -> None:
    """A plain confluent-kafka consumer of assigned partitions that looks at each value's size."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_server,
            "group.id": "bench",
            "enable.auto.commit": False,
            "max.partition.fetch.bytes": FETCH_SIZE,
            "socket.receive.buffer.bytes": RECEIVE_BUFFER,
        }
    )
    start = time.monotonic()
    consumer.assign([TopicPartition(TOPIC, p, OFFSET_BEGINNING) for p in range(PARTITIONS)])
    count = 0
    while count < records:
        for message in consumer.consume(num_messages=10_000, timeout=10):
            if message.error() or len(message.value() or b"") != RECORD_SIZE:
                raise SystemExit(f"after {count} records: {message.error() or 'a strange value'}")
            count += 1
    json.dump({"seconds": time.monotonic() - start}, sys.stdout)
    consumer.close()


def franz(lab: Lab, records: int) -> Result:
    text, cpu_s = run(
        f"{franz_go()} -consume -brokers {lab.bootstrap_server} -topic {TOPIC} "
        f"-records {records} -size {RECORD_SIZE} -fetch-size {FETCH_SIZE}"
    )
    return Result.of(records, json.loads(text)["seconds"], cpu_s)


Contestant = Callable[[Lab, int], Result]


def contestants(before: Path | None) -> dict[str, Contestant]:
    taking_part: dict[str, Contestant] = {
        "kipctl": kipctl,
        "kipctl, check.crcs": partial(kipctl, check_crcs=True),
    }
    if before:
        taking_part["kipctl before"] = partial(kipctl, checkout=before)
    taking_part |= {"Java": java, "confluent-kafka": confluent}
    if franz_go():
        taking_part["franz-go"] = franz
    return taking_part


def fill(lab: Lab, records: int) -> None:
    """Make the topic and produce to it."""
    create_topics(lab.bootstrap_server, [TOPIC], PARTITIONS, 1)
    with Cluster(lab.bootstrap_server, "bench", 30) as cluster:
        await_topic(cluster, TOPIC, PARTITIONS)
    run(
        f"{sys.executable} -m kipctl perf produce --topic {TOPIC} --num-records {records} "
        f"--throughput -1 --record-size {RECORD_SIZE} --bootstrap-server {lab.bootstrap_server} "
        "--command-property acks=1 linger.ms=0 batch.size=16384 --output json"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--records", type=int, default=3_000_000, help="in the topic")
    options.add_argument("--output", type=OutputFormat, default=OutputFormat.AUTO)
    options.add_argument("--before", type=Path, help="another checkout of kipctl")
    options.add_argument("--as-confluent", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.as_confluent:
        as_confluent(chosen.as_confluent, chosen.records)
        return
    clients = contestants(chosen.before)
    results: dict[str, list[Result]] = {name: [] for name in clients}
    lab = Lab.up(
        LabSpec(
            name="bench-consumer", config=(("log.retention.bytes", "-1"),)
        ),  # it must stay whole
        lambda text: sys.stderr.write(text + "\n") and None,
    )
    try:
        sys.stderr.write(f"producing {chosen.records:,} records\n")
        fill(lab, chosen.records)
        for contestant in clients.values():  # brokers compile their hot paths first
            contestant(lab, chosen.records // 4)
        for number in range(chosen.rounds):
            for name, contestant in clients.items():
                sys.stderr.write(f"round {number + 1} of {chosen.rounds}: {name}\n")
                results[name].append(contestant(lab, chosen.records))
    finally:
        lab.down()
    table = Table(
        f"{chosen.records:,} records of {RECORD_SIZE} bytes, {chosen.rounds} rounds",
        COLUMNS,
        (
            *rows(results, "MB/s", lambda r: r.mb_per_s),
            *rows(results, "CPU s per GB", lambda r: r.cpu_s_per_gb),
        ),
    )
    document = {
        "records": chosen.records,
        "rounds": {name: [asdict(result) for result in runs] for name, runs in results.items()},
    }
    write(Report("benchmark consumer", document, (table,)), chosen.output, sys.stdout, False)


if __name__ == "__main__":
    main()
