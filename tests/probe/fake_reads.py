"""The probe's consumer on a fake or real cluster: run as users of the library run it, read back."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fake_kafka import TOPIC
from fake_run import meeting
from fetching import ReadCluster, value_at
from record_batches import decode_batch
from rows import read_back

from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.positions import NO_OFFSET, Partition
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.schedule import WHOLE, Share
from kipctl.protocol.api import ApiKey
from kipctl.protocol.primitives import MalformedFrame
from kipctl.protocol.records import BATCH_HEADER_SIZE, CONTROL
from kipctl.trace.codes import PHASES, MetadataCause
from kipctl.transport.access import Access

Row = dict[str, Any]


@dataclass
class Received:
    """Records as the consumer handed them out: offset and value, by partition, in order."""

    by_partition: dict[int, list[tuple[int, bytes]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def take(self, partition: Partition, fetched: memoryview, offset: int) -> None:
        """`ConsumeSpec.run`'s on_records."""
        content, at = bytes(fetched), 0
        while len(content) - at >= BATCH_HEADER_SIZE:
            try:
                batch = decode_batch(content, at)
            except MalformedFrame:
                break  # cut off, or wrong
            if not batch.header.attributes & CONTROL:
                self.by_partition[partition.index] += [
                    (record.offset, record.value or b"")
                    for record in batch.records
                    if record.offset >= offset
                ]
            at += batch.header.size

    def offsets(self, partition: int = 0) -> list[int]:
        return [offset for offset, _ in self.by_partition[partition]]

    @property
    def count(self) -> int:
        return sum(len(records) for records in self.by_partition.values())


@dataclass(frozen=True)
class ReadRan:
    """A finished run: what it came to, what was read, and every row that it wrote."""

    outcome: ConsumeOutcome
    received: Received
    reads: list[Row]
    rpcs: list[Row]
    redirects: list[Row]

    def calls(self, api: ApiKey) -> list[Row]:
        """The requests of this kind, the bootstrap's left out."""
        return [
            row
            for row in self.rpcs
            if row["api_key"] == api and row["cause"] != MetadataCause.START
        ]

    def errors(self) -> list[Row]:
        return [row for row in self.reads if row["error"]]

    @property
    def brokers_read(self) -> list[int]:
        """The brokers that records came from, each as often as it came anew."""
        brokers: list[int] = []
        for row in self.reads:
            if row["records"] and brokers[-1:] != [row["broker"]]:
                brokers.append(row["broker"])
        return brokers


def ranged(ran: ReadRan) -> list[Row]:
    """What was read from positions that a broker did not have."""
    return [row for row in ran.reads if row["range_case"] != -1]


def read_fake(
    cluster: ReadCluster,
    num_records: int = 1,
    discovery: LeaderDiscovery = LeaderDiscovery.KIP951,
    timeout_ms: int = 60_000,
    offset: int = NO_OFFSET,
    partitions: tuple[int, ...] = (),
    share: Share = WHOLE,
    should_stop: Callable[[], bool] = lambda: False,
    on_records: Callable[[Received], None] = lambda received: None,
    in_order: bool = True,
    **config: Any,
) -> ReadRan:
    """Read so many records of the fake cluster, from the start of its log on."""
    defaults = {
        "auto_offset_reset": "earliest",
        "retry_backoff_ms": 20,
        "retry_backoff_max_ms": max(1000, config.get("retry_backoff_ms", 0)),
        "reconnect_backoff_ms": 5,
    }
    spec = ConsumeSpec(
        Access(cluster.bootstrap_server),
        TOPIC,
        num_records,
        timeout_ms,
        partitions,
        offset,
        share=share,
        discovery=discovery,
        config=ConsumerConfig(**(defaults | config)),
    )
    with TemporaryDirectory() as directory, meeting(cluster):
        ran = run_read(spec, Path(directory), should_stop, on_records)
    for index, records in ran.received.by_partition.items():
        assert all(value.startswith(value_at(index, offset)) for offset, value in records)
        if in_order:
            offsets = ran.received.offsets(index)
            assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    return ran


def run_read(
    spec: ConsumeSpec,
    directory: Path,
    should_stop: Callable[[], bool] = lambda: False,
    on_records: Callable[[Received], None] = lambda received: None,
) -> ReadRan:
    """Run the consumer, and look at what holds of every run."""
    received = Received()

    def take(partition: Partition, fetched: memoryview, offset: int) -> None:
        received.take(partition, fetched, offset)
        on_records(received)

    outcome = spec.run(directory, lambda schedule: None, should_stop, on_records=take)
    rows = {name: read_back(directory, name) for name in ("reads", "rpcs", "redirects")}
    ran = ReadRan(outcome, received, **rows)
    _is_consistent(ran)
    return ran


def _is_consistent(ran: ReadRan) -> None:
    assert ran.outcome.records == sum(row["records"] for row in ran.reads)
    assert ran.outcome.bytes == sum(row["bytes"] for row in ran.reads)
    assert all(ran.outcome.start_us <= r["time_us"] <= ran.outcome.end_us for r in ran.reads)
    config = ran.outcome.spec.config
    if config.check_crcs and not config.reads_committed:
        assert ran.outcome.records == ran.received.count
    sent = {(r["broker"], r["sent_us"]) for r in ran.rpcs if r["api_key"] == ApiKey.FETCH}
    read_at = {(row["partition"], row["time_us"]) for row in ran.reads if not row["error"]}
    for rows in _redirected(ran.redirects):
        spent = [row[f"{phase}_us"] for row in rows for phase in PHASES]
        assert min(spent) >= 0
        assert [row["attempt"] for row in rows] == list(range(1, len(rows) + 1))
        first, last = rows[0], rows[-1]
        first_sent_us = first["error_us"] - first["detect_us"] - first["not_ready_us"]
        assert (first["from_broker"], first_sent_us) in sent
        done_us = first_sent_us + sum(spent)
        if last["records"]:
            assert (last["partition"], done_us) in read_at
        assert done_us <= ran.outcome.end_us


def _redirected(rows: list[Row]) -> list[list[Row]]:
    """The rows of each reading that met errors."""
    groups: list[list[Row]] = []
    for row in rows:
        if row["attempt"] == 1:
            groups.append([])
        groups[-1].append(row)
    return groups
