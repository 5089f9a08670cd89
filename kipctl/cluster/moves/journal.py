"""The journal: what kipctl changed in which cluster, written down before it is submitted.

Of an entry there are two files, named for its id, the time (UTC) it was made. `ID.entry.json` says
what was changed, by whom and how far it came (`Entry`); it is written anew at each change of its
state. `ID.json` beside it is the assignment of before in Kafka's own reassignment JSON, which
kafka-reassign-partitions can play back. Journals of earlier kipctls have the latter alone, as
`ID.undone.json` once it was rolled back.

What is written is whole or not there, also after a power cut: file and folder are synced.
"""

import fcntl
import getpass
import hashlib
import json
import os
import shlex
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kipctl.cluster.moves.kafka_json import read_reassignment, reassignment_document
from kipctl.cluster.snapshot import Assignment, PartitionId
from kipctl.errors import RefusedError, UsageError
from kipctl.state import make_private, state_folder, sync_folder, write_whole

SCHEMA = 1
_ENTRY, _UNDONE, _KAFKAS = ".entry.json", ".undone.json", ".json"
_ID = "%Y%m%dT%H%M%S.%fZ"
_LONGEST_NAME = 100


class EntryState(StrEnum):
    """How far the change of an entry came.

    SUBMITTED is written before the first request goes out: of an entry that stays so it is not
    known how much was done. REFUSED: nothing of it was.
    """

    PREPARED = "prepared"
    SUBMITTED = "submitted"
    DONE = "done"
    UNDONE = "undone"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Origin:
    """Who changed something: the command line (without "kipctl"), the user, and the machine."""

    command: tuple[str, ...] = ()
    user: str = ""
    host: str = ""

    @classmethod
    def here(cls, command: Iterable[str]) -> "Origin":
        """This user, on this machine."""
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container's user may have no name
            user = str(os.getuid())
        return cls(tuple(command), user, socket.gethostname())

    def __str__(self) -> str:
        command = f"kipctl {shlex.join(self.command)}" if self.command else "kipctl"
        return f"{command}, by {self.user}@{self.host}" if self.user else command


@dataclass(frozen=True, slots=True)
class Entry:
    """One change. `after` has None for partitions of which it is not known how kipctl left them.

    `topic_ids` are those of before, as far as the brokers told them; `undoes` is the id of the
    entry that this change rolled back ("" for none). `changed_at` are times (ISO, UTC) by state.
    """

    path: Path
    id: str
    cluster_id: str
    before: Assignment
    after: Mapping[PartitionId, tuple[int, ...] | None]
    state: EntryState
    origin: Origin = Origin()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    undoes: str = ""
    changed_at: tuple[tuple[str, str], ...] = ()

    @property
    def saved(self) -> Path:
        """The assignment of before, as Kafka's own tool reads it."""
        return self.path.with_name(self.id + _KAFKAS)

    @property
    def made_at(self) -> datetime | None:
        """When it was made, UTC; None when its name does not say."""
        return _time_of(self.id)

    @property
    def may_be_undone(self) -> bool:
        """False for what never happened, and for what was rolled back."""
        return self.state in (EntryState.SUBMITTED, EntryState.DONE)

    @property
    def is_of_old_form(self) -> bool:
        """Of an earlier kipctl: it knows the assignment of before and nothing else."""
        return not self.path.name.endswith(_ENTRY)

    def mark(
        self, state: EntryState, after: Mapping[PartitionId, tuple[int, ...] | None] | None = None
    ) -> "Entry":
        """Write the state, and what is known now of how the partitions were left.

        Returns the entry as it is then. Raises UsageError when it cannot be written.
        """
        if self.is_of_old_form:
            if state is not EntryState.UNDONE:
                return self
            with _writing(self.path.parent):
                path = self.path.with_name(self.id + _UNDONE)
                self.path.rename(path)
                sync_folder(path.parent)
            return replace(self, path=path, state=state)
        entry = replace(
            self,
            state=state,
            after=self.after if after is None else after,
            changed_at=(*self.changed_at, (str(state), datetime.now(UTC).isoformat())),
        )
        entry._write()
        return entry

    def as_document(self) -> dict[str, Any]:
        """What the file holds."""
        return {
            "schema": SCHEMA,
            "id": self.id,
            "cluster_id": self.cluster_id,
            "state": str(self.state),
            "command": list(self.origin.command),
            "user": self.origin.user,
            "host": self.origin.host,
            "undoes": self.undoes,
            "changed_at": [list(change) for change in self.changed_at],
            "topic_ids": dict(self.topic_ids),
            "partitions": [
                {
                    "topic": p.topic,
                    "partition": p.partition,
                    "before": list(before),
                    "after": _listed(self.after.get(p)),
                }
                for p, before in sorted(self.before.items())
            ],
        }

    def _write(self) -> None:
        with _writing(self.path.parent):
            write_whole(self.path, self.as_document())


@dataclass(frozen=True, slots=True)
class Damaged:
    """A file of the journal that cannot be read; everything else goes on without it."""

    path: Path
    why: str

    def __str__(self) -> str:
        return f"Passed over: the journal's {self.path} is damaged ({self.why})."


def ignore_damaged(_: Damaged) -> None:
    """For those who look at entries without telling anybody."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The entries of one cluster."""

    folder: Path
    cluster_id: str = ""

    def save(
        self,
        before: Assignment,
        after: Assignment | None = None,
        origin: Origin | None = None,
        topic_ids: Mapping[str, str] | None = None,
        undoes: str = "",
    ) -> Entry:
        """Write a new entry to disk, and return when it is there for good.

        Its state is PREPARED. Without `after` it is saved for whatever is done next: SUBMITTED.
        Raises UsageError when it cannot be written.
        """
        with _writing(self.folder):
            self._make_folder()
            entry_id = self._new_id()
            state = EntryState.SUBMITTED if after is None else EntryState.PREPARED
            entry = Entry(
                self.folder / f"{entry_id}{_ENTRY}",
                entry_id,
                self.cluster_id,
                dict(before),
                dict.fromkeys(before) if after is None else dict(after),
                state,
                Origin.here(()) if origin is None else origin,
                dict(topic_ids or {}),
                undoes,
                ((str(state), datetime.now(UTC).isoformat()),),
            )
            # This one first: the other alone would be an entry of the old form.
            write_whole(entry.path, entry.as_document())
            write_whole(entry.saved, reassignment_document(before))
        return entry

    def note(self, name: str, document: Mapping[str, Any]) -> Path:
        """Write down something beside the entries; returns its file when it is there for good.

        Raises UsageError when it cannot be written.
        """
        with _writing(self.folder):
            self._make_folder()
            path = self.folder / f"{self._new_id()}.{name}"
            write_whole(path, document)
        return path

    def notes(self, name: str) -> list[tuple[Path, Any]]:
        """What was written down so and is still there, the newest first. Raises UsageError."""
        found = []
        for path in sorted(self.folder.glob(f"*.{name}"), reverse=True):
            try:
                found.append((path, json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError) as error:
                raise UsageError(f"{path} cannot be read: {error}.", "Look at it.") from None
        return found

    def entries(self, on_damaged: Callable[[Damaged], None] = ignore_damaged) -> Iterator[Entry]:
        """All that can be read, the newest first, one by one; what cannot goes to `on_damaged`."""
        for path in self._paths():
            try:
                yield read_entry(path)
            except UsageError as error:
                on_damaged(Damaged(path, _why(error, path)))

    def undoable(self, on_damaged: Callable[[Damaged], None] = ignore_damaged) -> Iterator[Entry]:
        """What a rollback may undo, the newest first; rollbacks themselves are left out."""
        return (e for e in self.entries(on_damaged) if e.may_be_undone and not e.undoes)

    def last(self) -> Entry | None:
        """The newest that a rollback may undo."""
        return next(self.undoable(), None)

    def count(self) -> int:
        """How many entries there are, damaged ones too."""
        return len(self._paths())

    def find(self, entry_id: str) -> Entry:
        """The entry of this id, or of the only one that begins so.

        Raises UsageError when there is none, or more than one, or when it is damaged.
        """
        found = [path for path in self._paths() if _id_of(path).startswith(entry_id)]
        exact = [path for path in found if _id_of(path) == entry_id]
        if len(exact or found) != 1:
            which = f"{len(found)} entries begin with" if found else "There is no entry"
            raise UsageError(
                f"{which} {entry_id!r} in {self.folder}.", "List them: kipctl reassign --history"
            )
        return read_entry((exact or found)[0])

    @contextmanager
    def locked(self, origin: Origin) -> Iterator[None]:
        """Be the only kipctl of this user and machine that reassigns in this cluster.

        Raises RefusedError, which names the other, when there is one. The kernel lets go of the
        lock when this process ends, however it ends.
        """
        with _writing(self.folder):
            self._make_folder()
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                other = os.pread(handle, 1000, 0).decode(errors="replace") or "another kipctl"
                raise RefusedError(
                    f"Another kipctl is changing this cluster: {other}.",
                    "Wait until it has ended, or stop it. Look: kipctl reassign --list",
                ) from None
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{origin}, process {os.getpid()}".encode()[:1000], 0)
            yield
        finally:
            os.close(handle)

    def _make_folder(self) -> None:
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        make_private(self.folder)
        for path in missing:
            sync_folder(path.parent)

    def _paths(self) -> list[Path]:
        """The file of each entry, the newest first."""
        by_id: dict[str, Path] = {}
        for path in self.folder.glob(f"*{_KAFKAS}"):
            if path.name.endswith(_ENTRY) or _id_of(path) not in by_id:
                by_id[_id_of(path)] = path
        return [by_id[entry_id] for entry_id in sorted(by_id, reverse=True)]

    def _new_id(self) -> str:
        """The time, but later than all ids that there are: clocks go back at times."""
        now = datetime.now(UTC)
        newest = max(filter(None, (_time_of(_id_of(path)) for path in self._paths())), default=now)
        at = max(now, newest)
        while any(self.folder.glob(f"{at.strftime(_ID)}.*")):
            at += timedelta(microseconds=1)
        return at.strftime(_ID)


def journal(cluster_id: str, variables: Mapping[str, str] = os.environ) -> Journal:
    """The journal of a cluster, in `$XDG_STATE_HOME` (or `~/.local/state`) `/kipctl/journal/`.

    The id came from the network, and is no part of a path before it is encoded. Raises RefusedError
    for a cluster that has none: what another one left would be taken for its own.
    """
    if cluster_id in ("", "unknown"):
        raise RefusedError(
            "The cluster does not tell its id: no way back can be kept for it.",
            "See: kipctl inspect brokers",
        )
    return Journal(state_folder(variables) / "journal" / folder_name(cluster_id), cluster_id)


def folder_name(cluster_id: str) -> str:
    """A name for a folder that no other id has: Kafka's own ids are taken as they are."""
    encoded = quote(cluster_id, safe="", errors="replace").replace(".", "%2E")
    if len(encoded) > _LONGEST_NAME:
        return "%" + hashlib.sha256(cluster_id.encode(errors="surrogatepass")).hexdigest()
    return encoded


def read_entry(path: Path) -> Entry:
    """An entry of either form. Raises UsageError when it is damaged, or newer than this kipctl."""
    if not path.name.endswith(_ENTRY):
        before = read_reassignment(path).assignment
        is_undone = path.name.endswith(_UNDONE)
        state = EntryState.UNDONE if is_undone else EntryState.DONE
        return Entry(path, _id_of(path), "", before, dict.fromkeys(before), state)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        schema = document["schema"]
        if schema != SCHEMA:
            raise UsageError(f"{path}: its schema is {schema!r}, and {SCHEMA} the only one known.")
        partitions = {
            PartitionId(str(one["topic"]), int(one["partition"])): one
            for one in document["partitions"]
        }
        return Entry(
            path,
            _id_of(path),
            str(document["cluster_id"]),
            {p: _replicas(one["before"]) for p, one in partitions.items()},
            {p: one["after"] and _replicas(one["after"]) for p, one in partitions.items()},
            EntryState(document["state"]),
            Origin(
                tuple(map(str, document["command"])), str(document["user"]), str(document["host"])
            ),
            {str(topic): str(uuid) for topic, uuid in document["topic_ids"].items()},
            str(document["undoes"]),
            tuple((str(state), str(at)) for state, at in document["changed_at"]),
        )
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path}: it is no entry of a journal: {error}.") from None


def _replicas(value: Any) -> tuple[int, ...]:
    if not value or not all(isinstance(one, int) for one in value):
        raise ValueError(f"{value!r} are no replicas")
    return tuple(value)


def _listed(replicas: tuple[int, ...] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _id_of(path: Path) -> str:
    for ending in (_ENTRY, _UNDONE, _KAFKAS):
        if path.name.endswith(ending):
            return path.name.removesuffix(ending)
    return path.name


def _time_of(entry_id: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.strptime(entry_id, _ID).replace(tzinfo=UTC)
    return None


def _why(error: UsageError, path: Path) -> str:
    return error.what.removeprefix(f"{path}: ").rstrip(".")


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"The journal in {folder} cannot be written: {error.strerror}.",
            "Nothing was changed. Set XDG_STATE_HOME to a folder that can be written.",
        ) from None
