"""The journal: what kipctl changed in which cluster, written down before it is submitted.

Of an entry there are two files, named for its id, the time (UTC) it was made. `ID.entry.json` says
what was changed, by whom and how far it came (see `entry`). `ID.json` beside it is the
assignment of before in Kafka's own reassignment JSON, which kafka-reassign-partitions can play
back. An empty `ID.unfinished` is there until the change has ended, so that what was cut off is
found without reading all.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from kipctl.changes.guard_interface import RecordedGuard
from kipctl.changes.journal.entry import (
    ENTRY_SUFFIX,
    PAUSE,
    UNFINISHED_SUFFIX,
    ChangeKind,
    Entry,
    EntryState,
    ExecutionOptions,
    Origin,
    explain_write_errors,
    id_of,
    new_id,
    read_entry,
)
from kipctl.changes.journal.machine_lock import (
    TIMEOUT_S,
    exclusive_lock,
    held_by,
    lock_path,
    try_lock,
)
from kipctl.changes.plans.disks import DiskMove, by_broker
from kipctl.changes.plans.kafka_json import reassignment_document
from kipctl.changes.throttle import Throttle
from kipctl.cluster.snapshot import Assignment, PartitionId
from kipctl.counts import counted
from kipctl.errors import RefusedError, UsageError
from kipctl.next_step import Command, NextStep
from kipctl.process import wait_until
from kipctl.state import make_private, state_folder, sync_folder, write_whole

_LONGEST_NAME = 100
_CHANGING, _THROTTLING = "lock", "throttle-lock"


@dataclass(frozen=True, slots=True)
class Damaged:
    """A file of the journal that cannot be read; everything else goes on without it."""

    path: Path
    why: str

    @classmethod
    def of(cls, path: Path, error: UsageError) -> "Damaged":
        """By the error with which reading it has ended."""
        return cls(path, error.what.removeprefix(f"{path}: ").rstrip("."))

    def __str__(self) -> str:
        return f"Passed over: the journal's {self.path} is damaged ({self.why})."


def ignore_damaged(_: Damaged) -> None:
    """For those who look at entries without telling anybody."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The entries of one cluster."""

    folder: Path
    cluster_id: str = ""
    shared_lock: Path | None = None
    """That of all users of this machine."""

    def save(
        self,
        before: Assignment,
        after: Assignment | None = None,
        origin: Origin | None = None,
        topic_ids: Mapping[str, str] | None = None,
        undoes: str = "",
        how: ExecutionOptions | None = None,
        throttle: Throttle | None = None,
        *,
        kind: ChangeKind = ChangeKind.REASSIGN,
        leaders: Mapping[PartitionId, int] | None = None,
        guard: RecordedGuard | None = None,
        phases: Sequence[Assignment] = (),
        disks: Sequence[DiskMove] = (),
        is_locked: bool = False,
    ) -> Entry:
        """Write a new entry to disk, and return when it is there for good.

        Its state is PREPARED. Without `after` it is saved for whatever is done next: SUBMITTED.
        `throttle` is about to be set. Where all of it `is_locked`, an open one was cut off, also if
        it is not known how it is carried out. Raises UsageError when it cannot be written.
        """
        with explain_write_errors(self.folder):
            self._make_folder()
            entry_id = new_id(self.folder)
            state = EntryState.SUBMITTED if after is None else EntryState.PREPARED
            entry = Entry(
                self.folder / f"{entry_id}{ENTRY_SUFFIX}",
                entry_id,
                self.cluster_id,
                dict(before),
                dict.fromkeys(before) if after is None else dict(after),
                state,
                Origin.here(()) if origin is None else origin,
                dict(topic_ids or {}),
                undoes,
                ((str(state), datetime.now(UTC).isoformat()),),
                how,
                throttle,
                kind,
                dict(leaders or {}),
                guard,
                tuple(phases),
                disks=tuple(disks),
            )
            mark = self.folder / f"{entry_id}{UNFINISHED_SUFFIX}"
            try:
                if how is not None or throttle is not None or is_locked:
                    mark.touch(0o600)  # synced with the folder
                write_whole(entry.path, entry.as_document())
                log_dirs = by_broker(disks, lambda move: move.before)
                write_whole(entry.saved, reassignment_document(before, log_dirs))
            except OSError:
                for path in (entry.saved, entry.path, mark):
                    with suppress(OSError):
                        path.unlink(missing_ok=True)
                raise
        return entry

    def new_file(self, suffix: str) -> Path:
        """Where something else is to be written down among the entries, by an id of its own.

        Raises UsageError when it cannot be.
        """
        with explain_write_errors(self.folder):
            self._make_folder()
            return self.folder / f"{new_id(self.folder)}{suffix}"

    def entries(self, on_damaged: Callable[[Damaged], None] = ignore_damaged) -> Iterator[Entry]:
        """All that can be read, the newest first, one by one; what cannot goes to `on_damaged`."""
        for path in self._paths():
            try:
                yield read_entry(path)
            except UsageError as error:
                on_damaged(Damaged.of(path, error))

    def last_change(
        self, on_damaged: Callable[[Damaged], None] = ignore_damaged
    ) -> tuple[Entry | None, str]:
        """The newest that a rollback may undo, and what of a newer change is passed over for it.

        That is "" when it is the newest of all. Rollbacks themselves are no changes; what is part
        of a roll is undone with all of that.
        """
        passed: list[str] = []

        def damaged(damaged_entry: Damaged) -> None:
            passed.append(f"entry {id_of(damaged_entry.path)}, is damaged")
            on_damaged(damaged_entry)

        for entry in self.entries(damaged):
            if entry.undoes:
                continue
            if entry.origin.part_of:
                passed.append(f"{entry.origin.part_of}, is a roll")
                continue
            if entry.may_be_undone:
                return entry, next(iter(passed), "")
            passed.append(f"entry {entry.id}, is {entry.what_it_is}")
        return None, next(iter(passed), "")

    def unfinished(self, on_damaged: Callable[[Damaged], None] = ignore_damaged) -> Iterator[Entry]:
        """What was cut off, or still goes on: the newest first."""
        for path in sorted(self.folder.glob(f"*{UNFINISHED_SUFFIX}"), reverse=True):
            file = path.with_name(path.name.removesuffix(UNFINISHED_SUFFIX) + ENTRY_SUFFIX)
            if not file.exists():
                continue  # it was cut off before anything else was written
            try:
                entry = read_entry(file)
            except UsageError as error:
                on_damaged(Damaged.of(file, error))
            else:
                if entry.is_unfinished:
                    yield entry

    def unfinished_changes(
        self, on_damaged: Callable[[Damaged], None] = ignore_damaged
    ) -> Iterator[Entry]:
        """The same without parts of a roll: they are gone on with, and undone, with all of it. Nor
        throttles alone, of which nothing is to be gone on with."""
        return (
            entry
            for entry in self.unfinished(on_damaged)
            if not entry.origin.part_of and entry.kind is not ChangeKind.THROTTLE
        )

    def count(self, before: str = "") -> int:
        """How many entries there are, or are older than this id, damaged ones too."""
        return sum(not before or id_of(path) < before for path in self._paths())

    def find(self, entry_id: str) -> Entry:
        """The entry of this id, or of the only one that begins so.

        Raises UsageError when there is none, or more than one, or when it is damaged.
        """
        paths = [path for path in self._paths() if id_of(path).startswith(entry_id)]
        exact = [path for path in paths if id_of(path) == entry_id]
        if len(exact or paths) != 1:
            many = counted(len(paths), "entry", "begin") + " with"
            which = many if paths else "There is no entry"
            raise UsageError(
                f"{which} {entry_id!r} in {self.folder}.", "List them: " + Command("changes list")
            )
        return read_entry((exact or paths)[0])

    @contextmanager
    def locked(self, origin: Origin) -> Iterator[None]:
        """Be the only kipctl on this machine, or with this state folder, that changes this cluster.

        Raises RefusedError, which names the other, when there is one. The kernel lets go of the
        lock when this process ends, however it ends.
        """
        with (
            self._alone(
                _CHANGING,
                origin,
                "Another kipctl is changing this cluster",
                NextStep(
                    "See how far it is: ",
                    Command("changes list"),
                    ". Stop it after its batch: ",
                    Command("changes pause"),
                ),
            ),
            exclusive_lock(self.shared_lock) if self.shared_lock else nullcontext(),
        ):
            with suppress(OSError):
                (self.folder / PAUSE).unlink(missing_ok=True)  # it was meant for one before
            yield

    @contextmanager
    def throttling(self, origin: Origin) -> Iterator[None]:
        """Be the only kipctl with this journal that throttles beside, or without, a reassignment.

        Raises RefusedError, which names the other, when there is one.
        """
        with self._alone(
            _THROTTLING,
            origin,
            "Another kipctl throttles this cluster",
            "Let it end, or stop it with Ctrl-C: it takes its throttle off.",
        ):
            yield

    @contextmanager
    def _alone(self, name: str, origin: Origin, refused: str, next_step: str) -> Iterator[None]:
        with explain_write_errors(self.folder):
            handle = self._open_lock(name)
        try:
            if not wait_until(lambda: try_lock(handle), TIMEOUT_S):
                raise RefusedError(f"{refused}: {_lock_owner(handle)}.", next_step)
            with suppress(OSError):  # on a full disk it is a lock all the same
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{origin}, process {os.getpid()}".encode()[:1000], 0)
            yield
        finally:
            os.close(handle)

    def ask_to_pause(self) -> str:
        """Let whoever holds the lock stop before its next batch; returns who that is.

        Raises RefusedError when nobody does, and UsageError when it cannot be written.
        """
        owner = self.may_be_paused()
        with explain_write_errors(self.folder):
            (self.folder / PAUSE).touch(0o600)
        return owner

    def may_be_paused(self) -> str:
        """Who holds the lock. Raises RefusedError when nobody does with this journal."""
        if owner := self.locked_by():
            return owner
        if other := self.changed_by():
            raise RefusedError(
                f"This cluster is changed by {other}: who has begun it is to pause it.",
                "See what is being reassigned: " + Command("reassign --list"),
            )
        raise RefusedError(
            "No kipctl on this machine is changing this cluster.",
            "See what is being reassigned: " + Command("reassign --list"),
        )

    def changed_by(self) -> str:
        """Which kipctl on this machine, of whatever user, is changing this cluster now; "" for
        none."""
        return self.locked_by() or (held_by(self.shared_lock) if self.shared_lock else "")

    def locked_by(self) -> str:
        """Which kipctl with this journal is changing this cluster now; "" for none."""
        return held_by(self.folder / _CHANGING, _lock_owner)

    def throttled_by(self) -> str:
        """Which kipctl with this journal adapts a throttle now; "" for none."""
        return held_by(self.folder / _THROTTLING, _lock_owner)

    def is_to_pause(self) -> bool:
        """Whether somebody has asked whoever holds the lock to stop (`ask_to_pause`)."""
        return (self.folder / PAUSE).exists()

    def _open_lock(self, name: str) -> int:
        self._make_folder()
        return os.open(self.folder / name, os.O_RDWR | os.O_CREAT, 0o600)

    def _make_folder(self) -> None:
        missing = [path for path in (self.folder, *self.folder.parents) if not path.exists()]
        make_private(self.folder)
        for path in missing:
            sync_folder(path.parent)

    def _paths(self) -> list[Path]:
        """The file of each entry, the newest first."""
        return sorted(self.folder.glob(f"*{ENTRY_SUFFIX}"), reverse=True)


def journal(cluster_id: str, variables: Mapping[str, str] = os.environ) -> Journal:
    """The journal of a cluster, in `$XDG_STATE_HOME` (or `~/.local/state`) `/kipctl/journal/`.

    The id came from the network, and is no part of a path before it is encoded. Raises RefusedError
    for a cluster that has none: what another one left would be taken for its own.
    """
    if cluster_id in ("", "unknown"):
        raise RefusedError(
            "The cluster does not report its id: no way back can be kept for it.",
            "See: " + Command("inspect brokers"),
        )
    folder = state_folder(variables) / "journal" / folder_name(cluster_id)
    return Journal(folder, cluster_id, lock_path(cluster_id))


def folder_name(cluster_id: str) -> str:
    """A name for a folder that no other id has: Kafka's own ids are taken as they are."""
    encoded = quote(cluster_id, safe="", errors="replace").replace(".", "%2E")
    if len(encoded) > _LONGEST_NAME:
        return "%" + hashlib.sha256(cluster_id.encode(errors="surrogatepass")).hexdigest()
    return encoded


def _lock_owner(handle: int) -> str:
    return os.pread(handle, 1000, 0).decode(errors="replace") or "another kipctl"
