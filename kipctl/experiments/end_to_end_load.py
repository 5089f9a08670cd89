"""A producer and a consumer at work until they are told to end, and the record of both."""

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from kipctl import __version__
from kipctl.errors import PipelineError, UsageError
from kipctl.experiments.arms import Arm, ProbeClient
from kipctl.experiments.begin import Probe, on_this_machine
from kipctl.experiments.e2e import acknowledged_ends, await_offsets
from kipctl.probe.config import as_properties
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec
from kipctl.probe.export import record_batches
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.parts import Part
from kipctl.probe.produce.config import ProducerConfig, producer_properties
from kipctl.probe.produce.run import ProbeOutcome, ProbeSpec
from kipctl.trace.clock import now_us
from kipctl.trace.store import Run, without_secrets

PRODUCER, CONSUMER = "kipctl-experiment", "kipctl-experiment-consumer"
"""Client ids."""
_ENDLESS = 1 << 40
"""Records, of a load that is told when to end."""
_FOREVER_MS = 1 << 40
QUIET_S = 10.0
"""After the last record was sent: nothing more will come when nothing has for so long."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, and read at once: `throughput` records per second of `record_size` bytes.

    Those of the first `warmup_s` seconds are not counted. `linger_ms` is 0, so that what is
    measured is not the batching.
    """

    bootstrap_server: str
    topic: str
    acks: str = "1"
    throughput: float = 1000
    record_size: int = 1000
    warmup_s: float = 3.0
    client_rack: str = ""
    """The consumer's."""

    @property
    def warmup_records(self) -> int:
        return math.ceil(self.throughput * self.warmup_s)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load came to; its rows are in the run. Times are monotonic microseconds.

    `interval_ns` 0: each batch says when its records were created. `settings` are for `run.json`.
    """

    software: str
    measured_by: str
    """The source of its rows: "probe" or "tap"."""
    start_us: int
    wall_start_us: int
    interval_ns: int
    warmup_records: int
    sent: int
    failed: int
    settings: dict[str, Any]


class RunningLoad(Protocol):
    """A producer and a consumer at work. `start_us` is when the producer began."""

    start_us: int

    def finish(self, run: Run) -> Loaded:
        """End the producer, wait until all that it wrote was read, and record both.

        Raises KipctlError when one of them had broken off.
        """


def load_of(arm: Arm, load: Load) -> AbstractContextManager[RunningLoad]:
    """The arm's producer and consumer at work. Raises KipctlError when they do not begin."""
    if isinstance(arm.client, ProbeClient) and not (arm.caps or arm.drop_hints):
        return probe_load(load, arm.client.discovery)
    raise UsageError(f"{arm.name} cannot be rolled yet.")


@contextmanager
def probe_load(load: Load, discovery: LeaderDiscovery) -> Iterator[RunningLoad]:
    """kipctl's own producer and consumer, each in a process of its own."""
    produce = ProbeSpec(
        load.bootstrap_server,
        load.topic,
        num_records=_ENDLESS,
        throughput=load.throughput,
        record_size=load.record_size,
        warmup_records=load.warmup_records,
        discovery=discovery,
        config=ProducerConfig(
            client_id=PRODUCER,
            acks=-1 if load.acks == "all" else int(load.acks),
            enable_idempotence=load.acks == "all",
            partitioner="round-robin",  # every partition is written to, so every move is felt
        ),
    )
    read = ConsumeSpec(
        load.bootstrap_server,
        load.topic,
        num_records=_ENDLESS,
        timeout_ms=_FOREVER_MS,
        discovery=discovery,
        config=ConsumerConfig(client_id=CONSUMER, client_rack=load.client_rack),
    )
    with ExitStack() as probes:
        reader = probes.enter_context(on_this_machine(read))
        writer = probes.enter_context(on_this_machine(produce))
        yield _ProbeLoad(writer, reader)


class _ProbeLoad:
    def __init__(self, writer: Probe[ProbeOutcome], reader: Probe[ConsumeOutcome]) -> None:
        self.start_us = writer.schedule.start_us
        self._writer = writer
        self._reader = reader

    def finish(self, run: Run) -> Loaded:
        """See RunningLoad."""
        self._writer.stop()
        outcome = self._writer.outcome()
        await_offsets(self._reader, acknowledged_ends(self._writer.parts), QUIET_S)
        self._reader.stop()
        came = self._reader.outcome()
        if failure := outcome.failure or came.failure:
            raise PipelineError(f"The load broke off: {failure}")
        # Both are on this machine's clock: the consumer's times are told from the producer's start.
        came = replace(came, start_us=outcome.start_us, wall_start_us=outcome.wall_start_us)
        parts: list[Part[Any]] = [
            *self._writer.parts,
            *(replace(part, outcome=came) for part in self._reader.parts),
        ]
        for number, part in enumerate(parts):
            for dataset in part.outcome.datasets:
                run.write(dataset, record_batches(part.outcome, part.directory, dataset), number)
        spec = outcome.spec
        return Loaded(
            software=f"kipctl {__version__}",
            measured_by="probe",
            start_us=outcome.start_us,
            wall_start_us=outcome.wall_start_us,
            interval_ns=outcome.interval_ns,
            warmup_records=spec.warmup_records,
            sent=outcome.generated,
            failed=outcome.failed,
            settings={
                "interval_ns": outcome.interval_ns,
                "num_records": outcome.generated,
                "throughput": spec.throughput,
                "record_size": spec.record_size,
                "warmup_records": spec.warmup_records,
                "leader_discovery": spec.discovery.value,
                "producer": without_secrets(producer_properties(spec.config)),
                "consumer": without_secrets(as_properties(came.config)),
            },
        )


def await_us(time_us: int) -> None:
    """Wait until a moment of the monotonic clock."""
    time.sleep(max(0, time_us - now_us()) / 1e6)


@contextmanager
def recorded_in(folder: Path | None) -> Iterator[Run]:
    """The run to record into; without a folder, one that is gone after the block."""
    if folder is not None:
        yield Run.create(folder)
        return
    with tempfile.TemporaryDirectory(prefix="kipctl-") as scratch:
        yield Run.create(Path(scratch) / "run")
