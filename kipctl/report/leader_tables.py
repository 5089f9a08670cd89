"""What `kipctl reassign` and `kipctl elect` print of leaders that moved; tables for both."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kipctl.counts import counted, format_bytes, format_duration
from kipctl.documents.changes import TimelineStep
from kipctl.next_step import Command
from kipctl.own_topic_names import is_own
from kipctl.report.tables import Cell, Column, Report, Table, paragraphs, table_of

if TYPE_CHECKING:
    from kipctl.changes.execution.copy_progress import CopyResult
    from kipctl.changes.execution.plan_result import PlanResult
    from kipctl.changes.journal.entry import Entry
    from kipctl.cluster.snapshot import PartitionId, Snapshot

A_FEW = 20
"""Rows of partitions that are shown unasked."""

Value = Cell | tuple[int, ...]


def listing(
    title: str,
    columns: Mapping[str, Column | str],
    rows: Iterable[tuple[Value, ...]],
    notes: tuple[str, ...] = (),
) -> tuple[Table, list[dict[str, Any]]]:
    """Rows as a table for people and as objects for JSON; `columns` are titles by key, of which
    `took_ms.p50` is within `took_ms`, and that is null where all within it are."""
    rows = tuple(rows)
    shown = tuple(tuple(ids(v) if isinstance(v, tuple) else v for v in row) for row in rows)
    objects = [_nested(dict(zip(columns, row, strict=True))) for row in rows]
    return Table(title, tuple(columns.values()), shown, notes), objects


def _nested(row: dict[str, Value]) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for key, value in row.items():
        head, _, part = key.partition(".")
        if not part:
            shown[key] = value
        elif value is not None:
            shown[head] = {**(shown.get(head) or {}), part: value}
        else:
            shown.setdefault(head, None)
    return shown


def limit_rows(report: Report) -> Report:
    """The report with a few rows of each table for people."""
    return replace(report, tables=tuple(replace(table, most=A_FEW) for table in report.tables))


def ids(brokers: Sequence[int]) -> str:
    """Broker ids as a person reads them."""
    return ", ".join(map(str, brokers))


def moved_report(
    command: str,
    moved: "PlanResult",
    before: "Snapshot",
    after: "Snapshot",
) -> Report:
    """What became of each partition, those that failed first, and how long each step took."""
    failed = {failure.id: str(failure) for failure in moved.failures}
    outcomes = {elected.id: str(elected.outcome) for elected in moved.election_outcome.outcomes}
    now = after.by_id
    by = moved_by(moved, before, after)
    outcomes |= dict.fromkeys(by.data, "moved with its data")
    outcomes |= dict.fromkeys(by.others, "moved by others")
    outcomes |= dict.fromkeys(failed, "failed")
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
                old.leader if old.leader >= 0 else None,
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
    table = replace(
        table,
        rows=tuple(
            (*row[:3], "none" if row[3] is None else row[3], *row[4:])
            for row in sorted(table.rows, key=lambda row: row[-1] is None)
        ),
    )
    steps = [*_timeline(moved)]
    entry, copied = moved.entry, moved.copied
    undo = (way_back_line(entry),) if entry and entry.kind.has_way_back else ()
    title = "Timeline" if moved.batches == 1 else "Timeline of the slowest batch's election"
    timeline = table_of(
        title,
        steps,
        {
            "Step": lambda row: (
                row["step"] if row["broker"] is None else f"broker {row['broker']} {row['step']}"
            ),
            Column("ms since the call"): "after_ms",
        },
        name="timeline",
    )
    return Report(
        command,
        {
            "partitions": partitions,
            "timeline": steps,
            "silent_brokers": moved.election_outcome.silent,
            "watched_brokers": moved.election_outcome.watched,
            "gone": [
                {"topic": p.topic, "partition": p.partition} for p in moved.election_outcome.gone
            ],
            "counts": {"done": moved.done, "failed": len(moved.failures)},
            "leaders_moved": {
                "by_election": len(by.election),
                "with_data": len(by.data),
                "by_others": len(by.others),
            },
            "failures": [str(failure) for failure in moved.failures],
            "copied": copied.document() if copied else None,
            "saved": str(entry.saved) if entry else None,
            "entry": entry.id if entry else None,
        },
        (table, timeline),
        undo,
        paragraphs(_sentence(moved, by, len(before.brokers)), *what_was_copied(copied)),
    )


def what_was_copied(copied: "CopyResult | None") -> tuple[str, ...]:
    """What was copied, beside what was expected; nothing where nothing was."""
    if copied is None:
        return ()
    return (
        f"Copied {format_bytes(copied.copied)} in {format_duration(copied.seconds)};"
        f" {format_bytes(copied.expected_bytes)} were expected.",
    )


def way_back_line(entry: "Entry") -> str:
    """How the change of this entry is undone, and no other one."""
    rate = entry.how.throttle if entry.how and entry.copies_data else None
    pace = f"at most {rate / 1e6:,.1f} MB/s a broker, as it was made; " if rate else ""
    return "Undo: " + Command("undo", entry.id) + f" ({pace}saved in {entry.saved})"


def _timeline(moved: "PlanResult") -> Iterator[TimelineStep]:
    held = moved.election_outcome
    first = moved if moved.batches == 1 and moved.called_us else None
    start_us = first.called_us if first else held.called_us

    def ended(step: str, time_us: int, broker: int | None = None) -> TimelineStep:
        return {"step": step, "broker": broker, "after_ms": (time_us - start_us) / 1000}

    if first:
        yield ended("reassignment answered", first.answered_us)
        yield ended("reassignment finished", first.finished_us)
    yield ended("election called", held.called_us)
    yield ended("election answered", held.answered_us)
    for broker, time_us in sorted(held.knew_us.items()):
        yield ended("knew every new leader", time_us, broker)


@dataclass(frozen=True, slots=True)
class MovedBy:
    """Partitions whose leader is another one now: by an election that was held, with their `data`
    (the leader of before has no replica any more), or by `others`."""

    election: tuple["PartitionId", ...]
    data: tuple["PartitionId", ...]
    others: tuple["PartitionId", ...]
    had_none: bool = False
    """Whether none of them had a leader before."""

    def __len__(self) -> int:
        return len(self.election) + len(self.data) + len(self.others)

    def __str__(self) -> str:
        if self.had_none:
            return f"{counted(len(self), 'partition', 'have')} a leader again"
        text = f"{counted(len(self), 'leader')} moved"
        if not (self.data or self.others):
            return text
        others = f", {len(self.others):,} by others" if self.others else ""
        return (
            f"{text} ({len(self.data):,} with the data, {len(self.election):,} by election{others})"
        )


def moved_by(moved: "PlanResult", before: "Snapshot", after: "Snapshot") -> MovedBy:
    """Whose doing it is that leaders are other ones. A pure function."""
    from kipctl.changes.elections.request import Outcome

    was, now = before.by_id, after.by_id
    elected, data, others = list["PartitionId"](), list["PartitionId"](), list["PartitionId"]()
    for outcome in moved.election_outcome.outcomes:
        if outcome.outcome is Outcome.ELECTED:
            elected.append(outcome.id)
        elif (
            outcome.id in was
            and outcome.id in now
            and now[outcome.id].leader != was[outcome.id].leader
        ):
            has_left = was[outcome.id].leader not in now[outcome.id].replicas
            (data if has_left else others).append(outcome.id)
    had_none = before.partitions != () and before.leaderless == before.partitions
    return MovedBy(tuple(elected), tuple(data), tuple(others), had_none)


def gone_besides(gone: "Sequence[PartitionId]") -> str:
    """What a sentence adds for partitions whose topic was deleted meanwhile."""
    return f", {counted(len(gone), 'partition', 'are')} gone (such as {gone[0]})" if gone else ""


def _sentence(moved: "PlanResult", by: MovedBy, brokers: int) -> str:
    from kipctl.changes.elections.request import Outcome

    held = moved.election_outcome
    if not by and (placed := sum({*m.before} != {*m.after} for m in moved.plan.moves)):
        return f"{counted(placed, 'partition', 'have')} other replicas now; no leader had to move."
    own = {id for id in by.election if is_own(id.topic)}
    reported = str(replace(by, election=tuple(id for id in by.election if id not in own)))
    if own:
        reported += f" (and {len(own):,} of kipctl's own topic)"
    along = {*by.data, *by.others}
    if in_place := sum(
        outcome.outcome is Outcome.NOT_NEEDED
        and outcome.id not in along
        and not is_own(outcome.id.topic)
        for outcome in held.outcomes
    ):
        reported += f", {counted(in_place, '', 'were')} in place"
    reported += gone_besides(held.gone)
    if held.knew_us:
        after_ms = (held.converged_us - held.called_us) / 1000
        who = "every broker"
        if len(held.watched) < brokers:
            who = f"each of the {counted(len(held.watched), 'broker')} asked (of {brokers})"
        at_most = "" if moved.batches == 1 else "at most "
        reported += (
            f"; {who} knew {at_most}{max(0.0, after_ms):.0f} ms after the election was called"
        )
    if held.silent:
        reported += f", but for {ids(held.silent)}, which did not answer: that is not known"
    return reported + "."
