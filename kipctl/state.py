"""Where kipctl keeps what outlives a command, for its user alone."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kipctl.errors import UsageError

_OWNERS = 0o700
_USUAL = {"STATE": ".local/state", "CACHE": ".cache", "CONFIG": ".config"}


def state_folder(variables: Mapping[str, str] = os.environ) -> Path:
    """$XDG_STATE_HOME/kipctl, or ~/.local/state/kipctl."""
    return own_folder("STATE", variables)


def own_folder(kind: str, variables: Mapping[str, str] = os.environ) -> Path:
    """kipctl's own among the user's STATE, CACHE or CONFIG (XDG Base Directory Specification)."""
    base = variables.get(f"XDG_{kind}_HOME")
    return (Path(base) if base else Path.home() / _USUAL[kind]) / "kipctl"


def make_private(folder: Path, variables: Mapping[str, str] = os.environ) -> None:
    """Make a folder and those above it that are missing.

    What is made in the state folder is for its owner only, and so is that folder from now on. It
    names topics, hosts and clusters. Raises OSError, and UsageError
    where it is another user's.
    """
    state, inside = state_folder(variables), [folder, *folder.parents]
    if state not in inside:
        folder.mkdir(parents=True, exist_ok=True)
        return
    state.parent.mkdir(parents=True, exist_ok=True)
    state.mkdir(_OWNERS, exist_ok=True)
    status = state.stat()
    if status.st_uid != os.getuid():
        raise UsageError(
            f"The state folder {state} belongs to another user.",
            "Set XDG_STATE_HOME to a folder of your own.",
        )
    if status.st_mode & 0o077:
        state.chmod(_OWNERS)
    for path in reversed(inside[: inside.index(state)]):
        path.mkdir(_OWNERS, exist_ok=True)


def write_private(path: Path, content: bytes) -> None:
    """A new file that nobody but its owner can read, from its first byte on."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def write_whole(path: Path, document: Mapping[str, Any]) -> None:
    """Write JSON for its owner alone, so that it is whole or not there, also after a power cut.

    Raises OSError; then what stood there before still does.
    """
    replace_whole(path, json.dumps(document).encode())


def replace_whole(path: Path, content: bytes) -> None:
    """As `write_whole`, any bytes.

    Whoever may write to the same path is alone with it.
    """
    unfinished = path.with_name(path.name + ".tmp")
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Names of files in it are there after a power cut, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
