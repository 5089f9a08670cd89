"""What is asked of the pipeline, checked on this machine before Spark is started."""

import os
import re
import zoneinfo
from collections.abc import Iterable
from pathlib import Path

from kipctl.errors import UsageError, refusals_reported
from kipctl.next_step import Command, NextStep
from kipctl.pipeline.place import Place
from kipctl.trace.store import RUN_FILE

_WILDCARDS = re.compile(r"[*?\[{]")
_PACKED = (".xz", ".lzma", ".zip", ".7z", ".Z", ".tgz", ".txz")
_OFFSET = re.compile(r"Z|(UTC|GMT|UT)?[+-]\d{1,2}(:\d{2}){0,2}|[A-Z]{3}")
"""What Java understands besides the names of the time zone database; `PST` and its like too."""


@refusals_reported()
def check_runs(paths: Iterable[str]) -> None:
    """Raise UsageError when one is a path of this machine that is no run, nor a folder of runs, or
    that may not be read.

    What lies elsewhere (`hdfs://...`) and wildcards are left to Spark.
    """
    for path in paths:
        here = _here(path)
        if here is None or _holds_run(here):
            continue
        raise no_run(path, here.exists())


def no_run(path: str, is_there: bool) -> UsageError:
    """What is said of a path that is no run, nor a folder of runs."""
    return UsageError(
        f"{path} {'holds no run' if is_there else 'does not exist'}: there is no {RUN_FILE} in it.",
        NextStep(
            *("Record one: ", Command("perf produce --record DIR")),
            *("; those there are: ", Command("runs list"), "."),
        ),
    )


@refusals_reported()
def check_logs(paths: Iterable[str]) -> None:
    """Raise UsageError when one is a path of this machine where nothing is, that is closed, or a
    file of a name that Spark does not read."""
    for path in paths:
        here = _here(path)
        if here is not None and not here.exists():
            raise UsageError(f"There is no {path}.", "Name files or folders of request logs.")
        if here is not None and not os.access(here, os.R_OK):
            raise UsageError(f"{path} cannot be read: permission denied.", "See who may read it.")
        if here is not None and here.is_file() and (why := why_not_read(path)):
            raise UsageError(f"{path} cannot be read: {why}.")


def why_not_read(path: str) -> str:
    """Why Spark reads no lines of a file of this name, and what to do; empty if it does."""
    name = path.rpartition("/")[2]
    if name.startswith(("_", ".")):
        return "Spark passes over names that begin with _ or .: rename it"
    return (
        "Spark does not unpack it: unpack it, or pack it as .gz" if name.endswith(_PACKED) else ""
    )


def check_followed(paths: Iterable[str], place: Place) -> None:
    """Raise UsageError for what --follow cannot read: other places than this machine, and packs."""
    if not place.is_local:
        raise UsageError(
            "--follow reads files of this machine, and executors elsewhere do not see them.",
            "Leave --master out.",
        )
    if place.scratch:
        raise UsageError("--scratch is of clusters, and --follow runs here.", "Leave it out.")
    for path in paths:
        here = _here(path)
        is_named_here = here is not None or _WILDCARDS.search(path)
        if not is_named_here or "://" in path.removeprefix("file:") or "{" in path:
            raise UsageError(
                f"--follow reads files of this machine, and {path} names none.",
                "Leave --follow out, or run kipctl where the files are written, and name them "
                "without {a,b}.",
            )
        if here is not None and any(here.glob("_pack.*.json")):
            raise UsageError(
                f"{path} is a pack, and nothing is written to it.", "Follow the logs themselves."
            )


@refusals_reported()
def check_save(folder: str | None, option: str = "--save") -> None:
    """Raise UsageError for a folder of this machine that holds something, is none, or cannot be
    made; `option` named it."""
    here = None if folder is None else _here(folder)
    if here is None:
        return
    if here.exists() and (not here.is_dir() or any(here.iterdir())):
        raise UsageError(f"{option} {folder}: it is there already.", "Name a folder that is not.")
    above = next(path for path in (here, *here.absolute().parents) if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        why = "permission denied" if above.is_dir() else "it is no folder"
        what = f"{option} {folder} cannot be made in {above}: {why}."
        raise UsageError(what, "Name another one.")


@refusals_reported()
def check_pack(folder: str) -> None:
    """Raise UsageError for a folder of this machine that holds something that is no pack of request
    logs, or cannot be made."""
    here = _here(folder)
    if here is None or not any(here.glob("_pack.*.json")):
        check_save(folder, "--to")


def _here(path: str) -> Path | None:
    """The path on this machine; None of one that only Spark can look at.

    One that does not exist may be on the file system that Spark is configured to take by default.
    """
    if not path:
        raise UsageError("An empty path names nothing.", "See that a variable of yours is set.")
    text = path.removeprefix("file://") if path.startswith("file:///") else path
    text = text.removeprefix("file:") if text.startswith("file:/") else text
    here = Path(text)
    if here.exists():
        return here
    if "://" in text or _WILDCARDS.search(text):
        return None
    is_configured = {"HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"} & os.environ.keys()
    return None if is_configured and text == path else here


def _holds_run(folder: Path) -> bool:
    """Whether it is a run's folder, or one is in it. Raises OSError for a folder that is closed."""
    if (folder / RUN_FILE).exists():
        return True
    if folder.is_dir():
        os.listdir(folder)  # glob finds nothing in one that is closed
    return any(folder.glob(f"*/{RUN_FILE}"))


def is_zone(text: str) -> bool:
    names = zoneinfo.available_timezones()  # empty on a machine without the database
    return not names or text in names or bool(_OFFSET.fullmatch(text))
