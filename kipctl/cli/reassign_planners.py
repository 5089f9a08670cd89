"""`kipctl reassign` by a plan: a rotation, a file, and ways to plan (`cluster/moves/planners`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kipctl.cli.change_context import (
    UNDO,
    ChangeContext,
    final_snapshot,
    replan,
    require_possible,
    show_plan,
    summarize_plan,
    survey_plan,
)
from kipctl.cli.way_back import automatic_undo
from kipctl.counts import counted
from kipctl.report.leader_tables import moved_report
from kipctl.report.reassign_tables import (
    REASSIGN,
    plan_report,
    reassigned_report,
    with_skipped,
)
from kipctl.report.tables import Report

if TYPE_CHECKING:
    from kipctl.cluster.moves.log_sizes import LogSizes
    from kipctl.cluster.moves.plan import Plan
    from kipctl.cluster.moves.plan_result import LeadersMoved
    from kipctl.cluster.moves.planners.options import PlannerOption
    from kipctl.cluster.moves.safety_checks import Planner, Survey
    from kipctl.cluster.moves.throttle import NotRestored
    from kipctl.cluster.snapshot import Snapshot

T = TypeVar("T")


def planner_for(option: str, value: Any, force: bool) -> "PlannerOption | None":
    """The way to plan that an option names, read from its value; None for any other option.

    Raises UsageError.
    """
    from kipctl.cluster.moves.planners import options

    ways: Mapping[str, Callable[[Any], PlannerOption]] = {
        "--drain": options.drain_way,
        "--leaders-off": options.leaders_off_way,
        "--leader": options.leader_way,
        "--balance": options.balance_way,
        "--add": options.add_way,
        "--replace": options.replace_way,
        "--replication-factor": partial(options.replication_factor_way, force=force),
        "--rack-aware": lambda _: options.rack_aware_way(),
    }
    return ways[option](value) if option in ways else None


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of the cluster: the plan that was seen first, and how it is made again.

    Where it `elects`, its preferred leaders are elected after each batch, and leaders of a canary's
    topic move along. Only what may copy data `may_meet_throttles`. `made` are topics that are made
    after the question, and belong to the plan that is made again.
    """

    question: str
    """With `{}` for the partitions."""
    title: str
    """The same, of what is done."""
    seen: "Survey"
    planner: "Planner"
    elects: bool = True
    may_meet_throttles: bool = True
    made: tuple[str, ...] = ()
    logs: "LogSizes | None" = None


def rotate(context: ChangeContext) -> None:
    """Rotate the leaders of the topics asked for; without topics those of all."""
    from kipctl.cluster.moves.plan import require_moves
    from kipctl.cluster.moves.planners.rotate_leaders import rotate as rotated
    from kipctl.cluster.moves.safety_checks import require_no_reassignments
    from kipctl.cluster.snapshot import select
    from kipctl.runs.plan import OWN_TOPIC

    made = (OWN_TOPIC,) if context.measure else ()

    def plan_with_made(now: "Snapshot") -> "Plan":
        chosen = select(now, context.topics).partitions
        own = select(now, made).partitions if made else ()
        return rotated(now.only(one.id for one in (*chosen, *own)))

    seen = survey_plan(context, lambda now: rotated(select(now, context.topics)))
    if not context.dry_run:
        require_no_reassignments(seen.busy, additional=context.additional)
    require_moves(seen.plan, context.topics)
    words = "Rotate the leaders of {}?", "Rotating {}"
    _carry_out(context, _Change(*words, seen, plan_with_made, may_meet_throttles=False, made=made))


def carry_out_plan(context: ChangeContext, path: Path) -> None:
    """Carry out an assignment in Kafka's own JSON."""
    from kipctl.cluster.moves.kafka_json import check_against, read_reassignment
    from kipctl.cluster.moves.plan import plan_to
    from kipctl.cluster.moves.safety_checks import require_factor_wanted

    file = read_reassignment(path)

    def planner(now: "Snapshot") -> "Plan":
        check_against(file, now)
        return plan_to(now, file.assignment)

    seen = survey_plan(context, planner, chooses=False)
    if file.names_log_dirs:
        context.environment.message(
            f"The log_dirs of {path} are ignored: brokers place new replicas."
        )
    if not context.dry_run:
        require_factor_wanted(seen.plan, wanted=context.change_factor)
    _carry_out(context, _Change("Reassign {}?", "Reassigning {}", seen, planner, elects=False))


def carry_out_planned(context: ChangeContext, option: "PlannerOption") -> None:
    """Carry out a way to plan, with an election after each batch.

    Sizes are asked for once: a plan that is made again after the question is by the same ones.
    """
    from kipctl.cluster.moves.log_sizes import NOT_ASKED, ask_log_sizes
    from kipctl.cluster.moves.planners.placement import PlanInputs
    from kipctl.cluster.moves.safety_checks import min_insync_replicas
    from kipctl.cluster.snapshot import select, take_snapshot

    cluster = context.cluster
    first = take_snapshot(cluster, named=context.topics)
    logs = ask_log_sizes(cluster, first) if option.copies else NOT_ASKED
    topics = select(first, context.topics).topics if context.topics else first.topics
    insync = min_insync_replicas(cluster, topics) if "--replication-factor" in option.option else {}
    known_insync = {topic: least for topic, least in insync.items() if least is not None}

    def planner(now: "Snapshot") -> "Plan":
        chosen = frozenset(one.id for one in select(now, context.topics).partitions)
        known = PlanInputs(logs.sizes, known_insync, chosen if context.topics else None)
        return option.plan(now, known)

    words = f"{option.option}: change {{}}?", "Reassigning {}"
    _carry_out(context, _Change(*words, survey_plan(context, planner), planner, logs=logs))


def _carry_out(context: ChangeContext, change: _Change) -> None:
    """Show the plan, ask, look again, carry it out in batches, and report.

    A dry run, and a plan that moves nothing, end with what is shown.
    """
    from kipctl.cluster.moves.plan_execution import reassign, rotate_leaders
    from kipctl.cluster.moves.plan_result import Reassigned, require_all_done
    from kipctl.cluster.moves.safety_checks import (
        replication_factor_warning,
        require_no_reassignments,
        require_same,
    )
    from kipctl.cluster.moves.throttle import require_put_back

    environment, cluster, seen = context.environment, context.cluster, change.seen
    numbers = summarize_plan(context, seen.plan, seen.snapshot, change.logs)
    if context.dry_run or not seen.plan.moves:
        context.report(
            plan_report(
                seen.plan,
                numbers,
                elects=change.elects,
                throttle=context.throttle,
                busy=seen.busy,
            )
        )
        return
    require_no_reassignments(seen.busy, additional=context.additional)
    require_possible(context, seen.plan, numbers)
    show_plan(context, numbers, seen.plan)
    journal = context.journal(seen.snapshot.cluster_id)
    context.report_unfinished(journal, seen.plan if change.may_meet_throttles else None)
    question = change.question.replace("{}", counted(len(seen.plan.moves), "partition"))
    environment.confirm(f"{question}{replication_factor_warning(seen.plan)}", context.yes)
    not_restored: list[NotRestored] = []

    def act() -> "LeadersMoved | Reassigned":
        plan, batch = replan(context, change.planner).plan, context.pace.batch
        require_same(seen.plan, plan, change.made)
        if change.elects:
            plan, batch = context.guard.with_canary_moves(plan, batch)
        title = change.title.replace("{}", counted(len(plan.moves), "partition"))
        with (
            context.recorded(journal, plan, not_restored, elects=change.elects) as entry,
            environment.progress(title) as progress,
        ):
            how = context.carrying_out(entry, progress, batch)
            if change.elects:
                return rotate_leaders(cluster, plan, **how)
            return reassign(cluster, plan, **how)

    along = len(seen.plan.moves) if change.elects else 0
    with journal.locked(context.origin), context.guarded(journal, automatic_undo, along):
        done, measured_load = _measured(act, context, moves_leaders=bool(change.made))
    if isinstance(done, Reassigned):
        report = reassigned_report(done, final_snapshot(cluster, done.plan.topics))
        failures, count, has_changed = done.refused, len(done.plan.moves), False
    else:
        before = seen.snapshot.only(move.id for move in seen.plan.moves)
        after = final_snapshot(cluster, [*seen.plan.topics, *change.made])
        report = moved_report(REASSIGN, done, before, after)
        failures, count, has_changed = done.failures, done.done, done.has_changed
    context.report(_with_measured_load(with_skipped(report, seen.plan), measured_load))
    require_all_done(failures, count, UNDO, has_changed=has_changed)
    require_put_back(not_restored)


def _measured(
    act: Callable[[], T], context: ChangeContext, *, moves_leaders: bool
) -> tuple[T, Mapping[str, object] | None]:
    """Act; to be measured, also the document of what it cost a producer. `moves_leaders` says
    whether those of the producer's topic move along."""
    if not context.measure:
        return act(), None
    from kipctl.runs.execute import Listeners
    from kipctl.runs.produce import measure_during

    listeners = Listeners(context.environment.message)
    done, measured_load = measure_during(
        act, context.cluster, listeners, moves_leaders=moves_leaders
    )
    return done, measured_load.document


def _with_measured_load(report: Report, measured_load: Mapping[str, object] | None) -> Report:
    if measured_load is None:
        return report
    from kipctl.report.perf_tables import moves_answer, perf_tables

    return replace(
        report,
        document={**report.document, "measured": measured_load},
        tables=report.tables + perf_tables(measured_load),
        opening=(*report.opening[:1], *moves_answer(measured_load), *report.opening[1:]),
    )
