"""A producer or a consumer of any client, through a tap of its own that records it."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from kipctl.experiments.arms.arm import Arm, ProbeClient
from kipctl.experiments.arms.end_to_end_load import (
    CONSUMER,
    ENDLESS,
    PRODUCER,
    QUIET_S,
    Load,
    Reader,
    Writer,
    Written,
    probe_reader,
    probe_writer,
)
from kipctl.experiments.arms.stand import Stand
from kipctl.experiments.arms.tapped import Load as TappedLoad
from kipctl.experiments.arms.tapped import began_us
from kipctl.load.clients.client import (
    Consumed,
    ConsumerLoad,
    Produced,
    ProducerLoad,
    RunningClient,
)
from kipctl.load.read_to_end import WrittenTo, await_offsets, ends_of
from kipctl.redaction import without_secrets
from kipctl.tap import export
from kipctl.tap.process import RunningTap, running_tap
from kipctl.tap.recorder import COLUMNS as TAP_COLUMNS
from kipctl.tap.spec import Lend, TapSpec
from kipctl.trace.clock import now_us
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import IntRows, RowReader, read_rows
from kipctl.trace.store import Run

_PRODUCES, _CONSUMES = ("batches", "rpcs", "redirects"), ("reads", "rpcs", "redirects")
_FOREVER_S = 86_400.0


def writer_of(arm: Arm, load: Load, stand: Stand) -> AbstractContextManager[Writer]:
    """The arm's producer at work; through a tap if it is another client's than kipctl's."""
    if isinstance(arm.client, ProbeClient):
        return probe_writer(load, arm.client.discovery)
    return _tapped_writer(arm, load, stand)


def reader_of(
    arm: Arm, load: Load, stand: Stand, client_rack: str = ""
) -> AbstractContextManager[Reader]:
    """The arm's consumer at work, which knows its rack if there is one."""
    if isinstance(arm.client, ProbeClient):
        return probe_reader(load, arm.client.discovery, client_rack)
    return _tapped_reader(arm, load, stand, client_rack)


def _tap(arm: Arm, load: Load) -> TapSpec:
    return TapSpec(
        access=load.access, caps=arm.caps, drop_hints=arm.drop_hints, lends=Lend.THIS_USER
    )


def _rows(directory: Path, dataset: str) -> IntRows:
    """What the tap has written so far, in the columns of the probe."""
    rows = read_rows(raw_path(directory, dataset), len(TAP_COLUMNS[dataset]))
    return _without_client(rows, dataset)


def _without_client(rows: IntRows, dataset: str) -> IntRows:
    return rows[:, len(TAP_COLUMNS[dataset]) - len(COLUMNS[dataset]) :]


@contextmanager
def _tapped_writer(arm: Arm, load: Load, stand: Stand) -> Iterator[Writer]:
    given = TappedLoad(
        topic=load.topic,
        num_records=ENDLESS,
        throughput=round(load.throughput),
        record_size=load.record_size,
        properties={
            "acks": load.acks,
            "client.id": PRODUCER,
            "linger.ms": "0",
            "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
        },
    ).of(arm)
    with (
        tempfile.TemporaryDirectory(prefix="kipctl-tap-") as scratch,
        running_tap(_tap(arm, load), Path(scratch)) as tap,
        stand.client(arm).producer(given, load.access.behind(tap.bootstrap_server)) as client,
    ):
        yield _TappedWriter(client, tap, Path(scratch), load, given)


class _TappedWriter:
    def __init__(
        self,
        client: RunningClient[Produced],
        tap: RunningTap,
        directory: Path,
        load: Load,
        given: ProducerLoad,
    ) -> None:
        self.start_us = began_us(client, tap)
        self._client, self._tap, self._directory = client, tap, directory
        self._load, self._given = load, given

    def end(self) -> Mapping[int, WrittenTo]:
        """See Writer."""
        self._ended_us = now_us()
        self._client.stop()
        self._client_result = self._client.outcome()
        self._tapped = self._tap.stop()
        return ends_of(_rows(self._directory, "batches"))

    def record(self, run: Run) -> Written:
        """See Writer."""
        export.write(run, self._tapped, self._directory, _PRODUCES)
        return Written(
            software=f"{self._client_result.software} {self._client_result.version}",
            measured_by="tap",
            start_us=self._tapped.start_us,
            wall_start_us=self._tapped.wall_start_us,
            interval_ns=0,
            warmup_records=self._load.warmup_records,
            # The tap cannot tell: librdkafka sends what was refused again in other batches.
            failed=self._client_result.failed
            if self._client_result.failed or not self._client_result.error
            else None,
            ended_us=self._ended_us - self._tapped.start_us,
            settings={
                "source": "tap",
                "interval_ns": 0,
                "throughput": self._load.throughput,
                "record_size": self._load.record_size,
                "warmup_records": self._load.warmup_records,
                "producer": without_secrets(dict(self._given.properties)),
            },
        )


@contextmanager
def _tapped_reader(arm: Arm, load: Load, stand: Stand, client_rack: str) -> Iterator[Reader]:
    properties = {"client.id": CONSUMER, **arm.properties}
    if client_rack:
        properties["client.rack"] = client_rack
    given = ConsumerLoad(
        topic=load.topic,
        num_records=ENDLESS,
        # A group of its own: one that was ended has a member, and offsets of a topic that is gone.
        group=f"{CONSUMER}-{now_us()}",
        properties=properties,
        timeout_s=_FOREVER_S,
    )
    with (
        tempfile.TemporaryDirectory(prefix="kipctl-tap-") as scratch,
        running_tap(_tap(arm, load), Path(scratch)) as tap,
        stand.client(arm).consumer(given, load.access.behind(tap.bootstrap_server)) as client,
    ):
        yield _TappedReader(client, tap, Path(scratch), given)


class _TappedReader:
    def __init__(
        self,
        client: RunningClient[Consumed],
        tap: RunningTap,
        directory: Path,
        given: ConsumerLoad,
    ) -> None:
        self._client, self._tap, self._directory, self._given = client, tap, directory, given
        self._reads = RowReader(raw_path(directory, "reads"), len(TAP_COLUMNS["reads"]))
        self._client_result: Consumed | None = None

    @property
    def software(self) -> str:
        """By which it introduces itself, once it has ended."""
        return (
            f"{self._client_result.software} {self._client_result.version}"
            if self._client_result
            else ""
        )

    def new_rows(self, dataset: str) -> IntRows:
        """The reads that the tap has seen since the last call."""
        return _without_client(self._reads.new_rows(), dataset)

    def is_done_by(self, time_us: int) -> bool:
        """Whether the client has ended."""
        return self._client.is_done_by(time_us)

    def end(self, ends: Mapping[int, WrittenTo]) -> None:
        """See Reader."""
        await_offsets(self, ends, QUIET_S)
        self._client.stop()
        self._client_result = self._client.outcome()
        self._tapped = self._tap.stop()

    def record(self, run: Run, written: Written) -> Mapping[str, Any]:
        """See Reader."""
        tapped = replace(
            self._tapped, start_us=written.start_us, wall_start_us=written.wall_start_us
        )
        export.write(run, tapped, self._directory, _CONSUMES, part=1)
        return {"consumer": without_secrets(dict(self._given.properties))}
