"""What `kipctl reassign` prints: plans, what became of them, reassignments, the journal."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kipctl.counts import counted
from kipctl.next_step import Command, NextStep
from kipctl.report.disk_tables import with_copies
from kipctl.report.leader_tables import (
    gone_besides,
    ids,
    listing,
    moved_report,
    way_back_line,
    what_was_copied,
)
from kipctl.report.plan_tables import (
    brokers_table,
    copied_lines,
    left_alone_table,
    links_table,
    phases_table,
    plan_sentence,
)
from kipctl.report.tables import Paragraph, Report, Table, Tone, paragraphs

if TYPE_CHECKING:
    from kipctl.changes import ui
    from kipctl.changes.execution.cancellation import Cancelled
    from kipctl.changes.execution.plan_result import PlanResult
    from kipctl.changes.execution.reassign import Verified
    from kipctl.changes.journal.entry import Entry
    from kipctl.changes.plans.phases import Phase
    from kipctl.changes.plans.plan import Move, Plan
    from kipctl.changes.proposal import Undone
    from kipctl.cluster.reassignments import Reassignment
    from kipctl.cluster.snapshot import Assignment, Partition, PartitionId, Snapshot
    from kipctl.documents.plans import PlanShown

REASSIGN = "reassign"
_TOPICS_NAMED = 3


def plan_report(plan_shown: "ui.PlanShown") -> Report:
    """The plan by broker, and partition by partition where these are few or asked for.

    The document is Kafka's own reassignment JSON; everything else stands beside it. With phases,
    which the plan is what they come to, what is copied and how long it takes are those of each.
    """
    from kipctl.changes.plans.kafka_json import reassignment_document
    from kipctl.changes.plans.plan_summary import document

    plan, phases, busy = plan_shown.plan, plan_shown.phases, len(plan_shown.busy)
    shown = document(plan_shown.summary, plan_shown.throttle)
    note = () if plan_shown.elects else ("Leaders after: once the preferred leaders are elected.",)
    of_phases = [document(phase.summary, plan_shown.throttle) for phase in phases]
    tables = [phases_table(phases, of_phases)] if phases else []
    if plan.moves:
        tables.append(brokers_table(shown, note))
    if plan_shown.summary.links and not phases:
        tables.append(links_table(shown))
    for number, phase in enumerate(phases, 1):
        table = replace(_moves_table(phase.plan), title=f"Phase {number}: {phase.name}")
        tables.append(replace(table, name=f"phase {number}"))
    if plan.moves and not phases:
        tables.append(_moves_table(plan))
    if plan_shown.summary.skip_reasons:
        tables.append(left_alone_table(shown))
    others = f"In the cluster {counted(busy, 'partition', 'are')} being reassigned."
    return Report(
        REASSIGN,
        {
            **reassignment_document(plan.target),
            **shown,
            "skipped": _skipped(plan),
            "ongoing_partitions": busy,
            **_phases_document(phases, of_phases),
            **plan_shown.about,
        },
        tuple(tables),
        plan_shown.closing,
        paragraphs(
            *plan_shown.opening,
            plan_sentence(shown, is_rest=bool(plan_shown.opening)),
            *(copied_lines(shown) if not phases else _in_phases(phases)),
            *([others] if busy else ()),
        ),
    )


def _in_phases(phases: Sequence["Phase"]) -> Iterator[str]:
    yield f"It is done in {len(phases)} phases, each when the one before has arrived."


def _phases_document(
    phases: Sequence["Phase"], documents: Sequence["PlanShown"]
) -> dict[str, object]:
    from kipctl.changes.plans.kafka_json import reassignment_document

    if not phases:
        return {}
    both = zip(phases, documents, strict=True)
    return {
        "phases": [
            {"plan": phase.name, **reassignment_document(phase.plan.target), **shown}
            for phase, shown in both
        ]
    }


def rotations_report(plan: "Plan") -> Report:
    """Of a rotation of all topics but internal ones: how many leaders move of each, the most
    first."""
    from kipctl.changes.plans.plan_summary import skip_reasons

    moved = Counter(move.id.topic for move in plan.moves)
    left = Counter(skipped.id.topic for skipped in plan.skipped)
    topics = sorted({*moved, *left}, key=lambda topic: (-moved[topic], topic))
    table, rows = listing(
        "What a rotation would move",
        {"topic": "Topic", "leader_count": "Leaders", "left_alone_partitions": "Left alone"},
        ((topic, moved[topic], left[topic]) for topic in topics),
        () if topics else ("There is no topic but internal ones.",),
    )
    return Report(
        REASSIGN,
        {"topics": rows},
        (table,),
        (
            *map(str, skip_reasons(plan)),
            "Nothing was changed. Choose topics: "
            + Command("reassign --rotate", topic=topics[:1], all_topics=not topics)
            + (", or --all-topics." if topics else ""),
        ),
        paragraphs(
            f"A rotation would move {counted(len(plan.moves), 'leader')} of"
            f" {counted(len(moved), 'topic')}."
        ),
    )


_ASKED_EACH = 8
"""Moves that a question lists: of more who leads what afterwards is what decides, on a screen."""


def question_table(plan: "Plan", shown: "PlanShown") -> Table:
    """What a question is about: each partition, or where these are many, each broker.

    `shown` is the plan's document.
    """
    return _moves_table(plan) if len(plan.moves) <= _ASKED_EACH else brokers_table(shown)


def _moves_table(plan: "Plan") -> Table:
    table, _ = listing(
        "Plan",
        {
            "topic": "Topic",
            "partition": "Partition",
            "replicas": "Replicas",
            "new_replicas": "New replicas",
            "leader": "Leader",
            "preferred_leader": "New preferred",
            "data": "Data",
        },
        (
            (*m.id, m.before, m.after, None if m.leader < 0 else m.leader, m.after[0], _data(m))
            for m in plan.moves
        ),
    )
    return replace(table, name="partitions")


def _data(move: "Move") -> str:
    if move.is_reorder:
        return "stays"
    changes = [f"copied to {ids(move.adding)}"] if move.adding else []
    return ", ".join(changes + ([f"leaves {ids(move.removing)}"] if move.removing else []))


def with_skipped(report: Report, plan: "Plan") -> Report:
    """The report of a change, with what its plan left alone."""
    from kipctl.changes.plans.plan_summary import skip_reasons

    return replace(
        report,
        document={**report.document, "skipped": _skipped(plan)},
        closing=(*map(str, skip_reasons(plan)), *report.closing),
    )


def _skipped(plan: "Plan") -> list[dict[str, object]]:
    return [
        {"topic": s.id.topic, "partition": s.id.partition, "reason": s.reason} for s in plan.skipped
    ]


def reassigned_report(done: "PlanResult", after: "Snapshot") -> Report:
    """What a plan changed, and what is left for an election to do."""
    now = after.by_id
    there = [move for move in done.plan.moves if move.id in now]
    gone = [move.id for move in done.plan.moves if move.id not in now]
    table, partitions = listing(
        "Reassigned",
        {
            "topic": "Topic",
            "partition": "Partition",
            "replicas_before": "Before",
            "replicas": "Replicas",
            "leader": "Leader",
        },
        ((*m.id, m.before, now[m.id].replicas, now[m.id].leader) for m in there),
    )
    closing: list[str] = [*_left_for_an_election([now[move.id] for move in there])]
    if done.entry:
        closing.append(way_back_line(done.entry))
    return Report(
        REASSIGN,
        {
            "partitions": partitions,
            "refused": [str(refusal) for refusal in done.refused],
            "gone": [{"topic": id.topic, "partition": id.partition} for id in gone],
            "seconds": (done.finished_us - done.called_us) / 1e6,
            "copied": done.copied.document() if done.copied else None,
            "saved": str(done.entry.saved) if done.entry else None,
            "entry": done.entry.id if done.entry else None,
        },
        (table,),
        tuple(closing),
        paragraphs(
            f"{counted(len(there), 'partition', 'are')} reassigned{gone_besides(gone)}.",
            *what_was_copied(done.copied),
        ),
    )


def _left_for_an_election(partitions: "Sequence[Partition]") -> Iterator[NextStep]:
    """Who elects the leaders that these partitions lack, or the preferred ones."""
    leaderless = [partition for partition in partitions if partition.leader < 0]
    if leaderless:
        last = sorted({replica for partition in leaderless for replica in partition.isr})
        yield (
            f"{counted(len(leaderless), 'partition', 'have')} no leader, which no"
            " preferred election changes. Start a broker that was in sync last"
            f"{f' ({ids(last)})' if last else ''}, or see what an unclean election would lose: "
            + Command("elect unclean --dry-run", **_naming(leaderless))
        )
    if astray := [
        partition
        for partition in partitions
        if partition.leader >= 0 and not partition.is_led_by_preferred
    ]:
        waits = any(partition.preferred_leader not in partition.isr for partition in astray)
        yield (
            f"{counted(len(astray), 'partition', 'are')} not led by the preferred"
            f" replica{', which is not in sync yet' if waits else ''}: "
            + Command("elect preferred", **_naming(astray), until="balanced" if waits else None)
        )


def _naming(partitions: "Sequence[Partition]") -> dict[str, object]:
    """The options that name the topics of these to `elect`; many are in the plan's own file."""
    topics = tuple(dict.fromkeys(partition.id.topic for partition in partitions))
    return {"json_file": "FILE"} if len(topics) > _TOPICS_NAMED else {"topic": topics}


def stopped_report(entry: "Entry | None", why: str) -> Report:
    """Of a change that was stopped: its entry and the state of that, and what stopped it."""
    state = str(entry.state) if entry else None
    return Report(
        REASSIGN,
        {
            "entry": entry.id if entry else None,
            "state": state,
            "stopped": why,
            "rolled_back": False,
        },
        (),
        (f"Entry {entry.id} is {state}.",) if entry else (),
        paragraphs(why),
    )


def verified_report(verified: Sequence["Verified"], target: "Assignment") -> Report:
    """How the cluster stands to an assignment; what is not as it says comes first."""
    table, partitions = listing(
        "Verified",
        {
            "topic": "Topic",
            "partition": "Partition",
            "state": "State",
            "wanted": "Wanted",
            "replicas": "Replicas",
        },
        ((*part.id, str(part.state), target[part.id], part.replicas) for part in verified),
    )
    table = replace(table, rows=tuple(sorted(table.rows, key=lambda row: row[2] == "done")))
    counts = Counter(str(partition.state) for partition in verified)
    return Report(
        REASSIGN,
        {"partitions": partitions, "counts": dict(counts)},
        (table,),
        opening=(_as_planned(counts),),
    )


def _as_planned(counts: Counter[str]) -> Paragraph:
    done, total = counts["done"], counts.total()
    if done == total:
        return Paragraph(
            f"All {counted(total, 'partition', 'are')} as the file says.", tone=Tone.GOOD
        )
    others = ", ".join(f"{count:,} {state}" for state, count in counts.items() if state != "done")
    return Paragraph(
        f"{counted(total - done, 'partition', 'are', total=total)} not as the file says: {others}.",
        tone=Tone.WARNING,
    )


def ongoing_report(
    busy: Sequence["Reassignment"],
    title: str = "Reassignments in progress",
    state: str = "being reassigned",
    closing: tuple[str, ...] = (),
) -> Report:
    """The reassignments in progress."""
    table, partitions = listing(
        title,
        {
            "topic": "Topic",
            "partition": "Partition",
            "replicas": "Replicas",
            "adding": "Adding",
            "removing": "Removing",
        },
        (
            (*reassignment.id, reassignment.replicas, reassignment.adding, reassignment.removing)
            for reassignment in busy
        ),
    )
    first = counted(len(busy), "partition", "are") if busy else "Nothing is"
    said = f"{first} {state}."
    return Report(REASSIGN, {"ongoing": partitions}, (table,), closing, paragraphs(said))


def cancelled_report(cancelled: "Cancelled", after: "Snapshot") -> Report:
    """What was cancelled, and whether the order of the replicas is what it was."""
    now = after.by_id
    restored, unknown = cancelled.restored.target, frozenset(cancelled.order_unknown)

    def order(partition_id: "PartitionId") -> str:
        if partition_id in unknown:
            return "unknown"
        return "put back" if partition_id in restored else "as before"

    table, partitions = listing(
        "Cancelled",
        {"topic": "Topic", "partition": "Partition", "replicas": "Replicas", "order": "Order"},
        ((*id, now[id].replicas, order(id)) for id in cancelled.cancelled if id in now),
    )
    closing = (
        f"kipctl did not start the reassignment of {len(unknown)} of them: their preferred leaders"
        " may have changed.",
    )
    report = Report(
        REASSIGN,
        {"cancelled": partitions, "refused": [str(refusal) for refusal in cancelled.refused]},
        (table,),
        closing if unknown else (),
        paragraphs(
            counted(len(cancelled.cancelled), "reassignment", "were")
            + " cancelled"
            + (f", {len(cancelled.refused):,} were not." if cancelled.refused else ".")
        ),
    )
    if not cancelled.given_up:
        return report
    return with_copies(report, cancelled.given_up, "given up")


def undone_report(done: "Undone", after: "Snapshot") -> Report:
    """What became of the way back."""
    if done.moved is not None:
        report = moved_report(REASSIGN, done.moved, done.before, after)
    elif done.proposal.cancelled is not None:
        report = cancelled_report(done.proposal.cancelled, after)
    else:
        return Report(REASSIGN, {}, ())
    return with_skipped(report, done.proposal.plan)
