"""Starts a probe in a process of its own and follows its rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, cast

from kipctl.child_process import ChildProcess
from kipctl.errors import KipctlError
from kipctl.measure.outcomes import salvaged_outcome
from kipctl.measure.probe_results import ProbeResult
from kipctl.probe.process_main import run_probe
from kipctl.probe.run import AnyOutcome, Outcome, Spec
from kipctl.probe.schedule import Schedule
from kipctl.trace.clock import now_us
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import IntRows, RowReader
from kipctl.trace.run_start import RunStart

_START_TIMEOUT_S = 120.0


class RunningProbe(Generic[AnyOutcome]):
    """A probe at work, which writes its rows into an empty folder.

    `schedule` is what it follows. Whatever ends it after its start, it has an outcome: what it had
    settled is in its rows.
    """

    def __init__(self, spec: Spec[AnyOutcome], directory: Path) -> None:
        """Start it; returns when it is about to begin. Raises KipctlError."""
        self._spec = spec
        self._child = ChildProcess(
            "The probe", run_probe, spec, directory, start_timeout_s=_START_TIMEOUT_S
        )
        self.stop, self.close = self._child.stop, self._child.close
        self._readers: dict[str, RowReader] = {}
        self.results: tuple[ProbeResult[AnyOutcome], ...] = ()
        """Where its rows are, once there is an outcome."""
        self.directory = directory
        """Where it writes its rows."""
        schedule = self._child.started
        assert isinstance(schedule, Schedule)
        self.schedule = schedule
        self._begun = RunStart.on_this_machine(schedule.start_us)
        self._begun.write(directory)

    def new_rows(self, dataset: str) -> IntRows:
        """The rows of a dataset written since the last call (at most 50 ms or so behind)."""
        if dataset not in self._readers:
            path = raw_path(self.directory, dataset)
            self._readers[dataset] = RowReader(path, len(COLUMNS[dataset]))
        return self._readers[dataset].new_rows()

    def outcome(self) -> AnyOutcome:
        """Wait until it is done. Of one that broke off, `failure` says why."""
        if self.results:
            return self.results[0].outcome
        try:
            outcome = self._child.receive()
            assert isinstance(outcome, Outcome)
        except KipctlError as failed:
            return self._salvaged(failed.what)
        return self._ended(cast(AnyOutcome, outcome))

    def give_up(self) -> AnyOutcome:
        """End it at once, without waiting for what is under way; what it had settled."""
        self.close()
        return self._salvaged("")

    def _salvaged(self, failure: str) -> AnyOutcome:
        return self._ended(salvaged_outcome(self._spec, self._begun, self.directory, failure))

    def _ended(self, outcome: AnyOutcome) -> AnyOutcome:
        self.results = (ProbeResult(outcome, self.directory),)
        return outcome

    def is_done_by(self, time_us: int) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock."""
        return self._child.has_sent(max(0, time_us - now_us()) / 1e6)


@contextmanager
def running_probe(spec: Spec[AnyOutcome], directory: Path) -> Iterator[RunningProbe[AnyOutcome]]:
    """A probe that has started; its process is gone when the block is left."""
    probe = RunningProbe(spec, directory)
    try:
        yield probe
    finally:
        probe.close()
