"""One worker of several that do a run together, and the folder that all of them share.

Workers run wherever their starter puts them, on one machine or many. What they need of it is a
folder that all of them and the starter see, and a way to hear each other once, before the start.
"""

import socket
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

from kipctl.errors import ExitStatus, KipctlError, PipelineError, error_of
from kipctl.left_files import SHORT, read_left
from kipctl.measure.export import record_batches
from kipctl.measure.outcomes import salvaged_outcome
from kipctl.measure.probe_results import ProbeResult
from kipctl.probe.consume.run import ConsumeOutcome, ConsumeSpec
from kipctl.probe.produce.run import ProduceOutcome, ProduceSpec
from kipctl.probe.run import AnyOutcome, Outcome, Spec
from kipctl.security.tokens import TOKEN_SOURCES, TokenSource
from kipctl.trace.clock import now_us
from kipctl.trace.run_start import RunStart, write_whole
from kipctl.trace.store import Run
from kipctl.typed_json import DamagedError, decoded, encoded

START_DELAY_US = 5_000_000
"""From when the last worker is ready to the start. Spark looks only once a second whether those
that wait at a barrier may go on, so the last to hear of it has four left."""
_STOP_CHECK_US = 250_000
"""Between two looks at whether to stop."""
_LARGEST_OUTCOME = 2 << 20
"""Bytes; that of thousands of brokers, or of a list of 100,000 partitions, has less."""
_FAILED = "failed"

Gather = Callable[[str], list[str]]
"""Tells all workers a word and returns what each has said, when all have spoken."""


@dataclass(frozen=True, slots=True)
class SharedFolder:
    """The folder through which the starter and the workers tell each other.

    What is waited for is written into files that are there from the beginning: a network file
    system shows a file's content to who opens it anew, but may hide a new file for long.
    """

    path: Path
    token: str

    @classmethod
    def prepare(cls, path: Path, workers: int) -> "SharedFolder":
        """Make the starter's files in an empty folder."""
        shared = cls(path, token_hex(16))
        (path / "token").write_text(shared.token)
        shared.start_file.touch()
        for worker in range(workers):
            shared.stop_file(worker).touch()
            shared.end_file(worker).touch()
        return shared

    @property
    def start_file(self) -> Path:
        """The wall clock of the start, from when it is agreed on; empty before."""
        return self.path / "start"

    def stop_file(self, worker: int) -> Path:
        """Empty until the worker is to stop."""
        return self.path / f"stop-{worker}"

    def end_file(self, worker: int) -> Path:
        """Empty until the worker has left its outcome."""
        return self.path / f"end-{worker}"

    def directory(self, worker: int) -> Path:
        """The worker's own folder."""
        return self.path / str(worker)

    def join(self, worker: int) -> Path:
        """Make the worker's own folder.

        Raises PipelineError when this is not the folder that the starter has prepared, or when the
        worker has been here before: a second attempt would send its records twice. Raises
        DamagedError.
        """
        host = socket.gethostname()
        next_step = "Name a folder with --record that is the same on every machine of the cluster."
        try:
            if read_left(self.path / "token", SHORT) == self.token.encode():
                self.directory(worker).mkdir()
                return self.directory(worker)
        except FileExistsError:
            raise PipelineError(f"Worker {worker} was started twice; it works only once.") from None
        except OSError as refused:
            raise PipelineError(
                f"Worker {worker}, on {host}, cannot use {self.path}: {refused.strerror}.",
                next_step,
            ) from None
        raise PipelineError(
            f"Worker {worker}, on {host}, sees another {self.path} than kipctl does.", next_step
        )

    def start_wall_us(self) -> int | None:
        """The wall clock of the start (Unix epoch, microseconds); None before it is agreed on.

        Raises DamagedError.
        """
        text = read_left(self.start_file, SHORT)
        return decoded(text, int, str(self.start_file)) if text.endswith(b"\n") else None

    def stop(self, workers: Iterable[int]) -> None:
        """Ask these workers to send, or read, no further records."""
        for worker in workers:
            self.stop_file(worker).write_text("stop")

    def should_stop(self, worker: int) -> Callable[[], bool]:
        """For a worker: whether it is asked to stop, or nobody is left who could ask.

        What is returned raises DamagedError.
        """
        due_us = 0

        def is_asked_to_stop() -> bool:
            nonlocal due_us
            now = now_us()
            if now < due_us:
                return False
            due_us = now + _STOP_CHECK_US
            try:
                return bool(read_left(self.stop_file(worker), SHORT))
            except OSError:
                return True

        return is_asked_to_stop

    def begun(self, worker: int) -> RunStart | None:
        """Where and when the worker started; None if it did not, yet or ever.

        Raises DamagedError.
        """
        return RunStart.read(self.directory(worker))

    def failure(self, worker: int) -> str:
        """What the worker said when it failed; empty if it did not, or could not speak.

        Raises DamagedError.
        """
        try:
            return read_left(self.directory(worker) / "failure", SHORT).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def finish(self, worker: int, outcome: Outcome) -> None:
        """For a worker: leave its outcome."""
        # The folder may be shared: how the cluster was reached is nobody's business there.
        recorded = replace(outcome, spec=outcome.spec.of_record())
        write_whole(self.directory(worker) / "outcome", encoded(recorded))
        self.end_file(worker).write_text("end")

    def is_finished(self, worker: int) -> bool:
        """Whether the worker has left its outcome. Raises DamagedError."""
        return bool(read_left(self.end_file(worker), SHORT))

    def finished(self, worker: int, kind: type[AnyOutcome]) -> AnyOutcome | None:
        """The worker's outcome; None until it is done. Raises DamagedError."""
        left = self.directory(worker) / "outcome"
        try:
            return decoded(read_left(left, _LARGEST_OUTCOME), kind, str(left))
        except FileNotFoundError:
            return None


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What all workers of a run are told: by its number each has a spec of its own.

    Each also writes its Parquet files into `record`.
    """

    produce: Mapping[int, ProduceSpec]
    consume: Mapping[int, ConsumeSpec]
    shared: SharedFolder
    record: Path | None

    @classmethod
    def of(
        cls, specs: Sequence[Spec[Any]], shared: SharedFolder, record: Path | None
    ) -> "WorkOrder":
        """That of workers with these specs, in the order of their numbers."""
        numbered = [*enumerate(specs)]
        return cls(
            {worker: spec for worker, spec in numbered if isinstance(spec, ProduceSpec)},
            {worker: spec for worker, spec in numbered if isinstance(spec, ConsumeSpec)},
            shared,
            record,
        )

    @property
    def specs(self) -> Mapping[int, Spec[Any]]:
        return {**self.produce, **self.consume}

    @property
    def workers(self) -> int:
        return len(self.specs)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker says at its end: DONE, or the error that kept all from beginning."""

    status: ExitStatus
    what: str = ""
    next_step: str = ""

    @property
    def error(self) -> KipctlError | None:
        return error_of(self.status, self.what, self.next_step) if self.status else None


def work(order: bytes, worker: int, gather: Gather) -> bytes:
    """`run_worker` of another process: a WorkOrder, and its Answer, as JSON."""
    received = decoded(order, WorkOrder, "A work order", {TokenSource: TOKEN_SOURCES})
    error = run_worker(received, worker, gather)
    return encoded(
        Answer(error.status, error.what, error.next_step) if error else Answer(ExitStatus.DONE)
    )


def run_worker(order: WorkOrder, worker: int, gather: Gather) -> KipctlError | None:
    """Do one worker's share, from the common start on; its outcome is put into the folder.

    Returns what kept it from beginning, and None when it did its share or when another worker kept
    all from beginning. Raises what went wrong after the start.
    """
    agreed = False

    def agree_on_start() -> int:
        nonlocal agreed
        agreed = True
        start_us = _agree_on_start(order.shared, worker, gather)
        if start_us is None:
            raise _AnotherFailedError("Another worker could not begin.")
        return start_us

    try:
        directory = order.shared.join(worker)
        outcome = order.specs[worker].run(
            directory, lambda schedule: None, order.shared.should_stop(worker), agree_on_start
        )
        if order.record is not None:
            for dataset in outcome.datasets:
                rows = record_batches(outcome, directory, dataset)
                Run(order.record).write(dataset, rows, worker)
        order.shared.finish(worker, outcome)
    except _AnotherFailedError:
        return None
    except Exception as failed:
        if not agreed and isinstance(failed, KipctlError):
            gather(_FAILED)
            return failed
        if agreed:
            said = _one_line(failed).encode()[:SHORT]
            write_whole(order.shared.directory(worker) / "failure", said)
        raise
    return None


class _AnotherFailedError(KipctlError):
    """This worker is ready, but not all of the others are."""


def _one_line(failed: Exception) -> str:
    if isinstance(failed, KipctlError):
        return failed.what
    return traceback.format_exception_only(failed)[-1].strip()


def agreed_start(said: Sequence[str]) -> int | None:
    """The wall clock of the start, in microseconds, from what the workers said at the barrier.

    Each says its wall clock when it is ready, or that it failed: then there is no start.
    """
    return None if _FAILED in said else max(int(ready) for ready in said) + START_DELAY_US


def _agree_on_start(shared: SharedFolder, worker: int, gather: Gather) -> int | None:
    """The start, on this machine's monotonic clock; None when a worker could not get ready."""
    said = gather(str(_wall_us()))
    wall_start_us = agreed_start(said)
    if wall_start_us is None:
        return None
    ahead_us = wall_start_us - _wall_us()
    start_us = now_us() + ahead_us
    host = socket.gethostname()
    if ahead_us <= 0:
        raise PipelineError(
            f"Worker {worker}, on {host}, heard of the start {-ahead_us / 1e6:.1f} s after it: "
            "its clock differs from the others', or the machine is overloaded."
        )
    RunStart(host, start_us, wall_start_us).write(shared.directory(worker))
    if worker == 0:
        shared.start_file.write_text(f"{wall_start_us}\n")
    return start_us


def _wall_us() -> int:
    return time.time_ns() // 1000


def finished_result(order: WorkOrder, worker: int) -> ProbeResult[Any] | None:
    """What the worker did, once it is done; if its outcome is damaged, what the rows tell."""
    kind: type[Outcome] = ProduceOutcome if worker in order.produce else ConsumeOutcome
    try:
        outcome = order.shared.finished(worker, kind)
    except DamagedError as damaged:
        return salvaged_result(order, worker, damaged.what)
    if outcome is None:
        return None
    return ProbeResult(outcome, order.shared.directory(worker), recorded=order.record is not None)


def salvaged_result(order: WorkOrder, worker: int, failure: str) -> ProbeResult[Any] | None:
    """What is known of a worker that did not come to its end; None if it had not begun."""
    begun = order.shared.begun(worker)
    if begun is None:
        return None
    directory = order.shared.directory(worker)
    return ProbeResult(salvaged_outcome(order.specs[worker], begun, directory, failure), directory)
