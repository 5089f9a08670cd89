"""Convergence, by table: when every broker knows, and who is waited for."""

import pytest

from kipctl.cluster.snapshot import Broker, Partition, PartitionId, Snapshot
from kipctl.cluster.watch import ClusterEvent, Contact, Convergence, EventKind, Sighting

T0 = PartitionId("t", 0)
BEFORE = Snapshot(
    "c",
    tuple(Broker(id, "localhost", id, None) for id in (1, 2, 3)),
    (Partition(T0, (2, 1), (1, 2), leader=1, leader_epoch=5),),
)


def seen(broker: int, leader: int, epoch: int) -> Sighting:
    return Sighting(broker, T0, leader, epoch, time_us=1000 * broker)


def silent(broker: int) -> Contact:
    return Contact(broker, answers=False)


@pytest.mark.parametrize(
    ("news", "missing"),
    [
        ([], {T0: (1, 2, 3)}),
        ([seen(1, 2, 6)], {T0: (2, 3)}),
        ([seen(1, 2, 6), seen(2, 2, 6), seen(3, 2, 6)], {}),
        # A broker that has not heard.
        ([seen(1, 2, 6), seen(2, 2, 6), seen(3, 1, 5)], {T0: (3,)}),
        # The expected leader at an older epoch is old news that looks right.
        ([seen(1, 2, 6), seen(2, 2, 6), seen(3, 2, 4)], {T0: (3,)}),
        # All agree on another leader: not what was expected.
        ([seen(1, 1, 6), seen(2, 1, 6), seen(3, 1, 6)], {T0: (1, 2, 3)}),
        # Nobody waits for a broker that does not answer, until it answers again.
        ([seen(1, 2, 6), seen(2, 2, 6), silent(3)], {}),
        ([seen(1, 2, 6), seen(2, 2, 6), silent(3), Contact(3, answers=True)], {T0: (3,)}),
        # When none answers, nothing is known.
        ([seen(1, 2, 6), silent(1), silent(2), silent(3)], {T0: ()}),
    ],
)
def test_all_that_answer_must_show_the_expected_leader_at_the_newest_epoch(
    news: list[Sighting | Contact], missing: dict[PartitionId, tuple[int, ...]]
) -> None:
    convergence = Convergence(BEFORE, {T0: 2})
    for one in news:
        convergence.apply(one)
    assert convergence.missing() == missing


def test_a_leader_that_stays_is_no_event_and_needs_no_new_epoch() -> None:
    convergence = Convergence(BEFORE, {T0: 1})
    assert [convergence.apply(seen(broker, 1, 5)) for broker in (1, 2, 3)] == [None] * 3
    assert convergence.missing() == {}


def test_a_newer_epoch_is_an_event() -> None:
    assert Convergence(BEFORE, {T0: 2}).apply(seen(3, 2, 6)) == ClusterEvent(
        EventKind.LEADER_SEEN, 3000, "t", 0, 1, 2, 6, 3
    )
