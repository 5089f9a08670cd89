"""What a change says and asks on a terminal, and its results as reports."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from kipctl.changes.execution.cancellation import Cancellation, Cancelled
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.journal.entry import Entry
from kipctl.changes.left_throttles import LeftThrottles
from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.plan_summary import PlanSummary, document
from kipctl.changes.proposal import ElectionProposal, UncleanProposal, UncleanResult, Undone
from kipctl.changes.throttle import Throttle
from kipctl.changes.ui import ChangeUi, DisksShown, PlanShown
from kipctl.cli.environment import Environment
from kipctl.cluster.snapshot import Snapshot
from kipctl.guard.session import ActiveGuard
from kipctl.report.disk_tables import disks_report, with_copies
from kipctl.report.election_tables import elected_report, not_preferred_report, unclean_report
from kipctl.report.formats import OutputFormat
from kipctl.report.guard_tables import with_guard_table
from kipctl.report.leader_tables import limit_rows, moved_report
from kipctl.report.plan_tables import copied_lines, plan_sentence
from kipctl.report.reassign_tables import (
    REASSIGN,
    cancelled_report,
    ongoing_report,
    plan_report,
    question_table,
    reassigned_report,
    stopped_report,
    undone_report,
    with_skipped,
)
from kipctl.report.tables import Report, paragraphs
from kipctl.report.throttle_tables import left_report, throttle_report

if TYPE_CHECKING:
    from kipctl.documents.runs import ProduceDocument
    from kipctl.transport.request import Cluster

T = TypeVar("T")


@dataclass(slots=True)
class TerminalUi(ChangeUi):
    """It `measures` what a change costs a producer."""

    environment: Environment
    cluster: "Cluster"
    guard: ActiveGuard
    output: OutputFormat
    yes: bool = False
    dry_run: bool = False
    measures: bool = False
    _measured: "ProduceDocument | None" = field(default=None, init=False)
    """The document of what it cost."""

    def report(self, report: Report) -> None:
        """Print it, with what the guard saw; in a dry run, what it sees now."""
        if self.dry_run:
            self.guard.look_only()
        report = replace(report, command=self.environment.command)
        self.environment.report(
            limit_rows(with_guard_table(report, self.guard.monitor.guard)), self.output
        )

    @property
    def asks(self) -> bool:
        return not self.yes

    def say(self, sentence: str) -> None:
        self.environment.message(sentence)

    def confirm(self, question: str, typed: str = "") -> None:
        self.environment.confirm(question, self.yes, typed=typed)

    def throttle(self, throttle: Throttle, first: str, *, is_removal: bool = False) -> None:
        self.report(throttle_report(throttle, first, is_removal=is_removal))

    def left_throttles(self, left: LeftThrottles, not_restored: int | None = None) -> None:
        access, is_dry_run = self.cluster.access, self.dry_run
        self.report(left_report(left, access, is_dry_run=is_dry_run, not_restored=not_restored))

    def progress(self, title: str) -> AbstractContextManager[Callable[[str], None]]:
        return self.environment.progress(title)

    def question(
        self, plan: Plan, summary: PlanSummary, throttle: int | None, *, is_rest: bool = False
    ) -> None:
        """In a few lines; where somebody is asked, also the plan."""
        shown = document(summary, throttle)
        first = plan_sentence(shown, is_rest=is_rest)
        for line in (first, *map(str, summary.skip_reasons[:3]), *copied_lines(shown)):
            self.say(line)
        if plan.moves and not self.yes and self.environment.stdin.isatty():
            self.environment.show(Report(REASSIGN, {}, (question_table(plan, shown),)))

    def measured(self, act: Callable[[], T], *, moves_leaders: bool) -> T:
        if not self.measures:
            return act()
        from kipctl.load.execute import Listeners
        from kipctl.load.produce import measure_during

        listeners = Listeners(self.environment.message)
        done, load = measure_during(act, self.cluster, listeners, moves_leaders=moves_leaders)
        self._measured = load.document
        return done

    def plan(self, shown: PlanShown) -> None:
        self.report(plan_report(shown))

    def preferred_election(self, seen: ElectionProposal) -> None:
        self.report(not_preferred_report(seen))

    def unclean_election(self, seen: UncleanProposal, *, is_result: bool) -> None:
        report = unclean_report(
            seen.leaderless,
            len(seen.chosen.partitions),
            seen.transactions,
            self.cluster.access,
            is_dry_run=self.dry_run,
        )
        if is_result:
            self.report(report)
        else:
            self.environment.show(limit_rows(report))

    def elected(self, done: UncleanResult, before: Snapshot) -> None:
        report = moved_report(self.environment.command, done.moved, before, done.after)
        self.report(elected_report(report, done, self.cluster.access))

    def moved(
        self,
        done: PlanResult,
        before: Snapshot,
        after: Snapshot,
        plan: Plan,
        emptied: Sequence[int] = (),
    ) -> None:
        if done.election is None:
            report = reassigned_report(done, after)
        else:
            report = moved_report(REASSIGN, done, before, after)
        report = with_skipped(report, plan)
        report = replace(report, document={**report.document, "emptied_brokers": emptied})
        if self._measured is not None:
            from kipctl.report.perf_tables import moves_answer, perf_tables

            report = replace(
                report,
                document={**report.document, "measured": self._measured},
                tables=report.tables + perf_tables(self._measured),
                opening=(*report.opening[:1], *moves_answer(self._measured), *report.opening[1:]),
            )
        empty = paragraphs(*(f"Broker {broker} has no replica left." for broker in emptied))
        self.report(replace(report, opening=(*empty, *report.opening)))

    def disks(self, shown: DisksShown) -> None:
        self.report(disks_report(shown))

    def to_cancel(self, chosen: Cancellation, others: Sequence[str]) -> None:
        report = ongoing_report(
            chosen.stop, "To be cancelled", "to be cancelled", closing=tuple(others)
        )
        left = ongoing_report(chosen.left_alone, "Left alone")
        shown = {**report.document, "left_alone": left.document["ongoing"]}
        tables = report.tables + (left.tables if chosen.left_alone else ())
        report = replace(report, document=shown, tables=tables)
        self.report(with_copies(report, chosen.copies, "to be given up"))

    def cancelled(self, done: Cancelled, after: Snapshot, others: Sequence[str]) -> None:
        report = cancelled_report(done, after)
        self.report(replace(report, closing=(*report.closing, *others)))

    def undone(self, done: Undone, after: Snapshot) -> None:
        self.report(undone_report(done, after))

    def stopped(
        self, entry: Entry | None, why: str, undone: tuple[Undone, Snapshot] | None
    ) -> None:
        report = stopped_report(entry, why)
        if undone is not None:
            back = undone_report(*undone)
            both = {**back.document, **report.document, "state": "undone", "rolled_back": True}
            report = replace(back, document=both)
        self.report(report)
