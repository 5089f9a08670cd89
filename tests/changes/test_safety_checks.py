"""What is refused before anything is submitted, by table."""

import pytest

from kipctl.changes.execution.safety_checks import (
    replication_factor_warning,
    require_enough_replicas,
    require_factor_wanted,
    require_no_reassignments,
    require_same,
    topics_losing_replicas,
)
from kipctl.changes.plans.plan import Move, Plan
from kipctl.cluster.reassignments import Reassignment
from kipctl.cluster.snapshot import PartitionId
from kipctl.errors import RefusedError

Replicas = tuple[int, ...]
BUSY = Reassignment(PartitionId("other", 0), (1, 2), (2,), ())


def plan(*moves: tuple[Replicas, Replicas], topic: str = "t", leader: int = 1) -> Plan:
    return Plan(
        tuple(
            Move(PartitionId(topic, n), before, after, leader)
            for n, (before, after) in enumerate(moves)
        )
    )


def test_nothing_is_begun_beside_what_others_reassign() -> None:
    require_no_reassignments([], additional=False)
    require_no_reassignments([BUSY], additional=True)
    with pytest.raises(RefusedError, match="other-0 is being reassigned already"):
        require_no_reassignments([BUSY], additional=False)
    with pytest.raises(RefusedError, match="Changing the cluster now: process 7"):
        require_no_reassignments([BUSY], additional=False, changed_by="process 7")
    with pytest.raises(RefusedError, match="other-0 and 1 more partition are being reassigned"):
        require_no_reassignments([BUSY, BUSY], additional=False)


@pytest.mark.parametrize(
    ("again", "is_same"),
    [
        (plan(((1, 2), (2, 1))), True),
        (plan(((1, 2), (2, 1)), leader=2), True),
        (plan(((1, 2), (1, 3))), False),
        (plan(((3, 2), (2, 1))), False),
        (plan(((1, 2), (2, 1)), ((1, 2), (2, 1))), False),
        (plan(), False),
    ],
)
def test_the_plan_confirmed_is_the_plan_carried_out(again: Plan, is_same: bool) -> None:
    confirmed = plan(((1, 2), (2, 1)))
    if is_same:
        require_same(confirmed, again)
    else:
        with pytest.raises(RefusedError, match="The cluster has changed since the plan was shown"):
            require_same(confirmed, again)


def test_topics_made_for_the_run_are_no_change() -> None:
    own = plan(((1, 2), (2, 1)), topic="own").moves
    confirmed = plan(((1, 2), (2, 1)))
    require_same(confirmed, Plan((*confirmed.moves, *own)), {"own"})


@pytest.mark.parametrize(
    ("before", "after", "min_insync", "is_refused"),
    [
        ((1, 2, 3), (1, 2), 2, False),
        ((1, 2, 3), (1,), 2, True),
        ((1, 2, 3), (1,), 1, False),
        ((1, 2, 3), (1, 2), None, True),
        ((1,), (1, 2), 3, False),  # no worse than it was
        ((1, 2), (2, 1), 3, False),
    ],
)
def test_fewer_replicas_than_min_insync_are_refused(
    before: Replicas, after: Replicas, min_insync: int | None, is_refused: bool
) -> None:
    moves = plan((before, after))
    require_enough_replicas(moves, {"t": min_insync}, force=True)
    if is_refused:
        with pytest.raises(RefusedError, match=r"min\.insync\.replicas of its topic is"):
            require_enough_replicas(moves, {"t": min_insync}, force=False)
    else:
        require_enough_replicas(moves, {"t": min_insync}, force=False)


@pytest.mark.parametrize(
    ("after", "changes", "topics"),
    [((2, 1), False, ()), ((3, 2), False, ()), ((1, 2, 3), True, ()), ((1,), True, ("t",))],
)
def test_another_number_of_replicas_is_asked_for(
    after: Replicas, changes: bool, topics: tuple[str, ...]
) -> None:
    moves = plan(((1, 2), after))
    require_factor_wanted(moves, wanted=True)
    assert topics_losing_replicas(moves) == topics
    assert bool(replication_factor_warning(moves)) is changes
    if changes:
        with pytest.raises(RefusedError, match="changes the replication factor of 1 partition"):
            require_factor_wanted(moves, wanted=False)
    else:
        require_factor_wanted(moves, wanted=False)
