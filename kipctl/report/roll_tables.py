"""What `kipctl roll` prints: order and risks, what became of each node."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Literal, cast

from kipctl.counts import counted
from kipctl.documents.changes import RollDocument, RollPlanDocument, RollStep
from kipctl.next_step import Command
from kipctl.report.change_tables import made_line
from kipctl.report.columns import measured
from kipctl.report.guard_tables import with_guard_table
from kipctl.report.tables import (
    Column,
    Paragraph,
    Report,
    Table,
    Tone,
    identifier,
    paragraphs,
    table_of,
)

if TYPE_CHECKING:
    from kipctl.changes.journal.entry import Entry
    from kipctl.guard.conditions import Guard
    from kipctl.roll.plan import RollPlan
    from kipctl.roll.record import RollRecord

ROLL = "roll"
_Risk = Literal["lost", "below", "at_minimum", "single"]


def roll_plan_report(plan: "RollPlan", guard: "Guard") -> Report:
    """A dry run: order, risks, what is not known, and what the guard sees now."""
    document = plan.as_document()
    closing = [
        *plan_closing(document),
        *([f"The guard is crossed: {guard}."] if guard.crossed else ()),
        "Not known: how long restarts take, and how long brokers take to be in sync again.",
        "Nothing was changed.",
    ]
    report = Report(
        ROLL, document, plan_tables(document), tuple(closing), opening=(plan_answer(document),)
    )
    return with_guard_table(report, guard)


def rolled_report(record: "RollRecord", guard: "Guard | None" = None) -> Report:
    """How far each node came, and what the guard saw, if there was one."""
    document = record_document(record)
    opening = Paragraph(
        f"{record.progress}; the roll is {record.state}.",
        tone=Tone.WARNING if record.left else Tone.GOOD,
    )
    report = Report(ROLL, document, node_tables(document["steps"]), opening=(opening,))
    return with_guard_table(report, guard)


def roll_report(
    record: "RollRecord", parts: Sequence["Entry"], now: datetime, changed_by: str
) -> Report:
    """A roll as its record has it, and the changes that are parts of it (`parts`); `changed_by` is
    who changes the cluster now (`Journal.locked_by`)."""
    report = rolled_report(record)
    closing = [
        f"Leaders moved by entry {part.id}, {part.age(now)}; {part.state}." for part in parts
    ]
    if not changed_by and record.may_be_resumed:
        closing.append("Go on with it: " + Command("changes resume", record.id))
    if not changed_by and any(part.may_be_undone and not part.undoes for part in parts):
        closing.append("Its leaders back: " + Command("undo", record.id))
    document = {**report.document, "parts": [part.id for part in parts]}
    opening = (*report.opening, *paragraphs(made_line(record, now, changed_by)))
    return replace(report, document=document, closing=tuple(closing), opening=opening)


def abandoned_report(record: "RollRecord", has_moved: bool) -> Report:
    """What is to be seen to after a roll was given up, whose leaders may not be back."""
    document = record_document(record)
    closing = [
        f"{step.name.capitalize()} is as it was left ({step.phase}): see to it."
        for step in record.left
        if step.at
    ]
    if has_moved:
        closing.append("Its leaders back: " + Command("undo", record.id))
    opening = paragraphs("The roll is abandoned.")
    return Report(ROLL, document, node_tables(document["steps"]), tuple(closing), opening)


def record_document(record: "RollRecord") -> RollDocument:
    """For JSON: the record without secrets, with the seconds that the restarts took, and that
    clients waited."""
    from kipctl.roll.next_step import Phase
    from kipctl.roll.record import IN_SYNC

    recorded = replace(record, how=record.how.redacted).as_document()
    recorded["command_line"] = recorded.pop("command")
    document = cast(RollDocument, recorded)
    for step, shown in zip(record.steps, document["steps"], strict=True):
        shown["restarted_seconds"] = step.seconds(Phase.RESTARTING, Phase.RESTARTED)
        shown["in_sync_seconds"] = step.seconds(Phase.RESTARTING, IN_SYNC)
        waits = step.waits_seconds
        shown["waits"] = (
            None
            if waits is None
            else {
                "move_count": len(waits),
                "wait_ms": {"p50": 1000 * median(waits), "max": 1000 * max(waits)}
                if waits
                else None,
            }
        )
    return document


def plan_answer(plan: RollPlanDocument) -> Paragraph:
    """The order, whether it may begin, and what partitions go through meanwhile."""
    order = ", ".join(str(step["broker"]) for step in plan["nodes"])
    first = f"Nodes would be restarted in the order {order}"
    if refused := plan["refused"]:
        return Paragraph(f"{first}, but now that is refused: {refused[0]}.", tone=Tone.BAD)
    lost = max((step["no_other_replica"] for step in plan["nodes"]), default=0)
    below = max((step["below_min_insync_replicas"] for step in plan["nodes"]), default=0)
    if short := [step for step in plan["nodes"] if step["less_than_spare"]]:
        such_as = short[0]["such_as"]["less_than_spare"][0]
        return Paragraph(
            f"{first}, but that is refused without --force: less than --spare asks for would be"
            f" left of {counted(short[0]['less_than_spare'], 'partition')} while broker"
            f" {short[0]['broker']} is away, such as {such_as}.",
            tone=Tone.BAD,
        )
    if lost or below:
        first += (
            f". Meanwhile up to {counted(lost, 'partition', 'have')} no leader, {below:,} take no"
        )
        return Paragraph(f"{first} acks=all writes.", tone=Tone.WARNING)
    if any(step["no_quorum"] for step in plan["nodes"]):
        return Paragraph(f"{first}. Meanwhile no leader is elected.", tone=Tone.WARNING)
    known = ", as far as is known" if plan["not_known"] else ""
    return Paragraph(f"{first}; every partition stays available{known}.", tone=Tone.GOOD)


def plan_tables(plan: RollPlanDocument) -> tuple[Table, ...]:
    """The order of a roll, and what each restart risks."""
    turn = {step["broker"]: number for number, step in enumerate(plan["nodes"], 1)}
    return (
        table_of(
            "Order, and what each restart risks",
            plan["nodes"],
            {
                "": lambda step: turn[step["broker"]],
                Column("Node", right=True): identifier("broker"),
                "Rack": "rack",
                "Role": "role",
                "Leaders": "leader_count",
                "Replicas": "replica_count",
                "No other replica": "no_other_replica",
                "Below min.insync": "below_min_insync_replicas",
                "At min.insync": "at_min_insync_replicas",
                "One left": "one_replica_left",
            },
            _examples(plan),
            "order",
        ),
    )


def plan_closing(plan: RollPlanDocument) -> tuple[str, ...]:
    """What refuses the roll now, what is not known, and what it leaves alone."""
    lines = [f"Refused now: {why}." for why in plan["refused"]]
    lines += [f"Not known: {what}" for what in plan["not_known"]]
    if apart := plan["controllers_left_alone"]:
        listed = ", ".join(map(str, apart))
        lines.append(
            f"Controllers that are no brokers are left alone without --controllers: {listed}."
        )
    return tuple(lines)


def _examples(plan: RollPlanDocument) -> tuple[str, ...]:
    meanings: dict[_Risk, str] = {
        "lost": "cannot be read or written meanwhile",
        "below": "takes no acks=all writes meanwhile",
        "at_minimum": "takes acks=all writes meanwhile, and not if one more replica fails",
        "single": "has one in-sync replica meanwhile",
    }
    notes = []
    for risk, meaning in meanings.items():
        if some := [step for step in plan["nodes"] if step["such_as"][risk]]:
            partition, broker = some[0]["such_as"][risk][0], some[0]["broker"]
            notes.append(f"{partition} {meaning}: broker {broker} is restarted.")
    if alone := [step for step in plan["nodes"] if step["no_quorum"]]:
        notes.append(
            "No majority of controllers is left, and no leader is elected meanwhile: node"
            f" {alone[0]['broker']} is restarted."
        )
    return tuple(notes)


def node_tables(steps: Sequence[RollStep]) -> tuple[Table, ...]:
    """How far each node came; seconds are of its restart, from the call for it on."""
    apart = [step for step in steps if not step["role"].startswith("broker")]
    brokers = [step for step in steps if step["role"].startswith("broker")]
    waited = [step for step in steps if step["waits"]]
    tables = (
        table_of(
            "Brokers",
            brokers,
            {
                Column("Broker", right=True): identifier("broker"),
                "Rack": "rack",
                "State": "phase",
                "Leaders off": "leaders_moved_off",
                "Restarted after s": "restarted_seconds",
                "In sync after s": "in_sync_seconds",
                "Leaders back": "leaders_brought_back",
                "Known by": lambda step: step["seen_by"] or None,
            },
        ),
        table_of(
            "Controllers",
            apart,
            {
                Column("Controller", right=True): identifier("broker"),
                "State": "phase",
                "Restarted after s": "restarted_seconds",
                "Caught up after s": "in_sync_seconds",
                "Known by": lambda step: step["seen_by"] or None,
            },
        ),
        table_of(
            "What the canary waited for, while each was in hand",
            waited,
            {
                Column("Node", right=True): identifier("broker"),
                "Leaders that moved": "waits.move_count",
                **measured("waits.wait_ms.p50", "waits.wait_ms.max"),
            },
            ("A leader that moved without the canary being refused is not among them.",),
            "waits",
        ),
    )
    return tuple(table for table in tables if table.rows)
