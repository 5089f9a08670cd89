"""The run store: where runs are kept by name, and how they are found, exported and removed.

As with Docker's volumes, a text without a path separator is a name in the store, and anything else
is a folder of the user's own.
"""

import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from kipctl.counts import counted
from kipctl.errors import UsageError, did_you_mean, refusals_reported
from kipctl.next_step import Command
from kipctl.redaction import redacted
from kipctl.state import state_folder
from kipctl.trace.description import wrong_field
from kipctl.trace.folder_lock import is_in_use
from kipctl.trace.schema import DATASETS, SCHEMA_VERSION
from kipctl.trace.settings import interrupted_after
from kipctl.trace.store import ROWS_FOLDER, RUN_FILE, UNFINISHED_FILE, Run
from kipctl.typed_json import plain_json

RUNS_VARIABLE = "KIPCTL_RUNS"
_NAME = re.compile(r"[\w][\w.+:@=-]*")
"""No comma: it separates runs that are compared together."""
_WILDCARDS = "*?[{"
_ALTERNATIVES = re.compile(r"\{([^{}]*)\}")
_SCRATCH = (ROWS_FOLDER, ".writable", UNFINISHED_FILE)
"""What a run holds only while it is recorded."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run's folder as it is found. `bytes` is its size on disk.

    `description` is what `run.json` says, secrets hidden; None where that cannot be read, and then
    `flaw` says why. `flaw` is empty for a run that came to its end: one that neither failed
    nor was interrupted.
    """

    name: str
    folder: Path
    bytes: int
    description: Mapping[str, Any] | None
    flaw: str

    @property
    def summary(self) -> Mapping[str, Any]:
        """What was printed when the run ended; empty when it did not end."""
        return (self.description or {}).get("summary") or {}


def runs_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """The store: $KIPCTL_RUNS, else kipctl/runs in $XDG_STATE_HOME (or ~/.local/state)."""
    if chosen := variables.get(RUNS_VARIABLE):
        return Path(chosen)
    return state_folder(variables) / "runs"


def folder_of(text: str, variables: Mapping[str, str] = os.environ) -> Path:
    """The folder that `--record TEXT` means: a name is one in the store.

    Raises UsageError for a name that would not be found again.
    """
    if not _is_name(text):
        return Path(text)
    if not _NAME.fullmatch(text):
        raise UsageError(
            f"{text!r} cannot be a run's name: it is made of letters, digits and . _ + : @ = -.",
            "Choose another one; for a folder here, write ./ before it.",
        )
    return runs_folder(variables) / text


@refusals_reported()
def path_of(text: str, variables: Mapping[str, str] = os.environ) -> str:
    """Where the run is that a command line names, for Spark: in the store, else where it says.

    A name may have wildcards, those of Hadoop's file systems; what matches none in the store is
    returned as it is, as are folders elsewhere and addresses (`hdfs://...`). Raises UsageError for
    a name that is neither in the store nor in this folder; it says which there are.
    """
    if not text:
        raise UsageError("An empty name names no run.", "See: " + Command("runs list"))
    if not _is_name(text):
        return text
    store = runs_folder(variables)
    if (store / text).is_dir():
        return str(store / text)
    if _has_wildcards(text):
        return f"file:{store.resolve()}/{text}" if _matching(text, store) else text
    if Path(text).exists():
        return text
    raise _not_found(text, variables)


def folders_named(text: str, variables: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """The folders of this machine that a command line names: several if it has wildcards.

    They match names in the store, or if none does, folders here. Raises UsageError as `path_of`,
    and for wildcards that match nothing.
    """
    if not (_is_name(text) and _has_wildcards(text)):
        return (Path(path_of(text, variables)),)
    if folders := _matching(text, runs_folder(variables)) or _matching(text, Path.cwd()):
        return folders
    raise _not_found(text, variables)


def find_run(text: str, variables: Mapping[str, str] = os.environ) -> Run:
    """The run of that name in the store, or in that folder.

    Raises UsageError when there is none or more than one, when it is not whole, or when a newer
    kipctl wrote it.
    """
    folder, *others = folders_named(text, variables)
    if others:
        names = ", ".join(path.name for path in (folder, *others))
        raise UsageError(f"{text!r} stands for several runs: {names}.", "Name one of them.")
    run = read_stored_run(folder)
    if run.description is None:
        raise UsageError(f"{text} is no whole run: {run.flaw}.", "See: " + Command("runs list"))
    return Run(run.folder)


def stored_runs(variables: Mapping[str, str] = os.environ) -> tuple[StoredRun, ...]:
    """Every run in the store, the latest last; those that cannot be read come first."""
    store = runs_folder(variables)
    try:
        folders = [folder for folder in store.iterdir() if folder.is_dir()]
    except FileNotFoundError:
        return ()
    except OSError as refused:
        raise UsageError(
            f"The run store {store} cannot be read: {refused.strerror}.",
            f"Set {RUNS_VARIABLE} to another folder.",
        ) from None
    return tuple(sorted(map(read_stored_run, sorted(folders)), key=_began))


def _began(run: StoredRun) -> str:
    """When; of one that does not say so, when its folder was made or changed."""
    if started := (run.description or {}).get("started"):
        return str(started)
    with suppress(OSError):
        return datetime.fromtimestamp(run.folder.stat().st_mtime, UTC).isoformat()
    return ""


def read_stored_run(folder: Path) -> StoredRun:
    """What is in the folder, which may be anything; it is not changed."""
    size = 0
    with suppress(OSError):  # it is closed, or a file is gone: a run that is being recorded
        for path in folder.rglob("*"):
            size += path.stat().st_size if path.is_file() else 0
    description: Any = None
    try:
        description = plain_json((folder / RUN_FILE).read_text(encoding="utf-8"))
        flaw = _why_unread(description)
    except (FileNotFoundError, NotADirectoryError):
        flaw = _unfinished(folder)
    except (OSError, UnicodeDecodeError) as unreadable:
        flaw = f"{RUN_FILE} cannot be read: {unreadable}"
    except ValueError:
        flaw = f"{RUN_FILE} is not JSON"
    name = folder.resolve().name
    if flaw:
        return StoredRun(name, folder, size, None, flaw)
    ended = [_how_it_ended(description)]
    if (folder / ROWS_FOLDER).is_dir():
        ended.append(
            "it is being evaluated, or that was cut off (" + Command("runs repair", name) + ")"
        )
    return StoredRun(name, folder, size, redacted(description), "; ".join(filter(None, ended)))


def _unfinished(folder: Path) -> str:
    """What a folder without `run.json` is."""
    name = folder.resolve().name
    if not (rows := folder / ROWS_FOLDER).is_dir():
        return (
            f"there is no {RUN_FILE}: nothing was measured (" + Command("runs remove", name) + ")"
        )
    if any(map(is_in_use, (rows, *rows.glob("*/")))):
        return "it is being recorded"
    if not (rows / RUN_FILE).exists():
        return "it was cut off before anything was measured (" + Command("runs remove", name) + ")"
    return "it was cut off (" + Command("runs repair", name) + ")"


def _why_unread(description: object) -> str:
    """Why this is no run that this kipctl reads; empty if it is one."""
    version = description.get("schema_version") if isinstance(description, dict) else None
    if not isinstance(description, dict) or not isinstance(version, int):
        return f"{RUN_FILE} is no description of a run"
    if version > SCHEMA_VERSION:
        return f"a newer kipctl recorded it, with schema {version}; this one reads {SCHEMA_VERSION}"
    wrong = wrong_field(description)
    return f"{RUN_FILE} cannot be used: {wrong}" if wrong else ""


def _how_it_ended(description: Mapping[str, Any]) -> str:
    """Empty for a run that came to its end."""
    if failed := description.get("failed"):
        return f"it failed: {failed}"
    reported = interrupted_after(description)
    return f"interrupted: {reported}" if reported else ""


def recorded_as(name: str, variables: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders of the whole runs that were recorded by that name, or in that folder.

    Raises UsageError when there is none.
    """
    if "/" in name:
        folders = tuple(sorted(Path(name).glob("*")))
    else:
        folders = folders_named(f"{name}-*", variables)
    whole = tuple(folder for folder in folders if not read_stored_run(folder).flaw)
    if not whole:
        raise UsageError(
            f"No whole run is recorded as {name!r}.",
            "Record a curve: " + Command("experiment redirect --gain-curve", record=name),
        )
    return whole


def run_folders(record: str | None, variables: Mapping[str, str]) -> Callable[[str], Path | None]:
    """Where the run of a name is recorded: in the store as NAME-name, or in that folder.

    Raises UsageError for a name or a folder that cannot be, or that has runs already: an experiment
    would come upon them after minutes, and who reads runs by that name would read both.
    """
    if record is None:
        return lambda _: None
    if "/" in record:
        if Path(record).exists() and not Path(record).is_dir():
            raise UsageError(f"--record {record} is no folder.", "Name a folder, or a new one.")
        there = sorted(path.parent for path in Path(record).glob(f"*/{RUN_FILE}"))
        instead = "Name another one with --record."
    else:
        there = [*_matching(f"{record}-*", folder_of(f"{record}-", variables).parent)]
        instead = "Name another one with --record, or remove them: " + Command(
            "runs remove", f"{record}-*"
        )
    if there:
        others = f" and {counted(len(there) - 1, 'other')}" if there[1:] else ""
        raise UsageError(
            f"Runs are recorded as {record} already: {there[0].name}{others}.",
            instead,
        )

    def folder(name: str) -> Path:
        return Path(record, name) if "/" in record else folder_of(f"{record}-{name}", variables)

    return folder


def removable(text: str, variables: Mapping[str, str] = os.environ) -> StoredRun:
    """The run that is meant to be removed, also one that is not whole.

    Raises UsageError for a folder that is no run, or holds what is not a run's own: outside the
    store a folder needs its `run.json`, inside it may be what a cut off run left.
    """
    run = read_stored_run(Path(path_of(text, variables)))
    if not run.folder.is_dir():
        raise _not_found(text, variables)
    in_store = run.folder.resolve().parent == runs_folder(variables).resolve()
    described = (run.folder / RUN_FILE).is_file() and "no description" not in run.flaw
    if not described and not in_store:
        raise UsageError(f"{text} is no run: {run.flaw}.", "Nothing was removed.")
    if foreign := sorted(path.name for path in run.folder.iterdir() if not _is_of_run(path)):
        raise UsageError(
            f"{text} holds what is not a run's: {', '.join(foreign[:5])}.",
            "Nothing was removed. Move it away first.",
        )
    return run


def remove(run: StoredRun) -> None:
    """Remove the folder of a `removable` run. Raises UsageError when it cannot be."""
    try:
        shutil.rmtree(run.folder)
    except OSError as refused:
        reason = refused.strerror or refused
        raise UsageError(f"The run {run.folder} cannot be removed: {reason}.") from refused


def export_archive(run: Run, destination: Path) -> int:
    """Write the run as one gzipped tar, which unpacks to a folder of its name; returns bytes.

    Raises UsageError when the destination is there already or cannot be written.
    """
    name = run.folder.resolve().name
    description = (json.dumps(redacted(run.description), indent=2) + "\n").encode()
    with _written_whole(destination) as unfinished, tarfile.open(unfinished, "w:gz") as archive:
        entry = tarfile.TarInfo(f"{name}/{RUN_FILE}")
        entry.size, entry.mode = len(description), 0o644
        entry.mtime = int((run.folder / RUN_FILE).stat().st_mtime)
        archive.addfile(entry, io.BytesIO(description))
        for part in _parts(run):
            archive.add(part, f"{name}/{part.parent.name}/{part.name}")
    return destination.stat().st_size


def export_csv(run: Run, destination: Path) -> int:
    """Write a folder with one CSV file for each dataset, and `run.json`; returns bytes.

    Raises UsageError when the destination is there already or cannot be written, or when a
    dataset is damaged.
    """
    with _written_whole(destination) as unfinished:
        unfinished.mkdir()
        text = json.dumps(redacted(run.description), indent=2) + "\n"
        (unfinished / RUN_FILE).write_text(text, encoding="utf-8")
        for dataset, schema in DATASETS.items():
            with pcsv.CSVWriter(unfinished / f"{dataset}.csv", schema) as writer:
                for batch in _rows(run, dataset):
                    writer.write_batch(batch)
    return sum(path.stat().st_size for path in destination.iterdir())


def _rows(run: Run, dataset: str) -> Iterator[pa.RecordBatch]:
    for part in _parts(run, (dataset,)):
        try:
            with pq.ParquetFile(part) as file:
                yield from file.iter_batches(columns=DATASETS[dataset].names)
        except pa.ArrowException as damaged:
            raise UsageError(f"{part} cannot be read: {damaged}.") from damaged


def _parts(run: Run, datasets: Iterable[str] = DATASETS) -> Iterator[Path]:
    for dataset in datasets:
        yield from sorted((run.folder / dataset).glob("*.parquet"))


@contextmanager
def _written_whole(destination: Path) -> Iterator[Path]:
    """A path to write to, which becomes the destination when the block has ended well."""
    if destination.exists():
        raise UsageError(f"{destination} is there already.", "Name another one.")
    try:
        with TemporaryDirectory(prefix=".kipctl-", dir=destination.parent) as folder:
            unfinished = Path(folder) / destination.name
            yield unfinished
            unfinished.rename(destination)
    except OSError as refused:
        reason = refused.strerror or refused
        raise UsageError(f"{destination} cannot be written: {reason}.") from refused


def _has_wildcards(text: str) -> bool:
    return any(wildcard in text for wildcard in _WILDCARDS)


def _matching(pattern: str, folder: Path) -> tuple[Path, ...]:
    """The folders in this one whose names match, by the rules of Hadoop's FileSystem.globStatus.

    They are a shell's, with alternatives in braces; a set that begins with ^ is turned round.
    """
    if not folder.is_dir():
        return ()
    patterns = [alternative.replace("[^", "[!") for alternative in _without_alternatives(pattern)]
    return tuple(
        sorted(
            path
            for path in folder.iterdir()
            if path.is_dir() and any(fnmatchcase(path.name, pattern) for pattern in patterns)
        )
    )


def _without_alternatives(pattern: str) -> Iterator[str]:
    """The patterns that one with alternatives in braces stands for."""
    match = _ALTERNATIVES.search(pattern)
    if not match:
        yield pattern
        return
    for alternative in match[1].split(","):
        before, after = pattern[: match.start()], pattern[match.end() :]
        yield from _without_alternatives(before + alternative + after)


def _is_name(text: str) -> bool:
    return "/" not in text and os.sep not in text and text not in ("", ".", "..")


def _is_of_run(path: Path) -> bool:
    if path.name in (RUN_FILE, *_SCRATCH):
        return True
    return path.is_dir() and all(inner.suffix == ".parquet" for inner in path.iterdir())


def _not_found(text: str, variables: Mapping[str, str]) -> UsageError:
    names = [run.name for run in stored_runs(variables)]
    there = f"There are: {', '.join(names[-10:])}." if names else "There is none yet."
    more = (
        f" ({len(names) - 10} older ones: " + Command("runs list") + ")" if len(names) > 10 else ""
    )
    return UsageError(
        f"There is no run {text!r}, neither in the store {runs_folder(variables)} nor here."
        f"{did_you_mean(text, names)}",
        there + more,
    )
