"""Which partitions are meant by --topic and --explain: names, globs, and numbers."""

import pytest

from kipctl.cluster.inspect.replica_selection_facts import select_one_partition, select_partitions
from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot, parse_partition
from kipctl.errors import UsageError

SNAPSHOT = Snapshot(
    "cluster",
    (Broker(1, "h", 9092, "a"),),
    tuple(
        Partition(PartitionId(topic, number), (1,), (1,), 1, 0, internal=topic.startswith("_"))
        for topic, count in (("__own", 3), ("day-1", 2), ("payments", 1), ("plan", 2), ("plot", 3))
        for number in range(count)
    ),
)


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], "day-1-0 day-1-1 payments-0 plan-0 plan-1 plot-0 plot-1 plot-2"),
        (["plan"], "plan-0 plan-1"),
        (["plan:1"], "plan-1"),
        (["pl*:1"], "plan-1 plot-1"),
        # Topics that match and have no such partition are left out.
        (["*:1"], "day-1-1 plan-1 plot-1"),
        (["pl*:2", "pay*"], "payments-0 plot-2"),
        (["__own:2"], "__own-2"),
        # As all output writes them; a topic that is called so itself is meant before.
        (["plan-1", "__own-2"], "__own-2 plan-1"),
        (["pl*-1"], "plan-1 plot-1"),
        (["day-1"], "day-1-0 day-1-1"),
        (["day-1-1"], "day-1-1"),
        (["day-*"], "day-1-0 day-1-1"),
    ],
)
def test_partitions_that_are_meant(patterns: list[str], expected: str) -> None:
    assert [str(p.id) for p in select_partitions(SNAPSHOT, patterns).partitions] == expected.split()


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("pl*:3", r"No topic that matches 'pl\*' has a partition 3; they have 0 to 2"),
        ("plan:2", "Topic 'plan' has no partition 2; it has 0 to 1"),
        ("x*:0", r"No topic matches 'x\*'"),
        ("pl*:one", r"'pl\*:one' is not a partition"),
        ("plan-2", "Topic 'plan' has no partition 2; it has 0 to 1"),
        ("orders-0", "No topic is named 'orders'"),
    ],
)
def test_partitions_that_are_not_there(pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        select_partitions(SNAPSHOT, [pattern])


@pytest.mark.parametrize("text", ["plo*:0", "plot-0", "plot:0"])
def test_one_partition_is_explained(text: str) -> None:
    selected = select_one_partition(SNAPSHOT, parse_partition(text))
    assert [str(p.id) for p in selected.partitions] == ["plot-0"]


def test_several_are_not() -> None:
    message = r"pl\*-1 is 2 partitions, plan-1 and plot-1"
    with pytest.raises(UsageError, match=message) as raised:
        select_one_partition(SNAPSHOT, PartitionId("pl*", 1))
    assert raised.value.next_step == "Name one: --explain plan-1"
