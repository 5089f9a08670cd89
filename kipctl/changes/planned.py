"""Changes by a plan: a rotation, a file of Kafka's JSON, a planner (`changes/plans/planners`)."""

from dataclasses import dataclass
from pathlib import Path

from kipctl.changes.context import ChangeContext
from kipctl.changes.execution.plan_execution import reassign, rotate_leaders
from kipctl.changes.execution.plan_result import LeadersMoved, Reassigned, require_all_done
from kipctl.changes.execution.safety_checks import (
    Planner,
    Survey,
    min_insync_replicas,
    replication_factor_warning,
    require_factor_wanted,
    require_no_reassignments,
    require_same,
)
from kipctl.changes.journal.entry import Entry
from kipctl.changes.plans.kafka_json import check_against, read_reassignment
from kipctl.changes.plans.log_sizes import NOT_ASKED, LogSizes, ask_log_sizes
from kipctl.changes.plans.plan import Plan, plan_to, require_moves
from kipctl.changes.plans.planners.options import PlannerOption
from kipctl.changes.plans.planners.placement import PlanInputs
from kipctl.changes.plans.planners.rotate_leaders import rotate as rotated
from kipctl.changes.throttle import NotRestored, require_put_back
from kipctl.changes.ui import PlanShown
from kipctl.changes.way_back import automatic_undo
from kipctl.cluster.snapshot import Snapshot, select, take_snapshot
from kipctl.counts import counted


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A change of the cluster: the plan that was seen first, and how it is made again.

    Where it `elects`, its preferred leaders are elected after each batch, and leaders of a canary's
    topic move along. Only what may copy data `may_meet_throttles`. `made` are topics that are made
    after the question, and belong to the plan that is made again.
    """

    question: str
    """With `{}` for the partitions."""
    title: str
    """The same, of what is done."""
    seen: Survey
    planner: Planner
    elects: bool = True
    may_meet_throttles: bool = True
    made: tuple[str, ...] = ()
    logs: LogSizes | None = None


def rotate(context: ChangeContext) -> None:
    """Rotate the leaders of the topics asked for; without topics those of all."""
    made = context.measured_on

    def plan_with_made(now: Snapshot) -> Plan:
        chosen = select(now, context.topics).partitions
        own = select(now, made).partitions if made else ()
        return rotated(now.only(one.id for one in (*chosen, *own)))

    seen = context.survey(lambda now: rotated(select(now, context.topics)))
    if not context.dry_run:
        require_no_reassignments(seen.busy, additional=context.additional)
    require_moves(seen.plan, context.topics)
    words = "Rotate the leaders of {}?", "Rotating {}"
    carry_out(
        context, PlannedChange(*words, seen, plan_with_made, may_meet_throttles=False, made=made)
    )


def carry_out_plan(context: ChangeContext, path: Path) -> None:
    """Carry out an assignment in Kafka's own JSON."""
    file = read_reassignment(path)

    def planner(now: Snapshot) -> Plan:
        check_against(file, now)
        return plan_to(now, file.assignment)

    seen = context.survey(planner, chooses=False)
    if file.names_log_dirs:
        context.ui.say(f"The log_dirs of {path} are ignored: brokers place new replicas.")
    if not context.dry_run:
        require_factor_wanted(seen.plan, wanted=context.change_factor)
    carry_out(context, PlannedChange("Reassign {}?", "Reassigning {}", seen, planner, elects=False))


def carry_out_planned(context: ChangeContext, option: PlannerOption) -> None:
    """Carry out a way to plan, with an election after each batch.

    Sizes are asked for once: a plan that is made again after the question is by the same ones.
    """
    cluster = context.cluster
    first = take_snapshot(cluster, named=context.topics)
    logs = ask_log_sizes(cluster, first) if option.copies else NOT_ASKED
    topics = select(first, context.topics).topics if context.topics else first.topics
    insync = min_insync_replicas(cluster, topics) if "--replication-factor" in option.option else {}
    known_insync = {topic: least for topic, least in insync.items() if least is not None}

    def planner(now: Snapshot) -> Plan:
        chosen = frozenset(one.id for one in select(now, context.topics).partitions)
        known = PlanInputs(logs.sizes, known_insync, chosen if context.topics else None)
        return option.plan(now, known)

    words = f"{option.option}: change {{}}?", "Reassigning {}"
    carry_out(context, PlannedChange(*words, context.survey(planner), planner, logs=logs))


def carry_out(context: ChangeContext, change: PlannedChange) -> None:
    """Show the plan, ask, look again, carry it out in batches, and report.

    A dry run, and a plan that moves nothing, end with what is shown.
    """
    cluster, seen = context.cluster, change.seen
    summary = context.summarize(seen.plan, seen.snapshot, change.logs)
    if context.dry_run or not seen.plan.moves:
        context.ui.plan(PlanShown(seen.plan, summary, change.elects, context.throttle, seen.busy))
        return
    require_no_reassignments(seen.busy, additional=context.additional)
    context.require_possible(seen.plan, summary)
    context.show(seen.plan, summary)
    journal = context.journal(seen.snapshot.cluster_id)
    context.say_unfinished(journal, seen.plan if change.may_meet_throttles else None)
    question = change.question.replace("{}", counted(len(seen.plan.moves), "partition"))
    context.ui.confirm(f"{question}{replication_factor_warning(seen.plan)}")
    not_restored: list[NotRestored] = []
    entries: list[Entry] = []

    def act() -> "LeadersMoved | Reassigned":
        plan, batch = context.replan(change.planner).plan, context.pace.batch
        require_same(seen.plan, plan, change.made)
        if change.elects:
            plan, batch = context.guard.with_canary_moves(plan, batch)
        title = change.title.replace("{}", counted(len(plan.moves), "partition"))
        with (
            context.recorded(journal, plan, not_restored, elects=change.elects) as entry,
            context.ui.progress(title) as progress,
        ):
            entries.append(entry)
            how = context.carrying_out(entry, progress, batch)
            if change.elects:
                return rotate_leaders(cluster, plan, **how)
            return reassign(cluster, plan, **how)

    along = len(seen.plan.moves) if change.elects else 0
    with context.locked(journal), context.guarded(journal, automatic_undo, along):
        done = context.ui.measured(act, moves_leaders=bool(change.made))
    if isinstance(done, Reassigned):
        context.ui.reassigned(done, context.final_snapshot(done.plan.topics), seen.plan)
        failures, count, has_changed = done.refused, len(done.plan.moves), False
    else:
        before = seen.snapshot.only(move.id for move in seen.plan.moves)
        after = context.final_snapshot([*seen.plan.topics, *change.made])
        context.ui.moved(done, before, after, seen.plan)
        failures, count, has_changed = done.failures, done.done, done.has_changed
    undo = f"Undo: kipctl undo {entries[0].id}"
    require_all_done(failures, count, undo, has_changed=has_changed)
    require_put_back(not_restored)
