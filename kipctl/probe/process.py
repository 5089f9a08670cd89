"""The probe in a process of its own, so that nothing its starter does can disturb its clock."""

import multiprocessing
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Generic, cast

from kipctl.errors import KipctlError
from kipctl.probe.outcome import AnyOutcome, Outcome, Spec
from kipctl.probe.parts import Part
from kipctl.probe.schedule import Schedule
from kipctl.trace.clock import now_us
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import IntRows, RowReader

_START_TIMEOUT_S = 120.0


class ProbeDiedError(KipctlError):
    """The probe's process ended without an outcome: killed, or a fault in kipctl."""


def _work(spec: Spec[Outcome], directory: Path, pipe: Connection) -> None:
    """The child: runs the probe, and tells of its start and end through the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop

    def should_stop() -> bool:
        return pipe.poll()

    try:
        pipe.send(spec.run(directory, pipe.send, should_stop))
    except KipctlError as error:
        pipe.send(error)
    except BaseException:
        pipe.send(ProbeDiedError("The probe failed:\n" + traceback.format_exc()))
    finally:
        pipe.close()


class RunningProbe(Generic[AnyOutcome]):
    """A probe at work. `schedule` is what it follows."""

    def __init__(self, spec: Spec[AnyOutcome], directory: Path) -> None:
        """Start it; returns when it is about to begin. Raises KipctlError."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_work, args=(spec, directory, theirs), name="kipctl-probe", daemon=True
        )
        self._process.start()
        theirs.close()
        self._readers: dict[str, RowReader] = {}
        self.parts: tuple[Part[AnyOutcome], ...] = ()
        """Where its rows are, once there is an outcome."""
        self._directory = directory
        try:
            schedule = self._receive(_START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise
        assert isinstance(schedule, Schedule)
        self.schedule = schedule

    def new_rows(self, dataset: str) -> IntRows:
        """The rows of a dataset written since the last call (at most 50 ms or so behind)."""
        if dataset not in self._readers:
            path = raw_path(self._directory, dataset)
            self._readers[dataset] = RowReader(path, len(COLUMNS[dataset]))
        return self._readers[dataset].new_rows()

    def outcome(self) -> AnyOutcome:
        """Wait until it is done. Raises KipctlError when the run failed."""
        outcome = self._receive(None)
        assert isinstance(outcome, Outcome)
        self.parts = (Part(cast(AnyOutcome, outcome), self._directory),)
        return self.parts[0].outcome

    def is_done_by(self, time_us: int) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock."""
        return self._pipe.poll(max(0, time_us - now_us()) / 1e6)

    def stop(self) -> None:
        """Ask it to send no further records; it finishes those under way."""
        with suppress(OSError):  # it may have ended already
            self._pipe.send("stop")

    def close(self) -> None:
        """End the process, whatever it does."""
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        self._pipe.close()

    def _receive(self, timeout_s: float | None) -> object:
        try:
            if not self._pipe.poll(timeout_s):
                raise ProbeDiedError(f"The probe did not start within {timeout_s:.0f} s.")
            message = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise ProbeDiedError(
                f"The probe's process ended early (exit code {self._process.exitcode})."
            ) from None
        if isinstance(message, KipctlError):
            raise message
        return message


@contextmanager
def running_probe(spec: Spec[AnyOutcome], directory: Path) -> Iterator[RunningProbe[AnyOutcome]]:
    """A probe that has started; its process is gone when the block is left."""
    probe = RunningProbe(spec, directory)
    try:
        yield probe
    finally:
        probe.close()
