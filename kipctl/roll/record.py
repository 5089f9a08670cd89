"""What a roll writes down: how it is done, which nodes, and how far each has come.

One file a roll, `ID.roll.json` in `$XDG_STATE_HOME/kipctl/rolls/CLUSTER_ID/`, for its owner only.
It is written anew, and on disk, before each step begins; what restart commands say is beside it.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from kipctl.changes.journal.entry import Origin, new_id
from kipctl.changes.journal.journal import folder_name
from kipctl.errors import UsageError
from kipctl.process import Process
from kipctl.redaction import program_alone
from kipctl.roll.next_step import Phase
from kipctl.roll.plan import Node
from kipctl.roll.process_identity import ProcessMark
from kipctl.state import make_private, state_folder, sync_folder, write_whole
from kipctl.typed_json import plain_json
from kipctl.urls import without_login

SCHEMA = 1
IN_SYNC = "in sync"
"""The moment when a broker was first seen to be, after its restart."""
_ENDING = ".roll.json"


class RollState(StrEnum):
    """UNDER_WAY is one whose kipctl runs, or was killed; STOPPED can be resumed, too."""

    UNDER_WAY = "under way"
    STOPPED = "stopped"
    DONE = "done"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True)
class RollOptions:
    """How brokers are restarted and guarded, as it was asked for.

    `way` is "exec", "manual" or "lab"; `command` are the words of the first, and `folder` is where
    it runs; `lab` is the name of the last. `batch` are leaders moved at a time. Times are seconds.
    """

    way: str
    command: tuple[str, ...] = ()
    folder: str = ""
    lab: str = ""
    guards: tuple[str, ...] = ()
    guard_action: str = "stop"
    guard_patience_s: float = 600.0
    guard_quiet_s: float = 30.0
    metrics_urls: tuple[str, ...] = ()
    timeout_s: float = 600.0
    exec_timeout_s: float = 300.0
    between_s: float = 0.0
    batch: int = 1000
    force: bool = False
    spare: int = 0
    """Replicas above min.insync.replicas that are to be left while a broker is away."""

    @property
    def redacted(self) -> "RollOptions":
        """Without what may be secret: the words behind the program, and logins in URLs."""
        urls = tuple(map(without_login, self.metrics_urls))
        return replace(self, command=program_alone(self.command), metrics_urls=urls)


@dataclass(frozen=True, slots=True)
class Step(Node):
    """One node of a roll, and how far it has come.

    `since` is the newest entry of the journal of changes from before its leaders moved: later ones
    of this roll are this step's. `mark` is of before its restart, `process` the command that
    restarts it, `called_on` the machine where that runs, `output` the file of what it says, and
    `seen_by` what told that it is restarted.
    `at` has when each phase, or moment, came (ISO, UTC), `moved` and `brought_back` count leaders.
    `waits_s` are what a canary waited for leaders that moved while it was in hand, None where there
    was no canary.
    """

    phase: Phase = Phase.WAITING
    since: str = ""
    mark: ProcessMark = field(default_factory=ProcessMark)
    process: Process | None = None
    called_on: str = ""
    output: str = ""
    seen_by: str = ""
    moved: int = 0
    brought_back: int = 0
    at: Mapping[str, str] = field(default_factory=dict)
    waits_s: tuple[float, ...] | None = None

    def begin(self, phase: Phase, **known: Any) -> "Step":
        """The step in this phase; the time of its first beginning is kept."""
        return replace(self, phase=phase, **known).reached(phase)

    def reached(self, moment: str) -> "Step":
        """The step with the time of this moment, unless it has one already."""
        return replace(self, at={str(moment): datetime.now(UTC).isoformat(), **self.at})

    @property
    def has_moved(self) -> bool:
        """Whether leaders were, or may have been, moved off it: `since` is known then."""
        return str(Phase.LEADERS_OFF) in self.at

    def seconds(self, first: str, last: str) -> float | None:
        """Between two moments, if both were reached, and no clock was put back meanwhile."""
        if str(first) not in self.at or str(last) not in self.at:
            return None
        began, ended = (datetime.fromisoformat(self.at[str(one)]) for one in (first, last))
        return (ended - began).total_seconds() if ended >= began else None

    def as_document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "broker": self.broker,
            "role": self.role,
            "host": self.host,
            "port": self.port,
            "rack": self.rack,
            "phase": str(self.phase),
            "since": self.since,
            "mark": asdict(self.mark),
            "process": self.process and [self.process.pid, self.process.started],
            "called_on": self.called_on,
            "output": self.output,
            "seen_by": self.seen_by,
            "leaders_moved_off": self.moved,
            "leaders_brought_back": self.brought_back,
            "at": dict(self.at),
            "waits_seconds": None if self.waits_s is None else list(self.waits_s),
        }


@dataclass(frozen=True, slots=True)
class RollRecord:
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
        """What its steps are, in a word."""
        return "nodes" if any(step.is_controller_only for step in self.steps) else "brokers"

    @property
    def may_be_resumed(self) -> bool:
        return self.state in (RollState.UNDER_WAY, RollState.STOPPED)

    def step(self, broker: int) -> Step:
        """The step of this broker, which is one of the roll's."""
        return next(step for step in self.steps if step.broker == broker)

    def changed(self, step: Step) -> "RollRecord":
        """The record with this step of it, not written."""
        steps = tuple(step if one.broker == step.broker else one for one in self.steps)
        return replace(self, steps=steps)

    def marked(self, state: RollState, why: str = "") -> "RollRecord":
        """With how the whole of it stands, not written. Secrets stay in it only as long as it may
        be resumed."""
        marked = replace(self, state=state, why=why)
        how = self.how if marked.may_be_resumed else self.how.redacted
        return replace(marked, how=how)

    def mark(self, state: RollState, why: str = "") -> "RollRecord":
        """Write how the whole of it stands. Raises UsageError when it cannot be written."""
        return self.marked(state, why).written()

    def written(self) -> "RollRecord":
        """Put it on disk; returns when it is there for good. Raises UsageError."""
        with _writing(self.path.parent):
            write_whole(self.path, self.as_document())
        return self

    def output_path(self, broker: int) -> Path:
        """Where what its restart command says goes."""
        name = self.step(broker).name.replace(" ", "-")
        return self.path.with_name(f"{self.id}.{name}.log")

    def as_document(self) -> dict[str, Any]:
        """What the file holds."""
        return {
            "schema": SCHEMA,
            "id": self.id,
            "cluster_id": self.cluster_id,
            "command": list(self.origin.command),
            "user": self.origin.user,
            "host": self.origin.host,
            "state": str(self.state),
            "why": self.why,
            "how": asdict(self.how),
            "steps": [step.as_document() for step in self.steps],
        }


@dataclass(frozen=True, slots=True)
class Rolls:
    """The rolls of one cluster that this user has begun on this machine."""

    folder: Path
    cluster_id: str
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def begin(self, origin: Origin, how: RollOptions, order: Iterable[Node]) -> RollRecord:
        """Write a new one down. Raises UsageError when that cannot be done."""
        with _writing(self.folder):
            made = not self.folder.exists()
            make_private(self.folder, self.variables)
            if made:
                sync_folder(self.folder.parent)
            name = new_id(self.folder)
        steps = tuple(Step(one.broker, one.host, one.port, one.rack, one.role) for one in order)
        path = self.folder / f"{name}{_ENDING}"
        return RollRecord(path, name, self.cluster_id, origin, how, steps).written()

    def last(self) -> RollRecord | None:
        """The newest, if there is any. Raises UsageError when it cannot be read."""
        return next(self._all(), None)

    def unfinished_roll(self) -> RollRecord | None:
        """The newest that may be resumed. Raises UsageError when one cannot be read."""
        return next((record for record in self._all() if record.may_be_resumed), None)

    def _all(self) -> Iterator[RollRecord]:
        return map(read_roll, sorted(self.folder.glob(f"*{_ENDING}"), reverse=True))


def rolls(cluster_id: str, variables: Mapping[str, str] = os.environ) -> Rolls:
    """The rolls of a cluster. Its id came from the network: it is encoded for the path."""
    folder = state_folder(variables) / "rolls" / folder_name(cluster_id)
    return Rolls(folder, cluster_id, variables)


def read_roll(path: Path) -> RollRecord:
    """A roll that was written down. Raises UsageError when it is damaged, or of a newer kipctl."""
    try:
        document = plain_json(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise UsageError(
                f"{path}: its schema is {document['schema']!r}, and {SCHEMA} the only one known."
            )
        return RollRecord(
            path,
            str(document["id"]),
            str(document["cluster_id"]),
            Origin.read(document),
            _how(document["how"]),
            tuple(map(_step, document["steps"])),
            RollState(document["state"]),
            str(document["why"]),
        )
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path}: it is no record of a roll: {error}.",
            "If that roll has ended move the file away.",
        ) from None


def _how(document: object) -> RollOptions:
    how = msgspec.convert(document, RollOptions)
    if how.way not in ("exec", "manual", "lab") or (how.way == "exec" and not how.command):
        raise ValueError(f"its way is {how.way!r}, and its command {how.command!r}")
    if how.batch < 1:
        raise ValueError(f"its batch is {how.batch}")
    return how


def _step(one: Mapping[str, Any]) -> Step:
    process = one["process"]
    waits = one["waits_seconds"]
    return Step(
        int(one["broker"]),
        str(one["host"]),
        int(one["port"]),
        None if one["rack"] is None else str(one["rack"]),
        str(one["role"]),
        Phase(one["phase"]),
        str(one["since"]),
        msgspec.convert(one["mark"], ProcessMark),
        None if process is None else Process(*msgspec.convert(process, tuple[int, str])),
        str(one.get("called_on", "")),
        str(one["output"]),
        str(one["seen_by"]),
        int(one["leaders_moved_off"]),
        int(one["leaders_brought_back"]),
        {str(phase): _moment(at) for phase, at in one["at"].items()},
        None if waits is None else tuple(map(float, waits)),
    )


def _moment(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError(f"{text!r} is of no time zone")
    return text


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"The roll cannot be written down in {folder}: {error.strerror}.",
            "Set XDG_STATE_HOME to a folder that can be written.",
        ) from None
