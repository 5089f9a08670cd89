"""`inspect leaders`: what comes first, and a broker alone; which election follows a plan."""

import pytest
from electing_broker import ElectingCluster, partition

from kipctl.changes.execution.plan_result import PlanResult
from kipctl.changes.plans.plan import Move, Plan
from kipctl.cluster.snapshot import NO_LEADER
from kipctl.report.reassign_tables import reassigned_report


@pytest.fixture
def cluster() -> ElectingCluster:
    return ElectingCluster.of(
        partition("a", 0, (1, 2), leader=1),
        partition("b", 0, (1, 2), leader=2, isr=(2,)),
        partition("lost", 0, (2, 3), leader=NO_LEADER, isr=(3,)),
    )


def test_what_has_no_leader_comes_first(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("inspect leaders -o plain")
    assert ran.out.startswith("1 of 3 partitions has no leader. 1 of 3 partitions (33.3 %) is")
    table = ran.out[ran.out.index("Partitions\nTopic") :].splitlines()
    assert [line.split()[0] for line in table[2:5]] == ["lost", "b", "a"]


def test_the_partitions_of_a_broker_are_those_with_a_replica_there(
    cluster: ElectingCluster,
) -> None:
    ran = cluster.kipctl("inspect leaders --broker 3 -o csv")
    assert "\npartitions,lost," in ran.out
    assert "\npartitions,b," not in ran.out
    assert "There is no broker 8" in cluster.kipctl("inspect leaders --broker 8", status=2).err


@pytest.mark.parametrize(
    ("leader", "isr", "closing"),
    [
        (2, (1, 2), ""),
        (
            *(1, (1, 2)),
            "1 partition is not led by the preferred replica: kipctl elect preferred --topic t",
        ),
        (
            *(1, (1,)),
            "1 partition is not led by the preferred replica, which is not in sync yet: kipctl"
            " elect preferred --topic t --until balanced",
        ),
        # No preferred election gives it a leader: no replica is in sync.
        (
            *(NO_LEADER, (1,)),
            "1 partition has no leader, which no preferred election changes. Start a broker that"
            " was in sync last (1), or see what an unclean election would lose: kipctl elect"
            " unclean --dry-run --topic t",
        ),
    ],
)
def test_the_next_step_after_a_plan_is_one_that_works(
    leader: int, isr: tuple[int, ...], closing: str
) -> None:
    after = ElectingCluster.of(partition("t", 0, (2, 1), leader=leader, isr=isr)).snapshot()
    [led] = after.partitions
    done = PlanResult(plan=Plan((Move(led.id, (1, 2), (2, 1), 1),)))
    assert "\n".join(reassigned_report(done, after).closing) == closing
