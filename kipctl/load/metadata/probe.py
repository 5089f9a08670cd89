"""kipctl's own producer of many topics."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

from kipctl import __version__
from kipctl.load.metadata.phases import PhaseLoad, PhaseResult, Rpc
from kipctl.probe.idle_eviction import TopicPolicy
from kipctl.probe.metadata_updater import MetadataCall
from kipctl.probe.process_tuning import without_pauses
from kipctl.probe.produce.config import ProducerConfig
from kipctl.probe.produce.many_topics import ManyTopicsProducer
from kipctl.probe.produce.payloads import random_values, variants
from kipctl.probe.produce.run import ProduceOutcome, new_producer_id
from kipctl.probe.tracing import Tracing
from kipctl.protocol.address import Address
from kipctl.protocol.compression import Compression
from kipctl.protocol.produce_frames import Topic
from kipctl.trace.clock import now_us
from kipctl.transport.access import Access
from kipctl.transport.request import Cluster
from kipctl.transport.sockets import SystemSockets

_ADMIN_TIMEOUT_S = 30.0


class ProbeClient:
    """One producer for all phases. The server says where it starts, so that it stays behind a tap,
    and gives it a producer id."""

    version = __version__
    software = f"kipctl {version}"

    def __init__(
        self,
        access: Access,
        config: ProducerConfig,
        policy: TopicPolicy,
        topics: Sequence[Topic],
        partitions: int,
        record_size: int,
    ) -> None:
        self._config = config
        choose = Random(0)
        compression = Compression[config.compression_type.upper()]
        values = random_values(record_size, choose, config.batch_size)
        producer = (-1, -1)
        with Cluster(access, "kipctl", _ADMIN_TIMEOUT_S) as cluster:
            if config.enable_idempotence:
                producer = new_producer_id(cluster, topics[0].name)
            node = next(iter(cluster.nodes.values()))
            sockets = SystemSockets(now_us, cluster.access)
        self._server = Address(node.host, node.port)
        self._first = True
        with ExitStack() as opened:
            scratch = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="kipctl-")))
            self._producer = opened.enter_context(
                closing(
                    ManyTopicsProducer(
                        config,
                        policy,
                        topics,
                        partitions,
                        variants(values, config.batch_size, compression, choose),
                        opened.enter_context(closing(Tracing(scratch, ProduceOutcome.datasets))),
                        producer,
                        sockets,
                        [self._server],
                    )
                )
            )
            self._opened = opened.pop_all()

    def run(self, load: PhaseLoad) -> PhaseResult:
        """Raises TimedOutError."""
        producer = self._producer
        calls: list[MetadataCall] = []
        if self._first:
            calls += producer.bootstrap(self._server)
            self._first = False
        producer.set_metadata_ages(
            load.max_age_ms or self._config.metadata_max_age_ms,
            load.max_idle_ms or self._config.metadata_max_idle_ms,
        )
        with without_pauses():
            sent = producer.send(load.segments)
        calls += sent.calls
        return PhaseResult(
            sent.records,
            sent.failed,
            sent.seconds,
            sent.latencies_us,
            sent.waits_us,
            [_rpc(call) for call in calls],
            sent.errors,
        )

    def send(self, load: PhaseLoad) -> Mapping[str, int]:
        """See Sender."""
        return self.run(load).errors

    def close(self) -> None:
        self._opened.close()


def _rpc(call: MetadataCall) -> Rpc:
    answered = bool(call.received_us)
    return Rpc(
        call.cause.name.lower(),
        len(call.topics),
        call.flight.size,
        call.response_bytes if answered else None,
        call.received_us - call.flight.sent_us if answered else None,
    )
