"""What a change of a cluster is: an object that says what each step of the one way is for it.

`kipctl.changes.carry_out` calls the steps, in the order in which they stand here.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.plan_execution import ExecutionSettings
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.execution.reassign import Failure, topic_ids
from kipctl.changes.execution.throttled_change import kept_throttles, throttle_for, throttled
from kipctl.changes.journal.entry import NOTHING_CHANGED, Entry, ExecutionOptions
from kipctl.changes.journal.journal import Journal
from kipctl.changes.plans.log_sizes import ask_log_sizes
from kipctl.changes.plans.plan import Plan
from kipctl.changes.proposal import Proposal, emptied_brokers
from kipctl.changes.throttle import NotRestored
from kipctl.changes.ui import PlanShown
from kipctl.cluster.snapshot import Snapshot
from kipctl.errors import InterruptedRunError, KipctlError, TimedOutError, UnreachableError
from kipctl.next_step import Command


class Result(Protocol):
    """What became of a change, by partition."""

    @property
    def failures(self) -> tuple[Failure, ...]: ...

    @property
    def done(self) -> int: ...

    @property
    def has_changed(self) -> bool: ...


class Counted(Protocol):
    """What a change looked at."""

    @property
    def partitions(self) -> Sequence[object]: ...


@dataclass(slots=True)
class ChangeRun:
    """A change that is being carried out, in the lock of the journal if it `is_locked`.

    `entry` is its own, once there is one; `settings` say how it is carried out, and who follows
    it. `not_restored` is what of a throttle could not be put back.
    """

    context: ChangeContext
    journal: Journal
    entry: Entry | None = None
    settings: ExecutionSettings = field(default_factory=ExecutionSettings)
    is_locked: bool = True
    not_restored: list[NotRestored] = field(default_factory=list)


@contextmanager
def nothing_changed_yet() -> Iterator[None]:
    """Whoever stops it inside, or what it cannot reach then, is told so."""
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError("Interrupted before anything was changed.") from None
    except (TimedOutError, UnreachableError) as error:
        error.what += f" {NOTHING_CHANGED}"
        raise


Seen = TypeVar("Seen", bound=Counted)
Done = TypeVar("Done", bound=Result)
SeenReplicas = TypeVar("SeenReplicas", bound=Proposal)


class Change(Generic[Seen, Done]):
    """One change. Its methods may raise KipctlError."""

    @property
    def moves_measured(self) -> bool:
        """Whether leaders of what is measured on (`ChangeContext.measured_on`) move along."""
        return False

    def look(self, context: ChangeContext) -> Seen:
        """What is to be done to the cluster as it is now. In a dry run it needs no right to
        change anything."""
        raise NotImplementedError

    def show(self, context: ChangeContext, seen: Seen) -> None:
        """Show what would be done: the result of a dry run."""
        raise NotImplementedError

    def end_without(self, context: ChangeContext, seen: Seen) -> None:
        """End where there is nothing to do."""
        self.show(context, seen)

    def refuse(self, context: ChangeContext, seen: Seen) -> None:
        """Raise RefusedError for what must not be done."""

    def require_free(self, run: ChangeRun) -> None:
        """Raise RefusedError, before anybody is asked, while another kipctl changes the cluster."""
        with self.locked(run):
            pass

    def announce(self, context: ChangeContext, seen: Seen) -> None:
        """Show what is to be confirmed."""

    def question(self, seen: Seen) -> str:
        raise NotImplementedError

    def typed(self, seen: Seen) -> str:
        """What has to be typed to agree, if yes is not enough."""
        return ""

    def locked(self, run: ChangeRun) -> AbstractContextManager[None]:
        """Inside, no other kipctl changes the cluster."""
        return run.context.locked(run.journal)

    def leaders_along(self, seen: Seen) -> int:
        """With so many partitions leaders of a canary's topic are to move."""
        return 0

    def watched(self, run: ChangeRun, seen: Seen) -> AbstractContextManager[None]:
        """Inside, what the guard looks by runs: begun before anything is changed."""
        batches = -(-self.leaders_along(seen) // run.context.pace.batch)
        return run.context.guard.canary(batches)

    def look_again(self, run: ChangeRun, seen: Seen) -> Seen:
        """The same, right before it is done. Raises RefusedError where it is not what was
        confirmed."""
        return self.look(run.context)

    def recorded(self, run: ChangeRun, again: Seen) -> AbstractContextManager[Entry | None]:
        """Inside, it is written down, and copies no faster than its throttle allows."""
        raise NotImplementedError

    def title(self, again: Seen) -> str:
        """What is going on, for whoever follows the progress; "" for what takes no time."""
        return ""

    def execute(self, run: ChangeRun, again: Seen) -> Done:
        """Do it, and wait until it is done."""
        raise NotImplementedError

    def finish(self, run: ChangeRun, again: Seen, done: Done) -> None:
        """What is left to be written down, or to be put back."""

    def report(self, run: ChangeRun, seen: Seen, again: Seen, done: Done) -> None:
        """Tell what became of it."""
        raise NotImplementedError

    def next_step(self, run: ChangeRun) -> str:
        """For a change that is not all done."""
        entry = run.entry
        if entry is None or not entry.kind.has_way_back:
            return ""
        return "Undo: " + Command("undo", run.context.named(entry))

    def require_ended(self, run: ChangeRun, again: Seen, done: Done) -> None:
        """Raise KipctlError where more is left than what failed."""


class ReplicaChange(Change[SeenReplicas, Done]):
    """A change of replicas, of their order, and of who leads them."""

    elects: bool = True
    """Whether preferred leaders are elected after each batch."""

    def propose(self, context: ChangeContext) -> SeenReplicas:
        """What is to be done, without how large it is."""
        raise NotImplementedError

    def look(self, context: ChangeContext) -> SeenReplicas:
        seen = self.propose(context)
        if not seen.plan.copies_data:
            return seen
        return replace(seen, logs=ask_log_sizes(context.cluster, seen.snapshot))

    def about(self, seen: SeenReplicas) -> dict[str, object]:
        """What the document of a dry run has beside the plan."""
        return {}

    def beside_the_plan(self, seen: SeenReplicas) -> Iterator[str]:
        """What is done beside submitting the plan, and whose change it is about."""
        yield from ()

    def show(self, context: ChangeContext, seen: SeenReplicas) -> None:
        if seen.plan.copies_data:
            with suppress(KipctlError):  # of a cluster without an id nothing is kept
                context.say_throttles_of_others(context.journal(), seen.plan)
        context.ui.plan(
            PlanShown(
                seen.plan,
                seen.summary,
                self.elects,
                context.throttle,
                (*seen.under_way, *seen.others),
                self.about(seen),
                opening=tuple(self.beside_the_plan(seen)),
                phases=seen.phases,
            )
        )

    def refuse(self, context: ChangeContext, seen: SeenReplicas) -> None:
        context.require_no_reassignments(seen.others)
        context.require_possible(seen.plan, seen.summary)

    def announce(self, context: ChangeContext, seen: SeenReplicas) -> None:
        beside = tuple(self.beside_the_plan(seen))
        for sentence in beside:
            context.ui.say(sentence)
        context.show(seen.plan, seen.summary, is_rest=bool(beside))

    @contextmanager
    def journal_as(
        self, run: ChangeRun, plan: Plan, undoes: str = "", phases: Sequence[Plan] = ()
    ) -> Iterator[Entry]:
        """Inside, this plan, and its phases, are in the journal, throttled as its pace says.

        Afterwards every setting is what it was; what could not be put back is in
        `run.not_restored`, for `require_restored` once what was done is reported. While something
        is still being copied, as after Ctrl-C or at the end of a time allowed, the throttle stays,
        and it is said what removes it. Raises RefusedError, UnreachableError, TimedOutError,
        UsageError when it cannot be written down, PartlyDoneError when a throttle could be neither
        set nor put back, and InterruptedRunError.
        """
        context, pace = run.context, run.context.pace
        how = ExecutionOptions(
            pace.batch, pace.between_s, self.elects, pace.throttle, pace.concurrent
        )
        copied = [move for phase in phases or (plan,) for move in phase.moves]
        with nothing_changed_yet():
            entry = run.journal.save(
                {move.id: move.before for move in plan.moves},
                plan.target,
                context.origin,
                topic_ids(context.cluster, plan.topics),
                undoes,
                how,
                throttle_for(context.cluster, copied, how, kept_throttles(run.journal)),
                leaders={move.id: move.leader for move in plan.moves},
                guard=context.guard.record,
                phases=[phase.target for phase in phases],
            )
        say, left = context.ui.say, run.not_restored
        with throttled(context.cluster, entry, plan.moves, say, left):
            yield entry

    @contextmanager
    def recorded(self, run: ChangeRun, again: SeenReplicas) -> Iterator[Entry | None]:
        with self.journal_as(run, again.plan) as entry:
            yield entry


def report_moves(
    context: ChangeContext,
    seen: Proposal,
    before: Snapshot,
    done: PlanResult,
) -> None:
    """Tell what became of what was seen, with the cluster right `before` it was done."""
    after = context.final_snapshot(sorted({partition.topic for partition in seen.partitions}))
    emptied = emptied_brokers(before, after)
    context.ui.moved(done, before.only(seen.partitions), after, seen.plan, emptied)
