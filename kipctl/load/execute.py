"""A run under way: actions on the cluster on time, until its load is done or Ctrl-C ends it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from kipctl.changes.execution.journaled_action import journaled_action
from kipctl.changes.journal.journal import journal
from kipctl.cluster.metadata_convergence import ClusterEvent
from kipctl.cluster.snapshot import Snapshot
from kipctl.cluster.topics import await_topics
from kipctl.documents.common import Action
from kipctl.errors import (
    InterruptedRunError,
    PartlyDoneError,
    PipelineError,
    TimedOutError,
    UnreachableError,
)
from kipctl.load.actions import Performed, Performer, describe
from kipctl.load.live import RunProgress
from kipctl.load.plan import OWN_TOPIC, RunPlan
from kipctl.load.start import Probe
from kipctl.machine import busy_share, cpu_times
from kipctl.next_step import Command, joined
from kipctl.probe.run import AnyOutcome
from kipctl.probe.schedule import Schedule
from kipctl.signals import Cut
from kipctl.trace.clock import now_us
from kipctl.trace.store import Run
from kipctl.transport.request import Cluster

_LOOK_US = 50_000
_SETTLED_S = 15.0
_NOTABLE = 1e-4
"""From here on a rate is another one, as a share of the one asked for."""

AnyResult = TypeVar("AnyResult")
AnyResult_co = TypeVar("AnyResult_co", covariant=True)


class RunningLoad(Protocol[AnyResult_co]):
    """A load at work: a probe, or another client."""

    def outcome(self) -> AnyResult_co:
        """Wait until it is done."""

    def is_done_by(self, time_us: int, /) -> bool:
        """Whether it is done; waits for it until a moment of the monotonic clock."""

    def stop(self) -> None:
        """Ask it to send, or read, no further records."""


@dataclass(slots=True)
class Listeners:
    """Callbacks while it runs: `message` for steps, `interval` for Kafka's interval lines, if any.

    Where there is a `screen` it shows how far the run is, its intervals and actions instead.
    """

    message: Callable[[str], None] = field(default=lambda _: None)
    interval: Callable[[str], None] | None = None
    screen: Callable[[RunProgress], None] | None = None
    performed: list[Performed] = field(default_factory=list)
    """Actions of the run so far; the last one may be under way."""


@dataclass(frozen=True, slots=True)
class Executed(Generic[AnyResult]):
    """A run that is over: the load's outcome, and what was done and seen meanwhile.

    `cut_off`: Ctrl-C ended it. `interrupted` says how far the action came that it cut off.
    """

    outcome: AnyResult
    cut_off: bool
    interrupted: str
    performed: list[Performed]
    events: list[ClusterEvent]
    start_us: int
    busy: float | None = None
    """The share of this machine's CPU time that was used meanwhile."""
    ended_by_actions: bool = False
    """The load had no end of its own."""

    @property
    def actions(self) -> list[Action]:
        """As JSON has them, in milliseconds since the start of the load."""
        return [action.as_document(self.start_us) for action in self.performed]


@contextmanager
def actions_can_be_undone(
    plan: RunPlan, cluster: Cluster, before: Snapshot, message: Callable[[str], None]
) -> Iterator[None]:
    """Keep in the journal where the topic's partitions are, if the plan's actions move them."""
    if not plan.moves_leaders:
        yield
        return
    entries = journal(before.cluster_id)
    with journaled_action(
        cluster, entries, before, message, copies=plan.copies_data, command=plan.command
    ):
        yield


def await_settled_leaders(
    cluster: Cluster,
    topic: str,
    plan: RunPlan,
    message: Callable[[str], None],
    timeout_s: float = _SETTLED_S,
) -> None:
    """Where something is to be done to leaders, wait until those of before have settled.

    What an earlier run, or its end, has moved would be met by this one, and counted. A topic that
    does not settle (a replica is behind) is reported, and measured as it is.
    """
    if plan.during is None:
        return
    try:
        await_topics(cluster, [topic], timeout_s=timeout_s)
    except (TimedOutError, UnreachableError) as unsettled:
        message(f"The run begins while leaders may still move: {unsettled.what}")


class Actions(Protocol):
    """What is done to a cluster while a load is at work."""

    performed: list[Performed]
    events: list[ClusterEvent]

    def carry_out(self, load: RunningLoad[object], schedule: Schedule) -> bool:
        """Do it; returns whether that is the end of the load."""


class PlannedActions:
    """A plan's action on a topic, as often as it is due while the load is at work, or until it is
    `enough`: that ends the load."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        plan: RunPlan,
        listeners: Listeners | None = None,
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        self.plan, self._listeners, self._enough = plan, listeners or Listeners(), enough
        self.performed = self._listeners.performed
        self._performer = plan.during and Performer(cluster, topic, plan.during, self.performed)
        self.events = self._performer.events if self._performer else []

    def carry_out(self, load: RunningLoad[object], schedule: Schedule) -> bool:
        """See Actions."""
        if not self._performer:
            return False
        plan, number, free_us = self.plan, 0, schedule.start_us
        while not plan.count or number < plan.count:
            number += 1
            begins_us = action_begins_us(schedule, number, plan.every_s, free_us)
            if begins_us is None or load.is_done_by(begins_us):
                break
            if self._enough():
                return True
            done = self._performer.perform()
            if not self._listeners.screen:
                self._listeners.message(describe(number, done))
            free_us = now_us()
        return False


def execute(
    probe: Probe[AnyOutcome], actions: Actions, listeners: Listeners, cut: Cut
) -> Executed[AnyOutcome]:
    """Do something meanwhile until the probe is done.

    Ctrl-C stops the probe in good order; then its outcome is `stopped`, also when all was sent. A
    second one does not wait for what is under way.
    """
    report_rate(probe.schedule, listeners.message)
    stopped = partial(settled, probe, cut)
    executed = execute_load(probe, probe.schedule, actions, listeners.message, stopped, cut)
    is_stopped = executed.outcome.stopped and not executed.ended_by_actions
    outcome = replace(executed.outcome, stopped=executed.cut_off or is_stopped)
    return replace(executed, outcome=outcome)


def settled(probe: Probe[AnyOutcome], cut: Cut) -> AnyOutcome:
    """Stop the probe and wait for what is under way, until Ctrl-C; returns its outcome."""
    try:
        probe.stop()
        while not probe.is_done_by(now_us() + _LOOK_US):
            if cut.again:
                return probe.give_up()
        return probe.outcome()
    except KeyboardInterrupt:
        return probe.give_up()


def execute_load(
    load: RunningLoad[AnyResult],
    schedule: Schedule,
    actions: Actions,
    message: Callable[[str], None] = lambda _: None,
    stopped: Callable[[], AnyResult] | None = None,
    cut: Cut | None = None,
) -> Executed[AnyResult]:
    """Do something meanwhile until a load that follows this schedule is done.

    Ctrl-C stops it in good order, by `stopped` if that is given. With `cut` one that comes later
    is put off.
    """
    cut_off, ended, interrupted = False, False, ""
    began = cpu_times()
    try:
        if ended := actions.carry_out(load, schedule):
            load.stop()
        outcome = load.outcome()
        if cut:
            cut.put_off()
    except (KeyboardInterrupt, InterruptedRunError) as ctrl_c:
        cut_off = True
        if isinstance(ctrl_c, InterruptedRunError):
            interrupted = ctrl_c.what.removeprefix("Interrupted. ")
        message("Stopping: what is under way is waited for.")
        outcome = (stopped or partial(_stopped, load))()
    return Executed(
        outcome,
        cut_off,
        interrupted,
        actions.performed,
        actions.events,
        schedule.start_us,
        busy_share(began, cpu_times()),
        ended,
    )


def _stopped(load: RunningLoad[AnyResult]) -> AnyResult:
    load.stop()
    return load.outcome()


def action_begins_us(schedule: Schedule, number: int, every_s: float, free_us: int) -> int | None:
    """When action `number` (from 1) begins, in monotonic microseconds; None if it does not.

    It is due every so many seconds after the start, and waits for the one before it, which was over
    at `free_us`. Without load there is nothing to measure: none begins when the last record is
    due, or later. Unthrottled nobody knows when that is.
    """
    begins_us = max(schedule.start_us + round(number * every_s * 1e6), free_us)
    if schedule.throttled and begins_us >= schedule.intended_us(schedule.num_records - 1):
        return None
    return begins_us


def report_rate(schedule: Schedule, message: Callable[[str], None]) -> None:
    """Say so when whole nanoseconds between records make another rate than the one asked for."""
    asked, paced = schedule.rate, schedule.paced_rate
    if schedule.throttled and abs(paced - asked) > _NOTABLE * asked:
        message(
            f"Records are due every {schedule.interval_ns} ns, so it is {paced:,.0f} records/s "
            f"instead of {asked:,.0f}."
        )


def check_end(
    executed: Executed[AnyOutcome],
    plan: RunPlan,
    topic: str,
    run: Run | None,
    message: Callable[[str], None],
    *,
    broke_off: str,
    interrupted: str,
    figures: Sequence[str],
) -> None:
    """See that a run came to its end, once what was measured is recorded.

    Raises PartlyDoneError (with workers PipelineError) for one that `broke_off`, and
    InterruptedRunError, with what they are given to say of it and how to put back leaders of
    somebody's topic. Says so when fewer actions happened than were asked for.
    """
    outcome, happened = executed.outcome, len(executed.performed)
    undo: str = ""
    if happened and plan.moves_leaders and topic != OWN_TOPIC:
        how = "Leaders were moved. What undoes it is said above, and by: "
        undo = how + Command("changes list")
    if outcome.failure:
        recorded = f" What is known is in {run.folder}." if run else ""
        error = PipelineError if plan.on_spark else PartlyDoneError
        raise error(f"{outcome.failure} {broke_off}{recorded}", undo)
    if outcome.stopped:
        recorded = "What was measured: " + Command("runs show", run.folder) if run else ""
        # What has lines is the next step: the error itself is shown on one.
        steps = filter(None, (*figures, recorded, executed.interrupted.strip(), undo))
        raise InterruptedRunError(f"Interrupted: {interrupted}", joined("\n", steps))
    wanted = (plan.count or 1) if plan.during else 0
    if happened < wanted:
        message(
            f"{happened} of {wanted} actions happened before the records were through: "
            f"take more of them, or act more often than every {plan.every_s:g} s (--every)."
        )
