"""A run that several workers do together: one probe in each task of a Spark barrier stage."""

import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

import numpy as np
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kipctl.errors import KipctlError, PipelineError
from kipctl.measure.outcomes import combined_outcome
from kipctl.measure.probe_results import ProbeResult, shifted
from kipctl.measure.worker import (
    Answer,
    SharedFolder,
    WorkOrder,
    finished_result,
    salvaged_result,
)
from kipctl.pipeline.failures import error_text
from kipctl.pipeline.launch import log_path
from kipctl.probe.run import AnyOutcome, Spec
from kipctl.probe.schedule import Share
from kipctl.trace.clock import now_us
from kipctl.trace.columns import COLUMNS, raw_path
from kipctl.trace.rows import IntRows, RowReader
from kipctl.typed_json import decoded, encoded

_START_TIMEOUT_S = 120.0
_ORDERLY_END_S = 5.0
"""That the other workers get to finish in good order, when one has failed. Spark gives them 2."""
_POLL_S = 0.02
_WORKER_OF_FAILURE = re.compile(r"ResultTask\(\d+, (\d+)\)")


class WorkersJob:
    """Workers that have started together, each with a spec of its own, and the Spark job they are.

    `start_us` is when they start, on this machine's clock.
    """

    def __init__(self, session: SparkSession, order: WorkOrder) -> None:
        """Start them; returns when the start is agreed on. Raises KipctlError."""
        self.order = order
        self._context = session.sparkContext
        self._over = threading.Event()
        self._failed: Exception | None = None
        self._start_errors: list[KipctlError] = []
        self._job = threading.Thread(target=self._run, name="kipctl-workers", daemon=True)
        self._job.start()
        try:
            wall_start_us = self._start()
        except BaseException:
            self.close()
            raise
        self.start_us = now_us() + wall_start_us - time.time_ns() // 1000

    def _run(self) -> None:
        """The Spark job, from a thread of this process; when it is over, nobody works any more."""
        workers = self.order.workers
        task = _task(encoded(self.order))
        try:
            stage = self._context.parallelize(range(workers), workers).barrier()
            for result in stage.mapPartitions(task).collect():
                if error := decoded(result, Answer, "A worker's answer").error:
                    self._start_errors.append(error)
        except (PySparkException, Py4JError, OSError, KipctlError) as failed:
            self._failed = failed
        finally:
            self.order.shared.stop(range(workers))
            self._over.set()

    def _start(self) -> int:
        """Wait until the start is agreed on: the wall clock then, in microseconds."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            is_over = self._over.wait(_POLL_S)
            if (wall_start_us := self.order.shared.start_wall_us()) is not None:
                return wall_start_us
            if is_over:
                raise self.start_error()
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"The workers did not start within {_START_TIMEOUT_S:.0f} s.",
                    f"Spark's own words are in {log_path()}.",
                )

    def start_error(self) -> KipctlError:
        """What kept them from beginning."""
        if self._start_errors:
            return self._start_errors[0]
        return PipelineError(
            f"The workers could not begin. {self._failure()}",
            f"Spark's own words are in {log_path()} and in its executors' logs.",
        )

    def _failure(self) -> str:
        """Which worker failed, and why."""
        for worker in range(self.order.workers):
            if why := self.order.shared.failure(worker):
                return f"{self._worker_name(worker)} failed: {why}"
        text = str(self._failed)
        named = _WORKER_OF_FAILURE.search(text)
        who = self._worker_name(int(named[1])) if named else "A worker"
        if "Python worker exited unexpectedly" in text:
            return f"{who} died: its process was killed, or crashed."
        if "ExecutorLostFailure" in text:
            return f"{who} died with its Spark executor."
        return (
            f"{who} failed: {error_text(self._failed) if self._failed else 'it left no outcome.'}"
        )

    def _worker_name(self, worker: int) -> str:
        begun = self.order.shared.begun(worker)
        where = f", on {begun.host}," if begun else ""
        return f"Worker {worker} of {self.order.workers}{where}"

    def await_end(self, workers: Sequence[int], timeout_s: float | None = None) -> bool:
        """Wait until these workers have ended, for so long at most; returns whether they have."""
        deadline = time.monotonic() + (math.inf if timeout_s is None else timeout_s)
        while not self._over.is_set() and not all(map(self.order.shared.is_finished, workers)):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            self._over.wait(min(_POLL_S, left_s))
        return True

    def results(self, workers: Sequence[int]) -> tuple[ProbeResult[Any], ...]:
        """What these workers have done, when they have ended: of one that died, what is known."""
        order = self.order
        if all(map(order.shared.is_finished, workers)) or self._failed is None:
            return tuple(part for worker in workers if (part := finished_result(order, worker)))
        self._await_orderly_ends()
        failure = self._failure()
        return tuple(
            part
            for worker in workers
            if (part := finished_result(order, worker) or salvaged_result(order, worker, failure))
        )

    def _await_orderly_ends(self) -> None:
        """One has failed: give the others the time to end in good order."""
        shared, workers = self.order.shared, range(self.order.workers)
        deadline = time.monotonic() + _ORDERLY_END_S
        while time.monotonic() < deadline:
            if sum(not shared.is_finished(worker) for worker in workers) <= 1:
                return
            time.sleep(_POLL_S)

    def close(self) -> None:
        """End the job, whatever it does."""
        if not self._over.is_set():
            self.order.shared.stop(range(self.order.workers))
            self._context.cancelAllJobs()
        self._job.join()


class RunningWorkers(Generic[AnyOutcome]):
    """Those workers of a job that do one run together, as a `RunningProbe` does it alone.

    `schedule` is that of the whole run, on this machine's clock.
    """

    def __init__(self, job: WorkersJob, spec: Spec[AnyOutcome], workers: Sequence[int]) -> None:
        self._job = job
        self._spec = spec
        self._workers = workers
        self._readers: dict[tuple[int, str], RowReader] = {}
        self.schedule = spec.schedule(job.start_us)
        self.results: tuple[ProbeResult[AnyOutcome], ...] = ()
        """Where their rows are, once there is an outcome."""

    def new_rows(self, dataset: str) -> IntRows:
        """The rows of a dataset written since the last call, on this machine's clock."""
        shared, width = self._job.order.shared, len(COLUMNS[dataset])
        parts = [np.empty((0, width), dtype=np.int64)]
        for worker in self._workers:
            begun = shared.begun(worker)
            if begun is None:
                continue
            path = raw_path(shared.directory(worker), dataset)
            reader = self._readers.setdefault((worker, dataset), RowReader(path, width))
            rows = reader.new_rows()
            parts.append(shifted(rows, dataset, self.schedule.start_us - begun.start_us))
        return np.concatenate(parts)

    def is_done_by(self, time_us: int) -> bool:
        """Whether all are done; waits for it until a moment of the monotonic clock."""
        return self._job.await_end(self._workers, max(0, time_us - now_us()) / 1e6)

    def outcome(self) -> AnyOutcome:
        """Wait until all are done; their common outcome.

        A worker that died is no error here: the outcome has its `failure`, and what is known.
        """
        self._job.await_end(self._workers)
        self.results = self._job.results(self._workers)
        if not self.results:
            raise self._job.start_error()
        return combined_outcome(
            self._spec, [part.outcome for part in self.results], self.schedule.start_us
        )

    def give_up(self) -> AnyOutcome:
        """End them at once; what they had settled. Others of the job are ended with them."""
        self._job.close()
        return replace(self.outcome(), failure="")

    def stop(self) -> None:
        """Ask them to send, or read, no further records; they finish those under way."""
        self._job.order.shared.stop(self._workers)


def _task(order: bytes) -> Callable[[Iterable[int]], Iterator[bytes]]:
    """What each task does; yields its Answer as JSON.

    It imports nothing of kipctl before it is there: what an executor lacks has to be told.
    """
    lacks = int(PipelineError.status)
    next_step = (
        "Install kipctl's dependencies there, or set PYSPARK_PYTHON to a Python that has them."
    )

    def run(_: Iterable[int]) -> Iterator[bytes]:
        import json
        import socket
        import sys

        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        try:
            from kipctl.measure.worker import work
        except ImportError as missing:
            context.allGather("failed")
            python = f"{sys.executable} on {socket.gethostname()}"
            name = missing.name or str(missing)
            what = f"The Python of Spark's executors, {python}, has no module {name!r}."
            yield json.dumps({"status": lacks, "what": what, "next_step": next_step}).encode()
            return
        yield work(order, context.partitionId(), context.allGather)

    return run


@contextmanager
def running_workers(
    session: SparkSession,
    specs: Sequence[Spec[Any]],
    workers: int,
    folder: Path,
    record: Path | None,
) -> Iterator[tuple[RunningWorkers[Any], ...]]:
    """So many workers for each spec, all started at once; when the block is left, they have ended.

    `folder` is empty, and all of them see it. With `record` each writes its Parquet files there.
    """
    shares = [spec.of_worker(Share(worker, workers)) for spec in specs for worker in range(workers)]
    order = WorkOrder.of(shares, SharedFolder.prepare(folder, len(shares)), record)
    job = WorkersJob(session, order)
    try:
        yield tuple(
            RunningWorkers(job, spec, range(number * workers, (number + 1) * workers))
            for number, spec in enumerate(specs)
        )
    finally:
        job.close()
