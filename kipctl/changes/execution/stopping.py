"""What stops a change midway is told with how far it has come, and with what goes on with it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kipctl.changes.elections.request import SEE_LEADERS
from kipctl.changes.execution.plan_result import progress_of
from kipctl.changes.execution.reassign import EndedElsewhereError
from kipctl.changes.guard_interface import GivenUpError
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.plans.plan import Plan
from kipctl.cluster.snapshot import refresh_snapshot
from kipctl.errors import (
    InterruptedRunError,
    KipctlError,
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UsageError,
)
from kipctl.next_step import Command, NextStep, joined
from kipctl.transport.request import Cluster


@dataclass(slots=True)
class Stoppable:
    """A change that may be stopped midway, and what is known of it then."""

    cluster: Cluster
    plan: Plan
    entry: Entry | None
    named: str = ""
    """How its entry is named to `kipctl changes`, if not by its id."""
    go_on: Command | None = None
    """The command that goes on with it, if it is not `kipctl changes resume`; none undoes it."""
    pause_asked: Callable[[], bool] | None = None
    """Where that is not to be seen beside the entry's file."""
    is_sent: bool = False
    """A request has gone out: what the cluster made of it may not be known."""
    is_changed: bool = False
    """The cluster has taken at least one partition."""

    def __post_init__(self) -> None:
        # What is gone on with may have changed something before: it is never marked as refused.
        if self.entry and self.entry.state is not EntryState.PREPARED:
            self.is_sent = self.is_changed = True

    @property
    def whole(self) -> Plan:
        """What it is about, with what an earlier kipctl had begun."""
        return self.plan

    @property
    def next_step(self) -> str:
        if self.entry is None:
            return SEE_LEADERS
        if self.go_on:
            return self.resume_it
        return "Undo: " + self._undo

    @property
    def go_on_or_undo(self) -> str:
        """The next step where nothing is wrong with what is left."""
        if self.go_on or not self.entry:
            return self.next_step
        return self.resume_it + " or undo: " + self._undo

    @property
    def resume_it(self) -> NextStep:
        return "Go on: " + (self.go_on or Command("changes resume", self._named))

    @property
    def _undo(self) -> Command:
        return Command("undo", self._named)

    @property
    def _named(self) -> str:
        return self.named or (self.entry.id if self.entry else "")

    @property
    def is_to_pause(self) -> bool:
        """Whether somebody has asked for a pause."""
        if self.pause_asked:
            return self.pause_asked()
        return bool(self.entry and self.entry.is_to_pause)

    def require_no_pause(self, done: str = "") -> None:
        """Raise PartlyDoneError when somebody has asked for a pause; `done` says how far it is."""
        if self.is_to_pause:
            how_far = f": {done}." if done else f". {self.how_far()}"
            raise PartlyDoneError(f"Paused{how_far}", self.go_on_or_undo)

    def send(self) -> None:
        """Write down that from now on it is not known what the cluster has made of it."""
        if self.entry and not self.is_sent:
            self.entry = self.entry.mark(EntryState.SUBMITTED)
        self.is_sent = True

    def mark(self, state: EntryState) -> None:
        """Write the state, as far as that can be written."""
        self.entry = self.entry and self.entry.mark_or_note(state)

    def how_far(self) -> str:
        """How far it has come."""
        # Metadata alone, which brokers answer even when the controller hangs.
        try:
            return progress_of(self.whole, refresh_snapshot(self.cluster, self.whole.topics))
        except KipctlError as error:
            return f"How far it came is unknown: {error.what}"

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Whatever stops it inside says how far it came, and what to do next."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.is_sent:
                self.mark(EntryState.REFUSED)
                raise InterruptedRunError("Interrupted before anything was changed.") from None
            raise InterruptedRunError(
                f"Interrupted. {self.how_far()}", self.go_on_or_undo
            ) from None
        except GivenUpError as error:
            if not self.is_sent:
                self.mark(EntryState.REFUSED)
                raise RefusedError(f"{error.what} Nothing was changed.") from None
            raise PartlyDoneError(f"{error.what} {self.how_far()}", self.go_on_or_undo) from None
        except (RefusedError, UsageError) as error:
            if not self.is_changed:
                self.mark(EntryState.REFUSED)
                raise
            stopped = PartlyDoneError(f"{error.what} {self.how_far()}", error.next_step)
            self._add_next_step(stopped)
            raise stopped from None
        except (TimedOutError, UnreachableError) as error:
            if self.is_sent:
                self._add_next_step(error)
            else:
                self.mark(EntryState.REFUSED)
                error.what += " Nothing was changed."
            raise
        except PartlyDoneError as error:
            if isinstance(error, EndedElsewhereError) and self.is_to_pause:
                by = "Somebody on this machine paused it, maybe by "
                error.next_step = by + Command("changes cancel") + "."
            if self.is_sent:
                self._add_next_step(error)
            raise

    def _add_next_step(self, error: KipctlError) -> None:
        if self.next_step.partition(": ")[2] not in error.next_step:
            between = " " if error.next_step.endswith(".") else ". "
            error.next_step = joined(between, filter(None, (error.next_step, self.next_step)))
