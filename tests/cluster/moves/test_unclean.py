"""What an unclean election would do, by table."""

import pytest

from kipctl.cluster.moves.unclean import leaderless
from kipctl.cluster.snapshot import NO_LEADER, Partition, PartitionId


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
            "150 records of 3; and what 1 (down) has beyond",
        ),
        ((1, 2), (1,), (1,), {2: 7}, 2, 0, "no record of a live replica; and what 1 (down)"),
        ((1, 2), (1,), (1,), {}, 2, None, "not known; and what 1 (down) has beyond"),
        # Longer than that of the one that would lead: its own is not known.
        ((2, 3), (2,), (), {3: 7}, 2, None, "nothing: it was in sync"),
        ((3, 2), (2,), (), {3: 7, 2: 9}, 2, 0, "nothing: it was in sync"),
        ((1, 9), (1,), (1,), {}, None, None, "nobody can lead"),
        ((2, 3), (), (), {2: 5, 3: 9}, 2, 4, "4 records of 3"),
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
    found = leaderless(partition, {1, 2, 3}, ends)
    assert (found.would_lead, found.known_loss) == (leader, known)
    assert found.loss.startswith(loss)


def test_an_eligible_leader_replica_has_every_record_too() -> None:
    """From Kafka 4.1 on the last one of the ISR leaves it, and is an eligible leader (KIP-966)."""
    partition = Partition(PartitionId("t", 0), (1, 2), (), NO_LEADER, 5, (1,))
    assert leaderless(partition, {2}, {}, eligible=(1,)).last_in_sync == (1,)
    assert leaderless(partition, {2}, {}, eligible=(2,)).loss == "nothing: it was in sync"
