"""How a run is started: a probe on this machine, or workers on Spark that share it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kipctl.load.plan import RunPlan
from kipctl.load.record import rows_folder
from kipctl.measure.probe_results import ProbeResult
from kipctl.measure.running_probe import running_probe
from kipctl.probe.run import AnyOutcome, Spec
from kipctl.probe.schedule import Schedule
from kipctl.trace.rows import IntRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Probe(Protocol[AnyOutcome]):
    """A run under way: a probe, or several workers. Times are those of this machine's clock."""

    schedule: Schedule

    @property
    def results(self) -> tuple[ProbeResult[AnyOutcome], ...]:
        """Where the rows are, once there is an outcome."""

    def new_rows(self, dataset: str) -> IntRows:
        """The rows of a dataset written since the last call."""

    def outcome(self) -> AnyOutcome:
        """Wait until it is done."""

    def is_done_by(self, time_us: int) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock."""

    def stop(self) -> None:
        """Ask it to send, or read, no further records."""

    def give_up(self) -> AnyOutcome:
        """End it without waiting for what is under way; what it had settled by then."""


class Starter:
    """Starts what specifications say; what was written is there until the block is left."""

    def start(self, *specs: Spec[Any]) -> AbstractContextManager[tuple[Probe[Any], ...]]:
        """Several runs at the same time: the first has started when the last one does."""
        raise NotImplementedError

    @contextmanager
    def __call__(self, spec: Spec[AnyOutcome], /) -> Iterator[Probe[AnyOutcome]]:
        """One run."""
        with self.start(spec) as (running,):
            yield running


class OnThisMachine(Starter):
    """Starts probes, each in a process of its own, which keep their rows with the record if any."""

    def __init__(self, record: Path | None = None) -> None:
        self._record = record

    @contextmanager
    def start(self, *specs: Spec[Any]) -> Iterator[tuple[Probe[Any], ...]]:
        """See `Starter`."""
        with rows_folder(self._record) as folder, ExitStack() as probes:
            yield tuple(
                probes.enter_context(running_probe(spec, _made(folder / str(number))))
                for number, spec in enumerate(specs)
            )


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


class Workers(Starter):
    """Starts runs that so many workers do together, as tasks of a Spark that is there meanwhile."""

    def __init__(self, session: "SparkSession", workers: int, record: Path | None) -> None:
        self._session = session
        self._workers = workers
        self._record = record

    @contextmanager
    def start(self, *specs: Spec[Any]) -> Iterator[tuple[Probe[Any], ...]]:
        """See `Starter`; each run has its own workers."""
        from kipctl.load.workers import running_workers

        with (
            rows_folder(self._record) as folder,
            running_workers(self._session, specs, self._workers, folder, self._record) as running,
        ):
            yield running


@contextmanager
def starter(plan: RunPlan, message: Callable[[str], None], runs: int = 1) -> Iterator[Starter]:
    """What starts a plan's probes: on this machine, or as workers on Spark, for `runs` at once.

    Where the plan has a record each worker writes its Parquet files there. Raises PipelineError
    when Spark cannot run them.
    """
    if not plan.on_spark:
        yield OnThisMachine(plan.record)
        return
    from kipctl.pipeline.workers import spark_for_workers

    tasks = plan.workers * runs
    record, place = plan.record.absolute() if plan.record else None, plan.place(tasks)
    message(f"Starting {tasks} worker{'s' if tasks > 1 else ''} on Spark ({place.master}).")
    with spark_for_workers(place, tasks) as session:
        yield Workers(session, plan.workers, record)
