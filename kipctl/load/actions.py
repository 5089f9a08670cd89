"""What is done to a cluster while a probe measures: rotations, elections, broker restarts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from kipctl.changes.elections.batches import elect_preferred
from kipctl.changes.execution.plan_execution import reassign, rotate_own_topics
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.plans.planners.rotate_leaders import replace_leaders, rotate
from kipctl.cluster.acls import require_to_move_leaders
from kipctl.cluster.kafka_release import kafka_release
from kipctl.cluster.metadata_convergence import ClusterEvent
from kipctl.cluster.snapshot import take_snapshot
from kipctl.cluster.topics import await_topic
from kipctl.counts import counted
from kipctl.documents.common import Action as ActionDocument
from kipctl.errors import InterruptedRunError, KipctlError, RefusedError, UsageError
from kipctl.lab.cluster import Lab, running_labs
from kipctl.next_step import Command, NextStep
from kipctl.trace.clock import now_us
from kipctl.transport.request import Cluster


class ActionKind(StrEnum):
    """ROTATE reorders the replicas of every partition and elects; ELECT does the reordering
    beforehand, so that the action is the election alone; REASSIGN gives every partition another
    broker instead of its leader; RESTART stops and starts a lab's broker.
    """

    ROTATE = "rotate"
    ELECT = "elect"
    REASSIGN = "reassign"
    RESTART = "restart"


@dataclass(frozen=True, slots=True)
class Action:
    """One kind of action; `broker` is only for RESTART."""

    kind: ActionKind
    broker: int = -1

    def __str__(self) -> str:
        return f"{self.kind}:{self.broker}" if self.kind is ActionKind.RESTART else str(self.kind)


def parse_action(text: str) -> Action:
    """`rotate`, `elect`, `reassign` or `restart:BROKER`. Raises UsageError."""
    name, colon, broker = text.partition(":")
    if name in (ActionKind.ROTATE, ActionKind.ELECT, ActionKind.REASSIGN) and not colon:
        return Action(ActionKind(name))
    if name == ActionKind.RESTART and broker.isdigit():
        return Action(ActionKind.RESTART, int(broker))
    raise UsageError(
        f"--during {text!r} is no action.",
        "Give rotate, elect, reassign, or restart:BROKER (a broker id).",
    )


@dataclass(slots=True)
class Performed:
    """An action that was carried out. Times are monotonic microseconds."""

    action: Action
    called_us: int
    answered_us: int = 0
    """When the controller (or the broker's process) had done it."""
    converged_us: int = 0
    """When the Metadata of every broker showed it."""
    partitions: int = 0
    error: str | None = None

    def as_document(self, start_us: int) -> ActionDocument:
        """For JSON: milliseconds since the run's start."""

        def ms(time_us: int) -> float | None:
            return (time_us - start_us) / 1000 if time_us else None

        return {
            "action": str(self.action),
            "called_ms": ms(self.called_us),
            "answered_ms": ms(self.answered_us),
            "converged_ms": ms(self.converged_us),
            "partitions": self.partitions,
            "error": self.error,
        }


def describe(number: int, done: Performed) -> str:
    """An action and what came of it, in a line."""
    what = f"{done.action} {number}: "
    if done.error or not done.converged_us:
        return what + (done.error or "under way")
    took_ms = (done.answered_us - done.called_us) / 1000
    spread_ms = (done.converged_us - done.answered_us) / 1000
    return (
        f"{what}{counted(done.partitions, 'partition')} in {took_ms:.0f} ms, "
        f"all brokers knew {spread_ms:.0f} ms later."
    )


@dataclass(slots=True)
class Performer:
    """Carries out one action again and again on one topic, and keeps what happened and when."""

    cluster: Cluster
    topic: str
    action: Action
    performed: list[Performed] = field(default_factory=list)
    events: list[ClusterEvent] = field(default_factory=list)

    def perform(self) -> Performed:
        """Do it once and wait until every broker shows it.

        A refusal or a timeout by the cluster is kept as the action's error. Raises
        InterruptedRunError, or KeyboardInterrupt, on Ctrl-C.
        """
        carry_out: dict[ActionKind, Callable[[Performed], None]] = {
            ActionKind.ROTATE: self._rotate,
            ActionKind.ELECT: self._elect,
            ActionKind.REASSIGN: self._reassign,
            ActionKind.RESTART: self._restart,
        }
        performed = Performed(self.action, now_us())
        self.performed.append(performed)
        try:
            carry_out[self.action.kind](performed)
        except InterruptedRunError:
            raise
        except KipctlError as error:
            performed.error = error.what
        return performed

    def _moved(self, performed: Performed, moved: PlanResult) -> None:
        performed.answered_us = moved.election_outcome.answered_us
        performed.converged_us = moved.election_outcome.converged_us
        performed.partitions = len(moved.election_outcome.outcomes)
        if moved.failures:
            performed.error = (
                f"{counted(len(moved.failures), 'partition')} failed: {moved.failures[0]}"
            )

    def _rotate(self, performed: Performed) -> None:
        self._moved(performed, rotate_own_topics(self.cluster, [self.topic], self.events.append))

    def _elect(self, performed: Performed) -> None:
        before = take_snapshot(self.cluster, [self.topic])
        plan = rotate(before)
        reassign(self.cluster, plan)
        performed.called_us = now_us()
        held = elect_preferred(
            self.cluster, plan.preferred_leaders, before, on_event=self.events.append
        )
        self._moved(performed, PlanResult(election=held))

    def _reassign(self, performed: Performed) -> None:
        before = take_snapshot(self.cluster, [self.topic])
        plan = replace_leaders(before)
        if not plan.moves:
            raise RefusedError(f"No partition can be reassigned: {plan.skipped[0].reason}.")
        done = reassign(self.cluster, plan, on_event=self.events.append)
        # The controller has elected another leader; where that is not the first, it is now.
        held = elect_preferred(
            self.cluster, done.plan.preferred_leaders, before, on_event=self.events.append
        )
        self._moved(performed, PlanResult(election=held))

    def _restart(self, performed: Performed) -> None:
        lab = lab_of(self.cluster)
        try:
            lab.restart(self.action.broker)
        except KeyboardInterrupt:
            raise InterruptedRunError(
                NextStep(
                    f"Broker {self.action.broker} was being restarted; see that it runs: ",
                    Command("lab status"),
                    ", ",
                    Command("lab start", self.action.broker, name=lab.name),
                    ".",
                )
            ) from None
        performed.answered_us = now_us()
        partitions = len(take_snapshot(self.cluster, [self.topic]).partitions)
        await_topic(self.cluster, self.topic, partitions)
        performed.converged_us = now_us()
        performed.partitions = partitions


def lab_of(cluster: Cluster) -> Lab:
    """The running lab that this cluster is. Raises UsageError when it is none."""
    cluster_id = cluster.metadata(()).cluster_id
    for lab in running_labs():
        if lab.cluster_id == cluster_id:
            return lab
    raise UsageError(
        "A broker can be restarted only on a lab, and this cluster is none.",
        "Start one with `" + Command("lab up") + "`, or use --during rotate, elect or reassign.",
    )


def kafka_version(cluster: Cluster) -> str | None:
    """The cluster's exact version if it is a lab, else its release, else None."""
    try:
        return lab_of(cluster).kafka_version
    except UsageError:
        return kafka_release(cluster)


def check_action(cluster: Cluster, action: Action) -> None:
    """Raise UsageError if the action cannot be done on this cluster, and RefusedError for a client
    that may not do it."""
    if action.kind is not ActionKind.RESTART:
        require_to_move_leaders(cluster)
        return
    lab = lab_of(cluster)
    if action.broker not in cluster.nodes:
        known = ", ".join(map(str, sorted(cluster.nodes)))
        raise UsageError(f"Lab {lab.name!r} has no broker {action.broker}; it has {known}.")
