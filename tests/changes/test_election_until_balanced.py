"""Elections until all are led by their preferred replica: which go when, and how it ends."""

from dataclasses import replace

import pytest
from electing_broker import ElectingCluster, partition
from passing_clock import PassingClock

from kipctl.changes.execution.election_until_balanced import not_preferred, preferred_on
from kipctl.cluster.snapshot import NO_LEADER, Broker, Partition, PartitionId, Snapshot
from kipctl.errors import UsageError
from kipctl.protocol.error_codes import ErrorCode


def snapshot(*partitions: Partition) -> Snapshot:
    return Snapshot("c", tuple(Broker(id, "h", 1, None) for id in (1, 2, 3)), partitions)


@pytest.mark.parametrize(
    ("one", "ready", "waiting"),
    [
        (partition("t", 0, (1, 2), leader=1), 0, 0),
        (partition("t", 0, (1, 2), leader=2), 1, 0),
        (partition("t", 0, (1, 2), leader=2, isr=(2,)), 0, 1),
        (partition("t", 0, (7, 2), leader=2, isr=(2,)), 0, 1),
        (partition("t", 0, (1, 2), leader=NO_LEADER, isr=(2,)), 0, 1),
        (partition("t", 0, (1, 2), leader=NO_LEADER, isr=(1,)), 1, 0),
    ],
)
def test_what_can_be_elected_and_what_has_to_wait(one: Partition, ready: int, waiting: int) -> None:
    found = not_preferred(snapshot(one))
    assert (len(found.ready), len(found.waiting)) == (ready, waiting)
    assert len(found) == ready + waiting


@pytest.mark.parametrize(
    ("brokers", "numbers"), [([1], [0, 2]), ([2], [1]), ([1, 2], [0, 1, 2]), ([3], []), ([7], [3])]
)
def test_the_partitions_of_a_broker_are_those_that_prefer_it(
    brokers: list[int], numbers: list[int]
) -> None:
    seen = snapshot(
        partition("t", 0, (1, 2), leader=2),
        partition("t", 1, (2, 1), leader=1),
        partition("t", 2, (1, 3), leader=1),
        partition("t", 3, (7, 3), leader=3, isr=(3,)),
    )
    assert [p.id.partition for p in preferred_on(seen, brokers).partitions] == numbers


def test_a_broker_that_there_is_not_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="There is no broker 8"):
        preferred_on(snapshot(partition("t", 0, (1, 2), leader=1)), [1, 8])


BEHIND, READY = PartitionId("t", 1), PartitionId("t", 0)


@pytest.fixture
def cluster(clock: PassingClock) -> ElectingCluster:
    """Broker 1 has just been started again; one of its replicas has not caught up."""
    return ElectingCluster.of(
        partition("t", 0, (1, 2), leader=2),
        partition("t", 1, (1, 2), leader=2, isr=(2,)),
        partition("t", 2, (2, 1), leader=2),
        partition("t", 3, (3, 2), leader=2),
    )


def test_what_is_not_in_sync_yet_is_waited_for_and_elected_then(cluster: ElectingCluster) -> None:
    def catch_up() -> None:
        if cluster.elected:
            cluster.partitions[BEHIND] = replace(cluster.partitions[BEHIND], isr=(2, 1))

    cluster.before_metadata = catch_up
    ran = cluster.kipctl("elect preferred --broker 1 --until balanced --yes")
    assert cluster.elected == [[READY], [BEHIND]]
    assert "1 can be elected, such as t-0; 1 wait for their preferred replica to be in" in ran.err
    assert "2 leaders moved" in ran.out


def test_what_is_refused_at_first_is_tried_again(cluster: ElectingCluster) -> None:
    cluster.refusals = {READY: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    cluster.elects = False

    def relent() -> None:
        if len(cluster.elected) == 2:
            cluster.refusals, cluster.elects = {}, True

    cluster.before_election = relent
    cluster.kipctl("elect preferred --partition t:0 --until balanced --yes")
    assert cluster.elected == [[READY]] * 3


def test_it_goes_in_batches() -> None:
    partitions = [partition("t", number, (1, 2), leader=2) for number in range(5)]
    cluster = ElectingCluster.of(*partitions)
    cluster.kipctl("elect preferred --all --until balanced --batch 2 --yes")
    assert [len(elected) for elected in cluster.elected] == [2, 2, 1]


def test_what_is_left_when_the_time_is_over_is_said(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("elect preferred --topic t --until balanced --timeout 60 --yes", status=6)
    assert "After 60 s 1 of 4 partitions are not led by their preferred replica" in ran.err
    assert "such as t-1 for broker 1." in ran.err
    assert sorted(one for elected in cluster.elected for one in elected) == [
        READY,
        PartitionId("t", 3),
    ]


def test_where_all_are_led_so_nothing_is_asked(cluster: ElectingCluster) -> None:
    cluster.kipctl("elect preferred --broker 2 --until balanced")
    assert cluster.elected == []
