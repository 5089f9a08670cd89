"""A producer and a consumer at work while something is done meanwhile, and the record of both.

Each is a client under test: kipctl's own, which records itself, or any other, which a tap of its
own records. Both are on this machine's monotonic clock.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from kipctl import __version__
from kipctl.errors import InterruptedRunError, PipelineError
from kipctl.experiments.arms.arm import Arm
from kipctl.experiments.arms.experiment import recorded_in
from kipctl.experiments.arms.probe_arm import ProbeArm
from kipctl.experiments.arms.stand import Stand
from kipctl.experiments.arms.tapped import ROUND_ROBIN, Conditions, began_us
from kipctl.experiments.arms.tapped import Load as TappedLoad
from kipctl.load.clients.client import Consumed, ConsumerLoad, Produced, ProducerLoad, RunningClient
from kipctl.load.own_topic import own_topic
from kipctl.load.plan import OWN_TOPIC
from kipctl.load.read_to_end import WrittenTo, acknowledged_ends, await_offsets, ends_of
from kipctl.load.start import OnThisMachine, Probe, Starter
from kipctl.measure.export import record_batches
from kipctl.measure.probe_results import ProbeResult
from kipctl.probe.config import as_properties
from kipctl.probe.consume.config import ConsumerConfig
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec
from kipctl.probe.leadership import LeaderDiscovery
from kipctl.probe.produce.config import ProducerConfig, producer_properties
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.probe.run import AnyOutcome, Outcome
from kipctl.redaction import without_secrets
from kipctl.tap import export
from kipctl.tap.process import RunningTap, running_tap
from kipctl.tap.recorder import COLUMNS as TAP_COLUMNS
from kipctl.trace.clock import now_us
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import IntRows, RowReader, read_rows
from kipctl.trace.store import Run

PRODUCER, CONSUMER = "kipctl-experiment", "kipctl-experiment-consumer"
"""Client ids."""
OWN = ProbeArm(name="probe-kip951", discovery=LeaderDiscovery.KIP951)
"""kipctl's own client, where it is not the one under test."""
_ENDLESS = 1 << 40
"""Records, of a load that is told when to end."""
_QUIET_S = 10.0
"""After the last record was sent: nothing more will come when nothing has for so long."""
_FOREVER_S = 86_400.0
_FOREVER_MS = 1 << 40
_PRODUCES, _CONSUMES = ("batches", "rpcs", "redirects"), ("reads", "rpcs", "redirects")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent to kipctl's own topic, and read at once: `throughput` records per second of
    `record_size` bytes. Those of the first `warmup_s` seconds are not counted.
    """

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

    start_us: int
    """When it began, monotonic."""

    def end(self) -> Mapping[int, WrittenTo]:
        """End it; by partition, how far it was written.

        Raises KipctlError when it had broken off.
        """

    def record(self, run: Run) -> Written:
        """Write its rows, once it has ended."""


class Reader(Protocol):
    """A consumer at work."""

    software: str
    """By which it introduces itself, once it has ended."""

    def end(self, ends: Mapping[int, WrittenTo]) -> None:
        """End it when it has read so far in each partition, or nothing has come for _QUIET_S.

        Raises KipctlError when it had broken off.
        """

    def record(self, run: Run, written: Written) -> Mapping[str, Any]:
        """Write its rows, with times since the producer's start; returns its settings."""


@dataclass(frozen=True, slots=True)
class Both:
    """What came of both; `begun_us` is when the warm-up was over (monotonic)."""

    written: Written
    begun_us: int
    reader: str
    """Its software."""


def measure_both(
    load: Load,
    stand: Stand,
    run: Run,
    act: Callable[[int], T],
    *,
    writer: Arm = OWN,
    reader: Arm = OWN,
    client_rack: str = "",
) -> tuple[Both, T]:
    """Both at work; `act` is called when the warm-up is over, with that moment (monotonic us), and
    after it the producer is ended, then the consumer when it has read all that was written.

    Raises KipctlError. After Ctrl-C nobody is told to look after brokers that go with their lab.
    """
    with (
        reader_of(reader, load, stand, client_rack) as reading,
        writer_of(writer, load, stand) as writing,
    ):
        begun_us = writing.start_us + round(load.warmup_s * 1e6)
        await_us(begun_us)
        try:
            done = act(begun_us)
        except InterruptedRunError:
            if stand.lab is not None:
                raise KeyboardInterrupt from None
            raise
        reading.end(writing.end())
        written = writing.record(run)
        settings = {**written.settings, **reading.record(run, written)}
    return Both(replace(written, settings=settings), begun_us, reading.software), done


def warm_up(
    load: Load, partitions: int, stand: Stand, seconds: float, message: Callable[[str], None]
) -> None:
    """Brokers at work before anything is measured, on a topic that is gone afterwards: a JVM
    compiles what it does often."""
    if not seconds:
        return
    message(f"Warming up the brokers for {seconds:g} s.")
    with recorded_in(None) as run, own_topic(stand.cluster, partitions, 0, lambda _: None):
        measure_both(replace(load, warmup_s=seconds), stand, run, lambda _: None)


def writer_of(arm: Arm, load: Load, stand: Stand) -> AbstractContextManager[Writer]:
    """The arm's producer; through a tap if it is another client's than kipctl's."""
    if isinstance(arm, ProbeArm):
        return _own_writer(load, stand, arm.discovery)
    return _tapped_writer(arm, load, stand)


def reader_of(
    arm: Arm, load: Load, stand: Stand, client_rack: str = ""
) -> AbstractContextManager[Reader]:
    """The arm's consumer at work, which knows its rack if there is one."""
    if isinstance(arm, ProbeArm):
        return _own_reader(load, stand, arm.discovery, client_rack)
    return _tapped_reader(arm, stand, client_rack)


@contextmanager
def _own_writer(load: Load, stand: Stand, discovery: LeaderDiscovery) -> Iterator[Writer]:
    spec = ProduceSpec(
        stand.access,
        OWN_TOPIC,
        num_records=_ENDLESS,
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
        yield _OwnWriter(probe)


class _OwnWriter:
    def __init__(self, probe: Probe[ProduceOutcome]) -> None:
        self._probe = probe
        self.start_us = probe.schedule.start_us

    def end(self) -> Mapping[int, WrittenTo]:
        """See Writer."""
        self._ended_us = now_us()
        self._outcome = _ended(self._probe, "producer")
        return acknowledged_ends(self._probe.results)

    def record(self, run: Run) -> Written:
        """See Writer."""
        outcome, spec = self._outcome, self._outcome.spec
        for number, part in enumerate(self._probe.results):
            _write(run, part, outcome, part.outcome.start_us, 2 * number)
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
def _own_reader(
    load: Load, stand: Stand, discovery: LeaderDiscovery, client_rack: str
) -> Iterator[Reader]:
    """It reads from the end of the log on."""
    spec = ConsumeSpec(
        stand.access,
        OWN_TOPIC,
        num_records=_ENDLESS,
        timeout_ms=_FOREVER_MS,
        discovery=discovery,
        config=ConsumerConfig(client_id=CONSUMER, client_rack=client_rack),
    )
    with load.start(spec) as probe:
        yield _OwnReader(probe)


class _OwnReader:
    software = f"kipctl {__version__}"

    def __init__(self, probe: Probe[ConsumeOutcome]) -> None:
        self._probe = probe

    def end(self, ends: Mapping[int, WrittenTo]) -> None:
        """See Reader."""
        await_offsets(self._probe, ends, _QUIET_S)
        self._outcome = _ended(self._probe, "consumer")

    def record(self, run: Run, written: Written) -> Mapping[str, Any]:
        """See Reader."""
        earlier_us = self._outcome.start_us - written.start_us
        for number, part in enumerate(self._probe.results):
            start_us = part.outcome.start_us - earlier_us
            _write(run, part, self._outcome, start_us, 2 * number + 1)
        return {"consumer": without_secrets(as_properties(self._outcome.spec.config))}


def _ended(probe: Probe[AnyOutcome], name: str) -> AnyOutcome:
    probe.stop()
    outcome = probe.outcome()
    if outcome.failure:
        raise PipelineError(f"The {name} broke off: {outcome.failure}")
    return outcome


def _write(run: Run, part: ProbeResult[Any], whole: Outcome, start_us: int, number: int) -> None:
    """Its rows, as those of the client whose part it is, with times since `start_us` by its own
    machine's clock."""
    outcome = replace(part.outcome, spec=whole.spec, start_us=start_us)
    for dataset in outcome.datasets:
        run.write(dataset, record_batches(outcome, part.directory, dataset), number)


@contextmanager
def _tap_of(arm: Arm, stand: Stand) -> Iterator[tuple[RunningTap, Path]]:
    """A tap for the arm, and the folder of its rows."""
    with (
        tempfile.TemporaryDirectory(prefix="kipctl-tap-") as scratch,
        running_tap(Conditions().tap(arm, stand.access), Path(scratch)) as tap,
    ):
        yield tap, Path(scratch)


def _without_client(rows: IntRows, dataset: str) -> IntRows:
    """What a tap has written, in the columns of the probe."""
    return rows[:, len(TAP_COLUMNS[dataset]) - len(COLUMNS[dataset]) :]


@contextmanager
def _tapped_writer(arm: Arm, load: Load, stand: Stand) -> Iterator[Writer]:
    given = TappedLoad(
        topic=OWN_TOPIC,
        num_records=_ENDLESS,
        throughput=round(load.throughput),
        record_size=load.record_size,
        properties={
            "acks": load.acks,
            "client.id": PRODUCER,
            "linger.ms": "0",
            "partitioner.class": ROUND_ROBIN,
        },
    ).of(arm)
    with (
        _tap_of(arm, stand) as (tap, folder),
        stand.clients[arm].producer(given, stand.access.behind(tap.bootstrap_server)) as client,
    ):
        yield _TappedWriter(client, tap, folder, load, given)


class _TappedWriter:
    def __init__(
        self,
        client: RunningClient[Produced],
        tap: RunningTap,
        folder: Path,
        load: Load,
        given: ProducerLoad,
    ) -> None:
        self.start_us = began_us(client, tap)
        self._client, self._tap, self._folder = client, tap, folder
        self._load, self._given = load, given

    def end(self) -> Mapping[int, WrittenTo]:
        """See Writer."""
        self._ended_us = now_us()
        self._client.stop()
        self._client_result = self._client.outcome()
        self._tapped = self._tap.stop()
        rows = read_rows(raw_path(self._folder, "batches"), len(TAP_COLUMNS["batches"]))
        return ends_of(_without_client(rows, "batches"))

    def record(self, run: Run) -> Written:
        """See Writer."""
        export.write(run, self._tapped, self._folder, _PRODUCES)
        said, load = self._client_result, self._load
        return Written(
            software=f"{said.software} {said.version}",
            measured_by="tap",
            start_us=self._tapped.start_us,
            wall_start_us=self._tapped.wall_start_us,
            interval_ns=0,
            warmup_records=load.warmup_records,
            # The tap cannot tell: librdkafka sends what was refused again in other batches.
            failed=said.failed if said.failed or not said.error else None,
            ended_us=self._ended_us - self._tapped.start_us,
            settings={
                "source": "tap",
                "interval_ns": 0,
                "throughput": load.throughput,
                "record_size": load.record_size,
                "warmup_records": load.warmup_records,
                "producer": without_secrets(dict(self._given.properties)),
            },
        )


@contextmanager
def _tapped_reader(arm: Arm, stand: Stand, client_rack: str) -> Iterator[Reader]:
    rack = {"client.rack": client_rack} if client_rack else {}
    given = ConsumerLoad(
        topic=OWN_TOPIC,
        num_records=_ENDLESS,
        # A group of its own: one that was ended has a member, and offsets of a topic that is gone.
        group=f"{CONSUMER}-{now_us()}",
        properties={**arm.given({"client.id": CONSUMER}), **rack},
        timeout_s=_FOREVER_S,
    )
    with (
        _tap_of(arm, stand) as (tap, folder),
        stand.clients[arm].consumer(given, stand.access.behind(tap.bootstrap_server)) as client,
    ):
        yield _TappedReader(client, tap, folder, given)


class _TappedReader:
    software = ""

    def __init__(
        self, client: RunningClient[Consumed], tap: RunningTap, folder: Path, given: ConsumerLoad
    ) -> None:
        self._client, self._tap, self._folder, self._given = client, tap, folder, given
        self._reads = RowReader(raw_path(folder, "reads"), len(TAP_COLUMNS["reads"]))
        self.is_done_by = client.is_done_by

    def new_rows(self, dataset: str) -> IntRows:
        """The reads that the tap has seen since the last call."""
        return _without_client(self._reads.new_rows(), dataset)

    def end(self, ends: Mapping[int, WrittenTo]) -> None:
        """See Reader."""
        await_offsets(self, ends, _QUIET_S)
        self._client.stop()
        said = self._client.outcome()
        self.software = f"{said.software} {said.version}"
        self._tapped = self._tap.stop()

    def record(self, run: Run, written: Written) -> Mapping[str, Any]:
        """See Reader."""
        tapped = replace(
            self._tapped, start_us=written.start_us, wall_start_us=written.wall_start_us
        )
        export.write(run, tapped, self._folder, _CONSUMES, part=1)
        return {"consumer": without_secrets(dict(self._given.properties))}


def await_us(time_us: int) -> None:
    """Wait until a moment of the monotonic clock."""
    time.sleep(max(0, time_us - now_us()) / 1e6)
