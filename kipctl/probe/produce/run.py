"""One run of the probe's producer, from the bootstrap to the trace files."""

import random
import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from kipctl.errors import UnreachableError
from kipctl.probe.bootstrap import as_flight, find_topic
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.outcome import Outcome, config_of_worker, soon
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.partitioner import partitioner
from kipctl.probe.produce.payloads import file_values, random_values, variants
from kipctl.probe.produce.producer import Producer
from kipctl.probe.schedule import WHOLE, Schedule, Share
from kipctl.probe.tracing import Tracing
from kipctl.probe.undisturbed import cpu_s, undisturbed
from kipctl.protocol.compression import Compression
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.protocol.init_producer_id import InitProducerIdRequest
from kipctl.trace.clock import now_us
from kipctl.trace.codes import MetadataCause
from kipctl.transport.request import Cluster
from kipctl.transport.sockets import Sockets

_BOOTSTRAP_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_US = 10_000_000


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """What to send, where, and how. Sizes are in bytes, `throughput` in records per second.

    `num_records`, `throughput` and `warmup_records` are those of the whole run, of which `share`
    says what this probe sends.
    """

    bootstrap_server: str
    topic: str
    num_records: int
    throughput: float = -1
    record_size: int = 1000
    payload_file: Path | None = None
    payload_delimiter: str = "\n"
    warmup_records: int = 0
    discovery: LeaderDiscovery = LeaderDiscovery.KIP951
    config: ProducerConfig = field(default_factory=ProducerConfig)
    seed: int = 0
    share: Share = WHOLE

    def run(
        self,
        directory: Path,
        on_start: Callable[[Schedule], None],
        should_stop: Callable[[], bool],
        agree_on_start: Callable[[], int] = soon,
    ) -> "ProbeOutcome":
        """See `Spec.run`."""
        return run_probe(self, directory, on_start, should_stop, agree_on_start)

    def of_worker(self, share: Share) -> "ProbeSpec":
        """See `Spec.of_worker`."""
        # A worker may run in another folder.
        payload_file = self.payload_file and self.payload_file.absolute()
        config = config_of_worker(self.config, share)
        return replace(self, share=share, config=config, payload_file=payload_file)

    def schedule(self, start_us: int) -> Schedule:
        """See `Spec.schedule`."""
        return Schedule(start_us, self.num_records, self.throughput, self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOutcome(Outcome):
    """What a run of the producer came to; numbers are of records."""

    datasets = ("batches", "rpcs", "redirects")
    api = "produce"

    spec: ProbeSpec
    interval_ns: int
    generated: int
    acknowledged: int
    failed: int
    unconnected: tuple[int, ...] = ()
    """Leaders that could not be reached before the start: what was for them waited from then on."""

    @property
    def config(self) -> ProducerConfig:
        return self.spec.config

    @property
    def share(self) -> Share:
        return self.spec.share


def run_probe(
    spec: ProbeSpec,
    directory: Path,
    on_start: Callable[[Schedule], None],
    should_stop: Callable[[], bool],
    agree_on_start: Callable[[], int] = soon,
) -> ProbeOutcome:
    """Produce the records (`Spec.run`)."""
    choose = random.Random(spec.seed + spec.share.worker)
    config = spec.config
    compression = Compression[config.compression_type.upper()]
    if spec.payload_file is not None:
        pool = file_values(spec.payload_file, spec.payload_delimiter)
    else:
        pool = random_values(spec.record_size, choose, config.batch_size)
    batches = variants(pool, config.batch_size, compression, choose)
    with Cluster(spec.bootstrap_server, config.client_id, _BOOTSTRAP_TIMEOUT_S) as cluster:
        asked_us = now_us()
        metadata = cluster.metadata([spec.topic])
        answered_us = now_us()
        start = as_flight(metadata, spec.topic, config.client_id, cluster, asked_us)
        topic, partitions = find_topic(spec.topic, metadata)
        producer_id, producer_epoch = -1, -1
        if config.enable_idempotence:
            producer_id, producer_epoch = new_producer_id(cluster)

    producer: Producer

    def on_tick() -> None:
        if should_stop():
            producer.stop()

    with (
        closing(Tracing(directory, ProbeOutcome.datasets)) as tracing,
        closing(
            Producer(
                config,
                spec.discovery,
                [topic],
                [partitions],
                batches,
                partitioner(
                    config.partitioner, partitions, batches[0].capacity, choose, spec.share
                ),
                tracing,
                producer_id,
                producer_epoch,
                on_tick,
                Sockets(now_us),
                cluster.bootstrap,
            )
        ) as producer,
    ):
        tracing.rpc(-1, 0, start, answered_us, start.subject, 0, 1, 0, MetadataCause.START)
        producer.learn(metadata)
        unconnected = producer.connect_all(_CONNECT_TIMEOUT_US)
        with undisturbed():
            schedule = spec.schedule(agree_on_start())
            on_start(schedule)
            wall_start_us = time.time_ns() // 1000 + schedule.start_us - now_us()
            cpu_before = cpu_s()
            totals = producer.run(schedule)
    return ProbeOutcome(
        spec=spec,
        cluster_id=metadata.cluster_id or "",
        start_us=schedule.start_us,
        end_us=now_us(),
        wall_start_us=wall_start_us,
        interval_ns=schedule.interval_ns,
        generated=producer.generated,
        acknowledged=totals.acknowledged,
        failed=totals.failed,
        unconnected=unconnected,
        errors=totals.errors,
        topics=(spec.topic,),
        endpoints=tuple(producer.endpoints),
        cpu_s=cpu_s() - cpu_before,
        stopped=producer.generated < schedule.own_records,
        host=socket.gethostname(),
        health=producer.health(schedule.start_us),
    )


def new_producer_id(cluster: Cluster) -> tuple[int, int]:
    """A producer id and epoch for idempotence; brokers that still start up are asked again."""
    deadline = time.monotonic() + _BOOTSTRAP_TIMEOUT_S
    while True:
        answer = cluster.any_broker().request(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        )
        if not answer.error_code:
            return answer.producer_id, answer.producer_epoch
        if not ErrorCode(answer.error_code).retriable or time.monotonic() > deadline:
            raise UnreachableError(
                f"No producer id for enable.idempotence: {error_name(answer.error_code)}.",
                "Try again, or set enable.idempotence=false.",
            )
        time.sleep(0.05)
