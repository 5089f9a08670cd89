"""A producer and a consumer at work until they are told to end, and the record of both.

Each is a client under test: kipctl's own, which records itself, or any other, which a tap of its
own records (`kipctl.experiments.arms.tapped_sides`). Both are on this machine's monotonic clock.
"""

import math
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from kipctl import __version__
from kipctl.errors import PipelineError
from kipctl.load.read_to_end import WrittenTo, acknowledged_ends, await_offsets
from kipctl.load.record import recording
from kipctl.load.start import OnThisMachine, Probe, Starter
from kipctl.measure.export import record_batches
from kipctl.measure.probe_results import ProbeResult
from kipctl.probe.config import as_properties
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import ProducerConfig, producer_properties
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.probe.run import Outcome
from kipctl.redaction import without_secrets
from kipctl.trace.clock import now_us
from kipctl.trace.store import Run
from kipctl.transport.access import Access

PRODUCER, CONSUMER = "kipctl-experiment", "kipctl-experiment-consumer"
"""Client ids."""
ENDLESS = 1 << 40
"""Records, of a load that is told when to end."""
QUIET_S = 10.0
"""After the last record was sent: nothing more will come when nothing has for so long."""
_FOREVER_MS = 1 << 40


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, and read at once: `throughput` records per second of `record_size` bytes.

    Those of the first `warmup_s` seconds are not counted.
    """

    access: Access
    topic: str
    acks: str = "1"
    throughput: float = 500
    record_size: int = 1000
    warmup_s: float = 5.0
    start: Starter = field(default_factory=OnThisMachine)
    """Starts kipctl's own clients: each as a process, or as workers."""

    @property
    def warmup_records(self) -> int:
        return math.ceil(self.throughput * self.warmup_s)


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a producer; its rows are in the run. Times are microseconds.

    `start_us` is monotonic. `interval_ns` 0: each batch says when its records were created.
    `settings` are for `run.json`.
    """

    software: str
    measured_by: str
    """The source of its rows: "probe" or "tap"."""
    start_us: int
    wall_start_us: int
    interval_ns: int
    warmup_records: int
    failed: int | None
    """Records, as the client itself says; None when it says that some have, and not how many."""
    ended_us: int
    """When it was told to end, since the start: what it gives up then is not settled."""
    settings: Mapping[str, Any]


class Writer(Protocol):
    """A producer at work."""

    @property
    def start_us(self) -> int:
        """When it began, monotonic."""

    def end(self) -> Mapping[int, WrittenTo]:
        """End it; by partition, how far it was written.

        Raises KipctlError when it had broken off.
        """

    def record(self, run: Run) -> Written:
        """Write its rows, once it has ended."""


class Reader(Protocol):
    """A consumer at work."""

    @property
    def software(self) -> str: ...

    def end(self, ends: Mapping[int, WrittenTo]) -> None:
        """End it when it has read so far in each partition, or nothing has come for QUIET_S.

        Raises KipctlError when it had broken off.
        """

    def record(self, run: Run, written: Written) -> Mapping[str, Any]:
        """Write its rows, with times since the producer's start; returns its settings."""


def finish(writer: Writer, reader: Reader, run: Run) -> Written:
    """End the producer, then the consumer when it has read all that was written; record both."""
    reader.end(writer.end())
    written = writer.record(run)
    settings = reader.record(run, written)
    return replace(written, settings={**written.settings, **settings})


@contextmanager
def probe_writer(load: Load, discovery: LeaderDiscovery) -> Iterator[Writer]:
    """kipctl's own producer."""
    spec = ProduceSpec(
        load.access,
        load.topic,
        num_records=ENDLESS,
        throughput=load.throughput,
        record_size=load.record_size,
        warmup_records=load.warmup_records,
        discovery=discovery,
        config=ProducerConfig(
            client_id=PRODUCER,
            acks=-1 if load.acks == "all" else int(load.acks),
            enable_idempotence=load.acks == "all",
            partitioner="round-robin",  # every partition is written to, so every move is met
        ),
    )
    with load.start(spec) as probe:
        yield _ProbeWriter(probe)


class _ProbeWriter:
    def __init__(self, probe: Probe[ProduceOutcome]) -> None:
        self._probe = probe
        self.start_us = probe.schedule.start_us

    def end(self) -> Mapping[int, WrittenTo]:
        """See Writer."""
        self._ended_us = now_us()
        self._probe.stop()
        self._outcome = self._probe.outcome()
        if failure := self._outcome.failure:
            raise PipelineError(f"The producer broke off: {failure}")
        return acknowledged_ends(self._probe.results)

    def record(self, run: Run) -> Written:
        """See Writer."""
        outcome = self._outcome
        for number, part in enumerate(self._probe.results):
            _write(run, part, outcome, part.outcome.start_us, 2 * number)
        spec = outcome.spec
        return Written(
            software=f"kipctl {__version__}",
            measured_by="probe",
            start_us=outcome.start_us,
            wall_start_us=outcome.wall_start_us,
            interval_ns=outcome.interval_ns,
            warmup_records=spec.warmup_records,
            failed=outcome.failed,
            ended_us=self._ended_us - outcome.start_us,
            settings={
                "interval_ns": outcome.interval_ns,
                "num_records": outcome.generated,
                "throughput": spec.throughput,
                "record_size": spec.record_size,
                "warmup_records": spec.warmup_records,
                "leader_discovery": spec.discovery.value,
                "producer": without_secrets(producer_properties(spec.config)),
            },
        )


@contextmanager
def probe_reader(load: Load, discovery: LeaderDiscovery, client_rack: str = "") -> Iterator[Reader]:
    """kipctl's own consumer; it reads from the end of the log on."""
    spec = ConsumeSpec(
        load.access,
        load.topic,
        num_records=ENDLESS,
        timeout_ms=_FOREVER_MS,
        discovery=discovery,
        config=ConsumerConfig(client_id=CONSUMER, client_rack=client_rack),
    )
    with load.start(spec) as probe:
        yield _ProbeReader(probe)


class _ProbeReader:
    software = f"kipctl {__version__}"

    def __init__(self, probe: Probe[ConsumeOutcome]) -> None:
        self._probe = probe

    def end(self, ends: Mapping[int, WrittenTo]) -> None:
        """See Reader."""
        await_offsets(self._probe, ends, QUIET_S)
        self._probe.stop()
        self._outcome = self._probe.outcome()
        if failure := self._outcome.failure:
            raise PipelineError(f"The consumer broke off: {failure}")

    def record(self, run: Run, written: Written) -> Mapping[str, Any]:
        """See Reader."""
        earlier_us = self._outcome.start_us - written.start_us
        for number, part in enumerate(self._probe.results):
            start_us = part.outcome.start_us - earlier_us
            _write(run, part, self._outcome, start_us, 2 * number + 1)
        return {"consumer": without_secrets(as_properties(self._outcome.spec.config))}


def _write(run: Run, part: ProbeResult[Any], whole: Outcome, start_us: int, number: int) -> None:
    """Its rows, as those of the client whose part it is, with times since `start_us` by its own
    machine's clock."""
    outcome = replace(part.outcome, spec=whole.spec, start_us=start_us)
    for dataset in outcome.datasets:
        run.write(dataset, record_batches(outcome, part.directory, dataset), number)


def await_us(time_us: int) -> None:
    """Wait until a moment of the monotonic clock."""
    time.sleep(max(0, time_us - now_us()) / 1e6)


@contextmanager
def recorded_in(folder: Path | None) -> Iterator[Run]:
    """The run to record into; without a folder, one that is gone after the block."""
    with (
        tempfile.TemporaryDirectory(prefix="kipctl-") as scratch,
        recording(folder or Path(scratch, "run")) as run,
    ):
        assert run
        yield run
