"""What a roll writes down: how it is done, which nodes, and how far each has come.

One file a roll, `ID.roll.json` among the entries of the cluster's journal, for its owner only. It
is written anew, and on disk, before each step begins; what restart commands say is beside it. The
changes that move its leaders are entries of the journal, and parts of it (`Origin.part_of`).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import msgspec

from kipctl.changes.guard_interface import RecordedGuard
from kipctl.changes.journal.entry import (
    ENTRY_SUFFIX,
    NOT_BEGUN,
    Entry,
    Origin,
    Recorded,
    explain_write_errors,
)
from kipctl.changes.journal.journal import Damaged, Journal
from kipctl.counts import counted
from kipctl.errors import UsageError
from kipctl.process import Process
from kipctl.redaction import program_alone
from kipctl.roll.next_step import Phase
from kipctl.roll.plan import Node
from kipctl.roll.process_identity import ProcessMark
from kipctl.state import write_whole
from kipctl.typed_json import plain_json

SCHEMA = 2
IN_SYNC = "in sync"
"""The moment when a broker was first seen to be, after its restart."""
_SUFFIX = ".roll.json"
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


class RollState(StrEnum):
    """UNDER_WAY is one whose kipctl runs, or was killed; STOPPED can be resumed, too."""

    UNDER_WAY = "under way"
    STOPPED = "stopped"
    DONE = "done"
    ABANDONED = "abandoned"


class Restarter(StrEnum):
    """Who restarts nodes: a command, the operator, or a lab of kipctl's."""

    EXEC = "exec"
    MANUAL = "manual"
    LAB = "lab"


@dataclass(frozen=True, slots=True)
class RollOptions:
    """How nodes are restarted and guarded, as it was asked for.

    `restarter` is None only where the record of a roll says it. `command` are the words of a
    command, and `folder` is where it runs; `lab` is the name of a lab. `batch` are leaders moved at
    a time. Times are seconds.
    """

    restarter: Restarter | None = None
    command: tuple[str, ...] = ()
    folder: str = ""
    lab: str = ""
    guard: RecordedGuard = field(default_factory=RecordedGuard)
    timeout_s: float = 600.0
    exec_timeout_s: float = 300.0
    between_s: float = 0.0
    batch: Annotated[int, msgspec.Meta(ge=1)] = 1000
    force: bool = False
    spare: int = 0
    """Replicas above min.insync.replicas that are to be left while a broker is away."""

    @property
    def redacted(self) -> "RollOptions":
        """Without what may be secret: the words behind the program, and logins in URLs."""
        return replace(self, command=program_alone(self.command), guard=self.guard.redacted)

    def overridden(self, now: "RollOptions", given: Collection[str]) -> "RollOptions":
        """With the restarter of `now`, if it has one, and those of its fields, and its guard's,
        that are given."""

        def given_of(options: Any) -> dict[str, Any]:
            return {f.name: getattr(options, f.name) for f in fields(options) if f.name in given}

        how = replace(self, **given_of(now), guard=replace(self.guard, **given_of(now.guard)))
        if now.restarter is None:
            return how
        return replace(
            how, restarter=now.restarter, command=now.command, folder=now.folder, lab=now.lab
        )


@dataclass(frozen=True, slots=True)
class Step(Node):
    """One node of a roll, and how far it has come.

    `mark` is of before its restart, `process` the command that restarts it, `called_on` the machine
    where that runs, `output` the file of what it says, and `seen_by` what told that it is
    restarted. `at` has when each phase, or moment, came. `waits_seconds` are what a canary waited
    for leaders that moved while it was in hand, None where there was no canary.
    """

    phase: Phase = Phase.WAITING
    mark: ProcessMark = field(default_factory=ProcessMark)
    process: Process | None = None
    called_on: str = ""
    output: str = ""
    seen_by: str = ""
    leaders_moved_off: int = 0
    leaders_brought_back: int = 0
    at: Mapping[str, _Time] = field(default_factory=dict)
    waits_seconds: tuple[float, ...] | None = None

    def begin(self, phase: Phase, **known: Any) -> "Step":
        """The step in this phase; the time of its first beginning is kept."""
        return replace(self, phase=phase, **known).reached(phase)

    def reached(self, moment: str) -> "Step":
        """The step with the time of this moment, unless it has one already."""
        return replace(self, at={str(moment): datetime.now(UTC), **self.at})

    def seconds(self, first: str, last: str) -> float | None:
        """Between two moments, if both were reached, and no clock was put back meanwhile."""
        began, ended = self.at.get(str(first)), self.at.get(str(last))
        if began is None or ended is None or ended < began:
            return None
        return (ended - began).total_seconds()


@dataclass(frozen=True, slots=True)
class RollRecord(Recorded):
    """A roll as it is written down; each change of it is a new one, written at once."""

    path: Path
    id: str
    cluster_id: str
    origin: Origin
    how: RollOptions
    steps: tuple[Step, ...]
    state: RollState = RollState.UNDER_WAY
    why: str = ""

    @property
    def left(self) -> tuple[Step, ...]:
        """Nodes that are not done."""
        return tuple(step for step in self.steps if step.phase is not Phase.DONE)

    @property
    def kind(self) -> str:
        """What it is, as a change has a kind."""
        return "roll"

    @property
    def node_kind(self) -> str:
        """What its steps are, in a word."""
        return "node" if any(step.is_controller_only for step in self.steps) else "broker"

    @property
    def progress(self) -> str:
        """`2 of 3 brokers are restarted`."""
        whole = len(self.steps)
        done = counted(whole - len(self.left), self.node_kind, "are", total=whole)
        return f"{done} restarted"

    @property
    def may_be_resumed(self) -> bool:
        return self.state in (RollState.UNDER_WAY, RollState.STOPPED)

    def step(self, broker: int) -> Step:
        """The step of this broker, which is one of the roll's."""
        return next(step for step in self.steps if step.broker == broker)

    def changed(self, step: Step) -> "RollRecord":
        """The record with this step of it, not written."""
        steps = tuple(step if other.broker == step.broker else other for other in self.steps)
        return replace(self, steps=steps)

    def marked(self, state: RollState, why: str = "") -> "RollRecord":
        """With how the whole of it stands, not written. Secrets stay in it only as long as it may
        be resumed."""
        marked = replace(self, state=state, why=why)
        return marked if marked.may_be_resumed else replace(marked, how=self.how.redacted)

    def mark(self, state: RollState, why: str = "") -> "RollRecord":
        """Write how the whole of it stands. Raises UsageError when it cannot be written."""
        return self.marked(state, why).written()

    def with_undisturbed(self, seconds: Mapping[str, float]) -> "RollRecord":
        """With what latencies were before it, written where that is new: who goes on with it
        compares with the same. Raises UsageError when it cannot be written."""
        if seconds == self.how.guard.undisturbed:
            return self
        guard = replace(self.how.guard, undisturbed=seconds)
        return replace(self, how=replace(self.how, guard=guard)).written()

    def written(self, otherwise: str = "Make room there.") -> "RollRecord":
        """Put it on disk; returns when it is there for good. Raises UsageError, which says what is
        so `otherwise`."""
        with explain_write_errors(self.path.parent, otherwise):
            write_whole(self.path, self.as_document())
        return self

    def output_path(self, broker: int) -> Path:
        """Where what its restart command says goes."""
        name = self.step(broker).name.replace(" ", "-")
        return self.path.with_name(f"{self.id}.{name}.log")

    def as_document(self) -> dict[str, Any]:
        """What the file holds."""
        document = msgspec.to_builtins(self, enc_hook=_plain)
        del document["path"], document["origin"]
        return {"schema": SCHEMA, **asdict(self.origin), **document}


def _plain(value: Any) -> str | float:
    """What msgspec does not know: a path, a text with commands, or a float of a class of its own,
    such as a duration."""
    return str(value) if isinstance(value, Path | str) else float(value)


def begin_roll(
    journal: Journal, origin: Origin, how: RollOptions, nodes: Iterable[Node]
) -> RollRecord:
    """Write a new one down. Raises UsageError when that cannot be done."""
    path = journal.new_file(_SUFFIX)
    steps = tuple(Step(node.broker, node.host, node.port, node.rack, node.role) for node in nodes)
    roll_id = path.name.removesuffix(_SUFFIX)
    return RollRecord(path, roll_id, journal.cluster_id, origin, how, steps).written(NOT_BEGUN)


def rolls(
    journal: Journal, on_damaged: Callable[[Damaged], None] | None = None
) -> Iterator[RollRecord]:
    """The rolls of the cluster that this user has begun on this machine, the newest first.

    One that cannot be read goes to `on_damaged`. Raises UsageError for it without that: a roll must
    not begin beside one that may have to be gone on with.
    """
    for path in sorted(journal.folder.glob(f"*{_SUFFIX}"), reverse=True):
        try:
            yield read_roll(path)
        except UsageError as error:
            if on_damaged is None:
                raise
            on_damaged(Damaged.of(path, error))


def find_roll(journal: Journal, roll_id: str) -> RollRecord | None:
    """The roll of this id, or the only one of all in the journal that begins so; None without.

    Raises UsageError when it is damaged.
    """
    paths = [*journal.folder.glob(f"*{_SUFFIX}"), *journal.folder.glob(f"*{ENTRY_SUFFIX}")]
    matching = [path for path in paths if path.name.startswith(roll_id)]
    exact = [path for path in matching if path.name == f"{roll_id}{_SUFFIX}"]
    match exact or matching:
        case [path] if path.name.endswith(_SUFFIX):
            return read_roll(path)
    return None


def unfinished_roll(journal: Journal) -> RollRecord | None:
    """The newest that may be resumed. Raises UsageError when one cannot be read."""
    return next((record for record in rolls(journal) if record.may_be_resumed), None)


def roll_parts(journal: Journal, roll_id: str) -> list[Entry]:
    """The changes by which a roll moved leaders off nodes, and back, the newest first."""
    since = takewhile(lambda entry: entry.id > roll_id, journal.entries())
    return [entry for entry in since if entry.origin.part_of == roll_id]


def moved_leaders(journal: Journal, roll_id: str) -> list[Entry]:
    """Those whose leaders are not back yet."""
    parts = roll_parts(journal, roll_id)
    return [entry for entry in parts if entry.may_be_undone and not entry.undoes]


def read_roll(path: Path) -> RollRecord:
    """A roll that was written down. Raises UsageError when it is damaged, or of a newer kipctl."""
    try:
        document = plain_json(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise UsageError(
                f"{path}: its schema is {document['schema']!r}, and {SCHEMA} the only one known."
            )
        whole = document | {"path": path, "origin": asdict(Origin.read(document))}
        record = msgspec.convert(whole, RollRecord)
        how = record.how
        if how.restarter is None or (how.restarter is Restarter.EXEC and not how.command):
            raise ValueError(f"its restarter is {how.restarter}, its command {how.command!r}")
        return record
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path}: it is no record of a roll: {error}.",
            "If that roll has ended move the file away.",
        ) from None
