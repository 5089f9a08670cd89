"""What an unclean election would do, by table."""

import pytest

from kipctl.changes.elections.unclean import (
    LeaderlessPartition,
    leaderless,
    longest_first,
    require_lost_for_good,
    why_riskier,
)
from kipctl.cluster.snapshot import NO_LEADER, Partition, PartitionId
from kipctl.errors import RefusedError


@pytest.mark.parametrize(
    ("replicas", "isr", "offline", "ends", "leader", "known", "loss"),
    [
        # The first live one, not the one with the longest log.
        (
            (1, 2, 3),
            (1,),
            (1,),
            {2: 100, 3: 250},
            2,
            150,
            "150 records of broker 3; broker 1 (down) may have records from offset 100 on: they"
            " will be lost",
        ),
        (
            (1, 2),
            (1,),
            (1,),
            {2: 7},
            2,
            0,
            "broker 1 (down) may have records from offset 7 on: they",
        ),
        ((1, 2), (1,), (1,), {}, 2, None, "not known; broker 1 (down) may have records: they"),
        # Longer than that of the one that would lead: its own is not known.
        ((2, 3), (2,), (), {3: 7}, 2, None, "nothing: it was in sync"),
        ((3, 2), (2,), (), {3: 7, 2: 9}, 2, 0, "nothing: it was in sync"),
        ((1, 9), (1,), (1,), {}, None, None, "nobody can lead"),
        ((2, 3), (), (), {2: 5, 3: 9}, 2, 4, "4 records of broker 3"),
        ((2, 3), (), (), {2: 5, 3: 5}, 2, 0, "no record of a live replica"),
    ],
)
def test_who_would_lead_and_what_may_be_lost(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    offline: tuple[int, ...],
    ends: dict[int, int],
    leader: int | None,
    known: int | None,
    loss: str,
) -> None:
    partition = Partition(PartitionId("t", 0), replicas, isr, NO_LEADER, 5, offline)
    leaderless_partition = leaderless(partition, {1, 2, 3}, ends)
    assert (leaderless_partition.would_lead, leaderless_partition.known_loss) == (leader, known)
    assert leaderless_partition.loss.startswith(loss)


def test_an_eligible_leader_replica_has_every_record_too() -> None:
    """From Kafka 4.1 on the last one of the ISR leaves it, and is an eligible leader (KIP-966)."""
    partition = Partition(PartitionId("t", 0), (1, 2), (), NO_LEADER, 5, (1,))
    assert leaderless(partition, {2}, {}, eligible=(1,)).last_in_sync == (1,)
    assert leaderless(partition, {2}, {}, eligible=(2,)).loss == "nothing: it was in sync"


@pytest.mark.parametrize(
    ("isr", "eligible", "offline", "registered", "back"),
    [
        ((1,), (), (1,), {1, 2, 3}, (1,)),
        ((), (1,), (1,), {1, 2, 3}, (1,)),
        # Before Kafka 4.0 nobody says who is registered.
        ((1,), (), (1,), None, (1,)),
        # It was taken out of the cluster.
        ((1,), (), (1,), {2, 3}, ()),
        # It is there, and its directory has failed.
        ((2,), (), (2,), {1, 2, 3}, ()),
        # Nobody knows any more who was in sync: min.insync.replicas was changed since.
        ((), (), (1,), {1, 2, 3}, (1,)),
        ((), (), (1,), {2, 3}, ()),
    ],
)
def test_nothing_is_given_up_while_the_last_in_sync_may_come_back(
    isr: tuple[int, ...],
    eligible: tuple[int, ...],
    offline: tuple[int, ...],
    registered: set[int] | None,
    back: tuple[int, ...],
) -> None:
    partition = Partition(PartitionId("t", 0), (1, 2, 3), isr, NO_LEADER, 5, offline)
    leaderless_partition = leaderless(partition, {2, 3}, {}, eligible, registered)
    assert leaderless_partition.may_come_back == back
    if not back:
        require_lost_for_good([leaderless_partition])
        return
    why = "Broker 1 was in sync last with t-0, and may come back"
    if not leaderless_partition.last_in_sync:
        why = r"Who was in sync last with t-0 is not known \(.*\), and broker 1 is down"
    with pytest.raises(RefusedError, match=why):
        require_lost_for_good([leaderless_partition])


@pytest.mark.parametrize(
    ("isr", "ends", "epochs", "replicas"),
    [
        ((9,), {1: 5, 2: 7, 3: 7}, {}, (2, 9, 1, 3)),
        ((9,), {1: 7, 2: 7}, {}, (9, 1, 2, 3)),
        # The longer log is of an older epoch: what it has beyond was never acknowledged.
        ((9,), {1: 5, 2: 9, 3: 7}, {1: 4, 2: 3, 3: 4}, (3, 9, 1, 2)),
        ((9,), {3: 7}, {}, (3, 9, 1, 2)),
        ((9,), {}, {}, (9, 1, 2, 3)),
        ((1,), {1: 5, 2: 7}, {}, (9, 1, 2, 3)),
    ],
)
def test_the_longest_is_of_the_newest_epoch_then_has_the_longest_log(
    isr: tuple[int, ...], ends: dict[int, int], epochs: dict[int, int], replicas: tuple[int, ...]
) -> None:
    partition = Partition(PartitionId("t", 0), (9, 1, 2, 3), isr, NO_LEADER, 5, (9,))
    leaderless_partition = leaderless(partition, {1, 2, 3}, ends, last_epochs=epochs)
    better = longest_first(leaderless_partition)
    assert better.replicas == replicas
    assert longest_first(better).would_lead == better.would_lead


def lost(
    live: tuple[int, ...], ends: dict[int, int] | None = None, in_sync: tuple[int, ...] = (7,)
) -> LeaderlessPartition:
    return LeaderlessPartition(PartitionId("t", 0), (7, 1, 2), live, in_sync, ends or {})


@pytest.mark.parametrize(
    ("shown", "now", "why"),
    [
        (lost((1, 2), {1: 9, 2: 4}), lost((1, 2), {1: 9, 2: 4}), ""),
        (
            lost((1, 2), {1: 1_000_000, 2: 10}),
            lost((2,), {2: 10}),
            "broker 2 would lead by now, not 1: brokers 1, 7 (down) may have records",
        ),
        # Another one leads, but it has every record.
        (lost((1, 2), {1: 9, 2: 4}), lost((7, 1, 2), {7: 9, 1: 9}), ""),
        (lost((2,), {2: 4}), lost((1, 2), {1: 9, 2: 4}), "broker 1 would lead by now, not 2"),
        (lost(()), lost((2,), {2: 4}), "broker 2 would lead by now, and nobody before"),
        (
            LeaderlessPartition(PartitionId("t", 0), (0, 1), (0, 1), (7,)),
            LeaderlessPartition(PartitionId("t", 0), (0, 1), (1,), (7,)),
            "broker 1 would lead by now, not 0",
        ),
        (lost((1,)), lost(()), "none of its replicas is live by now"),
        (lost(()), lost(()), ""),
        (
            lost((1, 2), in_sync=(1,)),
            lost((1, 2), in_sync=(7,)),
            "broker 1 would lead, which was in sync when it was shown",
        ),
        (
            lost((1,), {1: 9}),
            lost((1, 2), {1: 9, 2: 30}),
            "more would be lost by now: 21 records of broker 2",
        ),
        # The longer log is away: the same records are lost as were shown.
        (lost((1, 2), {1: 9, 2: 30}), lost((1,), {1: 9}), ""),
        (
            lost((1,), {1: 9}),
            lost((1,), {1: 3}),
            "where the log of broker 1 ends is 3 by now, and was 9",
        ),
        (
            lost((1, 2), {1: 9, 2: 9}),
            lost((1, 2), {2: 9}),
            "where the log of broker 1 ends is not known by now, and was 9",
        ),
        (lost((1, 2), {2: 9}), lost((1, 2), {1: 9, 2: 9}), ""),
    ],
)
def test_what_may_lose_more_than_was_shown_is_told(
    shown: LeaderlessPartition, now: LeaderlessPartition, why: str
) -> None:
    said = why_riskier(shown, now)
    assert said.startswith(why)
    assert bool(said) is bool(why)
