"""Clusters by name: the file `clusters.toml`."""

import fcntl
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kipctl.errors import UsageError
from kipctl.state import own_folder, replace_whole

_NO_TOML = (ValueError, RecursionError)
"""What tomllib raises: not its own error alone for numbers and levels beyond Python's."""
_KEYS = {
    "bootstrap_servers": str,
    "command_config": str,
    "rack": str,
    "metrics_urls": list,
    "protected": bool,
    "id": str,
    "map": dict,
}


@dataclass(frozen=True, slots=True)
class NamedCluster:
    """An entry: all but the name and the servers may be empty.

    `command_config` is a file of Java's properties; `id` is what the cluster has to be; on a
    `protected` one a change is not confirmed by `--yes` alone.
    """

    name: str
    bootstrap_servers: str
    command_config: str = ""
    rack: str = ""
    metrics_urls: tuple[str, ...] = ()
    protected: bool = False
    id: str = ""
    map: tuple[tuple[str, str], ...] = ()


def clusters_file(variables: Mapping[str, str]) -> Path:
    """$XDG_CONFIG_HOME/kipctl/clusters.toml, or ~/.config/kipctl/clusters.toml."""
    return own_folder("CONFIG", variables) / "clusters.toml"


def named_clusters(file: Path) -> dict[str, NamedCluster]:
    """The clusters in a file, by name; none if there is no file. Raises UsageError."""
    try:
        return _entries(file, file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, *_NO_TOML) as wrong:
        raise UsageError(f"{file} cannot be read: {wrong}.") from None


def _entries(file: Path, text: str) -> dict[str, NamedCluster]:
    return {name: _entry(file, name, table) for name, table in tomllib.loads(text).items()}


def _entry(file: Path, name: str, table: Any) -> NamedCluster:
    if not isinstance(table, dict):
        raise UsageError(f"{file}: {name} is no table.", f"Write [{name}], and below it its keys.")
    for key, value in table.items():
        if not isinstance(value, _KEYS.get(key, object)) or key not in _KEYS:
            known = ", ".join(f"{known} ({kind.__name__})" for known, kind in _KEYS.items())
            raise UsageError(f"{file}: {key} of [{name}] is wrong.", f"There are {known}.")
    if not table.get("bootstrap_servers"):
        raise UsageError(f"{file}: [{name}] has no bootstrap_servers.")
    given = dict(table)
    given["metrics_urls"] = tuple(map(str, given.get("metrics_urls", ())))
    given["map"] = tuple((at, str(to)) for at, to in given.get("map", {}).items())
    return NamedCluster(name, **given)


def add_cluster(file: Path, cluster: NamedCluster) -> None:
    """Add an entry at the end of the file.

    Raises UsageError for a name that is there, and for what cannot be written.
    """
    import tomli_w

    given = {key: getattr(cluster, key) for key in _KEYS} | {"map": dict(cluster.map)}
    entry = {key: value for key, value in given.items() if value}
    try:
        with _alone_with(file):
            if cluster.name in named_clusters(file):
                raise UsageError(
                    f"{file} has a cluster {cluster.name!r} already.", "Edit it there."
                )
            before = file.read_text(encoding="utf-8") + "\n" if file.exists() else ""
            text = before + tomli_w.dumps({cluster.name: entry})
            tomllib.loads(text)  # what cannot be read again is not written
            replace_whole(file.resolve(), text.encode())
    except (OSError, *_NO_TOML) as wrong:
        raise UsageError(f"{file} cannot be written: {wrong}.") from None


def remove_cluster(file: Path, name: str) -> None:
    """Take an entry out of the file, from its header to its last key; all else stays as it is.

    Raises UsageError where the entry is written otherwise than below a header of its own, and for
    what cannot be written.
    """
    try:
        with _alone_with(file):
            others = named_clusters(file)
            others.pop(name, None)
            kept = _without(name, file.read_text(encoding="utf-8"))
            if _entries(file, kept) != others:
                raise UsageError(f"{file} has {name!r} not below a header alone.", "Edit it there.")
            replace_whole(file.resolve(), kept.encode())
    except (OSError, *_NO_TOML) as wrong:
        raise UsageError(f"{file} cannot be written: {wrong}.") from None


def _without(name: str, text: str) -> str:
    """The file's text without an entry's lines; comments after its last key are of the next."""
    kept, comments, is_of_it = "", "", False
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            is_of_it = name in tomllib.loads(line)
        if not is_of_it:
            kept, comments = kept + comments + line, ""
        elif line.lstrip().startswith("#") or (comments and line.isspace()):
            comments += line
        elif not line.isspace():
            comments = ""
    return kept + comments


@contextmanager
def _alone_with(file: Path) -> Iterator[None]:
    """Wait until no other kipctl reads and changes it."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with file.with_name(file.name + ".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
