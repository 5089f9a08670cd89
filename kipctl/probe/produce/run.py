"""One run of the probe's producer, from the bootstrap to the trace files."""

import random
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from kipctl.errors import UnreachableError
from kipctl.probe.bootstrap import find_topic, first_metadata
from kipctl.probe.idle_eviction import TopicPolicy, TopicsInUse
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.partitioner import partitioner
from kipctl.probe.produce.payloads import file_values, random_values, variants
from kipctl.probe.produce.producer import Producer
from kipctl.probe.run import (
    Outcome,
    Spec,
    default_start_us,
    run_prepared,
)
from kipctl.probe.schedule import Schedule, Share
from kipctl.probe.tracing import Tracing
from kipctl.protocol.api import ApiKey
from kipctl.protocol.compression import Compression
from kipctl.protocol.error_codes import ErrorCode, error_name
from kipctl.protocol.init_producer_id import InitProducerIdRequest
from kipctl.trace.clock import now_us
from kipctl.transport.acl_errors import refusal
from kipctl.transport.request import Cluster
from kipctl.transport.sockets import SystemSockets

_BOOTSTRAP_TIMEOUT_S = 30.0
_CONNECT_TIMEOUT_US = 10_000_000


@dataclass(frozen=True, slots=True)
class ProduceSpec(Spec["ProduceOutcome"]):
    """What to send, where, and how. Sizes are in bytes, `throughput` in records per second.

    `throughput` and `warmup_records` are those of the whole run.
    """

    throughput: float = -1
    record_size: int = 1000
    payload_file: Path | None = None
    payload_delimiter: str = "\n"
    warmup_records: int = 0
    config: ProducerConfig = field(default_factory=ProducerConfig, kw_only=True)
    seed: int = 0

    def run(
        self,
        directory: Path,
        on_start: Callable[[Schedule], None],
        should_stop: Callable[[], bool],
        agree_on_start: Callable[[], int] = default_start_us,
    ) -> "ProduceOutcome":
        """See `Spec.run`."""
        choose = random.Random(self.seed + self.share.worker)
        config = self.config
        compression = Compression[config.compression_type.upper()]
        if self.payload_file is not None:
            pool = file_values(self.payload_file, self.payload_delimiter)
        else:
            pool = random_values(self.record_size, choose, config.batch_size)
        batches = variants(pool, config.batch_size, compression, choose)
        with Cluster(self.access, config.client_id, _BOOTSTRAP_TIMEOUT_S) as cluster:
            metadata, first_row = first_metadata(self.topic, cluster)
            self.access.require_consent("Produce")
            topic, partitions = find_topic(self.topic, metadata, self.access)
            producer_id, producer_epoch = -1, -1
            if config.enable_idempotence:
                producer_id, producer_epoch = new_producer_id(cluster, self.topic)
        with (
            closing(Tracing(directory, ProduceOutcome.datasets, self.rotate_us)) as tracing,
            closing(
                Producer(
                    config,
                    self.discovery,
                    [topic],
                    [partitions],
                    batches,
                    partitioner(
                        config.partitioner, partitions, batches[0].capacity, choose, self.share
                    ),
                    tracing,
                    producer_id,
                    producer_epoch,
                    SystemSockets(now_us, self.access),
                    cluster.bootstrap,
                    should_stop,
                    TopicsInUse(TopicPolicy.KIP526, config.metadata_max_idle_ms * 1000),
                )
            ) as producer,
        ):
            tracing.rows["rpcs"](first_row)
            producer.apply_first_metadata(metadata, first_row.api_version)
            unconnected = producer.connect_all(_CONNECT_TIMEOUT_US)
            ran = run_prepared(self, producer, producer.run, on_start, agree_on_start)
        schedule = self.schedule(ran["start_us"])
        return ProduceOutcome(
            cluster_id=metadata.cluster_id or "",
            interval_ns=schedule.interval_ns,
            generated=producer.generated,
            acknowledged=producer.acknowledged,
            failed=producer.failed,
            unconnected=unconnected,
            stopped=producer.generated < schedule.own_records,
            **ran,
        )

    def of_worker(self, share: Share) -> "ProduceSpec":
        """See `Spec.of_worker`; a worker may run in another folder."""
        own = Spec.of_worker(self, share)
        return replace(own, payload_file=self.payload_file and self.payload_file.absolute())

    def schedule(self, start_us: int) -> Schedule:
        """See `Spec.schedule`."""
        return Schedule(start_us, self.num_records, self.throughput, self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceOutcome(Outcome):
    """The outcome of a run of the producer; numbers are of records."""

    datasets = ("batches", "rpcs", "redirects")
    api = "produce"

    spec: ProduceSpec
    interval_ns: int
    generated: int
    acknowledged: int
    failed: int
    unconnected: tuple[int, ...] = ()
    """Leaders that could not be reached before the start: what was for them waited from then on."""


def new_producer_id(cluster: Cluster, topic: str) -> tuple[int, int]:
    """A producer id and epoch for idempotence; brokers that still start up are asked again.

    Who may write to any topic gets one: who is refused may not write to `topic` either.
    """
    deadline = time.monotonic() + _BOOTSTRAP_TIMEOUT_S
    while True:
        answer = cluster.any_broker().request(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        )
        if not answer.error_code:
            return answer.producer_id, answer.producer_epoch
        if answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise refusal(
                "No producer id for enable.idempotence",
                answer.error_code,
                ApiKey.INIT_PRODUCER_ID,
                cluster.access,
                topic,
                otherwise="before Kafka 2.8, set enable.idempotence=false",
            )
        if not ErrorCode(answer.error_code).retriable or time.monotonic() > deadline:
            raise UnreachableError(
                f"No producer id for enable.idempotence: {error_name(answer.error_code)}.",
                "Try again, or set enable.idempotence=false.",
            )
        time.sleep(0.05)
