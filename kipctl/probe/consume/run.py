"""One run of the probe's consumer, from the bootstrap to the trace files."""

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from kipctl.errors import TimedOutError, UsageError
from kipctl.next_step import Command
from kipctl.probe.bootstrap import find_topic, first_metadata
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.consumer import Consumer, OnRecords
from kipctl.probe.consume.positions import NO_OFFSET, NO_RESET, Partition
from kipctl.probe.run import (
    Outcome,
    Spec,
    default_start_us,
    run_prepared,
)
from kipctl.probe.schedule import Schedule
from kipctl.probe.tracing import Tracing
from kipctl.protocol.api import ApiKey
from kipctl.trace.clock import now_us
from kipctl.transport.acl_errors import refusal
from kipctl.transport.request import Cluster
from kipctl.transport.sockets import SystemSockets

_BOOTSTRAP_TIMEOUT_S = 30.0
_POSITIONS_TIMEOUT_US = 30_000_000
_PATIENCE_US = 5_000_000
"""For partitions that have no position yet, when others have."""


@dataclass(frozen=True, slots=True)
class ConsumeSpec(Spec["ConsumeOutcome"]):
    """What to read, and how.

    This consumer reads the partitions that are its `share`. It ends early when there was no record
    for `timeout_ms`. `partitions` empty is all; `offset` -1 lets `auto.offset.reset` say where to
    begin: raises UsageError if that is none.
    """

    timeout_ms: int = 10_000
    partitions: tuple[int, ...] = ()
    offset: int = NO_OFFSET
    config: ConsumerConfig = field(default_factory=ConsumerConfig, kw_only=True)

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
        agree_on_start: Callable[[], int] = default_start_us,
        on_records: OnRecords | None = None,
    ) -> "ConsumeOutcome":
        """See `Spec.run`; each partition's position is known before the start."""
        config = self.config
        with Cluster(self.access, config.client_id, _BOOTSTRAP_TIMEOUT_S) as cluster:
            metadata, first_row = first_metadata(self.topic, cluster)
        topic, count = find_topic(self.topic, metadata, self.access)
        partitions = [Partition(topic, 0, index, self.offset) for index in range(count)]
        assigned = [partitions[index] for index in assignment(self, count)]
        with (
            closing(Tracing(directory, ConsumeOutcome.datasets, self.rotate_us)) as tracing,
            closing(
                Consumer(
                    config,
                    self.discovery,
                    partitions,
                    assigned,
                    tracing,
                    SystemSockets(now_us, self.access),
                    cluster.bootstrap,
                    should_stop,
                    on_records,
                )
            ) as consumer,
        ):
            tracing.rows["rpcs"](first_row)
            consumer.apply_first_metadata(metadata, first_row.api_version)
            unsettled = consumer.find_positions(_POSITIONS_TIMEOUT_US, _PATIENCE_US)
            if unsettled and len(unsettled) == len(assigned):
                raise TimedOutError(
                    f"No leader of {self.topic} said where its log begins and ends in "
                    f"{_POSITIONS_TIMEOUT_US // 1_000_000} s.",
                    "Look at its partitions: " + Command("inspect leaders", topic=self.topic),
                )
            errors = {partition.error for partition in assigned}
            if len(errors) == 1 and (error := errors.pop()):
                what = f"Topic {self.topic!r} cannot be read"
                raise refusal(what, error, ApiKey.FETCH, self.access, self.topic)

            def read(schedule: Schedule) -> None:
                consumer.run(schedule.start_us, self.num_records, self.timeout_ms * 1000)

            ran = run_prepared(self, consumer, read, on_start, agree_on_start)
        return ConsumeOutcome(
            cluster_id=metadata.cluster_id or "",
            records=consumer.records,
            bytes=consumer.bytes,
            partitions=len(assigned),
            racks=tuple(consumer.racks),
            stopped=consumer.is_stopped,
            **ran,
        )

    def schedule(self, start_us: int) -> Schedule:
        """See `Spec.schedule`."""
        return Schedule(start_us, self.num_records, -1, self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOutcome(Outcome):
    """The outcome of a run of the consumer; `errors` counts partitions that were given up."""

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
    def names(self) -> dict[str, tuple[str, ...]]:
        return {"topic": self.topics, "hint_endpoint": self.endpoints, "broker_rack": self.racks}

    @property
    def constants(self) -> dict[str, str | None]:
        return {"api": self.api, "client_rack": self.spec.config.client_rack or None}


def assignment(spec: ConsumeSpec, count: int) -> list[int]:
    """The partitions that a consumer of the spec reads, of a topic that has so many.

    Raises UsageError for one that the topic has not.
    """
    require_partitions(spec.topic, spec.partitions, count)
    wanted = sorted(set(spec.partitions)) or list(range(count))
    return wanted[spec.share.worker :: spec.share.workers]


def require_partitions(topic: str, partitions: Collection[int], count: int) -> None:
    """Raise UsageError for a partition that a topic of so many has not."""
    if (last := max(partitions, default=0)) >= count:
        raise UsageError(
            f"Topic {topic!r} has no partition {last}.", f"It has {count}: 0 to {count - 1}."
        )
