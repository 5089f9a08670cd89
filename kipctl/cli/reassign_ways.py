"""`kipctl reassign` by a way to plan: drain, leaders off, add and so on (`cluster/planners`)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kipctl.cli.reassign_modes import (
    UNDO,
    ReassignRequest,
    afterwards,
    ask_again,
    demand_replicas,
    demand_room,
    in_numbers,
    look,
    say_plan,
    show_plan,
)
from kipctl.counts import counted
from kipctl.report.leader_tables import moved_report
from kipctl.report.reassign_tables import REASSIGN, with_skipped

if TYPE_CHECKING:
    from kipctl.cluster.moves.plan import Plan
    from kipctl.cluster.moves.planners.options import PlannerOption
    from kipctl.cluster.moves.throttle import StillSet
    from kipctl.cluster.snapshot import Snapshot


def way_of(
    drain: Sequence[str],
    leaders_off: Sequence[str],
    leader: Sequence[str],
    balance: str | None,
    add: Sequence[str],
    replaced: Sequence[str],
    factor: int | None,
    rack_aware: bool,
    force: bool,
) -> "PlannerOption | None":
    """The way that the options name, of which one is given at most. Raises UsageError."""
    from kipctl.cluster.moves.planners import options

    if drain:
        return options.drain_way(drain)
    if leaders_off:
        return options.leaders_off_way(leaders_off)
    if leader:
        return options.leader_way(leader)
    if balance is not None:
        return options.balance_way(balance)
    if add:
        return options.add_way(add)
    if replaced:
        return options.replace_way(replaced)
    if factor is not None:
        return options.replication_factor_way(factor, force=force)
    return options.rack_aware_way() if rack_aware else None


def carry_out_way(request: ReassignRequest, way: "PlannerOption") -> None:
    """Plan, show, ask, look again, carry out in batches with an election after each, report.

    Sizes are asked for once: a plan that is made again after the question is by the same ones.
    """
    from kipctl.cluster.moves.log_sizes import NOT_ASKED, ask_log_sizes
    from kipctl.cluster.moves.plan_execution import rotate_leaders
    from kipctl.cluster.moves.plan_result import demand_all_done
    from kipctl.cluster.moves.planners.placement import PlanInputs
    from kipctl.cluster.moves.safety_checks import (
        demand_no_reassignments,
        demand_same,
        min_insync_replicas,
        replication_factor_warning,
    )
    from kipctl.cluster.moves.throttle import demand_put_back
    from kipctl.cluster.snapshot import select, take_snapshot

    environment, cluster = request.environment, request.cluster
    first = take_snapshot(cluster, named=request.topics)
    logs = ask_log_sizes(cluster, first) if way.copies else NOT_ASKED
    topics = select(first, request.topics).topics if request.topics else first.topics
    insync = min_insync_replicas(cluster, topics) if "--replication-factor" in way.option else {}
    told = {topic: least for topic, least in insync.items() if least is not None}

    def planner(now: "Snapshot") -> "Plan":
        chosen = frozenset(one.id for one in select(now, request.topics).partitions)
        known = PlanInputs(logs.sizes, told, chosen if request.topics else None)
        return way.plan(now, known)

    seen = look(request, planner)
    numbers = in_numbers(request, seen.plan, seen.snapshot, logs)
    if request.dry_run or not seen.plan.moves:
        show_plan(request, seen, numbers)
        return
    demand_no_reassignments(seen.busy, additional=request.additional)
    demand_replicas(request, seen.plan)
    demand_room(request, numbers)
    say_plan(request, numbers, seen.plan)
    journal = request.journal(seen.snapshot.cluster_id)
    request.say_if_unfinished(journal, seen.plan)
    factor = replication_factor_warning(seen.plan)
    environment.confirm(
        f"{way.option}: change {counted(len(seen.plan.moves), 'partition')}?{factor}", request.yes
    )
    still_set: list[StillSet] = []
    with (
        journal.locked(request.origin),
        request.guarded(journal, len(seen.plan.moves)),
    ):
        again = ask_again(request, planner)
        demand_same(seen.plan, again.plan)
        plan, batch = request.guard.along(again.plan, request.pace.batch)
        title = f"Reassigning {counted(len(plan.moves), 'partition')}"
        with (
            request.recorded(journal, plan, still_set) as entry,
            environment.progress(title) as progress,
        ):
            how = request.carrying_out(entry, progress, batch)
            moved = rotate_leaders(cluster, plan, **how)
    before = seen.snapshot.only(move.id for move in seen.plan.moves)
    after = afterwards(cluster, seen.plan.topics)
    report = moved_report(REASSIGN, moved, before, after)
    request.report(with_skipped(report, seen.plan))
    demand_all_done(moved.failures, moved.done, UNDO, has_changed=moved.has_changed)
    demand_put_back(still_set)
