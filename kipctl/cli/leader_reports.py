"""What `kipctl reassign` and `kipctl elect` print: plans, moved leaders, reassignments."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kipctl.report.tables import Cell, Column, Report, Table

if TYPE_CHECKING:
    from kipctl.cluster.change import LeadersMoved, Reassigned
    from kipctl.cluster.plan import Move, Plan
    from kipctl.cluster.reassign import Cancelled, Ongoing, Verified
    from kipctl.cluster.snapshot import Assignment, PartitionId, Snapshot

REASSIGN = "reassign"

Value = Cell | tuple[int, ...]


def listing(
    title: str,
    columns: Mapping[str, str],
    rows: Iterable[tuple[Value, ...]],
    notes: tuple[str, ...] = (),
) -> tuple[Table, list[dict[str, Value]]]:
    """Rows as a table for people and as objects for JSON; `columns` are titles by key."""
    rows = tuple(rows)
    shown = tuple(tuple(ids(v) if isinstance(v, tuple) else v for v in row) for row in rows)
    objects = [dict(zip(columns, row, strict=True)) for row in rows]
    return Table(title, tuple(columns.values()), shown, notes), objects


def ids(brokers: Sequence[int]) -> str:
    """Broker ids as a person reads them."""
    return ", ".join(map(str, brokers))


def plan_report(plan: "Plan") -> Report:
    """The plan as a table; as JSON it is Kafka's, with what is left alone beside it."""
    from kipctl.cluster.kafka_json import reassignment_document

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
        _left_alone(plan),
    )
    skipped = [
        {"topic": s.id.topic, "partition": s.id.partition, "reason": s.reason} for s in plan.skipped
    ]
    return Report(
        REASSIGN,
        {**reassignment_document(plan.target), "skipped": skipped},
        (table,),
        (in_short(plan), "Nothing was changed."),
    )


def in_short(plan: "Plan") -> str:
    """The plan in one line."""
    if not plan.moves:
        return "Nothing is to be reassigned."
    copied = sum(bool(move.adding) for move in plan.moves)
    data = f"data of {copied} is copied" if copied else "no data is copied"
    left = f"; {len(plan.skipped)} are left alone" if plan.skipped else ""
    topics = f"topic {plan.topics[0]}" if len(plan.topics) == 1 else f"{len(plan.topics)} topics"
    return f"{len(plan.moves)} partitions of {topics} change: {data}{left}."


def _data(move: "Move") -> str:
    if move.is_reorder:
        return "stays"
    changes = [f"copied to {ids(move.adding)}"] if move.adding else []
    return ", ".join(changes + ([f"leaves {ids(move.removing)}"] if move.removing else []))


def _left_alone(plan: "Plan") -> tuple[str, ...]:
    return tuple(f"{skipped.id} is left alone: {skipped.reason}." for skipped in plan.skipped)


def moved_report(
    command: str, moved: "LeadersMoved", before: "Snapshot", after: "Snapshot"
) -> Report:
    """What became of each partition, and how long each step took."""
    failed = {failure.id: str(failure) for failure in moved.failures}
    outcomes = {elected.id: str(elected.outcome) for elected in moved.held.outcomes}
    outcomes |= dict.fromkeys(failed, "failed")
    now = after.by_id
    table, partitions = listing(
        "Partitions",
        {
            "topic": "Topic",
            "partition": "Partition",
            "outcome": "Outcome",
            "from_leader": "From",
            "leader": "Leader",
            "leader_epoch": "Epoch",
            "replicas_before": "Before",
            "replicas": "Replicas",
            "error": "Error",
        },
        (
            (
                *old.id,
                outcomes[old.id],
                old.leader,
                now[old.id].leader,
                now[old.id].leader_epoch,
                old.replicas,
                now[old.id].replicas,
                failed.get(old.id),
            )
            for old in before.partitions
            if old.id in outcomes and old.id in now
        ),
    )
    steps = _steps_ms(moved)
    entry = moved.reassigned.entry if moved.reassigned else None
    undo = (f"Undo: kipctl reassign --rollback (saved in {entry.path})",) if entry else ()
    return Report(
        command,
        {
            "partitions": partitions,
            "timeline_ms": steps,
            "silent_brokers": moved.held.silent,
            "watched_brokers": moved.held.watched,
            "gone": [{"topic": p.topic, "partition": p.partition} for p in moved.held.gone],
            "saved": str(entry.path) if entry else None,
        },
        (table, Table("Timeline", ("Step", Column("ms since the call")), tuple(steps.items()))),
        (_sentence(moved, len(before.brokers)), *undo),
    )


def _steps_ms(moved: "LeadersMoved") -> dict[str, float]:
    """When each step ended, in milliseconds since the first call."""
    held, first = moved.held, moved.reassigned
    steps_us: dict[str, int] = {}
    if first:
        steps_us["reassignment answered"] = first.answered_us
        steps_us["reassignment finished"] = first.finished_us
    steps_us["election called"] = held.called_us
    steps_us["election answered"] = held.answered_us
    for broker, time_us in sorted(held.knew_us.items()):
        steps_us[f"broker {broker} knew every new leader"] = time_us
    start_us = first.called_us if first else held.called_us
    return {step: (time_us - start_us) / 1000 for step, time_us in steps_us.items()}


def _sentence(moved: "LeadersMoved", brokers: int) -> str:
    from kipctl.cluster.elect import Outcome

    held = moved.held
    reported = f"{held.count(Outcome.ELECTED)} leaders moved"
    if in_place := held.count(Outcome.NOT_NEEDED):
        reported += f", {in_place} were in place"
    if held.gone:
        reported += f", {len(held.gone)} partitions are gone (such as {held.gone[0]})"
    if held.knew_us:
        after_ms = (held.converged_us - held.called_us) / 1000
        who = "every broker"
        if len(held.watched) < brokers:
            who = f"each of the {len(held.watched)} brokers (of {brokers}) that were asked"
        reported += f"; {who} knew {after_ms:.0f} ms after the election was called"
    if held.silent:
        reported += f", but for {ids(held.silent)}, which did not answer: that is not known"
    return reported + "."


def reassigned_report(done: "Reassigned", after: "Snapshot") -> Report:
    """What a plan changed, and what is left for an election to do."""
    now = after.by_id
    table, partitions = listing(
        "Reassigned",
        {
            "topic": "Topic",
            "partition": "Partition",
            "replicas_before": "Before",
            "replicas": "Replicas",
            "leader": "Leader",
        },
        ((*m.id, m.before, now[m.id].replicas, now[m.id].leader) for m in done.plan.moves),
    )
    closing = [f"{len(done.plan.moves)} partitions are reassigned."]
    if astray := sum(not now[move.id].is_led_by_preferred for move in done.plan.moves):
        topics = " ".join(f"--topic {topic}" for topic in done.plan.topics)
        closing.append(
            f"{astray} are not led by their preferred replica: kipctl elect preferred {topics}"
        )
    if done.entry:
        closing.append(f"Undo: kipctl reassign --rollback (saved in {done.entry.path})")
    return Report(
        REASSIGN,
        {
            "partitions": partitions,
            "refused": [str(refusal) for refusal in done.refused],
            "seconds": (done.finished_us - done.called_us) / 1e6,
            "saved": str(done.entry.path) if done.entry else None,
        },
        (table,),
        tuple(closing),
    )


def verified_report(verified: Sequence["Verified"], target: "Assignment") -> Report:
    """How the cluster stands to an assignment."""
    table, partitions = listing(
        "Verified",
        {
            "topic": "Topic",
            "partition": "Partition",
            "state": "State",
            "wanted": "Wanted",
            "replicas": "Replicas",
        },
        ((*one.id, str(one.state), target[one.id], one.replicas) for one in verified),
    )
    states = [str(one.state) for one in verified]
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    return Report(
        REASSIGN,
        {"partitions": partitions, "counts": counts},
        (table,),
        (", ".join(f"{count} {state}" for state, count in counts.items()) + ".",),
    )


def ongoing_report(busy: Sequence["Ongoing"]) -> Report:
    """The reassignments in progress."""
    table, partitions = listing(
        "Reassignments in progress",
        {
            "topic": "Topic",
            "partition": "Partition",
            "replicas": "Replicas",
            "adding": "Adding",
            "removing": "Removing",
        },
        ((*one.id, one.replicas, one.adding, one.removing) for one in busy),
        () if busy else ("None.",),
    )
    return Report(REASSIGN, {"ongoing": partitions}, (table,))


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
        ((*one, now[one].replicas, order(one)) for one in cancelled.cancelled),
    )
    closing = (
        f"kipctl did not start the reassignment of {len(unknown)} of them: their preferred leaders"
        " may have changed.",
    )
    return Report(
        REASSIGN,
        {"cancelled": partitions, "refused": [str(refusal) for refusal in cancelled.refused]},
        (table,),
        closing if unknown else (),
    )
