"""How a run begins: a probe on this machine, or workers on Spark that send it together."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from kipctl.probe.outcome import AnyOutcome, Spec
from kipctl.probe.parts import Part
from kipctl.probe.process import running_probe
from kipctl.probe.produce.run import ProbeOutcome, ProbeSpec
from kipctl.probe.schedule import Schedule
from kipctl.trace.rows import IntRows

WORKERS_FOLDER = ".workers"
"""Where workers keep their rows while they run, in the folder of the record."""


class Probe(Protocol[AnyOutcome]):
    """A run under way: a probe, or several workers. Times are those of this machine's clock."""

    schedule: Schedule
    parts: tuple[Part[AnyOutcome], ...]
    """Where the rows are, once there is an outcome."""

    def new_rows(self, dataset: str) -> IntRows:
        """The rows of a dataset written since the last call."""

    def outcome(self) -> AnyOutcome:
        """Wait until it is done."""

    def is_done_by(self, time_us: int) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock."""

    def stop(self) -> None:
        """Ask it to send no further records."""


class Begin(Protocol[AnyOutcome]):
    """Starts what a specification says; what it wrote is there until the block is left."""

    def __call__(self, spec: Spec[AnyOutcome], /) -> AbstractContextManager[Probe[AnyOutcome]]: ...


@contextmanager
def on_this_machine(spec: Spec[AnyOutcome]) -> Iterator[Probe[AnyOutcome]]:
    """One probe, in a process of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="kipctl-") as scratch,
        running_probe(spec, Path(scratch)) as probe,
    ):
        yield probe


@contextmanager
def on_spark(
    workers: int, master: str | None, record: Path | None, message: Callable[[str], None]
) -> Iterator[Begin[ProbeOutcome]]:
    """Begins runs that so many workers send together, as tasks of a Spark that is there meanwhile.

    Without a master they are on this machine. With `record` each writes its Parquet files there.
    Raises PipelineError within half a minute when Spark cannot run them.
    """
    from kipctl.experiments.workers import running_workers, spark_for_workers

    record = record.absolute() if record else None
    master = master or f"local[{workers}]"
    message(f"Starting {workers} worker{'s' if workers > 1 else ''} on Spark ({master}).")
    with spark_for_workers(master, workers) as session:

        @contextmanager
        def begin(spec: Spec[ProbeOutcome], /) -> Iterator[Probe[ProbeOutcome]]:
            assert isinstance(spec, ProbeSpec)
            if spec.payload_file:
                spec = replace(spec, payload_file=spec.payload_file.absolute())
            with (
                _shared_folder(record) as folder,
                running_workers(session, spec, workers, folder, record) as running,
            ):
                yield running

        yield begin


@contextmanager
def _shared_folder(record: Path | None) -> Iterator[Path]:
    """A folder for the workers' rows while they run, in the record's if there is one.

    It is kept when an error came between the workers' rows and the record of the run.
    """
    if record is None:
        with tempfile.TemporaryDirectory(prefix="kipctl-") as scratch:
            yield Path(scratch)
        return
    folder = record / WORKERS_FOLDER
    folder.mkdir()
    try:
        yield folder
    except BaseException:
        if not any(rows.stat().st_size for rows in folder.glob("*/batches.*")):
            shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)
