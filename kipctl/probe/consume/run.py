"""One run of the probe's consumer, from the bootstrap to the trace files."""

import socket
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from kipctl.errors import RefusedError, TimedOutError, UsageError
from kipctl.probe.bootstrap import as_flight, find_topic
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.consumer import Consumer, OnRecords
from kipctl.probe.consume.positions import NO_OFFSET, NO_RESET, Partition
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.outcome import Outcome, config_of_worker, soon
from kipctl.probe.schedule import WHOLE, Schedule, Share
from kipctl.probe.tracing import Tracing
from kipctl.probe.undisturbed import cpu_s, undisturbed
from kipctl.protocol.error_codes import error_text
from kipctl.trace.clock import now_us
from kipctl.trace.codes import MetadataCause
from kipctl.transport.request import Cluster
from kipctl.transport.sockets import Sockets

_BOOTSTRAP_TIMEOUT_S = 30.0
_POSITIONS_TIMEOUT_US = 30_000_000
_PATIENCE_US = 5_000_000
"""For partitions that have no position yet, when others have."""


@dataclass(frozen=True, slots=True)
class ConsumeSpec:
    """What to read, and how.

    `num_records` are those of the whole run, of which this consumer reads every partition that is
    its `share`. It ends early when there was no record for `timeout_ms`. `partitions` empty is
    all; `offset` -1 lets `auto.offset.reset` say where to begin: raises UsageError if that is none.
    """

    bootstrap_server: str
    topic: str
    num_records: int
    timeout_ms: int = 10_000
    partitions: tuple[int, ...] = ()
    offset: int = NO_OFFSET
    discovery: LeaderDiscovery = LeaderDiscovery.KIP951
    config: ConsumerConfig = field(default_factory=ConsumerConfig)
    share: Share = WHOLE

    def __post_init__(self) -> None:
        if self.offset == NO_OFFSET and self.config.auto_offset_reset == NO_RESET:
            raise UsageError(
                "With auto.offset.reset=none nobody says where to begin.", "Say it with --offset."
            )

    def run(
        self,
        directory: Path,
        on_start: Callable[[Schedule], None],
        should_stop: Callable[[], bool],
        agree_on_start: Callable[[], int] = soon,
    ) -> "ConsumeOutcome":
        """See `Spec.run`."""
        return run_consumer(self, directory, on_start, should_stop, agree_on_start)

    def of_worker(self, share: Share) -> "ConsumeSpec":
        """See `Spec.of_worker`. How much the others have read it does not know."""
        return replace(self, share=share, config=config_of_worker(self.config, share))

    def schedule(self, start_us: int) -> Schedule:
        """See `Spec.schedule`."""
        return Schedule(start_us, self.num_records, -1, self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOutcome(Outcome):
    """What a run of the consumer came to; `errors` counts partitions that were given up."""

    datasets = ("reads", "rpcs", "redirects")
    api = "fetch"

    spec: ConsumeSpec
    records: int
    bytes: int
    """Of whole record batches, as they came over the wire."""
    partitions: int
    """That were assigned."""
    racks: tuple[str, ...]

    @property
    def config(self) -> ConsumerConfig:
        return self.spec.config

    @property
    def share(self) -> Share:
        return self.spec.share

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        return {"topic": self.topics, "hint_endpoint": self.endpoints, "broker_rack": self.racks}

    @property
    def constants(self) -> dict[str, str | None]:
        return {"api": self.api, "client_rack": self.config.client_rack or None}


def run_consumer(
    spec: ConsumeSpec,
    directory: Path,
    on_start: Callable[[Schedule], None],
    should_stop: Callable[[], bool],
    agree_on_start: Callable[[], int] = soon,
    on_records: OnRecords | None = None,
) -> ConsumeOutcome:
    """Read the records (`Spec.run`); each partition's position is known before the start."""
    config = spec.config
    with Cluster(spec.bootstrap_server, config.client_id, _BOOTSTRAP_TIMEOUT_S) as cluster:
        asked_us = now_us()
        metadata = cluster.metadata([spec.topic])
        answered_us = now_us()
        start = as_flight(metadata, spec.topic, config.client_id, cluster, asked_us)
    topic, count = find_topic(spec.topic, metadata)
    partitions = [Partition(topic, 0, index, spec.offset) for index in range(count)]
    assigned = [partitions[index] for index in assignment(spec, count)]

    consumer: Consumer

    def on_tick() -> None:
        if should_stop():
            consumer.stop()

    with (
        closing(Tracing(directory, ConsumeOutcome.datasets)) as tracing,
        closing(
            Consumer(
                config,
                spec.discovery,
                [partitions],
                assigned,
                tracing,
                on_tick,
                Sockets(now_us),
                cluster.bootstrap,
                on_records,
            )
        ) as consumer,
    ):
        tracing.rpc(-1, 0, start, answered_us, start.subject, 0, 1, 0, MetadataCause.START)
        consumer.learn(metadata)
        unsettled = consumer.find_positions(_POSITIONS_TIMEOUT_US, _PATIENCE_US)
        if unsettled and len(unsettled) == len(assigned):
            raise TimedOutError(
                f"No leader of {spec.topic} said where its log begins and ends in "
                f"{_POSITIONS_TIMEOUT_US // 1_000_000} s.",
                "Look at its partitions: kipctl inspect leaders",
            )
        errors = {partition.error for partition in assigned}
        if len(errors) == 1 and (error := errors.pop()):
            raise RefusedError(f"Topic {spec.topic!r} cannot be read: {error_text(error)}.")
        with undisturbed():
            schedule = spec.schedule(agree_on_start())
            on_start(schedule)
            wall_start_us = time.time_ns() // 1000 + schedule.start_us - now_us()
            cpu_before = cpu_s()
            totals = consumer.run(schedule.start_us, spec.num_records, spec.timeout_ms * 1000)
    return ConsumeOutcome(
        spec=spec,
        cluster_id=metadata.cluster_id or "",
        start_us=schedule.start_us,
        end_us=now_us(),
        wall_start_us=wall_start_us,
        records=totals.records,
        bytes=totals.bytes,
        partitions=len(assigned),
        errors=totals.errors,
        topics=(spec.topic,),
        endpoints=tuple(consumer.endpoints),
        racks=tuple(consumer.racks),
        cpu_s=cpu_s() - cpu_before,
        stopped=consumer.is_stopped,
        host=socket.gethostname(),
        health=consumer.health(schedule.start_us),
    )


def assignment(spec: ConsumeSpec, count: int) -> list[int]:
    """The partitions that a consumer of the spec reads, of a topic that has so many.

    Raises UsageError for one that the topic has not.
    """
    wanted = sorted(set(spec.partitions)) or list(range(count))
    if wanted[-1] >= count:
        raise UsageError(
            f"Topic {spec.topic!r} has no partition {wanted[-1]}.",
            f"It has {count}: 0 to {count - 1}.",
        )
    return wanted[spec.share.worker :: spec.share.workers]
