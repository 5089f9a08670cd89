"""What a plan does to each broker, by table."""

from kipctl.cluster.moves.plan import Move, Plan, Skipped, reach
from kipctl.cluster.moves.plan_summary import BrokerLoad, LeftAlone, summarize
from kipctl.cluster.moves.planners.rotation import rotate
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot

T = [PartitionId("t", n) for n in range(4)]
SNAPSHOT = Snapshot(
    "c",
    tuple(Broker(b, "h", 1, None) for b in (1, 2, 3)),
    (
        Partition(T[0], (1, 2), (1, 2), 1, 0),
        Partition(T[1], (1, 2), (1, 2), 1, 0),
        Partition(T[2], (2, 4), (2,), 2, 0),  # broker 4 is down
        Partition(T[3], (4,), (), -1, 0),
    ),
)


def test_a_rotation_by_broker() -> None:
    summary = summarize(SNAPSHOT, rotate(SNAPSHOT))
    assert (summary.partitions, summary.topics, summary.copied) == (2, 1, 0)
    assert summary.brokers == (
        BrokerLoad(1, 2, 0, 2, 2),
        BrokerLoad(2, 1, 3, 3, 3),
        BrokerLoad(3, 0, 0, 0, 0),
        BrokerLoad(4, 0, 0, 2, 2),
    )
    assert summary.left_alone == (
        LeftAlone("no replica but its leader is in sync", 1, T[2]),
        LeftAlone("it has too few replicas to rotate (1)", 1, T[3]),
    )
    assert summary.factors == {}


def test_a_move_of_data_by_broker() -> None:
    summary = summarize(SNAPSHOT, reach(SNAPSHOT, {T[0]: (3, 2), T[1]: (1, 2, 3), T[2]: (2,)}))
    assert (summary.partitions, summary.copied) == (3, 2)
    assert {b.broker: (b.leaders_after, b.replicas_after) for b in summary.brokers} == {
        1: (1, 1),
        2: (1, 3),
        3: (1, 2),
        4: (0, 1),
    }
    assert summary.factors == {(2, 3): 1, (2, 1): 1}


def test_reasons_are_counted_and_the_first_is_the_example() -> None:
    plan = Plan((), (Skipped(T[1], "a"), Skipped(T[2], "b"), Skipped(T[3], "b")))
    assert summarize(SNAPSHOT, plan).left_alone == (
        LeftAlone("b", 2, T[2]),
        LeftAlone("a", 1, T[1]),
    )


def test_what_is_left_alone_stands_in_the_plan() -> None:
    plan = Plan((Move(T[0], (1, 2), (2, 1), 1), Move(T[1], (1, 2), (2, 1), 1)))
    left = plan.leaving_alone({T[1]: "busy", T[3]: "not in it"})
    assert left == Plan(plan.moves[:1], (Skipped(T[1], "busy"),))
    assert [batch.moves for batch in plan.batches(1)] == [plan.moves[:1], plan.moves[1:]]
    assert list(Plan(()).batches(5)) == []
