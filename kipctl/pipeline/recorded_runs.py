"""Runs by their folders, on any file system that Spark reads, and what their `run.json` say."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kipctl.errors import PipelineError, UsageError
from kipctl.pipeline.files import folder_at, literally, located
from kipctl.pipeline.preflight import no_run
from kipctl.trace.codes import TAP_ARM
from kipctl.trace.description import wrong_field
from kipctl.trace.schema import SCHEMA_VERSION
from kipctl.trace.store import RUN_FILE
from kipctl.typed_json import plain_json


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run's folder and what its `run.json` says. `name` tells it from the others read with it."""

    name: str
    path: str
    description: dict[str, Any]

    @property
    def local_folder(self) -> Path | None:
        """The folder, if it is on this machine: a server elsewhere has such paths, too."""
        here = Path(self.path.removeprefix("file:"))
        return here if self.path.startswith("file:/") and here.is_dir() else None

    @property
    def arm(self) -> str:
        """What is compared: its way of finding a new leader, unless it was given a name."""
        return str(self.description.get("arm") or self.description.get("leader_discovery", "-"))

    @property
    def arm_of_rows(self) -> str | None:
        """The arm of all its rows; None of a tap's that was given no name: there the client is."""
        return None if self.is_of_tap and self.arm == TAP_ARM else self.arm

    @property
    def interval_ns(self) -> int:
        """Between two records' intended send times; 0 when unthrottled."""
        return int(self.description.get("interval_ns", 0))

    @property
    def warmup_records(self) -> int:
        """The first records of the run, which times and rates leave out."""
        return int(self.description.get("warmup_records", 0))

    @property
    def start_wall_us(self) -> int:
        """The wall clock at the run's start: microseconds since the Unix epoch."""
        return int(self.description.get("start_wall_us", 0))

    @property
    def summary(self) -> dict[str, Any]:
        """What was printed when the run ended; empty when it did not end."""
        return dict(self.description.get("summary") or {})

    @property
    def is_of_tap(self) -> bool:
        """Whether its summary is what a tap says of clients."""
        return self.summary.keys() >= {"clients", "conditions"}


def runs_at(spark: SparkSession, paths: Sequence[str]) -> tuple[RecordedRun, ...]:
    """The runs in these folders, or in their subfolders, or in what wildcards stand for; one that
    is named twice is there once. Raises what `open_runs` does of their `run.json`."""
    return _named([run for path in paths for run in _runs_in(spark, path)])


def _runs_in(spark: SparkSession, path: str) -> list[RecordedRun]:
    if Path(path).exists():
        texts = _run_files(Path(path))
    else:
        there = folder_at(spark, path)
        if there.exists() and there.exists(RUN_FILE):
            texts = {path.rstrip("/"): there.text(RUN_FILE)}
        else:
            pattern = literally(path) if there.exists() else path
            files = folder_at(spark, f"{pattern}/{RUN_FILE}").matching()
            files += folder_at(spark, f"{pattern}/*/{RUN_FILE}").matching()
            folders = [file.removesuffix(f"/{RUN_FILE}") for file in sorted(files)]
            texts = {folder: folder_at(spark, folder).text(RUN_FILE) for folder in folders}
    if not texts:
        raise no_run(path, Path(path).exists() or folder_at(spark, path).exists())
    return [_described(folder, text) for folder, text in texts.items()]


def _run_files(folder: Path) -> dict[str, str]:
    """The `run.json` of the run in this folder, or of those in its subfolders, by run folder."""
    own = folder / RUN_FILE
    files = [own] if own.exists() else sorted(folder.glob(f"*/{RUN_FILE}"))
    return {located(str(file.parent)): _text(file) for file in files}


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        why = getattr(unreadable, "strerror", None) or unreadable
        raise UsageError(f"{file} cannot be read: {why}.") from unreadable


def _described(path: str, text: str) -> RecordedRun:
    try:
        description = plain_json(text)
    except ValueError as wrong:
        raise PipelineError(f"{path}/{RUN_FILE} is not JSON: {wrong}.") from wrong
    version = description.get("schema_version") if isinstance(description, dict) else None
    if not isinstance(version, int):
        raise UsageError(f"{path}/{RUN_FILE} is no description of a kipctl run.")
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{path} was recorded by a newer kipctl: its schema is version {version}, "
            f"this kipctl reads up to {SCHEMA_VERSION}.",
            "Use a newer kipctl.",
        )
    if field := wrong_field(description):
        raise UsageError(
            f"{path}/{RUN_FILE} cannot be used: {field}.",
            "kipctl did not write it so: restore it, or leave the run out.",
        )
    return RecordedRun(path.rpartition("/")[2], path, description)


def _named(runs: Sequence[RecordedRun]) -> tuple[RecordedRun, ...]:
    """Runs of one folder name go by their whole path; a run given twice is read once."""
    distinct = tuple({run.path: run for run in runs}.values())
    names = Counter(run.name for run in distinct)
    return tuple(replace(run, name=run.path) if names[run.name] > 1 else run for run in distinct)
