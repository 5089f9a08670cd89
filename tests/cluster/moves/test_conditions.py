"""What a script waits for, by table; and the wait itself on a scripted cluster."""

from dataclasses import replace

import pytest
from electing_broker import ElectingCluster, partition
from test_elect_commands import kipctl

from kipctl.cluster.moves.conditions import (
    Compared,
    Condition,
    Seen,
    Views,
    compare,
    parse_conditions,
    unmet,
)
from kipctl.cluster.snapshot import NO_LEADER, Broker, PartitionId, Snapshot
from kipctl.errors import UsageError

IN_SYNC, PREFERRED, CONVERGED, QUIET = Condition
T0 = PartitionId("t", 0)
GOOD = Snapshot(
    "c", tuple(Broker(id, "h", 1, None) for id in (1, 2)), (partition("t", 0, (1, 2), leader=1),)
)
MOVED = replace(GOOD, partitions=(replace(GOOD.partitions[0], leader=2, leader_epoch=6),))
BEHIND = replace(GOOD, partitions=(replace(GOOD.partitions[0], isr=(1,)),))
WITHOUT = replace(GOOD, partitions=())


@pytest.mark.parametrize(
    ("condition", "seen", "left"),
    [
        (IN_SYNC, Seen(GOOD), ""),
        (IN_SYNC, Seen(BEHIND), "1 partitions are not all in sync, such as t-0"),
        (IN_SYNC, Seen(WITHOUT), ""),
        (PREFERRED, Seen(GOOD), ""),
        (PREFERRED, Seen(MOVED), "1 partitions are not led by their preferred replica, such as"),
        (CONVERGED, Seen(GOOD, Compared((1, 2))), ""),
        (
            CONVERGED,
            Seen(GOOD, Compared((1, 2), (), (T0,))),
            "1 partitions are not led by the same broker in every broker's eyes, such as t-0",
        ),
        (CONVERGED, Seen(GOOD, Compared((1, 2, 3), (2, 3), (T0,))), "broker 2, 3 does not answer"),
        (QUIET, Seen(GOOD), ""),
        (
            QUIET,
            Seen(GOOD, Compared(), frozenset([T0])),
            "1 partitions are being reassigned, such as t-0",
        ),
        (QUIET, Seen(WITHOUT, Compared(), frozenset([T0])), ""),
    ],
)
def test_what_keeps_a_condition_from_being_met(condition: Condition, seen: Seen, left: str) -> None:
    found = unmet(condition, seen)
    assert found.startswith(left)
    assert bool(found) == bool(left)


@pytest.mark.parametrize(
    ("shown", "compared"),
    [
        ([], Compared()),
        ([{T0: (5, 1)}, {T0: (5, 1)}], Compared((1, 2))),
        ([{T0: (5, 1)}, {T0: (6, 2)}, {T0: (5, 1)}], Compared((1, 2, 3), (), (T0,))),
        # The same leader at another epoch: one of them has not heard yet.
        ([{T0: (5, 1)}, {T0: (6, 1)}], Compared((1, 2), (), (T0,))),
        ([{T0: (5, 1)}, {}], Compared((1, 2), (), (T0,))),
        ([{}, {T0: (5, 1)}], Compared((1, 2), (), (T0,))),
        # Deleted, in every broker's eyes; and what is not asked for.
        ([{}, {PartitionId("other", 0): (5, 1)}], Compared((1, 2))),
        ([None, {T0: (5, 1)}, None, {T0: (5, 1)}], Compared((1, 2, 3, 4), (1, 3))),
        ([None, {T0: (5, 1)}, {T0: (5, 2)}], Compared((1, 2, 3), (1,), (T0,))),
    ],
)
def test_what_brokers_show_is_compared(shown: list[Views | None], compared: Compared) -> None:
    assert compare(enumerate(shown, start=1), [T0]) == compared


def test_conditions_are_separated_by_commas() -> None:
    assert parse_conditions("preferred, in-sync,preferred") == (PREFERRED, IN_SYNC)
    with pytest.raises(UsageError, match="'' is no condition"):
        parse_conditions("in-sync,")


def lagging() -> ElectingCluster:
    return ElectingCluster.of(
        partition("t", 0, (1, 2), leader=1, isr=(1,)), partition("u", 0, (1, 2), leader=1)
    )


def test_a_wait_ends_when_its_conditions_are_met() -> None:
    cluster = lagging()

    def catch_up() -> None:
        if cluster.metadata_asked == 8:
            cluster.partitions[T0] = replace(cluster.partitions[T0], isr=(1, 2))

    cluster.before_metadata = catch_up
    ran = kipctl(cluster, "wait --until in-sync,preferred,converged")
    assert ran.status == 0, ran.err
    assert "1 partitions are not all in sync, such as t-0" in ran.err
    assert "in-sync, preferred, converged" in ran.out


def test_what_is_not_met_in_time_is_said() -> None:
    ran = kipctl(lagging(), "wait --until in-sync --timeout 0.2")
    assert ran.status == 6
    assert "After 0.2 s: 1 partitions are not all in sync, such as t-0." in ran.err


def test_only_the_topics_named_are_waited_for() -> None:
    cluster = lagging()
    assert kipctl(cluster, "wait --until in-sync --topic u").status == 0
    assert kipctl(cluster, "wait --until in-sync --topic never").status == 2


def test_a_topic_that_is_deleted_meanwhile_is_not_waited_for() -> None:
    cluster = lagging()
    cluster.partitions[T0] = replace(cluster.partitions[T0], leader=NO_LEADER)

    def delete() -> None:
        if cluster.metadata_asked == 4:
            cluster.delete("t")

    cluster.before_metadata = delete
    assert kipctl(cluster, "wait --until in-sync --topic ?").status == 0
