"""Plans, by table: who leads after a rotation, what moves no data, and the way back."""

import pytest

from kipctl.changes.plans.plan import Move, Plan, SkippedPartition, plan_to, require_moves
from kipctl.changes.plans.planners.rotate_leaders import replace_leaders, rotate
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.errors import RefusedError


def snapshot_of(*partitions: Partition, brokers: tuple[int, ...] = (1, 2, 3, 4)) -> Snapshot:
    known = tuple(Broker(id, "localhost", 9000 + id, None) for id in brokers)
    return Snapshot("cluster", known, partitions)


def partition(
    replicas: tuple[int, ...],
    leader: int,
    isr: tuple[int, ...] | None = None,
    offline: tuple[int, ...] = (),
    topic: str = "t",
) -> Partition:
    return Partition(
        PartitionId(topic, 0), replicas, replicas if isr is None else isr, leader, 7, offline
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (partition((1, 2, 3), leader=1), (2, 3, 1)),
        (partition((1, 2), leader=1), (2, 1)),
        # The current leader counts, not the first replica: shifting by one would elect nobody new.
        (partition((1, 2, 3), leader=2), (3, 1, 2)),
        (partition((1, 2, 3), leader=3), (1, 2, 3)),
        (partition((1, 2), leader=2), (1, 2)),
        # A replica that cannot be elected is passed over.
        (partition((1, 2, 3), leader=1, isr=(1, 3)), (3, 1, 2)),
        (partition((1, 2, 3), leader=3, isr=(2, 3)), (2, 3, 1)),
        (partition((1, 2, 3), leader=1, offline=(2,)), (3, 1, 2)),
    ],
)
def test_rotation_elects_the_next_replica_that_can_lead(
    before: Partition, after: tuple[int, ...]
) -> None:
    (move,) = rotate(snapshot_of(before)).moves
    assert move.after == after
    assert move.preferred_leader != before.leader
    assert move.is_reorder


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (partition((1,), leader=1), "it has too few replicas to rotate (1)"),
        (partition((1, 2), leader=-1, isr=(1,)), "it has no leader"),
        (partition((1, 2, 3), leader=2, isr=(2,)), "no replica but its leader is in sync"),
    ],
)
def test_what_cannot_rotate_is_left_alone_and_the_reason_told(
    before: Partition, reason: str
) -> None:
    plan = rotate(snapshot_of(before))
    assert plan == Plan((), (SkippedPartition(before.id, reason),))
    with pytest.raises(RefusedError, match="nothing to rotate") as refused:
        require_moves(plan, [])
    assert reason in refused.value.what


@pytest.mark.parametrize(
    ("before", "brokers", "after"),
    [
        (partition((1, 2), leader=1), (1, 2, 3), (2, 3)),
        (partition((1, 2), leader=2), (1, 2, 3), (1, 3)),
        (partition((2, 3), leader=3), (1, 2, 3), (2, 1)),
        (partition((1, 2, 3), leader=2, isr=(1, 2)), (1, 2, 3, 4), (1, 3, 4)),
        (partition((1,), leader=1), (1, 2), (2,)),
    ],
)
def test_a_leader_is_replaced_by_a_broker_without_a_replica(
    before: Partition, brokers: tuple[int, ...], after: tuple[int, ...]
) -> None:
    (move,) = replace_leaders(snapshot_of(before, brokers=brokers)).moves
    assert move.after == after
    assert before.leader not in move.after


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (partition((1, 2, 3), leader=1), "every broker has a replica of it"),
        (partition((1, 2), leader=-1), "it has no leader"),
        (partition((1, 2), leader=1, isr=(1,)), "no replica but its leader is in sync"),
    ],
)
def test_a_leader_that_cannot_be_replaced_stays(before: Partition, reason: str) -> None:
    plan = replace_leaders(snapshot_of(before, brokers=(1, 2, 3)))
    assert plan == Plan((), (SkippedPartition(before.id, reason),))


def test_a_named_topic_must_rotate_though_others_can() -> None:
    plan = rotate(
        snapshot_of(
            partition((1,), leader=1, topic="solo"), partition((1, 2), leader=1, topic="pair")
        )
    )
    require_moves(plan, [])
    require_moves(plan, ["pair", "*"])
    with pytest.raises(RefusedError, match="Topic 'solo' cannot be rotated"):
        require_moves(plan, ["pair", "solo"])


def test_as_many_rotations_as_replicas_come_back_to_the_start() -> None:
    at = partition((1, 2, 3), leader=1)
    for _ in range(3):
        (move,) = rotate(snapshot_of(at)).moves
        at = partition(move.after, leader=move.preferred_leader)
    assert at == partition((1, 2, 3), leader=1)


@pytest.mark.parametrize(
    ("after", "reorder", "adding", "removing", "factor"),
    [
        ((2, 1), True, (), (), False),
        ((3, 2), False, (3,), (1,), False),
        ((1, 2, 3), False, (3,), (), True),
        ((1,), False, (), (2,), True),
    ],
)
def test_a_reorder_is_told_from_a_move_of_data(
    after: tuple[int, ...],
    reorder: bool,
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    factor: bool,
) -> None:
    move = Move(PartitionId("t", 0), (1, 2), after, leader=1)
    assert move.is_reorder is reorder
    assert (move.adding, move.removing) == (adding, removing)
    assert move.changes_replication_factor is factor
    # One move that copies is enough, beside others that do not.
    others = Move(PartitionId("t", 1), (1, 2), (2, 1), leader=1)
    plan = Plan((others, move, others))
    assert (plan.copies_data, plan.changes_replication_factor) == (bool(adding), factor)


def test_reach_moves_only_what_differs_and_still_exists() -> None:
    now = snapshot_of(
        partition((2, 1), leader=2, topic="moved"), partition((1, 2), leader=1, topic="same")
    )
    saved = {
        PartitionId("same", 0): (1, 2),
        PartitionId("moved", 0): (1, 2),
        PartitionId("gone", 0): (1, 2),
    }
    plan = plan_to(now, saved)
    assert plan.moves == (Move(PartitionId("moved", 0), (2, 1), (1, 2), 2),)
    assert [(s.id.topic, s.reason) for s in plan.skipped] == [
        ("gone", "it does not exist any more"),
        ("same", "it is assigned so already"),
    ]


def test_what_is_left_alone_stands_in_the_plan() -> None:
    ids = [PartitionId("t", number) for number in range(4)]
    plan = Plan((Move(ids[0], (1, 2), (2, 1), 1), Move(ids[1], (1, 2), (2, 1), 1)))
    left = plan.skipping({ids[1]: "busy", ids[3]: "not in it"})
    assert left == Plan(plan.moves[:1], (SkippedPartition(ids[1], "busy"),))
    assert [batch.moves for batch in plan.batches(1)] == [plan.moves[:1], plan.moves[1:]]
    assert list(Plan(()).batches(5)) == []
