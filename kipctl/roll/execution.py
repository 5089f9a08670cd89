"""A roll from end to end: node by node looked at, decided (`next_action`), done, and written down.

Nothing that it needs to go on is in memory alone, but whether a node has been seen to be away and
how the command that restarts it has ended: what a kipctl that is gone knew of these is looked at
anew.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from kipctl.changes.execution.reassign import Progress
from kipctl.changes.guard_interface import NO_GUARD
from kipctl.cluster.snapshot import Snapshot
from kipctl.counts import counted
from kipctl.errors import (
    InterruptedRunError,
    KipctlError,
    PartlyDoneError,
    RefusedError,
    TimedOutError,
    UnreachableError,
    UsageError,
)
from kipctl.guard.monitor import GuardMonitor
from kipctl.next_step import Command
from kipctl.progress import ProgressText
from kipctl.protocol.address import Address
from kipctl.roll.move_leaders import LeaderMover, movable_leaders
from kipctl.roll.next_step import (
    NOT_OBSERVED,
    Action,
    CommandState,
    NextAction,
    NodeState,
    Phase,
    next_action,
    next_node,
)
from kipctl.roll.node_watch import ClusterWatch, NodeWatch
from kipctl.roll.plan import plan_roll, require_safe
from kipctl.roll.process_identity import ProcessMark, RestartVerdict, judge_restart
from kipctl.roll.record import IN_SYNC, Restarter, RollRecord, RollState, Step, read_roll
from kipctl.roll.restart_command import (
    CommandOfDeadKipctl,
    ManualRestart,
    Restart,
    RunningCommand,
    command_for,
    lab_command,
)

GO_ON = "Go on: " + Command("roll --resume")
_POLL_S = 0.25
_FIRST_PAUSE_S = 0.05
_LAST_PAUSE_S = 2.0
_SHARE_OF_WAIT = 0.05
_CANARY_DELAY_S = 1.0
"""What was waited for the last leaders is known a moment after they came back."""
_MAX_LEADER_MOVES = 3
"""How often leaders are moved off a broker that others bring them back to."""


@dataclass(slots=True)
class Roll:
    """A roll that is begun, or gone on with.

    `was_restarted` is what the operator says of a restart that cannot be seen. `new_waits` are the
    seconds that a canary waited for leaders that moved, each once; None where there is no canary.
    """

    record: RollRecord
    watcher: ClusterWatch
    leaders: LeaderMover
    guarding: GuardMonitor
    stdin: TextIO
    message: Callable[[str], None]
    progress: Progress
    was_restarted: bool | None = None
    new_waits: Callable[[], tuple[float, ...]] | None = None
    _watched: NodeWatch = field(init=False)
    _restarting: Restart | None = field(default=None, init=False)
    _is_called_here: bool = field(default=False, init=False)
    _leader_moves: int = field(default=0, init=False)
    _since: float = field(default=0.0, init=False)
    _last_progress: str = field(default="", init=False)
    _warned_of: set[str] = field(default_factory=set, init=False)

    def run(self) -> RollRecord:
        """Every node that is left, one after the other; returns the record as it is then.

        Raises PartlyDoneError when it stops, TimedOutError when a node is not back in time,
        UnreachableError, RefusedError when nothing was done, and InterruptedRunError.
        """
        is_first = True
        while self.record.left:
            broker = self._next()
            with self._explain_errors(broker):
                if not is_first and self.record.how.between_s:
                    name = self.record.step(broker).name
                    self._report(f"Next is {name}, in {self.record.how.between_s:g} s")
                    self.guarding.sleep(self.record.how.between_s)
                self._roll_node(broker)
            is_first = False
        with self._explain_errors(self.record.steps[-1].broker):
            self.record = self.record.mark(RollState.DONE)
        return self.record

    def _next(self) -> int:
        left = self.record.left
        is_chosen = len(left) > 1 and left[0].is_voter
        active = self.watcher.active_controller() if is_chosen else None
        return next_node([(step.broker, step.phase) for step in left], active)

    def _roll_node(self, broker: int) -> None:
        step = self.record.step(broker)
        self._watched = self.watcher
        if step.is_controller_only:
            place = Address(step.host, step.port) if step.host else None
            self._watched = self.watcher.controller(place)
        self._watched.forget()
        self._leader_moves, self._is_called_here, self._last_progress = 0, False, ""
        self._restarting = (
            CommandOfDeadKipctl(step.process, step.called_on) if step.process else None
        )
        self._since = time.monotonic()
        while (step := self.record.step(broker)).phase is not Phase.DONE:
            if step.phase is not Phase.RESTARTING:
                self._require_no_pause()
            looked, snapshot = self._observe(step)
            self.guarding.look(self._restarting_node(step), snapshot)
            what = next_action(step.phase, looked)
            if what.act is Action.RESTART:
                what = self._look_before_restart(step, what)
            if what.act is Action.WAIT:
                self._wait(step, what.why, looked.command)
                continue
            self._do(step, what)
            self._since = time.monotonic()
        if self.new_waits:
            time.sleep(_CANARY_DELAY_S)
            self._note(self.record.step(broker))

    def _observe(self, step: Step) -> tuple[NodeState, Snapshot | None]:
        broker = step.broker
        is_up = self._watched.is_up(broker)
        if step.phase is Phase.RESTARTING:
            command = self._restarting.look() if self._restarting else CommandState.NOT_CALLED
            judged = NOT_OBSERVED
            if is_up and command is not CommandState.RUNNING:
                judged = self._judge_restart(step)
                is_up = judged is not NOT_OBSERVED
            said = self.was_restarted
            return NodeState(is_up, "", 0, command, self._is_called_here, judged, said), None
        try:
            snapshot, unmet = self.watcher.cluster_state()
            if step.is_voter and not unmet:
                unmet = self.watcher.quorum_unmet()
        except (UnreachableError, TimedOutError) as error:
            return NodeState(False, error.what), None
        return NodeState(is_up, unmet, movable_leaders(snapshot, broker)), snapshot

    def _judge_restart(self, step: Step) -> RestartVerdict:
        try:
            now = self._watched.mark(step.broker)
        except (UnreachableError, TimedOutError):
            return NOT_OBSERVED
        was_away = self._watched.was_away
        return judge_restart(step.mark, now, was_away=was_away, is_watched=self._is_called_here)

    def _restarting_node(self, step: Step) -> int | None:
        """The node that a guard does not miss: the one whose restart was called."""
        return step.broker if step.phase in (Phase.RESTARTING, Phase.RESTARTED) else None

    def _wait(self, step: Step, why: str, command: CommandState) -> None:
        now = time.monotonic()
        if command is CommandState.RUNNING and self._is_called_here:  # that has a time of its own
            self._since = now
        waited = now - self._since
        if waited > self.record.how.timeout_s:
            raise TimedOutError(f"After {self.record.how.timeout_s:g} s: {step.name}: {why}.")
        if why != self._last_progress:
            self._last_progress = why
            self._report(f"{step.name.capitalize()}: {why}")
        # A node that is away for a moment only has to be seen to be.
        longest_s = _POLL_S if step.phase is Phase.RESTARTING else _LAST_PAUSE_S
        time.sleep(min(max(_FIRST_PAUSE_S, waited * _SHARE_OF_WAIT), longest_s))

    def _report(self, text: str) -> None:
        steps = len(self.record.steps)
        self.progress(ProgressText(text, steps - len(self.record.left), steps))

    def _do(self, step: Step, what: NextAction) -> None:
        match what.act:
            case Action.LEADERS_OFF:
                self._leaders_off(step)
            case Action.RESTART:
                self._restart(step)
            case Action.NOTE_RESTARTED:
                self._note(step.begin(Phase.RESTARTED, seen_by=what.why))
                self.message(f"{step.name.capitalize()} is restarted: {what.why}.")
            case Action.LEADERS_BACK if step.is_controller_only:
                self._caught_up(step)
            case Action.LEADERS_BACK:
                self._leaders_back(step)
            case _:
                outcome = self._restarting.outcome if self._restarting else ""
                raise PartlyDoneError(
                    f"{what.why[:1].upper()}{what.why[1:]}{f': {outcome}' if outcome else ''}."
                    + (f" What it said is in {step.output}." if step.output else "")
                )

    def _leaders_off(self, step: Step) -> None:
        self._leader_moves += 1
        if self._leader_moves > _MAX_LEADER_MOVES:
            raise PartlyDoneError(
                f"Broker {step.broker} still leads partitions after {_MAX_LEADER_MOVES} times: they"
                " could not be moved off it, or somebody brings them back."
            )
        if step.phase is Phase.WAITING:
            step = self._save(step.begin(Phase.LEADERS_OFF))
        moved = self.leaders.move_off(step.broker, self.guarding)
        so_far = step.leaders_moved_off + moved
        self._note(step.begin(Phase.LEADERS_OFF, leaders_moved_off=so_far))
        self.message(f"Broker {step.broker}: {counted(moved, 'leader')} moved off it.")

    def _require_no_pause(self) -> None:
        """Raise PartlyDoneError when somebody has asked for a pause (`changes pause`)."""
        if self.record.is_to_pause:
            raise PartlyDoneError("Paused, as was asked for.")

    def _look_before_restart(self, step: Step, restart: NextAction) -> NextAction:
        """Returns the restart, or WAIT while something is behind or cannot be asked.

        Raises RefusedError if the restart would do harm. A roll that was killed as it called a
        restart does not wait: each look takes producer ids, and a new block of them would pass for
        a restart.
        """
        unmet = self._unmet_before_restart(step)
        if not unmet:
            began = time.monotonic()
            self.guarding.require_quiet(None)
            self._since += time.monotonic() - began  # a guard's pause has a time of its own
            self._require_no_pause()
            unmet = self._unmet_before_restart(step)
        return NextAction(Action.WAIT, unmet) if unmet else restart

    def _unmet_before_restart(self, step: Step) -> str:
        may_wait = step.phase is not Phase.RESTARTING
        chosen = None if step.is_controller_only else [step.broker]
        try:
            facts = self.watcher.facts()
            plan = plan_roll(
                facts,
                chosen,
                controllers=step.is_controller_only,
                spare=self.record.how.spare,
            )
        except (UnreachableError, TimedOutError, UsageError) as error:
            if may_wait:
                return error.what
            raise
        for unknown in plan.not_known:
            if unknown not in self._warned_of:
                self._warned_of.add(unknown)
                self.message(f"Not known: {unknown}")
        if plan.refused and may_wait and not facts.none_shown:
            return plan.refused[0]
        require_safe(plan, force=self.record.how.force)
        return ""

    def _restart(self, step: Step) -> None:
        """Call for the restart."""
        how = self.record.how
        mark = self._mark_before(step.broker)
        self._watched.forget()
        self._is_called_here = True
        if how.restarter is Restarter.MANUAL:
            self._save(step.begin(Phase.RESTARTING, mark=mark, process=None))
            self.message(f"Restart {step.place} now. When it is done press Enter.")
            operator = ManualRestart(self.stdin)
            operator.ask()
            self._restarting = operator
            return
        is_lab = how.restarter is Restarter.LAB
        called = RunningCommand(
            command_for(lab_command(how.lab) if is_lab else how.command, step),
            self.record.path.parent if is_lab else Path(how.folder),
            self.record.output_path(step.broker),
            how.exec_timeout_s,
            self.message,
        )
        calling = replace(step, process=called.prepare(), called_on=socket.gethostname())
        try:
            self._save(calling.begin(Phase.RESTARTING, mark=mark, output=str(called.output)))
        except BaseException:
            called.end()
            raise
        self.message(f"Restarting {step.place}.")
        called.go()
        self._restarting = called

    def _mark_before(self, broker: int) -> ProcessMark:
        deadline = time.monotonic() + self.record.how.timeout_s
        while True:
            try:
                return self._watched.mark(broker)
            except (UnreachableError, TimedOutError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)

    def _leaders_back(self, step: Step) -> None:
        step = self._note(step.reached(IN_SYNC))
        self.guarding.require_quiet(None)
        step = self._save(step.begin(Phase.LEADERS_BACK))
        brought = self.leaders.bring_back(self.guarding)
        self._done(step, f"Broker {step.broker}: {counted(brought, 'leader', 'are')} back", brought)

    def _caught_up(self, step: Step) -> None:
        self._done(step.reached(IN_SYNC), f"{step.name.capitalize()} is caught up")

    def _done(self, step: Step, what: str, brought_back: int = 0) -> None:
        so_far = step.leaders_brought_back + brought_back
        step = self._note(step.begin(Phase.DONE, leaders_brought_back=so_far))
        took = step.seconds(Phase.RESTARTING, Phase.DONE)
        after = f", {took:.1f} s after its restart was called" if took is not None else ""
        self.message(f"{what}{after}.")

    def _save(self, step: Step) -> Step:
        """Write down what is about to be done. Raises UsageError: then it is not to be done."""
        before = self.record
        try:
            return self._note(step)
        except UsageError:
            self.record = before
            raise

    def _note(self, step: Step) -> Step:
        """Write down what has been done: here it is known also where that raises UsageError."""
        if self.new_waits:
            waits = (step.waits_seconds or ()) + self.new_waits()
            step = replace(step, waits_seconds=waits)
        self.record = self.record.changed(step)
        self.record.written()
        return step

    @contextmanager
    def _explain_errors(self, broker: int) -> Iterator[None]:
        """Whatever stops it says at which node, what is left, and is written down."""
        try:
            yield
        except KeyboardInterrupt:
            raise self._explained(broker, InterruptedRunError("Interrupted.")) from None
        except KipctlError as error:
            raise self._explained(broker, error) from None

    def _explained(self, broker: int, error: KipctlError) -> KipctlError:
        why = "interrupted" if isinstance(error, InterruptedRunError) else error.what
        if given_up := self.guarding.given_up:
            why = given_up
            self._stopped(broker, why)
            error = PartlyDoneError(f"{why}{self._put_back(broker)}")
        elif isinstance(error, (RefusedError, UsageError)):
            if all(step.phase is Phase.WAITING for step in self.record.steps):
                if unwritten := self._end(broker, RollState.ABANDONED, why):
                    error.what += unwritten
                    error.next_step = "When it can be written: " + Command("roll --abandon")
                return error
            error = PartlyDoneError(why)
        error.what += f" {self._stopped(broker, why)}"
        error.next_step = GO_ON
        return error

    def _put_back(self, broker: int) -> str:
        """Where the guard is to roll back: the leaders of the broker in hand, if it is in sync."""
        if self.record.how.guard.action != "rollback":
            return ""
        step = self.record.step(broker)
        if step.phase is Phase.WAITING:
            return " No leader is to be put back."
        try:
            if step.is_controller_only:
                return " A controller leads no partitions: none is to be put back."
            if step.phase is Phase.RESTARTING or not self.watcher.is_up(broker):
                return f" Leaders of broker {broker} are not put back while it is restarted."
            if unmet := self.watcher.cluster_state()[1]:
                return f" Leaders are not put back: {unmet}."
            brought = self.leaders.bring_back(NO_GUARD)
        except KipctlError as failed:
            return f" Leaders were not put back: {failed.what}"
        if step.phase is Phase.LEADERS_OFF:
            step = step.begin(Phase.WAITING, leaders_moved_off=0)
        else:
            so_far = step.leaders_brought_back + brought
            step = step.begin(Phase.DONE, leaders_brought_back=so_far)
        with suppress(UsageError):  # that it cannot be written is said where it stopped
            self._note(step)
        return f" {counted(brought, 'leader', 'were')} put back."

    def _stopped(self, broker: int, why: str) -> str:
        """Where it stopped, which is written down as far as that can be."""
        unwritten = self._end(broker, RollState.STOPPED, why)
        return f"{self._position(broker)}{unwritten}"

    def _end(self, broker: int, state: RollState, why: str) -> str:
        """Write down how it ended; returns what to say where that cannot be written."""
        self.record = self.record.marked(state, why)
        try:
            self.record.written()
        except UsageError as failed:
            said = "" if failed.what == why else f" {failed.what}"
            try:
                left = read_roll(self.record.path)
            except UsageError as unreadable:
                return f"{said} {unreadable.what}"
            step = left.step(broker)
            return f"{said} Its record still says: {left.state}, {step.name} ({step.phase})."
        return ""

    def _position(self, broker: int) -> str:
        """At which node, how far it is, and what is left."""
        step = self.record.step(broker)
        left = ", ".join(str(node.broker) for node in self.record.left)
        running = ""
        if self._restarting and self._restarting.look() is CommandState.RUNNING and step.process:
            running = f" Its restart command goes on (process {step.process.pid})."
        return (
            f"Stopped at {step.name} ({step.phase});{running} {self.record.progress},"
            f" left: {left or 'none'}."
        )
