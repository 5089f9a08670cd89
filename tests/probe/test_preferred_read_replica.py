"""From which replica a consumer reads (KIP-392), by table."""

import pytest

from kipctl.probe.consume.preferred_read_replica import NO_REPLICA, PreferredReadReplica

LEADER, FOLLOWER = 1, 2
BROKERS = {1, 2, 3}
LEASE_US = 1000


def named_at(now_us: int) -> PreferredReadReplica:
    choice = PreferredReadReplica()
    choice.set(FOLLOWER, now_us, LEASE_US)
    return choice


def test_the_leader_is_read_from_while_no_replica_is_named() -> None:
    choice = PreferredReadReplica()
    assert choice.broker_to_read(LEADER, BROKERS, 0) == LEADER
    assert choice.clear() is False


@pytest.mark.parametrize(
    ("now_us", "brokers", "broker"),
    [
        (500, BROKERS, FOLLOWER),
        (1499, BROKERS, FOLLOWER),
        (1500, BROKERS, LEADER),
        (9999, BROKERS, LEADER),
        (501, {1, 3}, LEADER),
        (501, set(), LEADER),
    ],
)
def test_the_named_replica_is_read_from_for_its_lease_while_it_is_there(
    now_us: int, brokers: set[int], broker: int
) -> None:
    choice = named_at(500)
    assert choice.broker_to_read(LEADER, brokers, now_us) == broker
    assert (choice.preferred == NO_REPLICA) == (broker == LEADER)


@pytest.mark.parametrize(("now_us", "brokers"), [(1500, BROKERS), (600, {1})])
def test_a_choice_that_was_given_up_does_not_come_back_by_itself(
    now_us: int, brokers: set[int]
) -> None:
    choice = named_at(500)
    choice.broker_to_read(LEADER, brokers, now_us)
    assert choice.broker_to_read(LEADER, BROKERS, 600) == LEADER
    assert choice.preferred == NO_REPLICA


def test_a_replica_named_again_has_its_lease_anew() -> None:
    choice = named_at(500)
    choice.set(3, 1400, LEASE_US)
    assert choice.broker_to_read(LEADER, BROKERS, 2399) == 3
    assert choice.broker_to_read(LEADER, BROKERS, 2400) == LEADER


def test_clearing_says_whether_there_was_a_choice() -> None:
    choice = named_at(500)
    assert choice.clear() is True
    assert choice.clear() is False
    assert choice.broker_to_read(LEADER, BROKERS, 501) == LEADER


def test_a_lease_of_no_time_is_over_at_once() -> None:
    """`metadata.max.age.ms` of 0."""
    choice = PreferredReadReplica()
    choice.set(FOLLOWER, 500, 0)
    assert choice.broker_to_read(LEADER, BROKERS, 500) == LEADER
