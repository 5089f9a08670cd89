"""The ways back of `kipctl reassign`: the journal, a rollback, a cancellation."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from kipctl.cli.leader_reports import moved_report
from kipctl.cli.reassign_modes import (
    Asked,
    afterwards,
    demand_replicas,
    demand_room,
    in_numbers,
    ongoing_of,
    say_if_not_listed,
    say_plan,
)
from kipctl.cli.reassign_reports import (
    REASSIGN,
    age,
    cancelled_report,
    history_report,
    ongoing_report,
    plan_report,
    with_skipped,
)
from kipctl.errors import RefusedError, UsageError
from kipctl.report.tables import Report, Table

if TYPE_CHECKING:
    from kipctl.cluster.moves.cancel import Chosen
    from kipctl.cluster.moves.journal import Entry, Journal
    from kipctl.cluster.moves.reassign import Ongoing
    from kipctl.cluster.moves.rollback import WayBack
    from kipctl.cluster.snapshot import PartitionId, Snapshot

_SHOWN_ENTRIES = 20


def roll_back(asked: Asked) -> None:
    """Undo the last change of kipctl's own, or the entry asked for."""
    from kipctl.cluster.moves.change import roll_back as rolled_back
    from kipctl.cluster.moves.change_outcome import demand_all_done
    from kipctl.cluster.moves.guards import demand_quiet, demand_same, question_of_factor
    from kipctl.cluster.moves.journal import EntryState

    environment, cluster = asked.environment, asked.cluster
    kept, entry, busy, before, way = _way_back(asked)
    numbers = in_numbers(asked, way.plan, before)
    if asked.dry_run:
        about = {"entry": entry.id, "leaders_to_elect": len(way.in_place)}
        closing = (_of_entry(entry), "Nothing was changed.")
        asked.report(
            plan_report(
                way.plan,
                numbers,
                throttle=asked.throttle,
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
    demand_replicas(asked, way.plan)
    demand_room(asked, numbers)
    say_plan(asked, numbers)
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
        title = f"Rolling back {len(way.plan.moves)} partitions"
        with asked.throttled(kept, again.plan), environment.progress(title) as progress:
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
    after = afterwards(cluster, known.topics)
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
    from kipctl.cluster.moves.guards import busy_now
    from kipctl.cluster.moves.reassign import topic_ids
    from kipctl.cluster.moves.rollback import entry_to_undo, way_back
    from kipctl.cluster.snapshot import take_snapshot

    cluster = asked.cluster
    busy, why = busy_now(cluster, may_not_list=asked.dry_run)
    say_if_not_listed(asked, why)
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
    from kipctl.cluster.moves.journal import EntryState

    try:
        entry.mark(EntryState.UNDONE)
    except UsageError as error:
        asked.environment.message(f"Entry {entry.id} is not marked as undone: {error.what}")


def _nothing_to_roll_back(asked: Asked, entry: "Entry", way: "WayBack") -> None:
    from kipctl.cluster.moves.rollback import BACK, GONE

    if {skipped.reason for skipped in way.plan.skipped} <= {BACK, GONE}:
        _mark_undone(asked, entry)
        asked.environment.message(f"All is as before entry {entry.id}: it is undone.")
        return
    from kipctl.cluster.moves.plan_view import left_alone

    reasons = [str(one) for one in left_alone(way.plan)]
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


def history(asked: Asked) -> None:
    """List the journal's newest entries."""
    kept = asked.journal(asked.cluster.metadata(()).cluster_id or "")
    found = kept.entries(lambda damaged: asked.environment.message(str(damaged)))
    entries = tuple(islice(found, _SHOWN_ENTRIES))
    older = kept.count() - len(entries) if len(entries) == _SHOWN_ENTRIES else 0
    asked.report(history_report(entries, older, str(kept.folder), datetime.now(UTC)))


def cancel(asked: Asked, path: Path | None, everything: bool) -> None:
    """Stop what kipctl's own last change still moves, or what was asked for."""
    from kipctl.cluster.moves.cancel import cancel as cancelled_by
    from kipctl.cluster.moves.change import BATCH_TIMEOUT_S
    from kipctl.cluster.moves.change_outcome import demand_all_done
    from kipctl.cluster.moves.kafka_json import read_reassignment

    named = None if path is None else read_reassignment(path).assignment
    busy = ongoing_of(asked)
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
        cancelled = cancelled_by(asked.cluster, chosen, asked.timeout_s or BATCH_TIMEOUT_S)
    topics = sorted({partition_id.topic for partition_id in cancelled.cancelled})
    after = afterwards(asked.cluster, topics)
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
    from kipctl.cluster.moves.cancel import choose, starters

    wanted = {one.id for one in busy} if everything or asked.topics else named
    kept = asked.journal(asked.cluster.metadata(()).cluster_id or "")
    entry_id = kept.find(asked.entry).id if asked.entry else ""
    entries = kept.entries(lambda damaged: asked.environment.message(str(damaged)))
    return choose(busy, starters(busy, entries), wanted, entry_id)


def clear_throttles(asked: Asked) -> None:
    """Put back the throttles that earlier changes have left."""
    from kipctl.cluster.moves.throttle import demand_put_back
    from kipctl.cluster.moves.throttled import clear, left, needed
    from kipctl.cluster.snapshot import take_snapshot

    environment, cluster = asked.environment, asked.cluster
    kept = asked.journal(take_snapshot(cluster, ()).cluster_id)
    found = left(kept)
    changes = [change for one in found for change in one.throttle.changes]
    rows = tuple(
        (str(c.setting), c.during or "-", "none" if c.before is None else c.before) for c in changes
    )
    notes = () if rows else ("No throttle of this user on this machine is still set.",)
    listed = [{**c.setting._asdict(), "during": c.during, "before": c.before} for c in changes]
    table = Table("Throttles", ("Setting", "Now", "Before"), rows, notes)
    report = Report(REASSIGN, {"throttles": listed}, (table,))
    if asked.dry_run or not found:
        asked.report(report)
        return
    if needed(cluster, found) and not asked.force:
        raise RefusedError(
            "Partitions that they throttle are still being reassigned.",
            "Wait until it is done (kipctl reassign --list), or insist with --force.",
        )
    environment.confirm(f"Put back {len(rows)} settings?", asked.yes)
    with kept.locked(asked.origin):
        still_set = clear(cluster, found, forget=asked.force)
    asked.report(report)
    demand_put_back(still_set)
