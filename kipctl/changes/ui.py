"""What a change says, asks and answers: to a terminal, or to another program."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

from kipctl.changes.execution.cancellation import Cancellation, Cancelled
from kipctl.changes.execution.disk_moves import DiskResult
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.journal.entry import Entry
from kipctl.changes.left_throttles import LeftThrottles
from kipctl.changes.plans.disks import DiskMove
from kipctl.changes.plans.phases import Phase
from kipctl.changes.plans.plan import Plan, SkippedPartition
from kipctl.changes.plans.plan_summary import PlanSummary
from kipctl.changes.proposal import ElectionProposal, UncleanProposal, UncleanResult, Undone
from kipctl.changes.throttle import Throttle
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import Snapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlanShown:
    """What a dry run finds: the plan, what it comes to, and what else is being reassigned (`busy`).

    `throttle` is in bytes per second in and out of each broker. `about`, and the sentences of
    `opening`, are of an entry that is gone on with or undone. `phases` are those that the plan is
    to be carried out in, if it is.
    """

    plan: Plan
    summary: PlanSummary
    elects: bool = True
    throttle: int | None = None
    busy: tuple[Reassignment, ...] = ()
    about: Mapping[str, object] = field(default_factory=dict)
    opening: tuple[str, ...] = ()
    closing: tuple[str, ...] = ("Nothing was changed.",)
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class DisksShown:
    """Replicas that move between the disks of their brokers, or are no more copied, where those of
    the entry are `given_up`; `done` is None for a dry run."""

    moves: tuple[DiskMove, ...]
    skipped: tuple[SkippedPartition, ...] = ()
    throttle: int | None = None
    done: DiskResult | None = None
    entry: Entry | None = None
    given_up: Entry | None = None


class ChangeUi:
    """Says nothing and agrees to everything; a terminal's is `kipctl.cli.commands.change_ui`.

    A program that is asked may raise RefusedError in `confirm`: then nothing is changed.
    """

    @property
    def asks(self) -> bool:
        """Whether somebody answers `confirm`: else only a change that is named, or has just been
        made, is undone."""
        return False

    def say(self, sentence: str) -> None:
        """Something to know beside the result."""

    def confirm(self, question: str, typed: str = "") -> None:
        """Return if it may begin; `typed` is what a person has to type for that, if not yes.
        Raises RefusedError or UsageError if not."""

    def progress(self, title: str) -> AbstractContextManager[Callable[[str], None]]:
        """Inside, what is yielded takes how far it is, in a few words."""
        return nullcontext(lambda text: None)

    def question(
        self, plan: Plan, summary: PlanSummary, throttle: int | None, *, is_rest: bool = False
    ) -> None:
        """What is about to be confirmed; `is_rest` where more is done than the plan has."""

    def measured(self, act: Callable[[], T], *, moves_leaders: bool) -> T:
        """Act, and maybe measure what that costs clients; `moves_leaders` says whether leaders of
        the topic that is measured on move along."""
        return act()

    def plan(self, shown: PlanShown) -> None:
        """The result of a dry run."""

    def preferred_election(self, seen: ElectionProposal) -> None:
        """The result of a dry run of an election, and of one that nothing is to be done for."""

    def unclean_election(self, seen: UncleanProposal, *, is_result: bool) -> None:
        """What may be lost: to be confirmed, or the result of a dry run."""

    def elected(self, done: UncleanResult, before: Snapshot) -> None:
        """Leaders were elected that may not have every record."""

    def moved(
        self,
        done: PlanResult,
        before: Snapshot,
        after: Snapshot,
        plan: Plan,
        emptied: Sequence[int] = (),
    ) -> None:
        """Replicas and leaders were moved; `plan` says what was left alone, and the brokers
        `emptied` have no replica any more."""

    def throttle(self, throttle: Throttle, first: str, *, is_removal: bool = False) -> None:
        """What was set, or would be, with a sentence about it; or what would be put back."""

    def left_throttles(self, left: LeftThrottles, not_restored: int | None = None) -> None:
        """Throttles that would be put back, or were, but so many."""

    def disks(self, shown: DisksShown) -> None:
        """Replicas were moved between disks, or would be."""

    def to_cancel(self, chosen: Cancellation, others: Sequence[str]) -> None:
        """The result of a dry run of a cancellation."""

    def cancelled(self, done: Cancelled, after: Snapshot, others: Sequence[str]) -> None:
        """Reassignments were."""

    def undone(self, done: Undone, after: Snapshot) -> None:
        """A change was undone, as far as it could be."""

    def stopped(
        self, entry: Entry | None, why: str, undone: tuple[Undone, Snapshot] | None
    ) -> None:
        """A guarded change was, and maybe undone then."""
