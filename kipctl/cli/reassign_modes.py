"""What each way of `kipctl reassign` does: look, plan, ask, look again, carry out, report."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kipctl.cli.environment import Environment
from kipctl.cli.leader_reports import moved_report
from kipctl.cli.reassign_reports import (
    REASSIGN,
    age,
    cancelled_report,
    history_report,
    in_short,
    left_alone_lines,
    ongoing_report,
    plan_report,
    reassigned_report,
    verified_report,
    with_skipped,
)
from kipctl.errors import RefusedError, UsageError
from kipctl.report.formats import OutputFormat
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.cluster.cancel import Chosen
    from kipctl.cluster.change import Pace
    from kipctl.cluster.guards import Planner, Survey
    from kipctl.cluster.journal import Entry, Journal, Origin
    from kipctl.cluster.plan import Plan
    from kipctl.cluster.reassign import Ongoing
    from kipctl.cluster.rollback import WayBack
    from kipctl.cluster.snapshot import PartitionId, Snapshot
    from kipctl.transport.request import Cluster

T = TypeVar("T")

UNDO = "Undo: kipctl reassign --rollback"
_SHOWN_ENTRIES = 20
_AFTERWARDS_S = 10.0
"""How long the last look, for the report, is tried again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A command line of `kipctl reassign`, but for which way it goes."""

    environment: Environment
    cluster: "Cluster"
    topics: Sequence[str]
    entry: str
    dry_run: bool
    yes: bool
    force: bool
    additional: bool
    change_factor: bool
    measure: bool
    every_row: bool
    timeout_s: float
    pace: "Pace"
    output: OutputFormat

    @property
    def origin(self) -> "Origin":
        from kipctl.cluster.journal import Origin

        return Origin.here(self.environment.arguments)

    def journal(self, cluster_id: str) -> "Journal":
        from kipctl.cluster.journal import journal

        return journal(cluster_id, self.environment.variables)

    def report(self, report: Report) -> None:
        self.environment.report(report, self.output)

    def carrying_out(self, kept: "Journal", progress: Callable[[str], None]) -> dict[str, Any]:
        """How a change is carried out, as its functions take it."""
        return {
            "journal": kept,
            "origin": self.origin,
            "progress": progress,
            "timeout_s": self.timeout_s,
            "pace": self.pace,
            "additional": self.additional,
        }


def rotate(asked: Asked) -> None:
    """Rotate the leaders of the topics asked for; without topics those of all."""
    from kipctl.cluster.change import LeadersMoved, demand_all_done, rotate_leaders
    from kipctl.cluster.guards import demand_quiet, demand_same
    from kipctl.cluster.plan import demand_moves
    from kipctl.cluster.plan import rotate as rotated
    from kipctl.cluster.snapshot import select

    environment, cluster = asked.environment, asked.cluster

    def planner(now: "Snapshot") -> "Plan":
        return rotated(select(now, asked.topics))

    seen = _survey(asked, planner)
    if not asked.dry_run:
        demand_quiet(seen.busy, additional=asked.additional)
    demand_moves(seen.plan, asked.topics)
    if asked.dry_run:
        _show(asked, seen)
        return
    _say(asked, seen.plan, seen.snapshot)
    environment.confirm(f"Rotate the leaders of {len(seen.plan.moves)} partitions?", asked.yes)
    kept = asked.journal(seen.snapshot.cluster_id)
    made: tuple[str, ...] = ()
    if asked.measure:
        from kipctl.experiments.plan import OWN_TOPIC

        made = (OWN_TOPIC,)

    def plan_with_made(now: "Snapshot") -> "Plan":
        chosen = select(now, asked.topics).partitions
        own = select(now, made).partitions if made else ()
        return rotated(now.only(one.id for one in (*chosen, *own)))

    def carry_out() -> LeadersMoved:
        again = _again(asked, plan_with_made)
        demand_same(seen.plan, again.plan, made)
        with environment.progress(f"Rotating {len(again.plan.moves)} partitions") as progress:
            return rotate_leaders(cluster, again.plan, **asked.carrying_out(kept, progress))

    with kept.locked(asked.origin):
        moved, measured_load = _measured(carry_out, asked)
    topics = [*seen.plan.topics, *made]
    before = seen.snapshot.only(move.id for move in seen.plan.moves)
    report = moved_report(REASSIGN, moved, before, _afterwards(cluster, topics), asked.every_row)
    asked.report(_with_measured_load(with_skipped(report, seen.plan), measured_load))
    demand_all_done(moved.failures, moved.done, UNDO, has_changed=moved.has_changed)


def carry_out_plan(asked: Asked, path: Path) -> None:
    """Carry out an assignment in Kafka's own JSON."""
    from kipctl.cluster.change import Reassigned, demand_all_done, reassign
    from kipctl.cluster.guards import (
        demand_factor_wanted,
        demand_quiet,
        demand_same,
        question_of_factor,
    )
    from kipctl.cluster.kafka_json import check_against, read_reassignment
    from kipctl.cluster.plan import reach

    environment, cluster = asked.environment, asked.cluster
    file = read_reassignment(path)

    def planner(now: "Snapshot") -> "Plan":
        check_against(file, now)
        return reach(now, file.assignment)

    seen = _survey(asked, planner)
    if file.names_log_dirs:
        environment.message(f"The log_dirs of {path} are ignored: brokers place new replicas.")
    if asked.dry_run or not seen.plan.moves:
        _show(asked, seen, elects=False)
        return
    demand_factor_wanted(seen.plan, wanted=asked.change_factor)
    _demand_enough_replicas(asked, seen.plan)
    demand_quiet(seen.busy, additional=asked.additional)
    _say(asked, seen.plan, seen.snapshot)
    factor = question_of_factor(seen.plan)
    environment.confirm(f"Reassign {len(seen.plan.moves)} partitions?{factor}", asked.yes)
    kept = asked.journal(seen.snapshot.cluster_id)

    def carry_out() -> Reassigned:
        again = _again(asked, planner)
        demand_same(seen.plan, again.plan)
        with environment.progress(f"Reassigning {len(again.plan.moves)} partitions") as progress:
            return reassign(cluster, again.plan, **asked.carrying_out(kept, progress))

    with kept.locked(asked.origin):
        done, measured_load = _measured(carry_out, asked)
    report = reassigned_report(done, _afterwards(cluster, done.plan.topics), asked.every_row)
    asked.report(_with_measured_load(with_skipped(report, seen.plan), measured_load))
    demand_all_done(done.refused, len(done.plan.moves), UNDO)


def roll_back(asked: Asked) -> None:
    """Undo the last change of kipctl's own, or the entry asked for."""
    from kipctl.cluster.change import demand_all_done
    from kipctl.cluster.change import roll_back as rolled_back
    from kipctl.cluster.guards import demand_quiet, demand_same, question_of_factor
    from kipctl.cluster.journal import EntryState

    environment, cluster = asked.environment, asked.cluster
    kept, entry, busy, before, way = _way_back(asked)
    if asked.dry_run:
        about = {"entry": entry.id, "leaders_to_elect": len(way.in_place)}
        closing = (_of_entry(entry), "Nothing was changed.")
        asked.report(
            plan_report(
                way.plan,
                before,
                every_row=asked.every_row,
                busy=busy,
                about=about,
                closing=closing,
            )
        )
        return
    if not way.plan.moves and not way.in_place:
        _nothing_to_roll_back(asked, entry, way)
        return
    demand_quiet(busy, additional=asked.additional)
    _demand_enough_replicas(asked, way.plan)
    _say(asked, way.plan, before)
    if way.in_place:
        environment.message(f"{len(way.in_place)} need their leaders elected only.")
    environment.confirm(
        f"Roll back {len(way.plan.moves) + len(way.in_place)} partitions? {_of_entry(entry)}"
        f"{question_of_factor(way.plan)}",
        asked.yes,
    )
    with kept.locked(asked.origin):
        again = _way_back(replace(asked, entry=entry.id))[-1]
        demand_same(way.plan, again.plan)
        if entry.state is EntryState.SUBMITTED:
            entry = entry.mark(EntryState.DONE)  # it has happened: that is to be seen
        with environment.progress(f"Rolling back {len(way.plan.moves)} partitions") as progress:
            moved = rolled_back(
                cluster,
                again.plan,
                again.in_place,
                undoes=entry.id,
                **asked.carrying_out(kept, progress),
            )
        if not moved.failures and again.is_whole:
            _mark_undone(asked, entry)
    known = before.only((*again.in_place, *again.plan.target))
    after = _afterwards(cluster, known.topics)
    report = moved_report(REASSIGN, moved, known, after, asked.every_row)
    asked.report(with_skipped(report, again.plan))
    demand_all_done(
        moved.failures,
        moved.done,
        "Try again: kipctl reassign --rollback",
        has_changed=moved.has_changed,
    )


def _way_back(
    asked: Asked,
) -> tuple["Journal", "Entry", Sequence["Ongoing"], "Snapshot", "WayBack"]:
    """The journal, its entry to undo, and the way back as the cluster is now."""
    from kipctl.cluster.guards import busy_now
    from kipctl.cluster.reassign import topic_ids
    from kipctl.cluster.rollback import entry_to_undo, way_back
    from kipctl.cluster.snapshot import take_snapshot

    cluster = asked.cluster
    busy, why = busy_now(cluster, may_not_list=asked.dry_run)
    _say_if_not_listed(asked, why)
    before = take_snapshot(cluster)
    kept = asked.journal(before.cluster_id)
    busy_ids = [one.id for one in busy]
    if asked.entry:
        entry: Entry | None = kept.find(asked.entry)
    else:
        undoable = kept.undoable(lambda damaged: asked.environment.message(str(damaged)))
        entry = entry_to_undo(undoable, before, busy_ids)
    if entry is None:
        raise RefusedError(
            "There is nothing to roll back: no change of this cluster that could be undone is in"
            f" {kept.folder}.",
            "See what was done: kipctl reassign --history. Play an assignment of your own back with"
            " --plan FILE.",
        )
    if not entry.may_be_undone:
        raise RefusedError(
            f"Entry {entry.id} is {entry.state}: there is nothing to undo.",
            "See the others: kipctl reassign --history",
        )
    if entry.cluster_id not in ("", before.cluster_id):
        raise RefusedError(
            f"Entry {entry.id} is of another cluster: {entry.cluster_id}.",
            "See where it came from; it is no way back here.",
        )
    topics = sorted({p.topic for p in entry.before} & set(before.topics))
    now_ids = topic_ids(cluster, topics) if entry.topic_ids else {}
    way = way_back(entry, before, now_ids, busy_ids, force=asked.force)
    return kept, entry, busy, before, way


def _mark_undone(asked: Asked, entry: "Entry") -> None:
    """What has been done is told of also when the journal cannot be written any more."""
    from kipctl.cluster.journal import EntryState

    try:
        entry.mark(EntryState.UNDONE)
    except UsageError as error:
        asked.environment.message(f"Entry {entry.id} is not marked as undone: {error.what}")


def _nothing_to_roll_back(asked: Asked, entry: "Entry", way: "WayBack") -> None:
    from kipctl.cluster.rollback import BACK, GONE

    if {skipped.reason for skipped in way.plan.skipped} <= {BACK, GONE}:
        _mark_undone(asked, entry)
        asked.environment.message(f"All is as before entry {entry.id}: it is undone.")
        return
    reasons = left_alone_lines(way.plan)
    raise RefusedError(
        f"Nothing of entry {entry.id} can be rolled back. {' '.join(reasons[:3])}",
        "Choose another (--history, --entry ID), insist with --force, or stop what is being"
        " reassigned: kipctl reassign --cancel",
    )


def _of_entry(entry: "Entry") -> str:
    """What a question about an entry says of it."""
    form = " It is of an earlier kipctl, which did not note how it left the cluster."
    return f"Back to what was before {_whose(entry)}.{form if entry.is_of_old_form else ''}"


def _whose(entry: "Entry") -> str:
    return f"{entry.origin} ({age(entry.made_at, datetime.now(UTC))}, entry {entry.id})"


def verify(asked: Asked, path: Path) -> None:
    """Compare the cluster with an assignment in Kafka's own JSON."""
    from kipctl.cluster.kafka_json import check_against, read_reassignment
    from kipctl.cluster.reassign import demand_as_planned
    from kipctl.cluster.reassign import verify as verified_with
    from kipctl.cluster.snapshot import take_snapshot

    file = read_reassignment(path)
    check_against(file, take_snapshot(asked.cluster), brokers_alive=False)
    verified = verified_with(asked.cluster, file.assignment)
    asked.report(verified_report(verified, file.assignment, asked.every_row))
    demand_as_planned(verified)


def show(asked: Asked) -> None:
    """List what is being reassigned."""
    asked.report(ongoing_report(_ongoing(asked), every_row=asked.every_row))


def history(asked: Asked) -> None:
    """List the journal's newest entries."""
    kept = asked.journal(asked.cluster.metadata(()).cluster_id or "")
    found = kept.entries(lambda damaged: asked.environment.message(str(damaged)))
    entries = tuple(islice(found, _SHOWN_ENTRIES))
    older = kept.count() - len(entries) if len(entries) == _SHOWN_ENTRIES else 0
    asked.report(history_report(entries, older, str(kept.folder), datetime.now(UTC)))


def cancel(asked: Asked, path: Path | None, everything: bool) -> None:
    """Stop what kipctl's own last change still moves, or what was asked for."""
    from kipctl.cluster.cancel import cancel as cancelled_by
    from kipctl.cluster.change import demand_all_done
    from kipctl.cluster.kafka_json import read_reassignment

    named = None if path is None else read_reassignment(path).assignment
    busy = _ongoing(asked)
    chosen = _chosen(asked, busy, named, everything)
    others = (
        (f"{len(chosen.left_alone)} others are left alone: choose with --topic, --plan or --all.",)
        if chosen.left_alone
        else ()
    )
    if asked.dry_run or not chosen.stop:
        title = "To be cancelled"
        report = ongoing_report(chosen.stop, title, asked.every_row, others)
        left = ongoing_report(chosen.left_alone, "Left alone", asked.every_row)
        document = {**report.document, "left_alone": left.document["ongoing"]}
        tables = report.tables + (left.tables if chosen.left_alone else ())
        asked.report(replace(report, document=document, tables=tables))
        return
    for line in others:
        asked.environment.message(line)
    foreign = len(chosen.stop) - len(chosen.started)
    begun = {entry.id: entry for entry in chosen.started.values()}
    whose = "".join(f" Begun by {_whose(entry)}." for entry in list(begun.values())[:1])
    whose += f" {foreign} of them kipctl did not start." if foreign else ""
    asked.environment.confirm(
        f"Cancel the reassignment of {len(chosen.stop)} partitions?{whose}", asked.yes
    )
    with asked.environment.progress(f"Cancelling {len(chosen.stop)} reassignments"):
        cancelled = cancelled_by(asked.cluster, chosen, asked.timeout_s)
    topics = sorted({partition_id.topic for partition_id in cancelled.cancelled})
    after = _afterwards(asked.cluster, topics)
    report = cancelled_report(cancelled, after, asked.every_row)
    asked.report(replace(report, closing=(*report.closing, *others)))
    demand_all_done(
        cancelled.refused,
        len(cancelled.cancelled),
        "See: kipctl reassign --list",
        has_changed=bool(cancelled.cancelled),
    )


def _chosen(
    asked: Asked,
    busy: Sequence["Ongoing"],
    named: "Collection[PartitionId] | None",
    everything: bool,
) -> "Chosen":
    from kipctl.cluster.cancel import choose, starters

    wanted = {one.id for one in busy} if everything or asked.topics else named
    kept = asked.journal(asked.cluster.metadata(()).cluster_id or "")
    entry_id = kept.find(asked.entry).id if asked.entry else ""
    entries = kept.entries(lambda damaged: asked.environment.message(str(damaged)))
    return choose(busy, starters(busy, entries), wanted, entry_id)


def _ongoing(asked: Asked) -> tuple["Ongoing", ...]:
    from kipctl.cluster.reassign import ongoing
    from kipctl.cluster.snapshot import select, take_snapshot

    busy = ongoing(asked.cluster)
    if not asked.topics:
        return busy
    shown = take_snapshot(asked.cluster, named=asked.topics)
    chosen = frozenset(select(shown, asked.topics).topics)
    return tuple(one for one in busy if one.id.topic in chosen)


def _survey(asked: Asked, planner: "Planner") -> "Survey":
    from kipctl.cluster.guards import survey

    seen = survey(asked.cluster, planner, asked.topics, may_not_list=asked.dry_run)
    _say_if_not_listed(asked, seen.busy_refused)
    return seen


def _say_if_not_listed(asked: Asked, why: str) -> None:
    if why:
        asked.environment.message(f"What is being reassigned is not in this plan: {why}")


def _again(asked: Asked, planner: "Planner") -> "Survey":
    """The same after the question. Raises RefusedError when something is being reassigned now."""
    from kipctl.cluster.guards import demand_quiet, survey

    again = survey(asked.cluster, planner)
    demand_quiet(again.busy, additional=asked.additional)
    return again


def _show(asked: Asked, seen: "Survey", elects: bool = True) -> None:
    asked.report(
        plan_report(
            seen.plan, seen.snapshot, every_row=asked.every_row, elects=elects, busy=seen.busy
        )
    )


def _say(asked: Asked, plan: "Plan", snapshot: "Snapshot") -> None:
    """What is to be confirmed, in a few lines."""
    from kipctl.cluster.plan_summary import summarize

    asked.environment.message(in_short(summarize(snapshot, plan)))
    for line in left_alone_lines(plan)[:3]:
        asked.environment.message(line)


def _demand_enough_replicas(asked: Asked, plan: "Plan") -> None:
    from kipctl.cluster.guards import demand_enough_replicas, lowered, min_insync_replicas

    if topics := lowered(plan):
        known = min_insync_replicas(asked.cluster, topics)
        demand_enough_replicas(plan, known, force=asked.force)


def _afterwards(cluster: "Cluster", topics: Sequence[str]) -> "Snapshot":
    """What a report shows of the topics that there still are."""
    from kipctl.cluster.reassign import patiently, take_existing

    return patiently(lambda: take_existing(cluster, topics), time.monotonic() + _AFTERWARDS_S)


def _measured(act: Callable[[], T], asked: Asked) -> tuple[T, Mapping[str, object] | None]:
    """Act; to be measured, also the document of what it cost a producer."""
    if not asked.measure:
        return act(), None
    from kipctl.experiments.conduct import Listeners
    from kipctl.experiments.perf import measured_during

    listeners = Listeners(asked.environment.message)
    done, measured_load = measured_during(act, asked.cluster, listeners)
    return done, measured_load.document


def _with_measured_load(report: Report, measured_load: Mapping[str, object] | None) -> Report:
    if measured_load is None:
        return report
    from kipctl.report.perf_tables import perf_tables

    return replace(
        report,
        document={**report.document, "measured": measured_load},
        tables=report.tables + perf_tables(measured_load),
    )
