"""Changes carried out from end to end: reassign, elect, and wait until every broker knows."""

from collections.abc import Callable, Sequence
from typing import TypedDict, Unpack

from kipctl.changes.execution.batch_execution import Execution
from kipctl.changes.execution.pacing import Pace
from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.execution.reassign import Progress
from kipctl.changes.execution.remaining import Remaining
from kipctl.changes.guard_interface import ChangeGuard
from kipctl.changes.journal.entry import Entry
from kipctl.changes.plans.plan import Plan, require_moves
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cluster.metadata_convergence import OnEvent, ignore_event
from kipctl.cluster.snapshot import is_glob, select, take_snapshot
from kipctl.next_step import Command
from kipctl.transport.request import Cluster


class ExecutionSettings(TypedDict, total=False):
    """How a change is carried out, and who follows it; what is left out is as in `Execution`."""

    on_event: OnEvent
    progress: Progress
    timeout_s: float | None
    pace: Pace
    additional: bool
    guard: ChangeGuard


def reassign(
    cluster: Cluster,
    plan: Plan,
    *,
    entry: Entry | None = None,
    elects: bool = False,
    go_on: Command | None = None,
    **settings: Unpack[ExecutionSettings],
) -> PlanResult:
    """Submit the plan and wait until the cluster has carried it out.

    `entry` is the plan's own in a journal: how far it comes is written into it. All batches
    together, and the pauses between them, have `timeout_s`. None gives each batch BATCH_TIMEOUT_S;
    one that copies data is waited for until no new replica has grown, and no partition has arrived,
    for so long. If it `elects`, preferred leaders are elected after each batch; where replicas are
    in their order already nothing else is done. `go_on` is the command that goes on with it.
    Partitions that were refused are in the result, and so are those that somebody else has changed
    since the plan was made, or is reassigning. Unless `additional` nothing is submitted while
    anything else in the cluster is being reassigned. While the `guard` holds it up nothing is
    submitted, and no leader elected; what is under way goes on.

    Raises RefusedError when nothing was accepted, PartlyDoneError when it ended before all was
    done, TimedOutError, UnreachableError, and InterruptedRunError.
    """
    change = Execution(cluster, plan, entry, elects=elects, go_on=go_on, **settings)
    change.execute()
    return change.finish()


def resume(
    cluster: Cluster,
    left: Remaining,
    entry: Entry,
    *,
    elects: bool,
    is_to_pause: Callable[[], bool] | None = None,
    named: str = "",
    **settings: Unpack[ExecutionSettings],
) -> PlanResult:
    """Do the rest of a change that was cut off.

    First what is under way is waited for. `is_to_pause` is that of the journal whose lock is held,
    where the entry is not in it; `named` is how `kipctl undo` takes it, if not by its id. It raises
    what `reassign` does.
    """
    change = Execution(
        cluster,
        left.plan,
        entry,
        pause_asked=is_to_pause,
        elects=elects,
        named=named,
        is_whole=left.is_whole and not left.later,
        **settings,
    )
    if left.under_way.moves:
        change.resume(left.under_way)
    if left.plan.moves:
        change.execute()
    return change.finish()


def rotate_own_topics(
    cluster: Cluster, topics: Sequence[str], on_event: OnEvent = ignore_event
) -> PlanResult:
    """Move every leader of these topics (names or globs) to its next replica, and wait for it.

    Nothing is saved in a journal. Raises what `reassign` does, and RefusedError when a topic
    cannot be rotated.
    """
    before = select(take_snapshot(cluster, None if any(map(is_glob, topics)) else topics), topics)
    plan = rotate(before)
    require_moves(plan, topics)
    return reassign(cluster, plan, elects=True, on_event=on_event)
