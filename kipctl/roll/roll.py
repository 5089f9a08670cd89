"""A roll of a cluster: begun, gone on with, given up, and its leaders brought back."""

import shlex
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from kipctl.changes.entries import look_at_partitions
from kipctl.changes.guard_interface import NO_GUARD, GivenUpError
from kipctl.changes.journal.journal import Journal
from kipctl.changes.plans.log_sizes import NOT_ASKED
from kipctl.changes.plans.plan import Plan
from kipctl.changes.plans.plan_summary import summarize
from kipctl.changes.ui import PlanShown
from kipctl.changes.way_back import Undo
from kipctl.counts import counted
from kipctl.errors import RefusedError, UsageError
from kipctl.guard.canary import canary
from kipctl.guard.conditions import parse_guard, require_metrics
from kipctl.guard.monitor import monitor_of
from kipctl.load.actions import lab_of
from kipctl.next_step import Command
from kipctl.redaction import words_without_secrets
from kipctl.roll.context import RollContext
from kipctl.roll.execution import Roll
from kipctl.roll.facts import ask_facts
from kipctl.roll.move_leaders import LeaderMover
from kipctl.roll.node_watch import ClusterWatch
from kipctl.roll.plan import Node, RollPlan, plan_roll, require_safe
from kipctl.roll.record import (
    Restarter,
    RollOptions,
    RollRecord,
    RollState,
    begin_roll,
    moved_leaders,
    read_roll,
    unfinished_roll,
)
from kipctl.roll.restart_command import command_for, require_program

_SEE_ALL = "See what there is: " + Command("changes list")


def roll(context: RollContext) -> None:
    """Look, refuse, ask, look again, and restart one node after the other.

    A dry run ends with the order, what it risks, and what the guard sees. Raises KipctlError.
    """
    if context.dry_run:
        _preview(context)
        return
    how = _with_lab(context, context.how)
    journal = context.journal()
    _require_none_unfinished(journal)
    plan = _plan(context)
    require_safe(plan, force=how.force)
    _require_commands(plan.steps, how)
    context.ui.roll_question(plan)
    context.ui.confirm(f"Restart {plan.order}, one after the other ({_restarted_by(how)})?")
    with journal.locked(context.origin):
        _require_none_unfinished(journal)  # another may have begun one since
        again = _plan(context)
        require_safe(again, force=how.force)
        if again.order != plan.order:
            raise RefusedError("The order has changed since it was shown. Nothing was changed.")
        _carry_out(context, begin_roll(journal, context.origin, how, again.steps))


def resume(context: RollContext, record: RollRecord | None = None) -> None:
    """Go on with a roll, or with the last, from where its record and the cluster say that it is.

    Raises RefusedError where there is none, and what stops it.
    """
    journal = context.journal()
    record = record or unfinished_roll(journal)
    if record is None:
        raise RefusedError(
            "There is no roll to go on with.", "Begin one: " + Command("roll --dry-run")
        )
    if not record.may_be_resumed:
        raise RefusedError(f"Roll {record.id} is {record.state}: it is not to be resumed.")
    if context.dry_run:
        context.ui.roll_left(record)
        return
    how = _with_lab(context, record.how.overridden(context.how, context.given))
    _require_commands(record.left, how)
    left = ", ".join(f"{step.broker} ({step.phase})" for step in record.left) or "none"
    context.ui.confirm(f"Go on with the roll of {record.id}, left: {left} ({_restarted_by(how)})?")
    with journal.locked(context.origin):
        if read_roll(record.path) != record:
            raise RefusedError(
                "The roll has gone on, or ended, since it was asked about. Nothing was changed.",
                "Look again: " + Command("roll --resume"),
            )
        _carry_out(context, replace(record, how=how).mark(RollState.UNDER_WAY))


def abandon(context: RollContext) -> None:
    """Give the last roll up: nothing is restarted or moved; what is left to do is said."""
    journal = context.journal()
    with journal.locked(context.origin):
        record = unfinished_roll(journal)
        if record is None:
            raise RefusedError("There is no roll to give up.")
        record = record.mark(RollState.ABANDONED, "given up by the operator")
    context.ui.abandoned(record, bool(moved_leaders(journal, record.id)))


def undo(context: RollContext, record: RollRecord) -> None:
    """Bring back the leaders that a roll moved and did not bring back, and give it up.

    A restart has no way back. Raises RefusedError where no leaders are to be brought back, and
    PartlyDoneError where some have to wait: the roll stays as it is then.
    """
    journal = context.journal()
    moved = moved_leaders(journal, record.id)
    if not moved:
        give_up = "Give it up: " + Command("roll --abandon") if record.may_be_resumed else _SEE_ALL
        raise RefusedError(
            f"The leaders that roll {record.id} moved are back, and a restart has no way back.",
            give_up,
        )
    look = look_at_partitions(context, *moved)
    seen = [Undo(entry).proposed(context, look) for entry in reversed(moved)]
    moves = {move.id: move for undo_proposal in seen for move in undo_proposal.plan.moves}
    partitions = {partition for proposal in seen for partition in proposal.partitions}
    sentence = f"Leaders back to before the roll of {record.id}. A restart has no way back."
    if context.dry_run:
        plan, closing = Plan(tuple(moves.values())), (sentence, "Nothing was changed.")
        summary = summarize(seen[0].snapshot, plan, NOT_ASKED)
        context.ui.plan(PlanShown(plan, summary, about={"roll": record.id}, closing=closing))
        return
    context.ui.say(sentence)
    context.ui.confirm(f"Undo it for {counted(len(partitions), 'partition')}?")
    with (
        journal.locked(context.origin),
        context.ui.progress("Bringing leaders back") as progress,
    ):
        now = read_roll(record.path)
        brought_back = LeaderMover(context, now, progress).bring_back(NO_GUARD)
        if now.may_be_resumed:
            now = now.mark(RollState.ABANDONED, "its leaders were brought back")
    context.ui.say(f"{counted(brought_back, 'leader', 'are')} back.")
    context.ui.abandoned(now, has_moved=False)


def _preview(context: RollContext) -> None:
    plan, how = _plan(context), _with_lab(context, context.how)
    guarding = monitor_of(context.cluster, how.guard, context.ui.say)
    with suppress(GivenUpError):  # what it sees is shown
        guarding.look()
    context.ui.roll_planned(plan, guarding.guard)


def _plan(context: RollContext) -> RollPlan:
    facts = ask_facts(context.cluster)
    controllers, spare = context.controllers, context.how.spare
    return plan_roll(facts, context.brokers, controllers=controllers, spare=spare)


def _require_none_unfinished(journal: Journal) -> None:
    """Raise RefusedError while a roll of this cluster may be resumed."""
    if record := unfinished_roll(journal):
        left = ", ".join(str(step.broker) for step in record.left)
        raise RefusedError(
            f"A roll of this cluster has not ended (left: broker {left}).",
            "Go on with it: "
            + Command("roll --resume")
            + ". Or give it up: "
            + Command("roll --abandon"),
        )


def _carry_out(context: RollContext, record: RollRecord) -> None:
    """Roll the nodes that are left, in the lock of the journal. However it ends is reported."""
    how, ui = record.how, context.ui
    if how.restarter is Restarter.MANUAL and not context.stdin.isatty():
        raise UsageError("The roll asks for each restart, and there is no terminal to ask on.")
    rolling = None
    try:
        with ExitStack() as meanwhile:
            title = f"Restarting {counted(len(record.left), record.node_kind)}"
            progress = meanwhile.enter_context(ui.progress(title))
            guarding, new_waits = monitor_of(context.cluster, how.guard, progress), None
            if by_canary := guarding.guard.measured_by_canary:
                compared = guarding.guard.to_compare
                probe = meanwhile.enter_context(
                    canary(context.cluster, by_canary, ui.say, to_compare=compared)
                )
                guarding.watch(probe)
                new_waits = probe.new_waits
                record = record.with_undisturbed(guarding.guard.undisturbed)
            rolling = Roll(
                record,
                ClusterWatch(context.cluster, guarding.exporters),
                LeaderMover(context, record, progress),
                guarding,
                context.stdin,
                ui.say,
                progress,
                context.was_restarted,
                new_waits,
            )
            rolling.run()
    except BaseException:
        if rolling:
            with suppress(OSError):  # why it stopped is said all the same
                ui.rolled(rolling.record, rolling.guarding.guard)
        raise
    ui.rolled(rolling.record, rolling.guarding.guard)


def _with_lab(context: RollContext, how: RollOptions) -> RollOptions:
    """The name of the lab, and where its brokers serve metrics.

    Raises UsageError for no lab, and for a guard of metrics of which nobody says where they are.
    """
    if how.restarter is Restarter.LAB:
        lab = lab_of(context.cluster)
        guard = replace(how.guard, urls=how.guard.urls or lab.metrics_urls)
        how = replace(how, lab=lab.name, guard=guard)
    require_metrics(map(parse_guard, how.guard.conditions), how.guard.urls)
    return how


def _require_commands(nodes: Iterable[Node], how: RollOptions) -> None:
    """Raise UsageError when the command cannot be made, or run, for one of the nodes."""
    if how.restarter is Restarter.EXEC:
        for node in nodes:
            require_program(command_for(how.command, node), Path(how.folder))


def _restarted_by(how: RollOptions) -> str:
    match how.restarter:
        case Restarter.EXEC:
            return shlex.join(words_without_secrets(how.command))
        case Restarter.LAB:
            return f"lab {how.lab!r} does it"
        case _:
            return "by you"
