"""An entry of the journal: one change, how far it came, and what is left to be put back.

Its file is written anew at each change of its state. What is written is whole or not there, also
after a power cut: file and folder are synced.
"""

import getpass
import os
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec

from kipctl.changes.guard_interface import RecordedGuard
from kipctl.changes.plans.disks import DiskMove
from kipctl.changes.throttle import Throttle, read_throttle
from kipctl.cleanup_failures import CleanupFailures
from kipctl.cluster.snapshot import Assignment, PartitionId
from kipctl.counts import counted
from kipctl.errors import UsageError
from kipctl.redaction import words_without_secrets
from kipctl.state import write_whole
from kipctl.typed_json import plain_json

SCHEMA = 3
ENTRY_SUFFIX, KAFKA_SUFFIX, UNFINISHED_SUFFIX = ".entry.json", ".json", ".unfinished"
"""Endings of an entry's files; of the last kind there is one while it is not known to have ended"""
PAUSE = "pause"
"""A file beside the entries: whoever carries one out is to stop before the next batch."""
ID = "%Y%m%dT%H%M%S.%fZ"
_Replicas = Annotated[tuple[int, ...], msgspec.Meta(min_length=1)]
NOTHING_CHANGED = "Nothing was changed."
NOT_BEGUN = f"{NOTHING_CHANGED} Set XDG_STATE_HOME to a folder that can be written."


class ChangeKind(StrEnum):
    """What an entry tells of: replicas and their order, elections alone, or a throttle alone."""

    REASSIGN = "reassign"
    ELECT_PREFERRED = "elect preferred"
    ELECT_UNCLEAN = "elect unclean"
    THROTTLE = "throttle"
    DISKS = "disks"

    @property
    def has_way_back(self) -> bool:
        """Elections leave replicas as they are: there is nothing to bring back but leaders, which
        Kafka's own rule chooses."""
        return self not in (ChangeKind.ELECT_PREFERRED, ChangeKind.ELECT_UNCLEAN)


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
    """Who changed something: the command line (without "kipctl", and without its secrets), the
    user, and the machine. `part_of` is the id of the roll that the change belongs to ("" for none).
    """

    command: tuple[str, ...] = ()
    user: str = ""
    host: str = ""
    part_of: str = ""

    @classmethod
    def here(cls, command: Iterable[str]) -> "Origin":
        """This user, on this machine."""
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container's user may have no name
            user = str(os.getuid())
        return cls(words_without_secrets(command), user, socket.gethostname())

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> "Origin":
        """As a journal's entry, or a roll's record, has it."""
        command = words_without_secrets(map(str, document["command"]))
        part_of = str(document.get("part_of", ""))
        return cls(command, str(document["user"]), str(document["host"]), part_of)

    def __str__(self) -> str:
        command = f"kipctl {shlex.join(self.command)}" if self.command else "kipctl"
        return f"{command}, by {self.user}@{self.host}" if self.user else command


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """How a change is carried out: so many partitions at a time, so many seconds between two such
    batches, whether the preferred leaders are elected after each, the most bytes per second that go
    in or out of a broker (None: no throttle), and the most replicas that are added at a time (None:
    those of a batch). Preferred elections are repeated `until_balanced`, of replicas `as_they_come`
    or as their brokers are whole.
    """

    batch: Annotated[int, msgspec.Meta(ge=1)]
    between_s: Annotated[float, msgspec.Meta(ge=0)]
    elects: bool
    throttle: int | None = None
    concurrent: int | None = None
    until_balanced: bool = False
    as_they_come: bool = False


class Recorded:
    """What the journal keeps of one thing that kipctl did: a change, or a roll."""

    __slots__ = ()
    path: Path
    id: str
    origin: Origin
    state: StrEnum

    @property
    def made_at(self) -> datetime | None:
        """When it was made, UTC; None when that is not known."""
        return created_at(self.id)

    @property
    def may_be_resumed(self) -> bool:
        raise NotImplementedError

    @property
    def is_to_pause(self) -> bool:
        """Whether somebody has asked for it (`Journal.ask_to_pause`) since it was begun."""
        return self.path.with_name(PAUSE).exists()

    def age(self, now: datetime, *, brief: bool = False) -> str:
        """How long ago it was made, in its largest unit; `brief` for a table: "2 d ago"."""
        if self.made_at is None:
            return "at a time not known"
        seconds = max(0.0, (now - self.made_at).total_seconds())
        units = (("day", "d", 86400), ("hour", "h", 3600), ("minute", "min", 60))
        for unit, short, length in units:
            if seconds >= length:
                n = int(seconds // length)
                return f"{n} {short} ago" if brief else f"{counted(n, unit)} ago"
        return "just now" if brief else "less than a minute ago"

    def describe_state(self, changed_by: str) -> str:
        """What is known of it while it is open: that it was stopped (paused, interrupted,
        killed), or who may carry it out.

        `changed_by` is who changes the cluster from this machine now (`Journal.locked_by`).
        """
        if changed_by:
            return f"is not over: {changed_by}, is changing this cluster now"
        if self.origin.host == socket.gethostname():
            return "was stopped before its end"
        where = f" at {self.origin.host}" if self.origin.host else ""
        return f"goes on{where}, or was stopped"

    @property
    def is_throttled(self) -> bool:
        """Whether a throttle of it is still to be put back."""
        return False

    def shown_state(self, changed_by: str) -> str:
        """Its state in a word: of one that may be resumed `stopped`, or `not over` where a kipctl
        may carry it out now (`describe_state`)."""
        if not self.may_be_resumed:
            return f"{self.state}, throttle still set" if self.is_throttled else str(self.state)
        is_stopped = not changed_by and self.origin.host == socket.gethostname()
        return "stopped" if is_stopped else "not over"


@dataclass(frozen=True, slots=True)
class Entry(Recorded):
    """One change. `after` has None for partitions of which it is not known how kipctl left them.

    `topic_ids` are those of before, as far as the brokers show them; `undoes` is the id of the
    entry that this change rolled back ("" for none). `changed_at` are times (ISO, UTC) by state.
    `how` is None where it is not known. `throttle` is what is still to be put back. `leaders` are
    those of before, as far as they are known (-1: nobody led). `guard` is that under which it was
    begun. `phases` are what each phase brings its partitions to, `phase` (from 0) is where it is.
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
    how: ExecutionOptions | None = None
    throttle: Throttle | None = None
    kind: ChangeKind = ChangeKind.REASSIGN
    leaders: Mapping[PartitionId, int] = field(default_factory=dict)
    guard: RecordedGuard | None = None
    phases: tuple[Assignment, ...] = ()
    phase: int = 0
    disks: tuple[DiskMove, ...] = ()

    @property
    def saved(self) -> Path:
        """The assignment of before, as Kafka's own tool reads it."""
        return self.path.with_name(self.id + KAFKA_SUFFIX)

    @property
    def made_at(self) -> datetime | None:
        """When it was made, UTC; None when that is not known.

        Its name alone may be ahead of that (`new_id`).
        """
        if not self.changed_at:
            return created_at(self.id)
        with suppress(ValueError, OverflowError):  # the latter in the year 1, or 9999
            return datetime.fromisoformat(self.changed_at[0][1]).astimezone(UTC)
        return None

    @property
    def may_be_undone(self) -> bool:
        """False for what never happened, for what was rolled back, and for elections.

        What was only prepared is not known to have never happened: kipctl was cut off then.
        """
        is_there = self.state in (EntryState.PREPARED, EntryState.SUBMITTED, EntryState.DONE)
        return is_there and self.kind.has_way_back

    @property
    def copies_data(self) -> bool:
        """Whether some replicas are, or are to be, on other brokers than before."""
        return any(set(self.after[p] or before) != set(before) for p, before in self.before.items())

    @property
    def what_it_is(self) -> str:
        """Why it is not undone, after "is": its state, or that it is an election."""
        return str(self.state) if self.kind.has_way_back else f"an election ({self.kind})"

    @property
    def is_unfinished(self) -> bool:
        """True while something of it is left to be done, or to be put back."""
        return self.throttle is not None or self.is_open

    @property
    def is_open(self) -> bool:
        """True while it is not known to be over: it goes on, or it was cut off."""
        return self.state in (EntryState.PREPARED, EntryState.SUBMITTED)

    @property
    def may_be_resumed(self) -> bool:
        """Whether it is open, and it is known how it is carried out."""
        return self.is_open and self.how is not None

    @property
    def is_throttled(self) -> bool:
        return self.throttle is not None

    def mark(
        self, state: EntryState, after: Mapping[PartitionId, tuple[int, ...] | None] | None = None
    ) -> "Entry":
        """Write the state, and what is known now of how the partitions were left.

        Returns the entry as it is then. Raises UsageError when it cannot be written.
        """
        entry = replace(
            self,
            state=state,
            after=self.after if after is None else after,
            changed_at=(*self.changed_at, (str(state), datetime.now(UTC).isoformat())),
        )
        is_before = state is EntryState.SUBMITTED
        entry._write(f"{NOTHING_CHANGED} {self._stays}" if is_before else self._stays)
        return entry

    def with_throttle(self, throttle: Throttle | None) -> "Entry":
        """Write what is to be put back afterwards; None once it is.

        Returns the entry as it is then. Raises UsageError when it cannot be written.
        """
        entry = replace(self, throttle=throttle)
        entry._write(NOT_BEGUN if throttle else "")
        return entry

    def begin_phase(self, number: int) -> "Entry":
        """Write that it has come to this phase (from 0).

        Returns the entry as it is then. Raises UsageError when it cannot be written.
        """
        entry = replace(self, phase=number)
        entry._write(self._stays)
        return entry

    def mark_or_note(self, state: EntryState) -> "Entry":
        """`mark` what its file has now; where that cannot be written it is said after the result
        (`CleanupFailures`).

        What has been done stays done when the journal cannot be written any more.
        """
        try:
            return self.reload().mark(state)
        except UsageError as failed:
            failed.what = f"Entry {self.id} is not marked as {state}: {failed.what}"
            CleanupFailures.note(failed)
            return self

    def reload(self) -> "Entry":
        """The entry as its file has it now. Raises UsageError."""
        return read_entry(self.path)

    def as_document(self) -> dict[str, Any]:
        """What the file holds."""
        return {
            "schema": SCHEMA,
            "id": self.id,
            "cluster_id": self.cluster_id,
            "kind": str(self.kind),
            "state": str(self.state),
            "command": list(self.origin.command),
            "user": self.origin.user,
            "host": self.origin.host,
            "part_of": self.origin.part_of,
            "undoes": self.undoes,
            "changed_at": [list(change) for change in self.changed_at],
            "topic_ids": dict(self.topic_ids),
            "how": None if self.how is None else asdict(self.how),
            "throttle": None if self.throttle is None else self.throttle.document(),
            "guard": None if self.guard is None else asdict(self.guard),
            "phase": self.phase,
            "disks": [[list(move.id), *move[1:]] for move in self.disks],
            "partitions": [
                {
                    "topic": p.topic,
                    "partition": p.partition,
                    "before": list(before),
                    "after": (after := self.after.get(p)) and list(after),
                    "leader": self.leaders.get(p),
                    "phases": [target.get(p) for target in self.phases],
                }
                for p, before in sorted(self.before.items())
            ],
        }

    @property
    def _stays(self) -> str:
        return f"Entry {self.id} stays {self.state}."

    def _write(self, otherwise: str) -> None:
        with explain_write_errors(self.path.parent, otherwise):
            write_whole(self.path, self.as_document())
            if not self.is_unfinished:
                with suppress(OSError):  # the entry itself says it
                    self.path.with_name(self.id + UNFINISHED_SUFFIX).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Partition:
    """As an entry's file has it."""

    topic: str
    partition: int
    before: _Replicas
    after: _Replicas | None
    leader: int | None
    phases: tuple[_Replicas | None, ...] = ()


def read_entry(path: Path) -> Entry:
    """An entry in a file of any name, as one that was copied from another machine.

    Raises UsageError when it is none, or newer than this kipctl.
    """
    try:
        document = plain_json(path.read_text(encoding="utf-8"))
        schema = document["schema"]
        if schema != SCHEMA:
            raise UsageError(f"{path}: its schema is {schema!r}; this kipctl reads {SCHEMA}.")
        rows = msgspec.convert(document["partitions"], tuple[_Partition, ...])
        partitions = {PartitionId(row.topic, row.partition): row for row in rows}
        throttle, phase = document["throttle"], msgspec.convert(document.get("phase", 0), int)
        phases = tuple(
            {p: replicas for p, replicas in zip(partitions, target, strict=True) if replicas}
            for target in zip(*(row.phases for row in rows), strict=True)
        )
        if not 0 <= phase <= max(0, len(phases) - 1):
            raise ValueError(f"it has come to phase {phase} of {len(phases)}")
        return Entry(
            path,
            msgspec.convert(document["id"], str),
            msgspec.convert(document["cluster_id"], str),
            {p: row.before for p, row in partitions.items()},
            {p: row.after for p, row in partitions.items()},
            EntryState(document["state"]),
            Origin.read(document),
            msgspec.convert(document["topic_ids"], dict[str, str]),
            msgspec.convert(document["undoes"], str),
            msgspec.convert(document["changed_at"], tuple[tuple[str, str], ...]),
            msgspec.convert(document["how"], ExecutionOptions | None),
            None if throttle is None else read_throttle(throttle),
            ChangeKind(document["kind"]),
            {p: row.leader for p, row in partitions.items() if row.leader is not None},
            msgspec.convert(document["guard"], RecordedGuard | None),
            phases,
            phase,
            msgspec.convert(document.get("disks", ()), tuple[DiskMove, ...]),
        )
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: it is no entry of a journal: {error}.") from None


def id_of(path: Path) -> str:
    return path.name.removesuffix(ENTRY_SUFFIX)


def created_at(entry_id: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.strptime(entry_id, ID).replace(tzinfo=UTC)
    return None


def new_id(folder: Path) -> str:
    """A name for what is written down in a folder: the time, but later than all names that there
    are: clocks go back at times."""
    named = (created_at(path.name.partition("Z")[0] + "Z") for path in folder.iterdir())
    after = (at + timedelta(microseconds=1) for at in named if at is not None)
    return max((datetime.now(UTC), *after)).strftime(ID)


@contextmanager
def explain_write_errors(folder: Path, otherwise: str = NOT_BEGUN) -> Iterator[None]:
    """An OSError becomes a UsageError; `otherwise` is what is so where it cannot be written."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"The journal in {folder} cannot be written: {error.strerror}.", otherwise
        ) from None
