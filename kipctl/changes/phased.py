"""Several plans as phases of one change: checked together, carried out one after another."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from kipctl.changes.carry_out import carry_out
from kipctl.changes.change import ChangeRun
from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.disk_moves import require_no_disk_moves
from kipctl.changes.execution.phases import in_phase, reassign_phases
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.execution.safety_checks import require_factor_wanted, require_same
from kipctl.changes.journal.entry import Entry
from kipctl.changes.journal.phases import not_begun
from kipctl.changes.planned import PlannedChange, carry_out_plan
from kipctl.changes.plans.kafka_json import ReassignmentFile
from kipctl.changes.plans.phases import composed, phases_of
from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.plan_files import read_assignment
from kipctl.changes.proposal import Proposal
from kipctl.cluster.snapshot import Snapshot
from kipctl.next_step import Command


@dataclass(frozen=True, kw_only=True)
class PhasedChange(PlannedChange):
    """The plan of each of these files, in their order. Its own `plan` is what they come to."""

    files: tuple[ReassignmentFile, ...]

    def propose(self, context: ChangeContext) -> Proposal:
        return replace(super().propose(context), files=self.files)

    def refuse(self, context: ChangeContext, seen: Proposal) -> None:
        for number, phase in enumerate(seen.phases):
            with in_phase(number, len(seen.phases)):
                require_factor_wanted(phase.plan, wanted=context.change_factor)
                context.require_possible(phase.plan, phase.summary)

    def announce(self, context: ChangeContext, seen: Proposal) -> None:
        for number, phase in enumerate(seen.phases, 1):
            context.ui.say(f"Phase {number} of {len(seen.phases)}, {phase.name}:")
            context.show(phase.plan, phase.summary)
        context.say_unfinished(context.journal(), seen.plan)

    def question(self, seen: Proposal) -> str:
        return super().question(seen).replace("?", f" in {len(seen.phases)} phases?", 1)

    def look_again(self, run: ChangeRun, seen: Proposal) -> Proposal:
        again = super().look_again(run, seen)
        for shown, now in zip(seen.phases, again.phases, strict=True):
            require_same(shown.plan, now.plan)
        return again

    @contextmanager
    def recorded(self, run: ChangeRun, again: Proposal) -> Iterator[Entry | None]:
        with self.journal_as(run, again.plan, phases=_plans(again)) as entry:
            yield entry

    def execute(self, run: ChangeRun, again: Proposal) -> PlanResult:
        assert run.entry is not None
        return reassign_phases(run.context.cluster, _plans(again), run.entry, **run.settings)

    def report(self, run: ChangeRun, seen: Proposal, again: Proposal, done: PlanResult) -> None:
        super().report(run, seen, again, done)
        if done.failures and run.entry and (left := not_begun(run.entry.reload())):
            run.context.ui.say(left)

    def next_step(self, run: ChangeRun) -> str:
        named = run.context.named(run.entry) if run.entry else ""
        return "Go on: " + Command("changes resume", named) + ", or undo: " + Command("undo", named)


def _plans(seen: Proposal) -> list[Plan]:
    return [phase.plan for phase in seen.phases]


def carry_out_plans(context: ChangeContext, paths: Sequence[Path]) -> None:
    """Carry out a plan in a file, or several as phases: all of them undone, and gone on with, as
    one. Each is checked against what those before it leave, before the first begins."""
    if len(paths) == 1:
        carry_out_plan(context, paths[0])
        return
    files = tuple(map(read_assignment, paths))

    def planner(now: Snapshot) -> Plan:
        for file in files:
            require_no_disk_moves(context.cluster, file)
        return composed([phase.plan for phase in phases_of(now, files)])

    for file in files:
        if file.note:
            context.ui.say(file.note)
    carry_out(
        context,
        PhasedChange(
            planner=planner,
            files=files,
            question_words="Reassign {}?",
            elects=False,
            chooses=False,
        ),
    )
