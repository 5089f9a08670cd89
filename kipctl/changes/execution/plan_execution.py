"""Changes carried out from end to end: reassign, elect, and wait until every broker knows."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict, Unpack

from kipctl.changes.execution.batch_execution import Execution
from kipctl.changes.execution.pacing import Pace
from kipctl.changes.execution.plan_result import LeadersMoved, Reassigned
from kipctl.changes.execution.reassign import Progress
from kipctl.changes.execution.remaining import Remaining
from kipctl.changes.guard_interface import ChangeGuard
from kipctl.changes.journal.entry import Entry, EntryState
from kipctl.changes.plans.plan import Plan, require_moves
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cluster.metadata_convergence import OnEvent, ignore_event
from kipctl.cluster.snapshot import PartitionId, is_glob, select, take_snapshot
from kipctl.next_step import Command
from kipctl.transport.request import Cluster

_UNDO = Command("undo")


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
    **settings: Unpack[ExecutionSettings],
) -> Reassigned:
    """Submit the plan and wait until the cluster has carried it out.

    `entry` is the plan's own in a journal: how far it comes is written into it. All batches
    together, and the pauses between them, have `timeout_s`. None gives each batch BATCH_TIMEOUT_S;
    one that copies data is waited for until no new replica has grown, and no partition has arrived,
    for so long.
    Partitions that were refused are in the result, and so are those that somebody else has changed
    since the plan was made, or is reassigning. Unless `additional` nothing is submitted while
    anything else in the cluster is being reassigned. While the `guard` holds it up nothing is
    submitted, and no leader elected; what is under way goes on.

    Raises RefusedError when nothing was accepted, PartlyDoneError when it ended before all was
    done, TimedOutError, UnreachableError, and InterruptedRunError.
    """
    change = Execution(cluster, plan, entry, **settings)
    reassigned = change.execute()
    change.finish()
    return reassigned


def rotate_leaders(
    cluster: Cluster,
    plan: Plan,
    *,
    entry: Entry | None = None,
    **settings: Unpack[ExecutionSettings],
) -> LeadersMoved:
    """Carry the plan out, and elect its preferred leaders after each batch.

    As `reassign`; it raises what that and `elect_preferred` do.
    """
    change = Execution(cluster, plan, entry, elects=True, **settings)
    reassigned = change.execute()
    change.finish()
    return change.leaders_moved(reassigned)


def roll_back(
    cluster: Cluster,
    plan: Plan,
    in_place: Mapping[PartitionId, int],
    *,
    entry: Entry | None = None,
    go_on: Command = _UNDO,
    **settings: Unpack[ExecutionSettings],
) -> LeadersMoved:
    """Carry out a way back (`kipctl.changes.execution.remaining`), and elect the leaders of before.

    `in_place` are the leaders to elect where the replicas are back already. What was refused does
    not hold up the others. `go_on` is the command that goes on with it. It raises what
    `rotate_leaders` does.
    """
    change = Execution(cluster, plan, entry, elects=True, go_on=go_on, **settings)
    reassigned = change.execute() if plan.moves else None
    if in_place:
        with change.explain_errors():
            change.elect_in_place(in_place)
    change.finish()
    return change.leaders_moved(reassigned)


def resume(
    cluster: Cluster,
    left: Remaining,
    entry: Entry,
    *,
    elects: bool,
    is_to_pause: Callable[[], bool] | None = None,
    named: str = "",
    **settings: Unpack[ExecutionSettings],
) -> LeadersMoved:
    """Do the rest of a change that was cut off.

    First what is under way is waited for, and leaders are elected where only that is left.
    `is_to_pause` is that of the journal whose lock is held, where the entry is not in it; `named`
    is how `kipctl undo` takes it, if not by its id. It raises what `rotate_leaders` does.
    """
    is_begun = entry.state is not EntryState.PREPARED
    change = Execution(
        cluster,
        left.plan,
        entry,
        pause_asked=is_to_pause,
        elects=elects,
        named=named,
        is_sent=is_begun,
        is_changed=is_begun,
        is_whole=left.is_whole and not left.later,
        **settings,
    )
    with change.explain_errors():
        if left.under_way.moves:
            change.resume(left.under_way)
        if left.in_place:
            change.elect_in_place(left.in_place)
    reassigned = change.execute() if left.plan.moves else change.outcome()
    change.finish()
    return change.leaders_moved(reassigned)


def rotate_own_topics(
    cluster: Cluster, topics: Sequence[str], on_event: OnEvent = ignore_event
) -> LeadersMoved:
    """Move every leader of these topics (names or globs) to its next replica, and wait for it.

    Nothing is saved in a journal. Raises what `rotate_leaders` does, and RefusedError when a topic
    cannot be rotated.
    """
    before = select(take_snapshot(cluster, None if any(map(is_glob, topics)) else topics), topics)
    plan = rotate(before)
    require_moves(plan, topics)
    return rotate_leaders(cluster, plan, on_event=on_event)
