"""Leaders of kipctl's own topics moved on by one replica: no question, no journal."""

from collections.abc import Sequence

from kipctl.changes.execution.plan_execution import rotate_leaders
from kipctl.changes.execution.plan_result import LeadersMoved
from kipctl.changes.plans.plan import require_moves
from kipctl.changes.plans.planners.rotate_leaders import rotate
from kipctl.cluster.metadata_convergence import OnEvent, ignore_event
from kipctl.cluster.snapshot import is_glob, select, take_snapshot
from kipctl.transport.request import Cluster


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
