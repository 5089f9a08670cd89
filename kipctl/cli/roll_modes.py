"""What each way of `kipctl roll` does: a dry run, a roll, going on with one, and giving one up."""

from collections.abc import Collection, Iterable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kipctl.cli.confirm import confirm_unless_lab
from kipctl.cli.environment import Environment
from kipctl.errors import RefusedError, UsageError
from kipctl.report.formats import OutputFormat
from kipctl.report.guard_tables import guard_table
from kipctl.report.roll_tables import node_tables, plan_answer, plan_closing, plan_tables
from kipctl.report.tables import Paragraph, Report, Tone, paragraphs

if TYPE_CHECKING:
    from kipctl.changes.journal.entry import Origin
    from kipctl.changes.journal.journal import Journal
    from kipctl.guard.monitor import GuardMonitor
    from kipctl.roll.plan import Node, RollPlan
    from kipctl.roll.record import RollOptions, RollRecord, Rolls
    from kipctl.transport.request import Cluster

ROLL = "roll"
ANSWER_S = 10.0
"""For each answer of a broker."""


@dataclass(frozen=True, slots=True)
class RollRequest:
    """A command line of `kipctl roll`."""

    environment: Environment
    cluster: "Cluster"
    how: "RollOptions"
    brokers: tuple[int, ...] | None
    """() for all, None for none."""
    controllers: bool
    was_restarted: bool | None
    given: Collection[str]
    """The fields of `how` that stand in the command line, beside the way."""
    yes: bool
    output: OutputFormat

    @property
    def origin(self) -> "Origin":
        from kipctl.changes.journal.entry import Origin

        return Origin.here(self.environment.arguments)

    @property
    def cluster_id(self) -> str:
        return self.cluster.metadata(()).cluster_id or "unknown"

    @property
    def changes(self) -> "Journal":
        from kipctl.changes.journal.journal import journal

        return journal(self.cluster_id, self.environment.variables)

    @property
    def rolls(self) -> "Rolls":
        from kipctl.roll.record import rolls

        return rolls(self.cluster_id, self.environment.variables)

    def plan(self) -> "RollPlan":
        from kipctl.roll.facts import ask_facts
        from kipctl.roll.plan import plan_roll

        return plan_roll(
            ask_facts(self.cluster),
            self.brokers,
            controllers=self.controllers,
            spare=self.how.spare,
        )


def dry_run(request: RollRequest) -> None:
    """Show order, risks, what is not known, and what the guard sees now."""
    from kipctl.changes.guard_interface import GivenUpError

    plan = request.plan()
    document: dict[str, Any] = plan.as_document()
    tables = plan_tables(document)
    closing = list(plan_closing(document))
    if request.how.guards:
        guarding = _guarding(request, request.how)
        try:
            guarding.look(None)
        except GivenUpError as crossed:
            closing.append(crossed.what)
        document["guard"] = guarding.guard.as_document()
        tables = (*tables, guard_table(document["guard"]))
    closing += (
        "Not known: how long restarts take, and how long brokers take to be in sync again.",
        "Nothing was changed.",
    )
    report = Report(ROLL, document, tables, tuple(closing), (plan_answer(document),))
    request.environment.report(report, request.output)


def begin(request: RollRequest) -> None:
    """Look, refuse, ask, look again, and restart one node after the other."""
    from kipctl.roll.plan import describe_risk, require_safe

    environment, how = request.environment, _with_lab(request, request.how)
    _demand_ended(request)
    plan = request.plan()
    require_safe(plan, force=how.force)
    _demand_commands(plan.steps, how)
    for line in plan_closing(plan.as_document()):
        environment.message(line)
    for risk in plan.steps:
        if risk.is_harmful:
            name = risk.name.capitalize()
            environment.message(f"{name}: {describe_risk(risk)}")
    question = f"Restart {_order(plan)}, one after the other ({_in_words(how)})?"
    confirm_unless_lab(environment, request.cluster, question, request.yes)
    with request.changes.locked(request.origin):
        _demand_ended(request)  # another may have begun one since
        again = request.plan()
        require_safe(again, force=how.force)
        if [step.broker for step in again.steps] != [step.broker for step in plan.steps]:
            raise RefusedError("The order has changed since it was shown. Nothing was changed.")
        _carry_out(request, request.rolls.begin(request.origin, how, again.steps))


def _demand_ended(request: RollRequest) -> None:
    """Raise RefusedError while a roll of this cluster may be resumed."""
    if unfinished_roll := request.rolls.unfinished_roll():
        left = ", ".join(str(step.broker) for step in unfinished_roll.left)
        raise RefusedError(
            f"A roll of this cluster has not ended (left: broker {left}).",
            "Go on with it: kipctl roll --resume. Or give it up: kipctl roll --abandon",
        )


def resume(request: RollRequest) -> None:
    """Go on with the last roll, from where its record and the cluster say that it is."""
    record = request.rolls.unfinished_roll()
    if record is None:
        raise RefusedError("There is no roll to go on with.", "Begin one: kipctl roll --dry-run")
    how = record.how
    if request.how.way:
        now = request.how
        how = replace(how, way=now.way, command=now.command, folder=now.folder, lab="")
    how = replace(how, **{field: getattr(request.how, field) for field in request.given})
    how = _with_lab(request, how)
    _demand_commands(record.left, how)
    left = ", ".join(f"{step.broker} ({step.phase})" for step in record.left) or "none"
    confirm_unless_lab(
        request.environment,
        request.cluster,
        f"Go on with the roll of {record.id}, left: {left} ({_in_words(how)})?",
        request.yes,
    )
    with request.changes.locked(request.origin):
        if request.rolls.unfinished_roll() != record:
            raise RefusedError(
                "The roll has gone on, or ended, since it was asked about. Nothing was changed.",
                "Look again: kipctl roll --resume",
            )
        _carry_out(request, replace(record, how=how).mark(type(record.state).UNDER_WAY))


def abandon(request: RollRequest) -> None:
    """Give the last roll up: nothing is restarted or moved; what is left to do is said."""
    from kipctl.roll.move_leaders import entries_of
    from kipctl.roll.record import RollState

    with request.changes.locked(request.origin):
        record = request.rolls.unfinished_roll()
        if record is None:
            raise RefusedError("There is no roll to give up.")
        record = record.mark(RollState.ABANDONED, "given up by the operator")
    closing = []
    for step in record.left:
        if step.at:
            name = step.name.capitalize()
            closing.append(f"{name} is as it was left ({step.phase}): see to it.")
        if step.has_moved:
            closing += (
                f"Its leaders back: kipctl undo {entry.id}"
                for entry in entries_of(request.changes, record.origin, step.since)
            )
    opening = paragraphs("The roll is abandoned.")
    document = record_document(record)
    report = Report(ROLL, document, node_tables(document["steps"]), tuple(closing), opening)
    request.environment.report(report, request.output)


def record_document(record: "RollRecord") -> dict[str, Any]:
    """For JSON: the record without secrets, with the seconds that the restarts took, and that
    clients waited."""
    from kipctl.roll.next_step import Phase
    from kipctl.roll.record import IN_SYNC

    seconds = [
        {
            "restarted_seconds": step.seconds(Phase.RESTARTING, Phase.RESTARTED),
            "in_sync_seconds": step.seconds(Phase.RESTARTING, IN_SYNC),
            "waits": _waits(step.waits_s),
        }
        for step in record.steps
    ]
    document = record.as_document()
    steps = [one | took for one, took in zip(document["steps"], seconds, strict=True)]
    return document | {"how": asdict(record.how.redacted), "steps": steps}


def _waits(seconds: tuple[float, ...] | None) -> dict[str, Any] | None:
    if seconds is None:
        return None
    from statistics import median

    return {
        "moves": len(seconds),
        "p50_seconds": median(seconds) if seconds else None,
        "max_seconds": max(seconds, default=None),
    }


def _carry_out(request: RollRequest, record: "RollRecord") -> None:
    from kipctl.roll.execution import Roll
    from kipctl.roll.move_leaders import LeaderMover
    from kipctl.roll.node_watch import ClusterWatch

    environment, how = request.environment, record.how
    if how.way == "manual" and not environment.stdin.isatty():
        raise UsageError("The roll asks for each restart, and there is no terminal to ask on.")
    title = f"Restarting {len(record.left)} {record.kind}"
    rolling, new_waits = None, None
    try:
        with ExitStack() as meanwhile:
            progress = meanwhile.enter_context(environment.progress(title))
            guarding = _guarding(request, how, progress)
            conditions = [gauge.condition for gauge in guarding.guard.gauges]
            if by_canary := [one for one in conditions if one.kind.is_measured_by_canary]:
                from kipctl.guard.canary import canary

                probe = meanwhile.enter_context(
                    canary(request.cluster, by_canary, environment.message)
                )
                guarding.canary_values, new_waits = probe, probe.new_waits
            leaders = LeaderMover(
                request.cluster, request.changes, record.origin, how.batch, how.timeout_s, progress
            )
            rolling = Roll(
                record,
                ClusterWatch(request.cluster, guarding.exporters),
                leaders,
                guarding,
                environment.stdin,
                environment.message,
                progress,
                request.was_restarted,
                new_waits,
            )
            rolling.run()
    except BaseException:
        if rolling:
            with suppress(OSError):  # why it stopped is said all the same
                environment.report(_report(rolling.record, rolling.guarding), request.output)
        raise
    environment.report(_report(rolling.record, rolling.guarding), request.output)


def _report(record: "RollRecord", guarding: "GuardMonitor") -> Report:
    document = record_document(record)
    tables = list(node_tables(document["steps"]))
    if record.how.guards:
        document["guard"] = guarding.guard.as_document()
        tables.append(guard_table(document["guard"]))
    done = len(record.steps) - len(record.left)
    opening = Paragraph(
        f"{done} of {len(record.steps)} {record.kind} are restarted; the roll is {record.state}.",
        tone=Tone.WARNING if record.left else Tone.GOOD,
    )
    return Report(ROLL, document, tuple(tables), opening=(opening,))


def _guarding(request: RollRequest, how: "RollOptions", progress: Any = None) -> "GuardMonitor":
    from kipctl.guard.conditions import Guard, parse_guard
    from kipctl.guard.exporters import Exporters
    from kipctl.guard.monitor import GuardMonitor

    guard = Guard.of(map(parse_guard, how.guards), how.guard_patience_s, how.guard_quiet_s)
    message = progress or request.environment.message
    return GuardMonitor(request.cluster, guard, Exporters(how.metrics_urls), message)


def _with_lab(request: RollRequest, how: "RollOptions") -> "RollOptions":
    """The name of the lab, and where its brokers serve metrics. Raises UsageError for no lab."""
    from kipctl.runs.actions import lab_of

    if how.way != "lab":
        return how
    lab = lab_of(request.cluster)
    return replace(how, lab=lab.name, metrics_urls=how.metrics_urls or lab.metrics_urls)


def _demand_commands(nodes: "Iterable[Node]", how: "RollOptions") -> None:
    """Raise UsageError when the command cannot be made, or run, for one of the nodes."""
    from kipctl.roll.restart_command import command_for, require_program

    if how.way != "exec":
        return
    for one in nodes:
        role = "controller" if one.is_controller_only else "broker"
        words = command_for(how.command, one.broker, one.host, one.port, one.rack, role)
        require_program(words, Path(how.folder))


def _order(plan: "RollPlan") -> str:
    """`brokers 1, 2, 3 and controllers 102, 103, 101`."""
    brokers = ", ".join(str(step.broker) for step in plan.steps if not step.is_controller_only)
    controllers = ", ".join(str(step.broker) for step in plan.steps if step.is_controller_only)
    named = (("brokers", brokers), ("controllers", controllers))
    return " and ".join(f"{kind} {ids}" for kind, ids in named if ids)


def _in_words(how: "RollOptions") -> str:
    import shlex

    from kipctl.redaction import words_without_secrets

    match how.way:
        case "exec":
            return shlex.join(words_without_secrets(how.command))
        case "manual":
            return "by you"
        case _:
            return f"lab {how.lab!r} does it"
