"""What `kipctl changes` prints of the journal: all entries, and one."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kipctl.changes.journal.entry import Entry
from kipctl.changes.journal.phases import phase_reached
from kipctl.counts import counted
from kipctl.next_step import Command, NextStep
from kipctl.report.disk_tables import with_disks
from kipctl.report.leader_tables import listing
from kipctl.report.tables import Column, Report, paragraphs
from kipctl.roll.record import RollRecord, RollState

if TYPE_CHECKING:
    from kipctl.cluster.snapshot import PartitionId, Snapshot

CHANGES = "changes"


def history_report(
    entries: Sequence[Entry | RollRecord],
    older: int,
    folder: str,
    now: datetime,
    done: int = 0,
    changed_by: str = "",
) -> Report:
    """The journal, changes and rolls, the newest first.

    Of the newest change `done` partitions are as planned; `changed_by` is who changes the cluster
    now (`Journal.locked_by`).
    """
    made = {e.made_at.isoformat(): e.age(now, brief=True) for e in entries if e.made_at}
    table, objects = listing(
        "Journal",
        {
            "id": "Entry",
            "made_at": Column("Made", words=made.__getitem__),
            "state": "State",
            "partitions": Column("Partitions", detail=True),
            "command_line": "Command",
            "user": Column("By", detail=True),
        },
        (
            (
                e.id,
                _made_at(e),
                _state(e, changed_by),
                len(e.before) if isinstance(e, Entry) else None,
                " ".join(("kipctl", *e.origin.command)) if e.origin.command else None,
                f"{e.origin.user}@{e.origin.host}" if e.origin.user else None,
            )
            for e in entries
        ),
    )
    first = "No change is in the journal of this user on this machine."
    closing = [f"{counted(older, 'older entry', 'are')} in {folder}."] if older > 0 else []
    if entries:
        newest = entries[0]
        if isinstance(newest, RollRecord):
            what, progress = "roll", f"{newest.progress}."
        else:
            partitions = counted(len(newest.after), "partition")
            what, progress = "change", f"{done:,} of {partitions} {_as_planned(newest)}."
            if newest.disks:
                progress = f"{counted(len(newest.disks), 'replica', 'move')} disks."
        first = f"The last {what}, {newest.age(now)},"
        if newest.may_be_resumed:
            first += f" {newest.describe_state(changed_by)}. {progress}"
            if changed_by:
                closing.append("Stop it after its batch: " + Command("changes pause"))
            else:
                closing.append("Go on with it: " + Command("changes resume", newest.id))
                if isinstance(newest, Entry) and newest.may_be_undone and not newest.undoes:
                    closing.append("Or undo it: " + Command("undo", newest.id))
        else:
            first += f" is {newest.state}."
        if left := next((e for e in entries[1:] if e.may_be_resumed), None):
            closing.append("Another one has not ended: " + Command("changes show", left.id))
    if not changed_by and any(e.is_throttled and not e.may_be_resumed for e in entries):
        closing.append(
            "Remove the throttles that are still set: " + Command("changes clear-throttles")
        )
    undoable = next((e for e in entries if isinstance(e, Entry) and e.may_be_undone), None)
    if undoable and not (changed_by or undoable.may_be_resumed):
        closing.append("Undo one of them by its id: " + Command("undo", undoable.id))
    documents = [
        {**shown, **_about(e), "age": e.age(now, brief=True)}
        for shown, e in zip(objects, entries, strict=True)
    ]
    return Report(
        CHANGES,
        {"entries": documents, "older": older},
        (table,),
        tuple(closing),
        paragraphs(first),
    )


def entry_report(
    entry: Entry,
    snapshot: "Snapshot",
    busy: Collection["PartitionId"],
    now: datetime,
    changed_by: str,
) -> Report:
    """One change: each of its partitions before, as planned, and as the `snapshot` has it; `busy`
    are those that are being reassigned."""
    by_id = snapshot.by_id
    rows = []
    if entry.disks:
        return _disks_entry_report(entry, now, changed_by)
    for partition_id, before in entry.before.items():
        after, seen = entry.after.get(partition_id), by_id.get(partition_id)
        replicas, leader = (seen.replicas, seen.leader) if seen else (None, None)
        led_before = entry.leaders.get(partition_id)
        if partition_id in busy:
            state = "under way"
        elif entry.kind.has_way_back:
            state = _placed(entry, partition_id, replicas)
        else:
            state = _leader_state(leader, led_before, replicas)
        rows.append((*partition_id, before, after, replicas, led_before, leader, state))
    table, partitions = listing(
        "Partitions",
        {
            "topic": "Topic",
            "partition": "Partition",
            "replicas_before": "Before",
            "replicas_after": "Planned",
            "replicas": "Now",
            "leader_before": Column("Led before", detail=True),
            "leader": Column("Leader", detail=True),
            "state": "State",
        },
        rows,
    )
    states = Counter(str(row[-1]) for row in rows)
    closing = [f"Saved in {entry.saved}, in Kafka's own JSON too."]
    if entry.throttle is not None and not states["under way"]:
        closing.append(
            "Its throttle is still set. Remove it: " + Command("changes clear-throttles")
        )
    closing += _next_steps(entry, changed_by)
    document = {
        "id": entry.id,
        **_about(entry),
        "changed_at": [{"state": state, "at": at} for state, at in entry.changed_at],
        "partitions": partitions,
    }
    counts = ", ".join(f"{count:,} {state}" for state, count in states.items())
    phase = (f"It has come to {phase_reached(entry)}.",) if entry.phases else ()
    opening = paragraphs(
        f"Of {counted(len(rows), 'partition')}: {counts}.",
        *phase,
        made_line(entry, now, changed_by),
    )
    return Report(CHANGES, document, (table,), tuple(closing), opening)


def _disks_entry_report(entry: Entry, now: datetime, changed_by: str) -> Report:
    """A change of disks: each replica, from where and to where."""
    count = counted(len(entry.disks), "replica", "move")
    report = Report(
        CHANGES,
        {"id": entry.id, **_about(entry)},
        (),
        tuple(_next_steps(entry, changed_by)),
        paragraphs(f"{count} to other disks of their brokers.", made_line(entry, now, changed_by)),
    )
    return with_disks(report, entry.disks, "Disks")


def made_line(entry: Entry | RollRecord, now: datetime, changed_by: str) -> str:
    """When, and by whom, and how it stands."""
    return f"Made {entry.age(now)} by {entry.origin}; {entry.shown_state(changed_by)}."


def _next_steps(entry: Entry, changed_by: str) -> Iterator[NextStep]:
    """What may be done about it, unless somebody is at work."""
    if entry.may_be_resumed and not changed_by:
        yield "Go on with it: " + Command("changes resume", entry.id)
    if entry.may_be_undone and not changed_by:
        yield "Undo it: " + Command("undo", entry.id)


def _placed(entry: Entry, partition: "PartitionId", replicas: tuple[int, ...] | None) -> str:
    """Where the replicas of a partition are, beside where the change was to bring them."""
    if replicas is None:
        return "gone"
    if replicas == entry.after.get(partition):
        return "as planned"
    if replicas == entry.before[partition]:
        return "as before"
    phases = [at for at, phase in enumerate(entry.phases, 1) if phase.get(partition) == replicas]
    return f"as of phase {phases[-1]}" if phases else "otherwise"


def _leader_state(leader: int | None, before: int | None, replicas: tuple[int, ...] | None) -> str:
    """Who leads a partition now, of which an election was held."""
    if leader is None or replicas is None:
        return "gone"
    if leader < 0:
        return "without a leader"
    if leader == replicas[0]:
        return "led by its preferred replica"
    return "led as before" if leader == before else "led by another"


def _as_planned(entry: Entry) -> str:
    return (
        "have their new replicas"
        if entry.kind.has_way_back
        else "are led by their preferred replica"
    )


def _state(entry: Entry | RollRecord, changed_by: str) -> str:
    state = entry.shown_state(changed_by)
    if isinstance(entry, RollRecord):
        return state if entry.state is RollState.DONE else f"{state}, {entry.progress}"
    return f"{state}, {phase_reached(entry)}" if entry.is_open and entry.phases else state


def _made_at(entry: Entry | RollRecord) -> str | None:
    return entry.made_at.isoformat() if entry.made_at else None


def _about(entry: Entry | RollRecord) -> dict[str, Any]:
    about = {
        "kind": str(entry.kind),
        "state": str(entry.state),
        "made_at": _made_at(entry),
        "command_line": list(entry.origin.command),
        "user": entry.origin.user,
        "host": entry.origin.host,
    }
    if isinstance(entry, RollRecord):
        return about | {"node_count": len(entry.steps), "node_count_left": len(entry.left)}
    about |= {"undoes": entry.undoes or None, "saved": str(entry.saved)}
    return about | (
        {"phase_number": entry.phase + 1, "phase_count": len(entry.phases)} if entry.phases else {}
    )
