"""Elections until all are led by their preferred replica: which go when, and how it ends."""

import re
from dataclasses import replace

import pytest
from electing_broker import ElectingCluster, partition
from passing_clock import PassingClock

from kipctl.changes.execution.copy_progress import CatchUp
from kipctl.changes.execution.election_until_balanced import (
    next_batch,
    not_preferred,
    preferred_on,
    waits_for,
)
from kipctl.cluster.snapshot import NO_LEADER, Broker, Partition, PartitionId, Snapshot
from kipctl.errors import UsageError
from kipctl.protocol.error_codes import ErrorCode


def snapshot(*partitions: Partition) -> Snapshot:
    return Snapshot("c", tuple(Broker(id, "h", 1, None) for id in (1, 2, 3)), partitions)


@pytest.mark.parametrize(
    ("partition", "ready", "waiting"),
    [
        (partition("t", 0, (1, 2), leader=1), 0, 0),
        (partition("t", 0, (1, 2), leader=2), 1, 0),
        (partition("t", 0, (1, 2), leader=2, isr=(2,)), 0, 1),
        (partition("t", 0, (7, 2), leader=2, isr=(2,)), 0, 1),
        (partition("t", 0, (1, 2), leader=NO_LEADER, isr=(2,)), 0, 1),
        (partition("t", 0, (1, 2), leader=NO_LEADER, isr=(1,)), 1, 0),
    ],
)
def test_what_can_be_elected_and_what_has_to_wait(
    partition: Partition, ready: int, waiting: int
) -> None:
    imbalance = not_preferred(snapshot(partition))
    assert (len(imbalance.ready), len(imbalance.waiting)) == (ready, waiting)
    assert len(imbalance) == ready + waiting


@pytest.mark.parametrize(
    ("partition", "ready"),
    [
        (partition("t", 0, (1, 2), leader=2), 0),
        (partition("t", 0, (2, 1), leader=1), 1),
        # Its clients wait for any leader.
        (partition("t", 0, (1, 2), leader=NO_LEADER, isr=(1,)), 1),
        (partition("t", 0, (1, 2), leader=NO_LEADER, isr=(2,)), 0),
    ],
)
def test_a_broker_that_still_copies_gets_no_leaders(partition: Partition, ready: int) -> None:
    imbalance = not_preferred(snapshot(partition), copying=[1])
    assert (len(imbalance.ready), len(imbalance.waiting)) == (ready, 1 - ready)


@pytest.mark.parametrize(
    ("preferred", "why"),
    [
        ((1,), "broker 1: 4 of 12 partitions still copy, 1.4 GB, about 30 s left"),
        ((7,), "broker 7 is down"),
        ((2,), "broker 2 is not in sync"),
        (
            (1, 7),
            "broker 1: 4 of 12 partitions still copy, 1.4 GB, about 30 s left; broker 7 is down",
        ),
    ],
)
def test_what_is_waited_for_is_named(preferred: tuple[int, ...], why: str) -> None:
    waiting = [partition("t", 0, (broker, 3), leader=3, isr=(3,)) for broker in preferred]
    copying = [CatchUp(1, 4, 12, 1_400_000_000, 30.0), CatchUp(3, 1, 4)]
    assert waits_for(waiting, snapshot(*waiting), copying) == why


@pytest.mark.parametrize(
    ("size", "took_s", "most", "following"),
    [
        (10, 0.3, 1000, 20),
        (10, 0.3, 15, 15),
        (640, 0.3, 1000, 1000),
        (2, 0.1, 2, 2),
        (40, 2.0, 1000, 20),
        (1, 2.0, 1000, 1),
    ],
)
def test_batches_grow_while_brokers_are_quick(
    size: int, took_s: float, most: int, following: int
) -> None:
    assert next_batch(size, took_s, most) == following


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


@pytest.fixture
def catching_up(cluster: ElectingCluster) -> ElectingCluster:
    """It catches up after some looks."""

    def catch_up() -> None:
        if cluster.metadata_asked == 8:
            cluster.partitions[BEHIND] = replace(cluster.partitions[BEHIND], isr=(2, 1))

    cluster.before_metadata = catch_up
    return cluster


def test_a_broker_gets_its_leaders_when_it_is_whole(catching_up: ElectingCluster) -> None:
    ran = catching_up.kipctl("elect preferred --broker 1 --until balanced --yes")
    assert catching_up.elected == [[READY, BEHIND]]
    assert "2 wait, such as t-0: broker 1: 1 of 3 partitions still copies" in ran.err
    assert "2 leaders moved" in ran.out


def test_it_is_whole_only_when_other_topics_are_too(catching_up: ElectingCluster) -> None:
    catching_up.kipctl("elect preferred --partition t:0 --until balanced --yes")
    assert catching_up.elected == [[READY]]
    assert catching_up.metadata_asked > 8


def test_as_they_come_elects_what_is_in_sync_at_once(catching_up: ElectingCluster) -> None:
    ran = catching_up.kipctl("elect preferred --broker 1 --until balanced --as-they-come --yes")
    assert catching_up.elected == [[READY], [BEHIND]]
    assert "1 can be elected, such as t-0; 1 wait, such as t-1: broker 1 is not in sync" in ran.err
    assert "2 leaders moved" in ran.out


def test_an_election_at_once_says_which_broker_still_copies(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("elect preferred --partition t:0 --partition t:3 --yes")
    assert "Broker 1: 1 of 3 partitions still copies. Who writes to what it leads waits" in ran.err
    assert "Broker 3" not in ran.err
    assert cluster.elected == [[READY, PartitionId("t", 3)]]


def test_as_they_come_is_a_word_of_until(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("elect preferred --broker 1 --as-they-come", status=2)
    assert "--as-they-come goes only with --until." in ran.err


def test_others_are_elected_while_one_broker_still_copies(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("elect preferred --topic t --until balanced --timeout 60 --yes", status=6)
    assert cluster.elected == [[PartitionId("t", 3)]]
    assert "After 60 s 2 of 4 partitions are not led by the preferred replica: 2 wait" in ran.err
    assert "broker 1: 1 of 3 partitions still copies" in ran.err
    assert "--as-they-come" in ran.err


def test_a_replica_on_a_failed_disk_is_not_waited_for(cluster: ElectingCluster) -> None:
    cluster.partitions[BEHIND] = replace(
        cluster.partitions[BEHIND], replicas=(2, 1), isr=(2,), offline=(1,)
    )
    cluster.kipctl("elect preferred --broker 1 --until balanced --yes")
    assert cluster.elected == [[READY]]


def test_what_is_refused_at_first_is_tried_again(cluster: ElectingCluster) -> None:
    cluster.refusals = {READY: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    cluster.elects = False

    def relent() -> None:
        if len(cluster.elected) == 2:
            cluster.refusals, cluster.elects = {}, True

    cluster.before_election = relent
    cluster.kipctl("elect preferred --partition t:0 --until balanced --as-they-come --yes")
    assert cluster.elected == [[READY]] * 3


@pytest.mark.parametrize("until", ["", "--until balanced --as-they-come"])
def test_refused_after_leaders_have_moved_it_can_be_gone_on_with(
    cluster: ElectingCluster, until: str
) -> None:
    cluster.codes = [0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    ran = cluster.kipctl(f"elect preferred --all {until} --batch 1 --between 0s --yes", status=5)
    assert re.search(r"[12] of [34] partitions (is|are) led by the preferred replica\.", ran.err)
    assert "new order" not in ran.err
    assert "kipctl changes resume" in ran.err
    (entry,) = cluster.kept.entries()
    assert entry.is_open


@pytest.mark.parametrize(
    ("count", "batch", "sizes"), [(5, 2, [2, 2, 1]), (45, 1000, [10, 20, 15]), (12, 11, [10, 2])]
)
def test_it_goes_in_batches(count: int, batch: int, sizes: list[int]) -> None:
    partitions = [partition("t", number, (1, 2), leader=2) for number in range(count)]
    cluster = ElectingCluster.of(*partitions)
    cluster.kipctl(f"elect preferred --all --until balanced --batch {batch} --yes")
    assert [len(elected) for elected in cluster.elected] == sizes


def test_where_nothing_was_elected_in_time_nothing_is_left_open(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl("elect preferred --broker 1 --until balanced --timeout 60 --yes", status=6)
    assert "After 60 s 2 of 2 partitions are not led by the preferred replica" in ran.err
    assert "Nothing was changed." in ran.err
    assert list(cluster.kept.unfinished()) == []


def test_what_is_left_when_the_time_is_over_is_said(cluster: ElectingCluster) -> None:
    ran = cluster.kipctl(
        "elect preferred --topic t --until balanced --as-they-come --timeout 60 --yes", status=6
    )
    assert "After 60 s 1 of 4 partitions is not led by the preferred replica" in ran.err
    assert "such as t-1: broker 1 is not in sync." in ran.err
    assert sorted(partition_id for elected in cluster.elected for partition_id in elected) == [
        READY,
        PartitionId("t", 3),
    ]


def test_where_all_are_led_so_nothing_is_asked(cluster: ElectingCluster) -> None:
    cluster.kipctl("elect preferred --broker 2 --until balanced")
    assert cluster.elected == []
