"""The record of a run: what was measured, what was done and seen meanwhile, and of what cluster."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kipctl import __version__
from kipctl.cluster.metadata_convergence import ClusterEvent
from kipctl.cluster.snapshot import Snapshot, take_snapshot
from kipctl.errors import KipctlError
from kipctl.measure.export import record_batches
from kipctl.measure.probe_results import ProbeResult
from kipctl.next_step import Command
from kipctl.probe.run import Outcome
from kipctl.trace.clock import wall_time
from kipctl.trace.folder_lock import in_use
from kipctl.trace.schema import DATASETS, EVENTS
from kipctl.trace.store import ROWS_FOLDER, RUN_FILE, Run
from kipctl.transport.request import Cluster


@contextmanager
def recording(folder: Path | None) -> Iterator[Run | None]:
    """The run to record into, if any; one that raises before anything was sent leaves nothing.

    Raises UsageError when the folder cannot be written or holds something.
    """
    if folder is None:
        yield None
        return
    is_ours = not folder.exists()
    run = Run.create(folder)
    try:
        yield run
    except BaseException:
        if _holds_nothing(run):
            for dataset in DATASETS:
                shutil.rmtree(folder / dataset, ignore_errors=True)
            if is_ours:
                with suppress(OSError):  # somebody has put something there meanwhile
                    folder.rmdir()
        raise


@contextmanager
def rows_folder(record: Path | None, begun: Sequence[str] = ("batches", "reads")) -> Iterator[Path]:
    """A folder for rows while they are written, in the record's if there is one.

    It is kept when an error came between the rows and the record of the run, if that had begun:
    there are rows of one of those datasets.
    """
    if record is None:
        with tempfile.TemporaryDirectory(prefix="kipctl-") as scratch:
            yield Path(scratch)
        return
    folder = record.absolute() / ROWS_FOLDER
    folder.mkdir()
    try:
        with in_use(folder):
            yield folder
    except BaseException as failed:
        rows = [path for dataset in begun for path in folder.glob(f"*/{dataset}.*")]
        if (folder / RUN_FILE).exists() and any(path.stat().st_size for path in rows):
            failed.add_note("What was measured until then: " + Command("runs repair", record))
        else:
            shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def _holds_nothing(run: Run) -> bool:
    """No batch and no read: workers that had nothing to do may have written files without."""
    if (run.folder / RUN_FILE).exists() or (run.folder / ROWS_FOLDER).exists():
        return False
    try:
        return not any(
            pq.read_metadata(part).num_rows
            for dataset in ("batches", "reads")
            for part in (run.folder / dataset).glob("*.parquet")
        )
    except pa.ArrowException:  # cut off while it was written: there are rows
        return False


@dataclass(frozen=True, slots=True)
class Recorder:
    """Records one run of probes: what is known when it begins, its rows, its results.

    `how` is what was asked for. What is known when it begins is kept beside its rows, so that a run
    whose recorder was killed can be made whole (`kipctl.load.repair`). It is whole before it
    is evaluated: should that fail, nothing is lost.
    """

    run: Run
    command: str
    topic: str
    how: Mapping[str, object]
    before: Mapping[str, Any]

    def begin(self) -> None:
        """Keep what is known when the run begins; its rows' folder is there."""
        Run(self.run.folder / ROWS_FOLDER).describe(
            {"command": self.command, "topic": self.topic, **self._known}
        )

    def write_rows(
        self, start_us: int, parts: Sequence[ProbeResult[Any]], events: Sequence[ClusterEvent]
    ) -> None:
        """Write the datasets of the parts and of the events.

        Parts that their workers have recorded already are left as they are.
        """
        for part in parts:
            if not part.recorded:
                for dataset in part.outcome.datasets:
                    batches = record_batches(part.outcome, part.directory, dataset)
                    self.run.write(dataset, batches, part.number)
        self.run.write("events", [event_rows(events, start_us)])

    def close(
        self,
        outcome: Outcome,
        parts: Sequence[ProbeResult[Any]],
        done: Mapping[str, Any],
        after: Snapshot | None,
    ) -> None:
        """Write `run.json`: the run is whole then. `done` is what its summary begins with.

        Of one that did not come to its end it says that it `failed`, and why, or that it was
        `stopped`: somebody asked it to do no more.
        """
        describe(
            self.run,
            self.command,
            outcome.wall_start_us,
            {
                **self._known,
                "hosts": [part.outcome.host for part in parts],
                **_cut_short(outcome),
                "cluster_after": asdict(after) if after else None,
                "summary": done,
            },
        )

    def write(
        self,
        outcome: Outcome,
        parts: Sequence[ProbeResult[Any]],
        events: Sequence[ClusterEvent],
        actions: Sequence[Mapping[str, Any]],
        after: Snapshot | None,
    ) -> None:
        """Write all of a run that is over; `evaluated` adds its results."""
        self.write_rows(outcome.start_us, parts, events)
        done = {"actions": actions, "kafka_version": self.how.get("kafka_version")}
        self.close(outcome, parts, done, after)

    def limited_to(self, records: int, from_s: float, of_s: float) -> "Recorder":
        """The same, of a run that lasted until it was ended: `of_s` seconds, of which the rows are
        kept from `from_s` on. It has sent so many records."""
        kept = {"kept_from_s": from_s, "lasted_s": of_s} if from_s else {}
        return replace(self, how={**self.how, "num_records": records, **kept})

    def evaluated(self, document: Mapping[str, Any]) -> None:
        """Write the run's results, computed from what was recorded."""
        self.run.describe({**self.run.description, "summary": document})

    @property
    def _known(self) -> dict[str, Any]:
        return {**self.how, "cluster_before": self.before}


def snapshot_after(cluster: Cluster, topic: str, message: Callable[[str], None]) -> Snapshot | None:
    """The cluster after a run; None, which is reported, when it cannot be asked."""
    try:
        return take_snapshot(cluster, [topic])
    except KipctlError as failed:
        message(f"What the cluster is like now is not known. {failed.what}")
        return None


def describe(run: Run, command: str, wall_start_us: int, how: Mapping[str, Any]) -> None:
    """Write `run.json`: by which command it was recorded, when it began (microseconds since 1970),
    and how it was asked for and came out.
    """
    run.describe(
        {
            "kipctl_version": __version__,
            "command": command,
            "started": wall_time(wall_start_us),
            "start_wall_us": wall_start_us,
            **how,
        }
    )


def _cut_short(outcome: Outcome) -> dict[str, object]:
    if outcome.failure:
        return {"failed": outcome.failure}
    return {"stopped": True} if outcome.stopped else {}


def event_rows(events: Sequence[ClusterEvent], start_us: int) -> pa.RecordBatch:
    """The events as rows of that dataset, since a run's start (monotonic microseconds)."""
    rows = [
        {
            "kind": event.kind.value,
            "topic": event.topic,
            "partition": event.partition,
            "from_broker": event.from_leader,
            "to_broker": event.to_leader,
            "epoch": event.leader_epoch,
            "seen_by": event.seen_by_broker,
            "time_us": event.time_us - start_us,
        }
        for event in events
    ]
    return pa.RecordBatch.from_pylist(rows, schema=EVENTS)
