"""What a roll says and asks on a terminal, and its results as reports."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from kipctl.changes.context import ChangeContext
from kipctl.changes.ui import PlanShown
from kipctl.cli.commands.change_ui import TerminalUi
from kipctl.cli.commands.confirm import confirm_unless_lab
from kipctl.cli.environment import Environment
from kipctl.guard.conditions import Guard
from kipctl.report.formats import OutputFormat
from kipctl.report.reassign_tables import plan_report
from kipctl.report.roll_tables import (
    abandoned_report,
    plan_closing,
    roll_plan_report,
    rolled_report,
)
from kipctl.roll.context import RollContext, RollUi, roll_context
from kipctl.roll.plan import RollPlan, describe_risk
from kipctl.roll.record import RollOptions, RollRecord
from kipctl.transport.request import Cluster


@dataclass(frozen=True, slots=True)
class TerminalRollUi(RollUi):
    """Of the command line `command`. Labs are there to be tried: there nobody is asked."""

    environment: Environment
    cluster: Cluster
    output: OutputFormat
    yes: bool

    def say(self, sentence: str) -> None:
        self.environment.message(sentence)

    def confirm(self, question: str, typed: str = "") -> None:
        confirm_unless_lab(self.environment, self.cluster, question, self.yes)

    def progress(self, title: str) -> AbstractContextManager[Callable[[str], None]]:
        return self.environment.progress(title)

    def plan(self, shown: PlanShown) -> None:
        self.environment.report(plan_report(shown), self.output)

    def roll_planned(self, plan: RollPlan, guard: Guard) -> None:
        self.environment.report(roll_plan_report(plan, guard), self.output)

    def roll_left(self, record: RollRecord) -> None:
        report = rolled_report(record)
        self.environment.report(replace(report, closing=("Nothing was changed.",)), self.output)

    def roll_question(self, plan: RollPlan) -> None:
        for line in plan_closing(plan.as_document()):
            self.say(line)
        for risk in plan.steps:
            if risk.is_harmful:
                self.say(f"{risk.name.capitalize()}: {describe_risk(risk)}")

    def rolled(self, record: RollRecord, guard: Guard) -> None:
        self.environment.report(rolled_report(record, guard), self.output)

    def abandoned(self, record: RollRecord, has_moved: bool) -> None:
        self.environment.report(abandoned_report(record, has_moved), self.output)


def of_roll(context: ChangeContext, ui: TerminalUi) -> RollContext:
    """The same for a roll, with the time that was given anew."""
    timeout_s = context.timeout_s
    how = RollOptions() if timeout_s is None else RollOptions(timeout_s=timeout_s)
    given = () if timeout_s is None else ("timeout_s",)
    roll_ui = TerminalRollUi(ui.environment, context.cluster, ui.output, ui.yes)
    return roll_context(context, roll_ui, how, given=given, stdin=ui.environment.stdin)
